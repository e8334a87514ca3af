"""What files hold, once read: embeddings with ids and labels, trials, keys, scores. Arrays only, no paths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jointplda.errors import InputError

Names = NDArray[np.str_]
Index = NDArray[np.int64]

TARGET, NONTARGET, UNKNOWN = 1, 0, -1


@dataclass(frozen=True)
class EmbeddingTable:
    """Embeddings, the id of each and their label columns.

    Parameters
    ----------
    ids : ndarray of str, shape (n,)
        One id per row, no two alike.
    X : ndarray, shape (n, d)
        The embeddings, float32 or float64.
    columns : dict of str to ndarray, each of shape (n,)
        Label columns by name, as text; an empty text is a missing label.
    """

    ids: Names
    X: NDArray[Any]
    columns: Mapping[str, Names] = field(default_factory=dict)

    def rows(self, ids: Iterable[str]) -> Index:
        """Row of each id, -1 for those that are not here."""
        return positions(ids, self.ids)

    def take(self, rows: Index) -> EmbeddingTable:
        """The given rows, in the given order."""
        columns = {name: values[rows] for name, values in self.columns.items()}
        return EmbeddingTable(self.ids[rows], self.X[rows], columns)

    def with_columns(self, columns: Mapping[str, Names]) -> EmbeddingTable:
        """The same table with further (or replaced) label columns."""
        return replace(self, columns={**self.columns, **columns})


@dataclass(frozen=True)
class LabelTable:
    """Label columns by id, as a metadata file holds them.

    Parameters
    ----------
    ids : ndarray of str, shape (n,)
    columns : dict of str to ndarray, each of shape (n,)
        As text; an empty text is a missing label.
    """

    ids: Names
    columns: Mapping[str, Names]


@dataclass(frozen=True)
class Trials:
    """Pairs (enrolment, test), with the truth where it is known. Names are kept once, trials as indexes into them.

    Parameters
    ----------
    models, samples : ndarray of str
        The names on the enrolment and on the test side, in order of first appearance.
    enrol, test : ndarray of int, shape (n,)
        The trial's model and sample, as indexes into ``models`` and ``samples``.
    target : ndarray of int8, shape (n,), or None
        1 target, 0 non-target, -1 not stated; None for a list without labels.
    columns : dict of str to ndarray, each of shape (n,)
        Further columns: conditions to break results down by.
    """

    models: Names
    samples: Names
    enrol: Index
    test: Index
    target: NDArray[np.int8] | None = None
    columns: Mapping[str, Names] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.enrol)

    def take(self, rows: NDArray[Any]) -> Trials:
        """The given trials (indexes or a mask); names are kept as they are."""
        target = None if self.target is None else self.target[rows]
        columns = {name: values[rows] for name, values in self.columns.items()}
        return Trials(self.models, self.samples, self.enrol[rows], self.test[rows], target, columns)


@dataclass(frozen=True)
class ScoreTable:
    """Trials and their scores, natural-log likelihood ratios.

    Parameters
    ----------
    trials : Trials
        ``trials.target`` is None unless the score file states the truth too.
    values : ndarray of float64, shape (n,)
        May be infinite, never NaN.
    """

    trials: Trials
    values: NDArray[np.float64]


def positions(names: Iterable[str], among: Sequence[str] | Names) -> Index:
    """Index in ``among`` of each name, -1 where it is not there."""
    where = {str(name): index for index, name in enumerate(among)}
    return np.fromiter((where.get(str(name), -1) for name in names), dtype=np.int64)


def no_duplicates(names: Sequence[str] | Names, what: str, where: str) -> None:
    """Refuse names that occur twice."""
    if len(set(map(str, names))) == len(names):
        return
    seen: set[str] = set()
    twice = [str(name) for name in names if str(name) in seen or seen.add(str(name))]  # type: ignore[func-returns-value]
    raise InputError(f"{where}: {what} should be unique; {some(twice)} occur more than once. Remove the repeated rows.")


def some(names: Iterable[str], show: int = 5) -> str:
    """The first few names and how many there are: ``'a', 'b' (2 in all)``."""
    names = list(names)
    shown = ", ".join(repr(str(name)) for name in names[:show])
    return f"{shown}{', ...' if len(names) > show else ''} ({len(names):,} in all)"
