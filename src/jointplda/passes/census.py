"""The first pass over samples: who is in them, how speakers and channels are crossed, and their mean."""

from collections.abc import Hashable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from jointplda import sample_matrix
from jointplda._typing import Array, BoolArray, IntArray
from jointplda.errors import InputError
from jointplda.labels import MISSING
from jointplda.model.statistics import encode_all
from jointplda.passes.readers import Reader
from jointplda.passes.sources import LabelledChunk
from jointplda.progress import Progress


@dataclass(frozen=True)
class Census:
    """What a pass over the samples found.

    Attributes
    ----------
    labels : tuple of tuples
        Labels of the speakers, then of the channels of each condition; sorted if they can be compared.
    conditions : tuple of str
    n_samples : int
    counts : (S,)
        Number of samples of each speaker.
    crossed : (S,) bool
        Whether the speaker was heard in two or more channels of some condition.
    mean, low, high : (d,)
        Mean, smallest and largest value of every dimension.
    """

    labels: tuple[tuple[Hashable, ...], ...]
    conditions: tuple[str, ...]
    n_samples: int
    counts: IntArray
    crossed: BoolArray
    mean: Array
    low: Array
    high: Array
    _numbers: tuple[dict[Hashable, int], ...] = field(repr=False)

    @classmethod
    def of(cls, reader: Reader) -> "Census":
        """Read all samples once; the last ``Progress`` of the stage "census" has the census as its detail."""
        counting = Counting(reader.n_features)
        census = reader.made(counting).census()
        if reader.callback is not None:
            number = census.n_samples if reader.n_shards == 1 else reader.n_shards
            reader.callback(Progress(counting.stage, number, number, census))
        return census

    def without(self, speakers: BoolArray) -> "Census":
        """The census without the speakers of a mask (S,); mean and range stay those of all samples."""
        kept = np.flatnonzero(~speakers).tolist()
        labels = tuple(self.labels[0][i] for i in kept)
        numbers = {label: i for i, label in enumerate(labels)}
        return replace(
            self,
            labels=(labels, *self.labels[1:]),
            n_samples=self.n_samples - int(self.counts[speakers].sum()),
            counts=self.counts[kept],
            crossed=self.crossed[kept],
            _numbers=(numbers, *self._numbers[1:]),
        )

    def codes(self, chunk: LabelledChunk) -> IntArray:
        """Positions (n, 1 + conditions) of the labels of a chunk in ``labels``; -1 for a missing channel."""
        codes, labels, _ = encoded(chunk)
        try:
            return renumbered(codes, labels, self._numbers)
        except KeyError as error:
            raise InputError(
                f"the samples changed between two passes: the first one did not meet the label {error}. Begin anew "
                "when nothing writes to them.",
                parameter="source",
            ) from None


def encoded(chunk: LabelledChunk) -> tuple[IntArray, tuple[tuple[Hashable, ...], ...], tuple[str, ...]]:
    """Codes (n, 1 + conditions) of the labels of a chunk, its labels of each factor, and its conditions."""
    channels = chunk.channels if chunk.channels.names else None
    return encode_all(chunk.speakers, channels, len(chunk.X))


def renumbered(
    codes: IntArray, labels: tuple[tuple[Hashable, ...], ...], numbers: tuple[dict[Hashable, int], ...]
) -> IntArray:
    """Codes of a chunk, which are positions in its own labels, as positions by ``numbers``."""
    result = np.empty_like(codes)
    for k, own in enumerate(labels):
        place = np.fromiter((numbers[k][label] for label in own), np.int64, len(own))
        result[:, k] = np.append(place, MISSING)[codes[:, k]]
    return result


@dataclass(frozen=True)
class Counting:
    """The pass that counts.

    Attributes
    ----------
    n_features : int
        Dimension d of the embeddings.
    """

    n_features: int

    stage = "census"

    def read(self, chunks: Iterator[LabelledChunk], shard: int) -> "_Counts":
        """Count the samples of a shard."""
        counts = _Counts(self.n_features)
        for chunk in chunks:
            counts.add(chunk)
        return counts

    def merged(self, first: "_Counts", second: "_Counts") -> "_Counts":
        """Counts of both."""
        both = _Counts(self.n_features)
        both.join(first)
        both.join(second)
        return both


