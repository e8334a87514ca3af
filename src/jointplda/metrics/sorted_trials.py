"""Scored trials in ascending order of score, sorted once and read by all that draws or counts them."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from jointplda._typing import Array, BoolArray
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
