"""Calibration by pool-adjacent-violators: the best monotone map from scores to log-likelihood ratios."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from jointplda._typing import Array, IntArray
from jointplda.calibration.affine import finite_trials
from jointplda.metrics._checks import as_scores
from jointplda.metrics.convex_hull import Hull, hull, pool
from jointplda.metrics.sorted_trials import SortedTrials


@dataclass(frozen=True)
class PAVCalibration:
    """A monotone map: constant within a block of scores and beyond the ends, linear between blocks.

    Parameters
    ----------
    scores : ndarray, shape (2 k,)
        Lowest and highest score of each block in turn, ascending.
    llrs : ndarray, shape (2 k,)
        Log-likelihood ratio at each of them.
    """

    scores: Array
    llrs: Array

    def apply(self, scores: ArrayLike) -> Array:
        """Calibrated log-likelihood ratios of scores, shape (n,)."""
        return np.interp(as_scores(scores), self.scores, self.llrs)


def fit_pav(scores: ArrayLike, target: ArrayLike) -> PAVCalibration:
    """Fit the best monotone map.

    Block k of the ROC convex hull, with t_k of T targets and n_k of N non-targets, gets log (t_k/T) - log (n_k/N).
    A target below and a non-target above all others are added first, so that no log-likelihood ratio is infinite.

    Parameters
    ----------
    scores : array-like, shape (n,)
        Infinite scores are left out of the fit, with a warning.
    target : array-like of bool, shape (n,)
    """
    values, mask = finite_trials(scores, target)
    smoothed, ends = _with_ends(hull(values, mask))
    return PAVCalibration(_block_ends(np.sort(values), ends), np.repeat(smoothed.llr, 2))


def pav_curve(trials: SortedTrials, outline: Hull) -> tuple[Array, Array]:
    """The map without added trials, for plots: block ends (2 k,) and log-likelihood ratios (2 k,).

    The log-likelihood ratio is infinite where the first or the last block holds one class only.

    Parameters
    ----------
    trials : SortedTrials
        Trials with finite scores.
    outline : Hull
        The ROC convex hull of the same trials.
    """
    ends = np.cumsum(outline.targets + outline.nontargets).astype(np.int64)
    return _block_ends(trials.scores, ends), np.repeat(outline.llr, 2)


def _block_ends(ordered: Array, ends: IntArray) -> Array:
    """Lowest and highest score of each block in turn, from the positions where blocks end."""
    return np.stack((ordered[np.concatenate(([0], ends[:-1]))], ordered[ends - 1]), axis=1).ravel()


def _with_ends(outline: Hull) -> tuple[Hull, IntArray]:
    """The hull with a target added below and a non-target above, and where its blocks end among the trials."""
    smoothed = pool(np.concatenate(([1.0], outline.targets, [0.0])), np.concatenate(([0.0], outline.nontargets, [1.0])))
    ends = np.cumsum(smoothed.targets + smoothed.nontargets).astype(np.int64) - 1
    ends[-1] -= 1
    return smoothed, ends