class _Counts:
    """A census that goes on; its speakers and channels are in the order in which they were found."""

    def __init__(self, n_features: int) -> None:
        self.n, self.total = 0, np.zeros(n_features)
        self.low, self.high = np.full(n_features, np.inf), np.full(n_features, -np.inf)
        self.names: tuple[str, ...] | None = None
        self.numbers: list[dict[Hashable, int]] = []
        self.counts, self.first = np.zeros(0, dtype=np.int64), np.zeros((0, 0), dtype=np.int64)
        self.crossed = np.zeros(0, dtype=np.bool_)

    def add(self, chunk: LabelledChunk) -> None:
        """Count a chunk."""
        codes, labels, names = encoded(chunk)
        self._expect(names, chunk.X.shape[1])
        self._number(labels)
        codes = renumbered(codes, labels, tuple(self.numbers))
        np.add.at(self.counts, codes[:, 0], 1)
        self._hear(codes)
        for _, values in sample_matrix.chunks(sample_matrix.as_matrix(chunk.X)):
            self.total += values.sum(axis=0)
            np.minimum(self.low, values.min(axis=0), out=self.low)
            np.maximum(self.high, values.max(axis=0), out=self.high)
        self.n += len(codes)

    def join(self, other: "_Counts") -> None:
        """Count what another census has counted."""
        if other.names is None:
            return
        self._expect(other.names, len(other.total))
        labels = tuple(tuple(numbers) for numbers in other.numbers)
        self._number(labels)
        known = len(labels[0])
        codes = np.column_stack([np.arange(known), other.first[:known]])
        codes = renumbered(codes, labels, tuple(self.numbers))
        self.counts[codes[:, 0]] += other.counts[:known]
        self.crossed[codes[:, 0]] |= other.crossed[:known]
        self._hear(codes)
        self.total = self.total + other.total
        self.low, self.high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        self.n += other.n

    def _expect(self, names: tuple[str, ...], n_features: int) -> None:
        """Raise unless samples have the dimension and the conditions of those before."""
        if self.names is None:
            self.names, self.numbers = names, [{} for _ in range(1 + len(names))]
            self.first = np.zeros((0, len(names)), dtype=np.int64)
        if names != self.names or n_features != len(self.total):
            raise InputError(
                f"expected {len(self.total)} dimensions and the condition(s) {', '.join(self.names) or 'none'} in all "
                f"chunks, got {n_features} and {', '.join(names) or 'none'}.",
                parameter="source",
            )

    def _number(self, labels: tuple[tuple[Hashable, ...], ...]) -> None:
        """Number the labels that are new, and make room for their speakers."""
        for own, numbers in zip(labels, self.numbers, strict=True):
            for label in own:
                numbers.setdefault(label, len(numbers))
        known, number = len(self.counts), len(self.numbers[0])
        if number > known:
            room = max(number, 2 * known) - known
            self.counts = np.append(self.counts, np.zeros(room, dtype=np.int64))
            self.crossed = np.append(self.crossed, np.zeros(room, dtype=np.bool_))
            self.first = np.concatenate([self.first, np.full((room, self.first.shape[1]), MISSING)])

    def _hear(self, codes: IntArray) -> None:
        """Remember who was heard in another channel than before."""
        speakers = codes[:, 0]
        for k in range(self.first.shape[1]):
            channel, first = codes[:, k + 1], self.first[:, k]
            new = (channel != MISSING) & (first[speakers] == MISSING)
            first[speakers[new]] = channel[new]
            self.crossed[speakers[(channel != MISSING) & (first[speakers] != channel)]] = True

    def census(self) -> Census:
        """The census, with sorted labels."""
        if not self.n or self.names is None:
            raise InputError("expected samples, got none.", parameter="source")
        order = [_sorted_labels(list(numbers)) for numbers in self.numbers]
        sorted_numbers = tuple({label: i for i, label in enumerate(labels)} for labels in order)
        speakers = np.fromiter((self.numbers[0][label] for label in order[0]), np.int64, len(order[0]))
        return Census(
            labels=tuple(map(tuple, order)),
            conditions=self.names,
            n_samples=self.n,
            counts=self.counts[speakers],
            crossed=self.crossed[speakers],
            mean=self.total / self.n,
            low=self.low,
            high=self.high,
            _numbers=sorted_numbers,
        )


def _sorted_labels(labels: list[Any]) -> list[Any]:
    with suppress(TypeError):  # labels of several kinds, which cannot be compared
        return sorted(labels)
    return labels
