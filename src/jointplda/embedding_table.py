"""Labels by sample, and embeddings with their labels, as files hold them: arrays only, no paths."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from numpy.typing import NDArray

from jointplda._identifiers import found, index_of
from jointplda._typing import IntArray, Names


@dataclass(frozen=True)
class LabelTable:
    """Samples and their labels.

    Parameters
    ----------
    ids : ndarray of str, shape (n,)
        The id of each sample, no two alike.
    columns : dict of str to ndarray, each of shape (n,)
        Label columns by name, as text; an empty text is a missing label.
    """

    ids: Names
    columns: Mapping[str, Names] = field(default_factory=dict)

    def rows(self, ids: Iterable[str]) -> IntArray:
        """Row of each id; -1 for an id that is not in the table."""
        return found(ids, self._index)

    @cached_property
    def _index(self) -> dict[str, int]:
        return index_of(self.ids)

    def with_embeddings(self, X: NDArray[Any]) -> "EmbeddingTable":
        """The same samples with their embeddings X (n, d)."""
        return EmbeddingTable(self.ids, self.columns, X=X)


@dataclass(frozen=True)
class EmbeddingTable(LabelTable):
    """Samples, their labels and their embeddings.

    Parameters
    ----------
    ids, columns
        See ``LabelTable``.
    X : ndarray, shape (n, d)
        The embeddings, float32 or float64.
    """

    X: NDArray[Any] = field(kw_only=True)

    def take(self, rows: IntArray) -> "EmbeddingTable":
        """A table of these rows, in this order."""
        columns = {name: values[rows] for name, values in self.columns.items()}
        return EmbeddingTable(self.ids[rows], columns, X=self.X[rows])
