"""Where labelled samples come from, a chunk at a time, as often as they are needed."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from jointplda import sample_matrix
from jointplda._typing import AnyArray, BoolArray, IntArray
from jointplda._validation import check_number
from jointplda.errors import InputError
from jointplda.labels import ConditionColumns, conditions

NUMBERS_AT_ONCE = 2**21


@dataclass(frozen=True)
class LabelledChunk:
    """Some samples with their labels.

    Attributes
    ----------
    X : (n, d)
        Embeddings.
    speakers : (n,) labels
    channels : ConditionColumns
        A column (n,) of labels for each condition; a missing label is None, NaN or an empty text.
    """

    X: AnyArray
    speakers: Any
    channels: ConditionColumns

    def take(self, rows: BoolArray) -> "LabelledChunk":
        """The samples of these rows, a mask (n,)."""
        at = np.flatnonzero(rows)
        X, speakers, *columns = (_taken(values, at) for values in (self.X, self.speakers, *self.channels.values))
        return LabelledChunk(X, speakers, ConditionColumns(self.channels.names, tuple(columns)))


def _taken(values: Any, rows: IntArray) -> Any:
    return [values[i] for i in rows] if isinstance(values, list | tuple) else np.asarray(values)[rows]


class SampleSource(Protocol):
    """Labelled samples that can be read again and again, always in the same order."""

    @property
    def n_features(self) -> int:
        """Dimension d of the embeddings."""

    @property
    def n_samples(self) -> int | None:
        """Number of samples; None where only a pass tells."""

    def chunks(self) -> Iterator[LabelledChunk]:
        """All samples, a chunk at a time."""


class ArraySource:
    """Samples of a matrix, such as a memmap, whose labels are in memory.

    Parameters
    ----------
    X : (n, d) array
        Embeddings; only a chunk of rows is read at a time.
    y, channels
        As in ``JointPLDA.fit``.
    rows : int, optional
        Rows of a chunk; by default as many as hold 2 million numbers.
    """

    def __init__(self, X: Any, y: Any, channels: Any = None, *, rows: int | None = None) -> None:
        self._matrix = sample_matrix.as_matrix(X)
        self._speakers = y if isinstance(y, list | tuple) else np.asanyarray(y)
        self._channels = conditions(channels) if channels is not None else ConditionColumns((), ())
        for name, labels in (("y", self._speakers), *(("channels", column) for column in self._channels.values)):
            if len(labels) != len(self._matrix):
                problem = f"expected {len(self._matrix)} labels, one per row of X, got {len(labels)}."
                raise InputError(problem, parameter=name)
        by_default = max(1, NUMBERS_AT_ONCE // self._matrix.shape[1])
        self._rows = by_default if rows is None else int(check_number("rows", rows, 1, whole=True))

    @property
    def n_features(self) -> int:
        """Dimension d of the embeddings."""
        return int(self._matrix.shape[1])

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return len(self._matrix)

    def chunks(self) -> Iterator[LabelledChunk]:
        """All samples, a chunk at a time."""
        for start in range(0, len(self._matrix), self._rows):
            own = slice(start, start + self._rows)
            columns = tuple(column[own] for column in self._channels.values)
            channels = ConditionColumns(self._channels.names, columns)
            yield LabelledChunk(self._matrix[own], self._speakers[own], channels)


@dataclass(frozen=True)
class Without:
    """The samples of a source but for those of some speakers.

    Attributes
    ----------
    source : SampleSource
    speakers : frozenset of labels
    """

    source: SampleSource
    speakers: frozenset[Any]

    def __str__(self) -> str:
        return str(self.source)

    @property
    def n_features(self) -> int:
        """Dimension d of the embeddings."""
        return self.source.n_features

    @property
    def n_samples(self) -> int | None:
        """Number of samples, those of the speakers included; None where only a pass tells."""
        return self.source.n_samples

    def chunks(self) -> Iterator[LabelledChunk]:
        """All samples, a chunk at a time."""
        for chunk in self.source.chunks():
            labels = chunk.speakers if isinstance(chunk.speakers, list) else np.asarray(chunk.speakers).tolist()
            kept = np.fromiter((label not in self.speakers for label in labels), np.bool_, len(labels))
            if kept.any():
                yield chunk if kept.all() else chunk.take(kept)
