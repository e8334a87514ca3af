"""What an iteration of EM costs with either solver of the coupled levels, in operations of a matrix product and bytes.

An operation of another kind counts as many as it takes the time of: the factors below were measured, by
``benchmarks.growth``, on one thread.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from jointplda._typing import Array, IntArray
from jointplda.model.count_nodes import nodes_needed, too_wide
from jointplda.model.eliminated import gram_pays

EVERY = 1e8  # of any iteration
SPARSE = 7.0  # of a sparse table and a few vectors
GATHERED = 6.0  # of many small matrices
FACTORED = 1.3  # of a Cholesky factor and an inverse
KERNELS, BLOCKS = 4.0, 4.0  # of the blocks of an exact system: the matrices that they are sums of, and the sums
PROBES, MEAN_STEPS = 8, 3.0  # of the sampled solver; the means take so many times the steps of a probe
CACHE = 2e7  # bytes; beyond this a sparse table waits for memory
LEVELS_KEPT = (300, 32)
MOVED = 500.0  # of a latent in a step, which is read and written
PAIR_BYTES, WAITING = 60.0, 3e5  # tables of linked pairs, and of those that wait while they are built


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

    @cached_property
    def groups(self) -> int:
        """Distinct counts of the eliminated levels."""
        return len(np.unique(self.counts, axis=0))

    @property
    def nodes(self) -> int:
        """Distinct counts of the eliminated levels, or the nodes that stand for them."""
        return self.groups if self.counts.shape[1] != 1 else min(self.groups, nodes_needed(self.counts))

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
    d, R, (K, P) = sizes.dimension, sizes.rank, sizes.counts.shape
    width, nodes = P * (d + 1), sizes.groups if too_wide(sizes.counts) else sizes.nodes
    q = width + P * sum(sizes.levels) + 1
    work, memory = EVERY + 2.0 * sizes.unknowns * d, 8.0 * K * (2.0 * width + 2.0 * R)
    if gram_pays(K, R, P, width, q, nodes, sizes.groups):
        work += 2.0 * nodes * R * q * (q + R)
        memory += 16.0 * nodes * q * q + 16.0 * min(K, 2**24 / q) * q
    else:
        work += R * K * (4.0 * width + R * (1 + P))
    if P > 1:
        work += GATHERED * nodes * R**3
        memory += 8.0 * nodes * R * R
    return Cost(work, memory)


def exact_cost(sizes: Sizes) -> Cost:
    """The dense systems of the components."""
    numbers = sizes.components.astype(np.float64)
    systems = np.ones_like(numbers)
    if sizes.distinct:  # components of one level with equal counts have equal systems, which are solved once
        single = numbers == sizes.ranks[0]
        systems[single] = min(1.0, sizes.distinct / max(1, int(single.sum())))
    unknowns, R, columns = float(systems @ numbers**2), sizes.rank, float(np.sum(sizes.ranks))
    smallest = min(sizes.ranks)
    pairs, kernels = unknowns / smallest**2, sizes.nodes * sizes.counts.shape[1] ** 2
    counted = pairs + _squared_entries(sizes)
    entries, building = min(pairs * kernels, counted), min(pairs * sizes.groups, counted, WAITING)
    work = FACTORED * float(systems @ numbers**3) + BLOCKS * 4.0 * entries * smallest**2
    work += KERNELS * kernels * R * (R + columns / len(sizes.ranks)) * columns
    return Cost(work, 16.0 * unknowns + PAIR_BYTES * (entries + building) + 8.0 * kernels * columns**2)


def sampled_cost(sizes: Sizes) -> Cost:
    """Products with P for the means and for every probe, and the sums over the draws."""
    R, (K, P) = sizes.rank, sizes.counts.shape
    away = 1.0 + min(8.0 * PROBES * P * sum(sizes.levels) * R / CACHE, 2.0)
    product = 2.0 * SPARSE * away * 2.0 * sizes.entries * R + K * R * (SPARSE if P == 1 else GATHERED * R)
    for n, r in zip(sizes.levels, sizes.ranks, strict=True):
        kept = n if n <= LEVELS_KEPT[0] else LEVELS_KEPT[1]
        product += n * r * (5.0 * ((3.0 + sizes.parts) * r + 2.0 * P * R) + 8.0 * kept + MOVED)
    links = sizes.entries / max(sum(sizes.levels), 1)  # with few, speakers tell little of how channels hang together
    steps = 3.0 + 24.0 / np.sqrt(max(links, 1.0))
    sums = 2.0 * PROBES * K * R**2 * (1.0 + 0.5 * (1.0 + P))
    work = (PROBES + MEAN_STEPS) * steps * product + 2.0 * (PROBES * product + sums)
    return Cost(work, 8.0 * PROBES * (sizes.unknowns * (steps + 6.0) + 4.0 * R * min(K, 2000)))


def _squared_entries(sizes: Sizes) -> float:
    """About how many pairs of levels that meet in an eliminated level there are, counted for each."""
    return sizes.entries**2 / max(sizes.eliminated, 1)
