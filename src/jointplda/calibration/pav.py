"""Calibration by pool-adjacent-violators: the best monotone map from scores to log-likelihood ratios."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from jointplda._typing import Array
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
    values, mask, _ = finite_trials(scores, target)
    outline = hull(values, mask)
    smoothed = pool(np.r_[1.0, outline.targets, 0.0], np.r_[0.0, outline.nontargets, 1.0])
    return PAVCalibration(*_curve(np.sort(values), smoothed, 1))


def pav_curve(trials: SortedTrials) -> tuple[Array, Array]:
    """The map without added ``trials``, for plots: block ends (2 k,) and log-likelihood ratios (2 k,).

    Scores are finite; the log-likelihood ratio is infinite where the first or the last block holds one class only.
    """
    return _curve(trials.scores, hull(trials.scores, trials.target), 0)


def _curve(ordered: Array, outline: Hull, added: int) -> tuple[Array, Array]:
    """Lowest and highest score of each block, and its ratio twice; ``added`` trials at either end have no score."""
    ends = np.cumsum(outline.targets + outline.nontargets).astype(np.int64) - added
    ends[-1] -= added
    edges = np.stack((ordered[np.concatenate(([0], ends[:-1]))], ordered[ends - 1]), axis=1)
    return edges.ravel(), np.repeat(outline.llr, 2)
