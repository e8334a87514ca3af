"""Calibration by pool-adjacent-violators: the best monotone map from scores to log-likelihood ratios."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jointplda._typing import Array
from jointplda.calibration.affine import finite_trials
from jointplda.metrics._checks import as_scores
from jointplda.metrics.convex_hull import Hull, hull, pool


@dataclass(frozen=True)
class PAVCalibration:
    """A rising map: level between the scores of a block, straight between blocks, level beyond the ends.

    Parameters
    ----------
    scores : ndarray, shape (2 k,)
        Lowest and highest score of each block, in turn, rising.
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
    One target below and one non-target above all others are added first, so that no log-likelihood ratio is infinite.

    Parameters
    ----------
    scores : array-like, shape (n,)
        Infinite ones are left out of the fit, with a warning.
    target : array-like of bool, shape (n,)

    Returns
    -------
    PAVCalibration
    """
    values, mask = finite_trials(scores, target)
    outline = hull(values, mask)
    smoothed, ends = _with_ends(outline)
    ordered = np.sort(values)
    lowest, highest = ordered[np.concatenate(([0], ends[:-1]))], ordered[ends - 1]
    return PAVCalibration(np.stack((lowest, highest), axis=1).ravel(), np.repeat(smoothed.llr, 2))


def pav_curve(scores: ArrayLike, target: ArrayLike) -> tuple[Array, Array]:
    """The unsmoothed map, for looking at: block ends (2 k,) and log-likelihood ratios (2 k,), infinite at pure ends."""
    values, mask = finite_trials(scores, target)
    outline = hull(values, mask)
    ends = np.cumsum(outline.targets + outline.nontargets).astype(np.int64)
    ordered = np.sort(values)
    lowest, highest = ordered[np.concatenate(([0], ends[:-1]))], ordered[ends - 1]
    return np.stack((lowest, highest), axis=1).ravel(), np.repeat(outline.llr, 2)


def _with_ends(outline: Hull) -> tuple[Hull, NDArray[np.int64]]:
    """The hull with a target below and a non-target above; and where its blocks end among the trials themselves."""
    smoothed = pool(np.concatenate(([1.0], outline.targets, [0.0])), np.concatenate(([0.0], outline.nontargets, [1.0])))
    ends = np.cumsum(smoothed.targets + smoothed.nontargets).astype(np.int64) - 1
    ends[-1] -= 1
    return smoothed, ends
