"""Trials and their scores, as arrays."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from jointplda._typing import IntArray, Names

TARGET, NONTARGET, UNKNOWN = 1, 0, -1


@dataclass(frozen=True)
class Trials:
    """Pairs of a model and a test sample, with labels if known. Names are kept once; trials are indexes into them.

    Parameters
    ----------
    models, samples : ndarray of str
        The names on the enrollment and on the test side, in order of first appearance.
    enroll, test : ndarray of int, shape (n,)
        The trial's model and sample, as indexes into ``models`` and ``samples``.
    target : ndarray of int8, shape (n,), or None
        1 for a target trial, 0 for a non-target trial, -1 if the list does not say; None for a list without labels.
    columns : dict of str to ndarray, each of shape (n,)
        Further columns, such as conditions by which results can be broken down.
    """

    models: Names
    samples: Names
    enroll: IntArray
    test: IntArray
    target: NDArray[np.int8] | None = None
    columns: Mapping[str, Names] = field(default_factory=dict)

    @classmethod
    def marked(cls, models: Names, samples: Names, marks: NDArray[Any]) -> Self:
        """The trials that a matrix of models by samples marks, row by row."""
        enroll, test = (index.astype(np.int64) for index in np.nonzero(marks))
        return cls(models, samples, enroll, test)

    def __len__(self) -> int:
        return len(self.enroll)

    @property
    def codes(self) -> IntArray:
        """One number for each pair of a model and a sample, shape (n,)."""
        return self.enroll * max(len(self.samples), 1) + self.test

    def pair(self, row: int) -> tuple[str, str]:
        """The model and the sample of a trial."""
        return str(self.models[self.enroll[row]]), str(self.samples[self.test[row]])

    def take(self, rows: NDArray[Any]) -> Self:
        """The trials in these rows (indexes or a mask), with the same lists of names."""
        target = None if self.target is None else self.target[rows]
        columns = {name: values[rows] for name, values in self.columns.items()}
        return replace(self, enroll=self.enroll[rows], test=self.test[rows], target=target, columns=columns)


@dataclass(frozen=True)
class ScoreTable:
    """Trials and their scores, natural-log likelihood ratios.

    Parameters
    ----------
    trials : Trials
        ``trials.target`` is None unless the file of scores holds labels too.
    values : ndarray of float64, shape (n,)
        May be infinite, never NaN.
    """

    trials: Trials
    values: NDArray[np.float64]
