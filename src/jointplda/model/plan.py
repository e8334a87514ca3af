"""Which factor EM eliminates, and what an iteration will cost, worked out before any time is spent."""

import math
from dataclasses import dataclass

import numpy as np

from jointplda._memory import physical_memory
from jointplda._typing import IntArray
from jointplda.errors import TooLargeError
from jointplda.model.costs import Cost, Sizes, elimination_cost, exact_cost, sampled_cost
from jointplda.model.coupled.components import connected
from jointplda.model.statistics import Statistics

MEMORY_SHARE = 0.7
SLOW_SECONDS, FLOPS = 60.0, 2e10
ALWAYS_EXACT = 3e8  # operations of an iteration: a hundredth of a second
GAIN = 2.0  # below this an exact solution is worth its time
READING = 14.0  # operations for each number of S that a sample adds to, with its labels and front end
EXACT, SAMPLED = "exact", "sampled"


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
        About how many operations of a matrix product take the time of one iteration.
    memory : float
        About how many bytes EM takes.
    solver : {"exact", "sampled"}
        How the coupled systems are solved.
    reason : str
        Why.
    iterations : int
        About how many such iterations the whole training makes; of one fit the most that it may make.
    beside : float
        Operations of all else: reading the samples, and the scores of a search.
    """

    eliminated: int
    names: tuple[str, ...]
    levels: tuple[int, ...]
    ranks: tuple[int, ...]
    components: int
    largest: int
    work: float
    memory: float
    solver: str = EXACT
    reason: str = ""
    iterations: int = 1
    beside: float = 0.0

    @property
    def total_work(self) -> float:
        """Operations of the whole training."""
        return self.iterations * self.work + self.beside

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
            f"solver: {self.solver} ({self.reason}); "
            f"about {self.work / 1e9:.2g} Gflop and {self.memory / 1e6:.3g} MB an iteration"
        )


def make_plan(
    statistics: Statistics, ranks: tuple[int, ...], eliminated: int | None = None, solver: str = "auto"
) -> Plan:
    """Plan for the eliminated factor that makes an iteration cheapest, or for the one asked for.

    The coupled systems are solved exactly where that is cheap, or where no ``solver`` gains much by sampling.
    """
    levels = tuple(len(labels) for labels in statistics.labels)
    candidates = [k for k in range(len(levels)) if levels[k]] if eliminated is None else [eliminated]
    limit = MEMORY_SHARE * physical_memory()
    plans = [_plan(statistics, ranks, levels, k, solver, limit) for k in candidates]
    plan = min(plans, key=lambda p: (p.memory > limit, p.work, p.eliminated))
    if plan.memory > limit:
        text = (
            f"The labels link {plan.largest:,} unknowns in one system, which would need about {plan.memory / 1e9:.3g} "
            f"GB (this machine allows {limit / 1e9:.3g} GB). Lower the ranks, or merge rare channels, or leave their "
            "labels empty"
        )
        if solver == EXACT and make_plan(statistics, ranks, eliminated, SAMPLED):
            text = f"{text}, or do not ask for the exact solver"
        raise TooLargeError(f"{text}.")
    return plan


def estimated_work(
    statistics: Statistics, ranks: tuple[int, ...], solver: str = "auto", eliminated: int | None = None
) -> float:
    """The work of an iteration; infinite where the plan is refused."""
    try:
        return make_plan(statistics, ranks, eliminated, solver).work
    except TooLargeError:
        return math.inf


def _plan(
    statistics: Statistics, ranks: tuple[int, ...], levels: tuple[int, ...], eliminated: int, solver: str, limit: float
) -> Plan:
    sizes = _sizes(statistics, ranks, levels, eliminated)
    rest, cost, chosen, reason = elimination_cost(sizes), Cost(0.0, 0.0), EXACT, "nothing is coupled"
    if sizes.ranks:
        exact, sampled = exact_cost(sizes), sampled_cost(sizes)
        chosen, reason = _chosen(solver, rest, exact, sampled, limit)
        cost = exact if chosen == EXACT else sampled
    return Plan(
        eliminated=eliminated,
        names=("speaker", *statistics.conditions),
        levels=levels,
        ranks=ranks,
        components=len(sizes.components),
        largest=int(sizes.components.max(initial=0)),
        work=rest.work + cost.work,
        memory=rest.memory + cost.memory,
        solver=chosen,
        reason=reason,
    )


def _chosen(solver: str, rest: Cost, exact: Cost, sampled: Cost, limit: float) -> tuple[str, str]:
    """The solver of the coupled systems, and why."""
    if solver != "auto":
        return solver, "as asked for"
    if rest.memory + exact.memory > limit:
        return SAMPLED, f"exact systems would take {exact.memory / 1e9:.3g} GB"
    if exact.work <= ALWAYS_EXACT:
        return EXACT, "the systems are small"
    if exact.work <= GAIN * sampled.work:
        if sampled.work > exact.work:
            return EXACT, f"sampling would take {sampled.work / exact.work:.2g} times as long"
        return EXACT, f"sampling would be only {exact.work / sampled.work:.2g} times as fast"
    return SAMPLED, f"exact systems would take {exact.work / sampled.work:.2g} times as long"


def _sizes(statistics: Statistics, ranks: tuple[int, ...], levels: tuple[int, ...], eliminated: int) -> Sizes:
    coupled = [k for k in range(len(levels)) if k != eliminated and levels[k]]
    parts = [part for part in statistics.parts.values() if eliminated in part.levels]
    counts = np.zeros((levels[eliminated], len(parts)))
    for p, part in enumerate(parts):
        counts[part.levels[eliminated].index, p] = part.levels[eliminated].counts
    return Sizes(
        dimension=statistics.n_features,
        rank=ranks[eliminated],
        eliminated=levels[eliminated],
        counts=counts,
        parts=len(statistics.parts),
        levels=tuple(levels[k] for k in coupled),
        ranks=tuple(ranks[k] for k in coupled),
        entries=float(
            sum(len(links.rows) for part in parts for pair, links in part.links.items() if eliminated in pair)
        ),
        components=_component_sizes(statistics, levels, eliminated, coupled, ranks),
        distinct=len(np.unique(statistics.level_counts(coupled[0]))) if len(coupled) == 1 else 0,
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
