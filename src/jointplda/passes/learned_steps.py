"""A front end learned in passes over the samples, one for each step that learns something."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from jointplda._typing import Array
from jointplda.linalg import symmetric
from jointplda.model.statistics import Statistics
from jointplda.model.sums import level_sum_blocks
from jointplda.passes.census import Census
from jointplda.passes.readers import Reader
from jointplda.passes.summing import CovarianceSums, LevelSums, RangedStatistics
from jointplda.preprocessing.front_ends import FrontEnd, applied, learns_from_speakers
from jointplda.preprocessing.moments import Moments
from jointplda.preprocessing.steps import Center, LengthNorm, Scale, Step

OF_THE_CENSUS = (Center, LengthNorm, Scale)
"""Steps that need the mean, the smallest and the largest values alone."""


def summed(reader: Reader, census: Census, steps: Sequence[Any], *, cells: bool) -> Statistics:
    """Statistics of the samples after ``steps``."""
    return _level_sums(reader, census, "statistics", tuple(steps), cells=cells).statistics


def learned_front_end(front_end: FrontEnd, reader: Reader, census: Census, sampled: tuple[Any, ...]) -> tuple[Any, ...]:
    """The steps of a front end, each learned from all samples after the steps before it.

    ``sampled`` are the same steps as a sample of speakers taught them: a step that is not of this package cannot learn
    in passes, and stays as it is there.
    """
    steps: list[Any] = []
    for i, step in enumerate(front_end.steps):
        of_this_package = isinstance(step, Step)
        steps.append(clone(step).learn(_moments(step, tuple(steps), reader, census)) if of_this_package else sampled[i])
    return tuple(steps)


def _moments(step: Step, before: tuple[Any, ...], reader: Reader, census: Census) -> Moments:
    """The moments that a step learns from, of the samples after the steps before it."""
    n, speakers, stage = census.n_samples, len(census.labels[0]), f"front end: {type(step).__name__}"
    if isinstance(step, LengthNorm) or (isinstance(step, OF_THE_CENSUS) and not before):
        mean = census.mean if not before else np.asarray(applied(before, census.mean[None]))[0]
        nothing = np.zeros((len(mean), len(mean)))
        return Moments(n, mean, census.low, census.high, nothing, None, speakers)
    if learns_from_speakers(step):
        found = _level_sums(reader, census, stage, before, conditions=False)
        sums = found.statistics
        return Moments(n, sums.mean, found.low, found.high, sums.covariance, _within_speakers(sums), speakers)
    moments = reader.made(CovarianceSums(stage, before))
    assert moments is not None  # the census found samples
    return Moments(n, moments.mean, moments.low, moments.high, moments.covariance, None, speakers)


def _level_sums(
    reader: Reader, census: Census, stage: str, steps: tuple[Any, ...], *, cells: bool = False, conditions: bool = True
) -> RangedStatistics:
    """Sums by level, which grow in one process where it has room for them, and else are merged."""
    growing = None if reader.room is None else (census, reader.room)
    found = reader.made(LevelSums(stage, steps, cells, conditions, growing))
    assert found is not None
    return found


def _within_speakers(statistics: Statistics) -> Array:
    """Covariance of the samples around the means of their speakers, divided by their number, (d, d)."""
    parts, counts = list(statistics.parts.values()), statistics.level_counts(0)
    within = np.sum([part.scatter for part in parts], axis=0)
    for rows, sums in level_sum_blocks(parts, 0, len(counts)):
        within = within - sums.T @ (sums / counts[rows, None])
    return symmetric(within / statistics.n_samples)
