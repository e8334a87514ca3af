"""Which factor EM eliminates, and what an iteration will cost, worked out before any time is spent."""

import os
from dataclasses import dataclass

import numpy as np

from jointplda._typing import IntArray
from jointplda.errors import TooLargeError
from jointplda.model.coupled.components import connected
from jointplda.model.statistics import Statistics

MEMORY_SHARE = 0.7
PAIR_BYTES = 100.0  # tables of linked pairs, while they are built
SLOW_SECONDS, FLOPS = 60.0, 2e10


@dataclass(frozen=True)
class Plan:
    """How EM will treat a set of statistics.

    Attributes
    ----------
    eliminated : int
        The factor that is eliminated analytically (0 is the speaker).
    names : tuple of str
        Names of all factors.
    levels, ranks : tuple of int
        Number of levels and rank of each factor. A factor with 0 levels has a level of its own for every sample.
    components : int
        Number of connected components of the coupled levels.
    largest : int
        Unknowns in the largest component.
    work : float
        Approximate number of floating-point operations of one iteration.
    memory : float
        Approximate number of bytes that the coupled systems take.
    """

    eliminated: int
    names: tuple[str, ...]
    levels: tuple[int, ...]
    ranks: tuple[int, ...]
    components: int
    largest: int
    work: float
    memory: float

    def __str__(self) -> str:
        factors = ", ".join(
            f"{name} ({n or 'one per sample'} x rank {r})"
            for name, n, r in zip(self.names, self.levels, self.ranks, strict=True)
        )
        coupled = (
            f"{self.components} component(s), the largest with {self.largest} unknowns" if self.components else "none"
        )
        return (
            f"factors: {factors}; eliminated: {self.names[self.eliminated]}; coupled systems: {coupled}; "
            f"about {self.work / 1e9:.2g} Gflop and {self.memory / 1e6:.3g} MB an iteration"
        )


def make_plan(statistics: Statistics, ranks: tuple[int, ...], eliminated: int | None = None) -> Plan:
    """Plan for the eliminated factor that makes an iteration cheapest, or for the one asked for."""
    levels = tuple(len(labels) for labels in statistics.labels)
    candidates = [k for k in range(len(levels)) if levels[k]] if eliminated is None else [eliminated]
    plan = min((_plan(statistics, ranks, levels, k) for k in candidates), key=lambda p: (p.work, p.eliminated))
    limit = MEMORY_SHARE * _physical_memory()
    if plan.memory > limit:
        raise TooLargeError(
            f"The labels link {plan.largest} unknowns in one system, which would need about {plan.memory / 1e9:.3g} GB "
            f"(this machine allows {limit / 1e9:.3g} GB). Lower the ranks, or merge rare channels, or leave their "
            f"labels empty. ({plan})"
        )
    return plan


def _physical_memory() -> float:
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return 16e9


def _plan(statistics: Statistics, ranks: tuple[int, ...], levels: tuple[int, ...], eliminated: int) -> Plan:
    coupled = [k for k in range(len(levels)) if k != eliminated and levels[k]]
    d, R = statistics.n_features, ranks[eliminated]
    counts = np.zeros((levels[eliminated], len(statistics.parts)))
    for p, part in enumerate(statistics.parts.values()):
        if eliminated in part.levels:
            counts[part.levels[eliminated].index, p] = part.levels[eliminated].counts
    groups = len(np.unique(counts, axis=0))
    work = 2.0 * min(levels[eliminated], groups * d) * d * R + groups * (0 if len(statistics.parts) == 1 else R**3)
    sizes = _component_sizes(statistics, levels, eliminated, coupled, ranks)
    numbers = sizes.astype(np.float64)
    if len(coupled) == 1:
        # Components of one level with equal counts have equal systems, which are solved once.
        distinct = len(np.unique([len(numbers), *statistics.level_counts(coupled[0]).tolist()]))
        single = numbers == ranks[coupled[0]]
        share = min(1.0, distinct / max(1, int(single.sum())))
        work += float(np.sum(numbers[~single] ** 3) + share * np.sum(numbers[single] ** 3))
        memory = float(np.sum(numbers[~single] ** 2) + share * np.sum(numbers[single] ** 2))
    else:
        work += float(np.sum(numbers**3))
        memory = float(np.sum(numbers**2))
    smallest = min((ranks[k] for k in coupled), default=1)
    pairs = memory / smallest**2
    work += 2.0 * sum(levels[k] * ranks[k] for k in coupled) * d
    return Plan(
        eliminated=eliminated,
        names=("speaker", *statistics.conditions),
        levels=levels,
        ranks=ranks,
        components=len(sizes),
        largest=int(sizes.max(initial=0)),
        work=work,
        memory=8.0 * memory + PAIR_BYTES * pairs,
    )


def _component_sizes(
    statistics: Statistics, levels: tuple[int, ...], eliminated: int, coupled: list[int], ranks: tuple[int, ...]
) -> IntArray:
    """Unknowns of each connected component of the coupled levels."""
    if not coupled:
        return np.zeros(0, dtype=np.int64)
    factors = [eliminated, *coupled]
    start = dict(zip(factors, np.concatenate([[0], np.cumsum([levels[k] for k in factors])]), strict=False))
    rows, columns = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for part in statistics.parts.values():
        for (k, j), links in part.links.items():
            rows.append(start[k] + links.rows)
            columns.append(start[j] + links.columns)
    _, component = connected(sum(levels[k] for k in factors), np.concatenate(rows), np.concatenate(columns))
    unknowns = np.repeat([0, *(ranks[k] for k in coupled)], [levels[k] for k in factors])
    sizes = np.bincount(component, unknowns)
    return sizes[sizes > 0].astype(np.int64)
