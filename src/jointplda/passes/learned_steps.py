"""A front end learned in passes over the samples, one for each step that learns something."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from jointplda._typing import Array, IntArray
from jointplda.linalg import symmetric
from jointplda.model.growing_sums import GrowingSums
from jointplda.model.statistics import Statistics
from jointplda.model.sums import level_sum_blocks
from jointplda.passes.census import Census, counted
from jointplda.passes.sources import SampleSource
from jointplda.preprocessing.front_ends import FrontEnd, applied, learns_from_speakers
from jointplda.preprocessing.moments import Moments
from jointplda.preprocessing.steps import Center, LengthNorm, Scale, Step
from jointplda.progress import ProgressCallback

OF_THE_CENSUS = (Center, LengthNorm, Scale)
"""Steps that need the mean, the smallest and the largest values alone."""


class Passes:
    """Passes over the samples of a source after some steps, within so many bytes of sums."""

    def __init__(
        self,
        source: SampleSource,
        census: Census,
        *,
        room: float,
        folder: Path | None,
        callback: ProgressCallback | None,
    ) -> None:
        self.source, self.census, self.room, self.folder, self.callback = source, census, room, folder, callback

    def samples(self, steps: Sequence[Any], stage: str) -> Iterator[tuple[Array, IntArray]]:
        """The samples after ``steps`` (n, d) and their codes (n, 1 + conditions), a chunk at a time."""
        for chunk in counted(self.source, stage, self.callback):
            yield np.asarray(applied(steps, np.asarray(chunk.X)), dtype=np.float64), self.census.codes(chunk)

    def growing(self, X: Array, *, cells: bool = False, conditions: bool = True) -> GrowingSums:
        """Sums to which such samples as X (n, d) can be added, without the conditions if nobody asks for them."""
        labels, names = (self.census.labels, self.census.conditions) if conditions else (self.census.labels[:1], ())
        return GrowingSums(
            labels, names, X.mean(axis=0),
            cells=cells, room=self.room, samples=self.census.n_samples, folder=self.folder,
        )  # fmt: skip

    def statistics(self, steps: Sequence[Any], *, cells: bool) -> Statistics:
        """Statistics of the samples after ``steps``."""
        sums: GrowingSums | None = None
        for X, codes in self.samples(steps, "statistics"):
            sums = self.growing(X, cells=cells) if sums is None else sums
            sums.add(X, codes)
        assert sums is not None
        return sums.statistics()


def learned_front_end(front_end: FrontEnd, passes: Passes, sampled: tuple[Any, ...]) -> tuple[Any, ...]:
    """The steps of a front end, each learned from all samples after the steps before it.

    ``sampled`` are the same steps as a sample of speakers taught them: a step that is not of this package cannot learn
    in passes, and stays as it is there.
    """
    steps: list[Any] = []
    for i, step in enumerate(front_end.steps):
        of_this_package = isinstance(step, Step)
        steps.append(clone(step).learn(_moments(step, steps, passes)) if of_this_package else sampled[i])
    return tuple(steps)


def _moments(step: Step, before: list[Any], passes: Passes) -> Moments:
    """The moments that a step learns from, of the samples after the steps before it."""
    census = passes.census
    speakers = len(census.labels[0])
    if isinstance(step, LengthNorm) or (isinstance(step, OF_THE_CENSUS) and not before):
        mean = census.mean if not before else np.asarray(applied(before, census.mean[None]))[0]
        nothing = np.zeros((len(mean), len(mean)))
        return Moments(census.n_samples, mean, census.low, census.high, nothing, None, speakers)
    low, high = np.array(np.inf), np.array(-np.inf)
    growing: _Covariance | GrowingSums | None = None if learns_from_speakers(step) else _Covariance()
    for X, codes in passes.samples(before, f"front end: {type(step).__name__}"):
        low, high = np.minimum(low, X.min(axis=0)), np.maximum(high, X.max(axis=0))
        growing = passes.growing(X, conditions=False) if growing is None else growing
        growing.add(X, codes[:, :1])
    if isinstance(growing, _Covariance):
        return Moments(census.n_samples, growing.mean, low, high, growing.covariance, None, speakers)
    assert growing is not None
    statistics = growing.statistics()
    within = _within_speakers(statistics)
    return Moments(census.n_samples, statistics.mean, low, high, statistics.covariance, within, speakers)


class _Covariance:
    """Mean and covariance of samples that come a chunk at a time."""

    def __init__(self) -> None:
        self.n, self.shift, self.total, self.scatter = 0, np.zeros(0), np.zeros(0), np.zeros((0, 0))

    def add(self, X: Array, codes: IntArray) -> None:
        """Add samples X (n, d), of whoever they are."""
        if not self.n:
            self.shift, d = X.mean(axis=0), X.shape[1]
            self.total, self.scatter = np.zeros(d), np.zeros((d, d))
        X = X - self.shift
        self.n += len(codes)
        self.total += X.sum(axis=0)
        self.scatter += X.T @ X

    @property
    def mean(self) -> Array:
        """Mean of the samples, (d,)."""
        return self.shift + self.total / self.n

    @property
    def covariance(self) -> Array:
        """Covariance of the samples around their mean, (d, d)."""
        away = self.total / self.n
        return symmetric(self.scatter / self.n - np.outer(away, away))


def _within_speakers(statistics: Statistics) -> Array:
    """Covariance of the samples around the means of their speakers, divided by their number, (d, d)."""
    parts, counts = list(statistics.parts.values()), statistics.level_counts(0)
    within = np.sum([part.scatter for part in parts], axis=0)
    for rows, sums in level_sum_blocks(parts, 0, len(counts)):
        within = within - sums.T @ (sums / counts[rows, None])
    return symmetric(within / statistics.n_samples)
