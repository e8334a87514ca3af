"""Embeddings with ids and labels, and labels alone, as files hold them. Arrays only, no paths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from numpy.typing import NDArray

from jointplda._identifiers import positions
from jointplda._typing import IntArray, Names


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

    def rows(self, ids: Iterable[str]) -> IntArray:
        """Row of each id, -1 for those that are not here."""
        return positions(ids, self.ids)

    def take(self, rows: IntArray) -> EmbeddingTable:
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
