"""Statistics arranged for EM: groups of eliminated levels with equal counts, and components of coupled levels."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array, csr_array, hstack

from jointplda._typing import Array, IntArray
from jointplda.model.coupled.dense import DenseSolver
from jointplda.model.coupled.links import CoupledLinks, PatternArrays
from jointplda.model.coupled.sampled import SampledSolver
from jointplda.model.coupled.solver import CoupledSolver
from jointplda.model.eliminated import EliminatedGram, EliminatedRows
from jointplda.model.eliminated_table import EliminatedTable, eliminated_sums
from jointplda.model.plan import SAMPLED, Plan, make_plan
from jointplda.model.statistics import Statistics
from jointplda.model.sums import PatternSums

MOSTLY_ALONE = 0.7


@dataclass(frozen=True)
class Layout:
    """All that an iteration of EM reads.

    Attributes
    ----------
    plan : Plan
    shift : (d,)
        What samples are summed around.
    levels : tuple of int
        Number of levels of each factor.
    links : CoupledLinks
        The coupled levels, the parts of the samples, and the groups of the eliminated levels.
    group_sizes : (G,)
        K_g, the number of eliminated levels in each group.
    eliminated_group : (K,)
        Group of every eliminated level, in the order of its labels.
    eliminated_order : (K,)
        The order in which ``eliminated_sums`` and ``links.slots`` hold the eliminated levels.
    solver : CoupledSolver
        Of the coupled levels.
    """

    plan: Plan
    shift: Array
    levels: tuple[int, ...]
    links: CoupledLinks
    group_sizes: Array
    eliminated_group: IntArray
    eliminated_order: IntArray
    eliminated_sums: EliminatedRows | EliminatedGram
    solver: CoupledSolver

    @property
    def parts(self) -> tuple[PatternArrays, ...]:
        """Sums over the samples with each missing-label pattern."""
        return self.links.parts

    @property
    def n_samples(self) -> float:
        """N, the number (or weight) of samples."""
        return float(sum(part.count for part in self.parts))

    def scatter(self, kappa: float = 0.0) -> Array:
        """S around the shift, each part relative to its noise, (d, d)."""
        result: Array = np.sum([part.scatter / part.noise_scale(kappa) for part in self.parts], axis=0)
        return result


def lay_out(
    statistics: Statistics,
    ranks: tuple[int, ...],
    eliminated: int | None = None,
    keep_rows: bool = False,
    solver: str = "auto",
) -> Layout:
    """Arrange ``statistics`` for EM with loadings of these ``ranks`` (all at least 1).

    ``eliminated`` is the factor to eliminate analytically, by default the one that makes an iteration cheapest. With
    ``keep_rows`` every eliminated level is kept by itself, for its posterior. ``solver`` is that of the settings.
    """
    plan = make_plan(statistics, ranks, eliminated, solver)
    levels = tuple(len(labels) for labels in statistics.labels)
    coupled = tuple(k for k in range(len(levels)) if k != plan.eliminated and levels[k])
    raw = list(statistics.parts.values())
    eliminated_parts = tuple(p for p, part in enumerate(raw) if plan.eliminated in part.levels)
    counts, slots = _eliminated_counts([raw[p] for p in eliminated_parts], plan.eliminated, coupled, levels)
    group_counts, group, sizes = np.unique(counts, axis=0, return_inverse=True, return_counts=True)
    group = group.reshape(-1)
    if counts.shape[1] > 1 and len(group_counts) > MOSTLY_ALONE * len(counts):  # then L^-1 multiplies all in one call
        group_counts, group, sizes = counts, np.arange(len(counts)), np.ones(len(counts), dtype=np.int64)
    order = np.argsort(group, kind="stable")
    table = EliminatedTable([raw[p].levels[plan.eliminated] for p in eliminated_parts], counts, slots, group, order)
    links = CoupledLinks(
        factors=coupled,
        sizes=tuple(levels[k] for k in coupled),
        parts=tuple(_pattern_arrays(part, coupled, levels) for part in raw),
        eliminated_parts=eliminated_parts,
        slots=slots[order],
        group=group[order],
        group_counts=group_counts,
    )
    own_ranks = tuple(ranks[k] for k in coupled)
    return Layout(
        plan=plan,
        shift=statistics.shift,
        levels=levels,
        links=links,
        group_sizes=sizes.astype(np.float64),
        eliminated_group=group,
        eliminated_order=order,
        eliminated_sums=eliminated_sums(table, links.slots, group_counts, ranks[plan.eliminated], keep_rows),
        solver=SampledSolver.of(links, own_ranks) if plan.solver == SAMPLED else DenseSolver.of(links),
    )


def link_table(part: PatternSums, k: int, j: int, levels: tuple[int, ...]) -> csr_array:
    """Number of samples by level of k and level of j, sparse (levels_k, levels_j)."""
    links = part.links[min(k, j), max(k, j)]
    ends = (links.rows, links.columns) if k < j else (links.columns, links.rows)
    return coo_array((links.counts, ends), shape=(levels[k], levels[j])).tocsr()


def _eliminated_counts(
    parts: list[PatternSums], eliminated: int, coupled: tuple[int, ...], levels: tuple[int, ...]
) -> tuple[Array, csr_array]:
    """n_op (K, P) and h_ob (K, P B) of every eliminated level, from parts with labels of its factor."""
    counts, slots = np.zeros((levels[eliminated], len(parts))), []
    for at, part in enumerate(parts):
        own = part.levels[eliminated]
        counts[own.index, at] = own.counts
        for k in coupled:
            linked = k in part.levels
            slots.append(link_table(part, eliminated, k, levels) if linked else csr_array((len(counts), levels[k])))
    return counts, hstack(slots, format="csr") if slots else csr_array((len(counts), 0))


def _pattern_arrays(part: PatternSums, coupled: tuple[int, ...], levels: tuple[int, ...]) -> PatternArrays:
    level_sums, level_counts = {}, {}
    here = [k for k in coupled if k in part.levels]
    for k in here:
        own = part.levels[k]
        level_sums[k] = np.zeros((levels[k], len(part.total)))
        level_sums[k][own.index] = own.sums
        level_counts[k] = np.zeros(levels[k])
        level_counts[k][own.index] = own.counts
    return PatternArrays(
        observed=tuple(k in part.levels for k in range(len(levels))),
        cell_size=part.cell_size,
        count=part.count,
        total=part.total,
        scatter=part.scatter,
        level_sums=level_sums,
        level_counts=level_counts,
        links={(k, j): link_table(part, k, j, levels) for k in here for j in here if k < j},
    )
