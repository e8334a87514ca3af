"""What an iteration of EM costs with either solver of the coupled levels, in operations of a matrix product and bytes.

An operation of another kind counts as many as it takes the time of: the factors below were measured, by
``benchmarks.growth``, on one thread.
"""

from dataclasses import dataclass

import numpy as np

from jointplda._typing import Array, IntArray
from jointplda.model.count_nodes import nodes_needed

SPARSE = 12.0  # of a sparse table and a few vectors
GATHERED = 12.0  # of a small matrix that is looked up
FACTORED = 2.0  # of a Cholesky factor and an inverse
PROBES, STEPS = 16, (9, 14)  # of the sampled solver: with one coupled factor, and with several
LEVELS_KEPT = 300.0
PAIR_BYTES = 100.0  # tables of linked pairs, while they are built


@dataclass(frozen=True)
class Sizes:
    """What costs depend on, with one factor eliminated.

    Attributes
    ----------
    dimension, rank, eliminated : int
        d, R, and the number K of eliminated levels.
    counts : (K, P)
        Number of samples of each eliminated level in each part.
    parts : int
        Number of all parts.
    levels, ranks : tuple of int
        B_k and r_k of the coupled factors.
    entries : float
        Number of pairs of an eliminated and a coupled level that share samples, by part.
    components : (components,)
        Unknowns of each connected component of the coupled levels.
    distinct : int
        Distinct counts of the levels of a coupled factor that is the only one; 0 if there are several.
    """

    dimension: int
    rank: int
    eliminated: int
    counts: Array
    parts: int
    levels: tuple[int, ...]
    ranks: tuple[int, ...]
    entries: float
    components: IntArray
    distinct: int

    @property
    def groups(self) -> int:
        """Distinct counts of the eliminated levels, or the nodes that stand for them."""
        groups = len(np.unique(self.counts, axis=0))
        return groups if self.counts.shape[1] != 1 else min(groups, nodes_needed(self.counts))

    @property
    def unknowns(self) -> int:
        """Number of coupled latents."""
        return sum(n * r for n, r in zip(self.levels, self.ranks, strict=True))


@dataclass(frozen=True)
class Cost:
    """Operations of an iteration, and bytes."""

    work: float
    memory: float


def elimination_cost(sizes: Sizes) -> Cost:
    """Sums over the eliminated levels, and over the coupled ones, with either solver."""
    d, R, P = sizes.dimension, sizes.rank, sizes.counts.shape[1]
    work = 2.0 * min(sizes.eliminated, sizes.groups * d) * d * R + 2.0 * sizes.unknowns * d
    if P > 1:
        work += GATHERED * len(np.unique(sizes.counts, axis=0)) * R**3 + 2.0 * sizes.eliminated * R * P * (d + R)
    return Cost(work, 8.0 * sizes.eliminated * (P * d + R))


def exact_cost(sizes: Sizes) -> Cost:
    """The dense systems of the components."""
    numbers = sizes.components.astype(np.float64)
    systems = np.ones_like(numbers)
    if sizes.distinct:  # components of one level with equal counts have equal systems, which are solved once
        single = numbers == sizes.ranks[0]
        systems[single] = min(1.0, sizes.distinct / max(1, int(single.sum())))
    unknowns = float(systems @ numbers**2)
    smallest = min(sizes.ranks, default=1)
    pairs, kernels = unknowns / smallest**2, sizes.groups * sizes.counts.shape[1] ** 2
    entries = min(pairs * kernels, pairs + _squared_entries(sizes))
    work = FACTORED * float(systems @ numbers**3) + SPARSE * 4.0 * entries * smallest**2
    return Cost(work, 16.0 * unknowns + PAIR_BYTES * entries + 8.0 * kernels * float(np.sum(sizes.ranks)) ** 2)


def sampled_cost(sizes: Sizes) -> Cost:
    """Products with P for the means and for every probe."""
    R, P, K = sizes.rank, sizes.counts.shape[1], sizes.eliminated
    product = 2.0 * SPARSE * 2.0 * sizes.entries * R
    product += K * R * (SPARSE if P == 1 else 2.0 * R * GATHERED)
    for n, r in zip(sizes.levels, sizes.ranks, strict=True):
        product += 2.0 * n * r * ((1.0 + sizes.parts) * r + 2.0 * P * R + 2.0 * r + 4.0 * min(n, LEVELS_KEPT))
    steps = STEPS[min(len(sizes.ranks), 2) - 1]
    sums = 4.0 * (1.0 + P) * K * R**2
    return Cost(PROBES * (steps * product + sums), 8.0 * PROBES * sizes.unknowns * (steps + 6.0))


def _squared_entries(sizes: Sizes) -> float:
    """About how many pairs of levels that meet in an eliminated level there are, counted for each."""
    return sizes.entries**2 / max(sizes.eliminated, 1)
