"""Scored trials in ascending order of score, sorted once, and their error rates at every threshold or at some."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from jointplda._typing import Array, BoolArray, IntArray
from jointplda.metrics._checks import as_trials


@dataclass(frozen=True)
class SortedTrials:
    """Scores in ascending order, and which of them are of targets.

    Parameters
    ----------
    scores : ndarray, shape (n,)
        Ascending.
    target : ndarray of bool, shape (n,)
    """

    scores: Array
    target: BoolArray

    @classmethod
    def of(cls, scores: ArrayLike, target: ArrayLike) -> "SortedTrials":
        """Trials in any order, of both classes, once they are checked and sorted."""
        values, mask = as_trials(scores, target)
        order = np.argsort(values)
        return cls(values[order], mask[order])

    @cached_property
    def targets(self) -> Array:
        """Scores of targets, ascending."""
        return self.scores[self.target]

    @cached_property
    def nontargets(self) -> Array:
        """Scores of non-targets, ascending."""
        return self.scores[~self.target]

    def take(self, members: BoolArray) -> "SortedTrials":
        """The trials of a mask in the same order."""
        return SortedTrials(self.scores[members], self.target[members])

    def rates(self, thresholds: Array) -> tuple[Array, Array]:
        """P_miss and P_fa at each threshold t, where trials with s >= t are accepted."""
        p_miss = np.searchsorted(self.targets, thresholds) / len(self.targets)
        return p_miss, 1.0 - np.searchsorted(self.nontargets, thresholds) / len(self.nontargets)


def roc(scores: ArrayLike, target: ArrayLike) -> tuple[Array, Array, Array]:
    """Error rates at every threshold between distinct ``scores`` (n,), of which ``target`` (n,) says what they are.

    Returns
    -------
    thresholds : ndarray, shape (k + 1,)
        The distinct scores, ascending, and +inf beyond them: accept if s >= t.
    p_miss, p_fa : ndarray, shape (k + 1,)
        Share of targets below, and of non-targets at or above each threshold.
    """
    trials = SortedTrials.of(scores, target)
    return _roc_at(trials, trials.scores)


def roc_for_drawing(trials: SortedTrials) -> tuple[Array, Array, Array]:
    """Thresholds, P_miss and P_fa as in ``roc``, at as many thresholds of ``trials`` as a drawing needs.

    They are scores of targets and of non-targets whose ranks, counted from either end, grow by 2 %.
    """
    chosen = [each[spread_ranks(len(each), 1.02, 1.02)] for each in (trials.targets, trials.nontargets)]
    return _roc_at(trials, np.concatenate(chosen))


def _roc_at(trials: SortedTrials, scores: Array) -> tuple[Array, Array, Array]:
    """Error rates at these scores and beyond them all, where every trial is rejected, also those that score +inf."""
    thresholds = np.append(np.unique(scores), np.inf)
    p_miss, p_fa = trials.rates(thresholds)
    p_miss[-1], p_fa[-1] = 1.0, 0.0
    return thresholds, p_miss, p_fa


def spread_ranks(n: int, from_low: float, from_high: float) -> IntArray:
    """Ranks that grow geometrically from the lowest and from the highest, meeting in the middle."""
    low = np.unique(np.floor(from_low ** np.arange(np.log(n) / np.log(from_low) + 1)).astype(np.int64)) - 1
    high = n - np.unique(np.floor(from_high ** np.arange(np.log(n) / np.log(from_high) + 1)).astype(np.int64))
    chosen = np.concatenate((low[low <= n // 2], high[high >= n // 2]))
    return np.unique(np.clip(chosen, 0, n - 1))
