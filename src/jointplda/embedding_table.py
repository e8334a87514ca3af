"""Labels by sample, and embeddings with their labels, as files hold them: arrays only, no paths."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
        where = self._row_of_id
        return np.fromiter((where.get(str(name), -1) for name in ids), dtype=np.int64)

    @cached_property
    def _row_of_id(self) -> dict[str, int]:
        return {str(name): row for row, name in enumerate(self.ids)}


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
