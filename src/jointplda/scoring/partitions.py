"""Which of several samples share a channel, where this is not known: partitions under a Chinese-restaurant prior.

Sample n + 1 joins a channel that has k samples with probability k / (n + a), and a new one with a / (n + a), where
a = (1 - p) / p. For two samples P(same channel) is p, the paper's prior. Conditions are independent of each other.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import comb

import numpy as np

from jointplda._typing import Array, IntArray
from jointplda.scoring.evidence import Solved, Stack, solve
from jointplda.scoring.projection import Projection

EXACT = 4140  # Bell(8)
BEAM = 200


def bell(n: int) -> int:
    """Number of partitions of n samples."""
    numbers = [1]
    for size in range(n):
        numbers.append(sum(comb(size, k) * numbers[k] for k in range(size + 1)))
    return numbers[n]


def beam_for(n: int, conditions: int, beam: int | None) -> int:
    """Number of partitions of n samples to keep: ``beam``, or by default all if they are few, else ``BEAM``."""
    if beam is not None:
        return beam
    possible = bell(n) ** conditions
    return possible if possible <= EXACT else BEAM


def join_log_probabilities(counts: IntArray, p: float) -> Array:
    """Log-probabilities that the next sample joins each channel, and (last) a new one.

    The channels have ``counts`` (channels,) samples, and two samples share one with the prior probability ``p``.
    """
    n = int(counts.sum())
    with np.errstate(divide="ignore"):
        if n == 0:
            return np.zeros(1)
        # k / (n + a) and a / (n + a), with both sides multiplied by p, so that p = 0 and p = 1 are exact.
        weights = np.append(counts * p, 1.0 - p)
        return np.asarray(np.log(weights) - np.log(n * p + 1.0 - p))


@dataclass(frozen=True)
class WeightedPartitions:
    """Partitions with their log prior probabilities.

    Attributes
    ----------
    codes : (partitions, n, conditions) int64
    log_priors : (partitions,)
    """

    codes: IntArray
    log_priors: Array


def extend(partitions: WeightedPartitions, priors: Array) -> WeightedPartitions:
    """Add a sample to every partition in every possible way; ``priors`` (conditions,) are its P(same channel)."""
    codes, log_priors = [], []
    for partition, log_prior in zip(partitions.codes, partitions.log_priors, strict=True):
        for choice, gain in joins(partition, priors):
            codes.append(np.concatenate([partition, np.array([choice], dtype=np.int64).reshape(1, -1)]))
            log_priors.append(log_prior + gain)
    return WeightedPartitions(np.stack(codes), np.array(log_priors))


def joins(codes: IntArray, priors: Array) -> Iterator[tuple[tuple[int, ...], float]]:
    """Ways in which one more sample can join a partition ``codes`` (n, conditions), with their log-probabilities."""
    options = []
    for k, p in enumerate(priors):
        counts = np.bincount(codes[:, k]) if len(codes) else np.zeros(0, dtype=np.int64)
        options.append(list(enumerate(join_log_probabilities(counts, float(p)).tolist())))
    for choice in product(*options):
        gain = sum(log_p for _, log_p in choice)
        if gain > -np.inf:
            yield tuple(level for level, _ in choice), gain


class Solver:
    """Evidence of samples under many assignments, where Lambda of equal assignments is factored once.

    The samples of an assignment are brought into a canonical order first, so that partitions into blocks of the same
    sizes are equal.
    """

    def __init__(self, projection: Projection) -> None:
        self.projection = projection
        self._solved: dict[bytes, Solved] = {}

    def canonical(self, codes: IntArray) -> tuple[IntArray, IntArray]:
        """The canonical order of the samples, and their codes in that order, by which larger levels come first."""
        renamed = np.stack([_by_size(column)[column] for column in codes.T], axis=1)
        order = np.lexsort(renamed.T[::-1])
        return order, renamed[order]

    def solve(self, canonical: IntArray) -> Solved:
        """Lambda of a canonical assignment (n, factors)."""
        key = np.array(canonical.shape, dtype=np.int64).tobytes() + canonical.tobytes()
        if key not in self._solved:
            self._solved[key] = solve(Stack.of(canonical, self.projection), self.projection)
        return self._solved[key]

    def log_evidence(self, phi: Array, codes: IntArray) -> Array:
        """Log p of sets phi (M, n, r) under assignments codes (A, n, factors): (M, A)."""
        result = np.empty((len(phi), len(codes)))
        for a, assignment in enumerate(codes):
            order, canonical = self.canonical(assignment)
            solved = self.solve(canonical)
            result[:, a] = solved.log_evidence(solved.sums(phi[:, order]))
        return result


def _by_size(codes: IntArray) -> IntArray:
    """New numbers of the levels: the level with most samples first, ties in the old order."""
    counts = np.bincount(codes)
    number = np.empty(len(counts), dtype=np.int64)
    number[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    return number


def likely_partitions(
    phi: Array, priors: Array, solver: Solver, beam: int, speakers: IntArray | None = None
) -> WeightedPartitions:
    """Likely partitions of a set by beam search: samples are added one by one, and the most probable partitions kept.

    ``beam`` is the number of partitions kept: as many as there are give all that the prior allows, whatever the samples
    ``phi`` (n, r). ``priors`` (n, conditions) are P(same channel) by which each sample joins those before it, and
    ``speakers`` (n,) the speaker of each sample, by default the same.
    """
    partitions = WeightedPartitions(np.zeros((1, 0, priors.shape[1]), dtype=np.int64), np.zeros(1))
    for i in range(len(phi)):
        partitions = extend(partitions, priors[i])
        if len(partitions.codes) > beam:
            codes = with_speaker(partitions.codes, None if speakers is None else speakers[: i + 1])
            value = partitions.log_priors + solver.log_evidence(phi[None, : i + 1], codes)[0]
            best = np.sort(np.argpartition(-value, beam)[:beam])
            partitions = WeightedPartitions(partitions.codes[best], partitions.log_priors[best])
    return partitions


def with_speaker(codes: IntArray, speakers: IntArray | None = None) -> IntArray:
    """Partitions (A, n, conditions) as assignments (A, n, 1 + conditions), with the speakers (n,), or one speaker."""
    first = np.zeros(codes.shape[1], dtype=np.int64) if speakers is None else speakers
    return np.concatenate([np.broadcast_to(first[None, :, None], (*codes.shape[:2], 1)), codes], axis=2)
