"""Scored trials in ascending order of score, sorted once and read by all that draws or counts them."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from jointplda._typing import Array, BoolArray


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
