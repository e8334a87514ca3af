"""How speakers and channels are crossed in training, and a permutation test of channels where they are confounded."""

from dataclasses import dataclass

import numpy as np

from jointplda._typing import Array, IntArray
from jointplda.linalg import sums_by_level
from jointplda.model.statistics import Statistics

PERMUTATIONS = 499
SIGNIFICANCE = 0.02
MOST_SPEAKERS = 20_000
ENOUGH_CROSSED = 8


@dataclass(frozen=True)
class ChannelTest:
    """Result of the test whether speakers of different channels differ more than speakers of the same channel.

    The test compares the means of speakers who were heard in one channel each, around the mean of all and relative to
    their standard deviation: the mean of n samples has variance b + c / n, with b between and c within speakers, which
    would else make a channel of speakers with few samples differ. F is the mean square between channels divided by
    the mean square within, both summed over all dimensions; its p-value is the share of permutations of the channels
    over the speakers (the observed one included) whose F is at least as large.

    Attributes
    ----------
    condition : str
    speakers, channels : int
        Number of speakers compared, and of the channels that they were heard in.
    ratio : float
        F, which is 1 on average if channels do not matter; NaN if there are no two channels, or none has two speakers.
    p_value : float
        1 if F is NaN.
    """

    condition: str
    speakers: int
    channels: int
    ratio: float
    p_value: float

    @property
    def matters(self) -> bool:
        """Whether channels matter: p is at most 0.02."""
        return self.p_value <= SIGNIFICANCE

    @property
    def share(self) -> float:
        """Share of the variance between channels left to the channels: max(0, 1 - 1/F^3); 0 if they do not matter."""
        return max(0.0, 1.0 - self.ratio**-3) if self.matters and self.ratio > 1.0 else 0.0


def crossed_speakers(statistics: Statistics, k: int) -> int:
    """Number of speakers who were heard in two or more channels of factor k (1 is the first condition)."""
    return int(np.count_nonzero(_channels_of(statistics, k)[0] > 1))


def channel_test(statistics: Statistics, k: int, rng: np.random.Generator) -> ChannelTest:
    """Compare the speakers of different channels of factor k (1 is the first condition) by 499 permutations."""
    numbers, channel = _channels_of(statistics, k)
    d = statistics.n_features
    sums, counts = np.zeros((statistics.n_speakers, d)), np.zeros(statistics.n_speakers)
    for part in statistics.parts.values():
        if k in part.levels:
            sums[part.levels[0].index] += part.levels[0].sums
            counts[part.levels[0].index] += part.levels[0].counts
    alone = np.flatnonzero(numbers == 1)
    if len(alone) > MOST_SPEAKERS:
        alone = np.sort(rng.choice(alone, MOST_SPEAKERS, replace=False))
    means = sums[alone] / counts[alone, None]
    levels, codes = np.unique(channel[alone], return_inverse=True)
    S, C = len(alone), len(levels)
    name = statistics.conditions[k - 1]
    if C < 2 or C >= S:
        return ChannelTest(name, S, C, float("nan"), 1.0)
    means = _standardised(means, counts[alone], _within_speakers(statistics))
    if d > S:  # the same distances in fewer dimensions
        means = np.linalg.qr(means.T)[1].T
    between = _between(means, codes, C)
    total = float(np.sum(means**2))
    drawn = np.array([_between(means, rng.permutation(codes), C) for _ in range(PERMUTATIONS)])
    p_value = (1 + np.count_nonzero(drawn >= between * (1 - 1e-12))) / (1 + PERMUTATIONS)
    within = max(total - between, 1e-300)
    return ChannelTest(name, S, C, (between / (C - 1)) / (within / (S - C)), float(p_value))


def _within_speakers(statistics: Statistics) -> float:
    """c: trace of the covariance of samples within speakers, of all speakers together."""
    counts, sums = statistics.level_counts(0), statistics.level_sums(0)
    total = sum(float(np.trace(part.scatter)) for part in statistics.parts.values())
    squares = total - float(np.sum(np.sum(sums**2, axis=1) / counts))
    return max(squares, 0.0) / max(float(counts.sum()) - len(counts), 1.0)


def _standardised(means: Array, counts: Array, within: float) -> Array:
    """Means of speakers around their weighted mean, divided by the root of b + c / n relative to its average.

    b is found by repeated weighting: the mean of |mean_s - mean|^2 / (b + c / n_s) is 1 (Paule and Mandel).
    """
    low, high = 0.0, max(float(np.sum(np.var(means, axis=0))), 1e-300) * len(means)

    def around(b: float) -> tuple[Array, Array]:
        variances = np.maximum(b + within / counts, 1e-300)
        return means - np.average(means, axis=0, weights=1.0 / variances), variances

    for _ in range(60):
        middle = 0.5 * (low + high)
        centred, variances = around(middle)
        too_small = float(np.sum(np.sum(centred**2, axis=1) / variances)) > len(means) - 1.0
        low, high = (middle, high) if too_small else (low, middle)
    centred, variances = around(high)
    scaled = centred / np.sqrt(variances / variances.mean())[:, None]
    result: Array = scaled - scaled.mean(axis=0)
    return result


def _between(means: Array, codes: IntArray, channels: int) -> float:
    """Sum of squares between channels of centred speaker means."""
    sums = sums_by_level(codes, means, channels)
    return float(np.sum(sums**2 / np.bincount(codes, minlength=channels)[:, None]))


def linked_levels(statistics: Statistics, k: int, j: int) -> IntArray:
    """The pairs (2, n) of a level of factor k and one of factor j > k that have samples in common."""
    links = [part.links[k, j] for part in statistics.parts.values() if (k, j) in part.links]
    pairs = [np.zeros((2, 0), dtype=np.int64), *(np.stack([one.rows, one.columns]) for one in links)]
    return np.unique(np.concatenate(pairs, axis=1), axis=1)


def _channels_of(statistics: Statistics, k: int) -> tuple[IntArray, IntArray]:
    """For each speaker, the number of channels of factor k that the speaker was heard in, and the last of them."""
    linked = linked_levels(statistics, 0, k)
    channel = np.full(statistics.n_speakers, -1, dtype=np.int64)
    channel[linked[0]] = linked[1]
    return np.bincount(linked[0], minlength=statistics.n_speakers).astype(np.int64), channel


@dataclass(frozen=True)
class Design:
    """The design of the training data.

    Attributes
    ----------
    crossed : tuple of int
        For each condition, the number of speakers heard in two or more of its channels.
    tests : tuple of ChannelTest or None
        For each condition with too few such speakers, and with two or more channels, the test of its channels.
    """

    crossed: tuple[int, ...]
    tests: tuple[ChannelTest | None, ...]

    @property
    def confounded(self) -> bool:
        """Whether any condition has too few speakers who were heard in several of its channels."""
        return any(test is not None for test in self.tests)

    def shares(self) -> tuple[float, ...]:
        """For each condition, the share of the variance between channels left to the channels: 1 if it is crossed."""
        return tuple(1.0 if test is None else test.share for test in self.tests)


def design_of(statistics: Statistics, rng: np.random.Generator) -> Design:
    """Count the speakers heard in several channels, and test the channels of conditions with too few of them."""
    crossed = tuple(crossed_speakers(statistics, k + 1) for k in range(len(statistics.conditions)))
    enough = min(ENOUGH_CROSSED, statistics.n_speakers / 2)
    tests = tuple(
        None if number >= enough or len(statistics.labels[k + 1]) < 2 else channel_test(statistics, k + 1, rng)
        for k, number in enumerate(crossed)
    )
    return Design(crossed, tests)
