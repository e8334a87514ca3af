"""The first pass over samples: who is in them, how speakers and channels are crossed, and their mean."""

from collections.abc import Hashable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jointplda import sample_matrix
from jointplda._typing import Array, BoolArray, IntArray
from jointplda.errors import InputError
from jointplda.labels import MISSING
from jointplda.model.statistics import encode_all
from jointplda.passes.sources import LabelledChunk, SampleSource
from jointplda.progress import Progress, ProgressCallback


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
    def of(cls, source: SampleSource, callback: ProgressCallback | None = None) -> "Census":
        """Read all samples once; the last ``Progress`` of the stage "census" has the census as its detail."""
        counting = _Counting(source.n_features)
        for chunk in counted(source, "census", callback):
            counting.add(chunk)
        census = counting.census()
        if callback is not None:
            callback(Progress("census", census.n_samples, census.n_samples, census))
        return census

    def codes(self, chunk: LabelledChunk) -> IntArray:
        """Positions (n, 1 + conditions) of the labels of a chunk in ``labels``; -1 for a missing channel."""
        codes, labels, _ = encode_all(chunk.speakers, _given(chunk), len(chunk.X))
        return _renumbered(codes, labels, self._numbers)


def counted(source: SampleSource, stage: str, callback: ProgressCallback | None) -> Iterator[LabelledChunk]:
    """The chunks of a source; ``callback`` is called after each with the number of samples read."""
    done = 0
    for chunk in source.chunks():
        yield chunk
        done += len(chunk.X)
        if callback is not None:
            callback(Progress(stage, done, source.n_samples))
    if callback is not None and done != source.n_samples:
        callback(Progress(stage, done, done))


def _given(chunk: LabelledChunk) -> Any:
    return chunk.channels if chunk.channels.names else None


def _renumbered(
    codes: IntArray, labels: tuple[tuple[Hashable, ...], ...], numbers: tuple[dict[Hashable, int], ...]
) -> IntArray:
    """Codes of a chunk, which are positions in its own labels, as positions by ``numbers``."""
    result = np.empty_like(codes)
    for k, own in enumerate(labels):
        place = np.fromiter((numbers[k][label] for label in own), np.int64, len(own))
        result[:, k] = np.append(place, MISSING)[codes[:, k]]
    return result


class _Counting:
    """A census that goes on."""

    def __init__(self, n_features: int) -> None:
        self.n, self.total = 0, np.zeros(n_features)
        self.low, self.high = np.full(n_features, np.inf), np.full(n_features, -np.inf)
        self.names: tuple[str, ...] | None = None
        self.numbers: list[dict[Hashable, int]] = []
        self.counts, self.first = np.zeros(0, dtype=np.int64), np.zeros((0, 0), dtype=np.int64)
        self.crossed = np.zeros(0, dtype=np.bool_)

    def add(self, chunk: LabelledChunk) -> None:
        """Count a chunk."""
        codes, labels, names = encode_all(chunk.speakers, _given(chunk), len(chunk.X))
        if self.names is None:
            self.names, self.numbers = names, [{} for _ in labels]
            self.first = np.zeros((0, len(names)), dtype=np.int64)
        if names != self.names or chunk.X.shape[1] != len(self.total):
            raise InputError(
                f"expected {len(self.total)} dimensions and the condition(s) {', '.join(self.names) or 'none'} in all "
                f"chunks, got {chunk.X.shape[1]} and {', '.join(names) or 'none'}.",
                parameter="source",
            )
        for own, numbers in zip(labels, self.numbers, strict=True):
            for label in own:
                numbers.setdefault(label, len(numbers))
        self._count(_renumbered(codes, labels, tuple(self.numbers)))
        for _, values in sample_matrix.chunks(sample_matrix.as_matrix(chunk.X)):
            self.total += values.sum(axis=0)
            np.minimum(self.low, values.min(axis=0), out=self.low)
            np.maximum(self.high, values.max(axis=0), out=self.high)
        self.n += len(codes)

    def _count(self, codes: IntArray) -> None:
        """Count samples by speaker, and remember who was heard in another channel than before."""
        known, number = len(self.counts), len(self.numbers[0])
        if number > known:
            room = max(number, 2 * known) - known
            self.counts = np.append(self.counts, np.zeros(room, dtype=np.int64))
            self.crossed = np.append(self.crossed, np.zeros(room, dtype=np.bool_))
            self.first = np.concatenate([self.first, np.full((room, self.first.shape[1]), MISSING)])
        speakers = codes[:, 0]
        np.add.at(self.counts, speakers, 1)
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
