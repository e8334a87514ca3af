"""Passes that sum samples up after some steps: to a covariance, or by level to statistics."""

from collections.abc import Iterator
from dataclasses import dataclass
from operator import add
from typing import Any

import numpy as np

from jointplda._pairwise import merged_pairwise
from jointplda._typing import Array
from jointplda.linalg import symmetric
from jointplda.model.growing_sums import GrowingSums
from jointplda.model.statistics import Statistics
from jointplda.passes.census import Census
from jointplda.passes.readers import Room
from jointplda.passes.sources import LabelledChunk
from jointplda.preprocessing.front_ends import applied


@dataclass(frozen=True)
class Covariance:
    """Sums for the mean and the covariance of n samples, around a shift near their mean; they add up.

    Attributes
    ----------
    n : int
    shift, total : (d,)
        What samples are summed around, and sum (m - shift).
    scatter : (d, d)
        sum (m - shift)(m - shift)'.
    low, high : (d,)
        Smallest and largest value of every dimension.
    """

    n: int
    shift: Array
    total: Array
    scatter: Array
    low: Array
    high: Array

    @classmethod
    def of(cls, X: Array, shift: Array | None = None) -> "Covariance":
        """Sums of samples X (n, d), around their own mean if no shift is given."""
        shift = X.mean(axis=0) if shift is None else shift
        away = X - shift
        return cls(len(X), shift, away.sum(axis=0), away.T @ away, X.min(axis=0), X.max(axis=0))

    def __add__(self, other: "Covariance") -> "Covariance":
        step = other.shift - self.shift
        cross = np.outer(other.total, step)
        moved = other.scatter + cross + cross.T + other.n * np.outer(step, step) if step.any() else other.scatter
        return Covariance(
            self.n + other.n,
            self.shift,
            self.total + other.total + other.n * step,
            self.scatter + moved,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )

    @property
    def mean(self) -> Array:
        """Mean of the samples, (d,)."""
        return self.shift + self.total / self.n

    @property
    def covariance(self) -> Array:
        """Covariance of the samples around their mean, divided by n, (d, d)."""
        away = self.total / self.n
        return symmetric(self.scatter / self.n - np.outer(away, away))


@dataclass(frozen=True)
class CovarianceSums:
    """The pass that sums samples for their covariance.

    Attributes
    ----------
    stage : str
    steps : tuple
        Fitted steps that the samples go through first.
    """

    stage: str
    steps: tuple[Any, ...]

    def read(self, chunks: Iterator[LabelledChunk], shard: int) -> Covariance | None:
        """The sums of a shard; None if it has no samples."""
        sums: Covariance | None = None
        for chunk in chunks:
            own = Covariance.of(after(self.steps, chunk), None if sums is None else sums.shift)
            sums = own if sums is None else sums + own
        return sums

    def merged(self, first: Covariance | None, second: Covariance | None) -> Covariance | None:
        """The sums of both."""
        return first or second if first is None or second is None else first + second


@dataclass(frozen=True)
class RangedStatistics:
    """Statistics with the smallest and the largest value of every dimension; they add up.

    Attributes
    ----------
    statistics : Statistics
    low, high : (d,)
    """

    statistics: Statistics
    low: Array
    high: Array

    def __add__(self, other: "RangedStatistics") -> "RangedStatistics":
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        return RangedStatistics(self.statistics + other.statistics, low, high)


@dataclass(frozen=True)
class LevelSums:
    """The pass that sums samples by speaker and by channel, to ``Statistics``.

    Attributes
    ----------
    stage : str
    steps : tuple
        Fitted steps that the samples go through first.
    cells : bool
        Whether to sum by cell too.
    conditions : bool
        Whether to sum by channel too.
    growing : (Census, Room) or None
        For sums that grow with all samples of one process, what is in them, and the room.
    """

    stage: str
    steps: tuple[Any, ...]
    cells: bool = False
    conditions: bool = True
    growing: tuple[Census, Room] | None = None

    def read(self, chunks: Iterator[LabelledChunk], shard: int) -> RangedStatistics | None:
        """The statistics of a shard; None if it has no samples."""
        return self._own(chunks) if self.growing is None else self._grown(chunks)

    def merged(self, first: RangedStatistics | None, second: RangedStatistics | None) -> RangedStatistics | None:
        """The statistics of both."""
        return first or second if first is None or second is None else first + second

    def _own(self, chunks: Iterator[LabelledChunk]) -> RangedStatistics | None:
        """Statistics of the labels that the chunks have, which are merged as they come."""

        def each() -> Iterator[RangedStatistics]:
            shift: Array | None = None
            for chunk in chunks:
                X = after(self.steps, chunk)
                shift = X.mean(axis=0) if shift is None else shift
                channels = chunk.channels if self.conditions and chunk.channels.names else None
                cells = self.cells and channels is not None
                sums = Statistics.from_samples(X, chunk.speakers, channels, shift=shift, cells=cells)
                yield RangedStatistics(sums, X.min(axis=0), X.max(axis=0))

        return merged_pairwise(each(), add)

    def _grown(self, chunks: Iterator[LabelledChunk]) -> RangedStatistics | None:
        """Statistics of labels that a census has found, within some room."""
        assert self.growing is not None
        (census, room), sums = self.growing, None
        low, high = np.array(np.inf), np.array(-np.inf)
        labels, names = (census.labels, census.conditions) if self.conditions else (census.labels[:1], ())
        for chunk in chunks:
            X = after(self.steps, chunk)
            low, high = np.minimum(low, X.min(axis=0)), np.maximum(high, X.max(axis=0))
            if sums is None:
                sums = GrowingSums(
                    labels, names, X.mean(axis=0), cells=self.cells, room=room.memory, samples=census.n_samples,
                    folder=room.folder,
                )  # fmt: skip
            sums.add(X, census.codes(chunk)[:, : len(labels)])
        return None if sums is None else RangedStatistics(sums.statistics(), low, high)


def after(steps: tuple[Any, ...], chunk: LabelledChunk) -> Array:
    """The samples of a chunk after fitted steps, (n, d)."""
    return np.asarray(applied(steps, np.asarray(chunk.X)), dtype=np.float64)
