"""Statistics arranged for EM: groups of eliminated levels with equal counts, and components of coupled levels."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array, csr_array, hstack

from jointplda._typing import AnyArray, Array, IntArray
from jointplda.model.components import Batch, find_batches
from jointplda.model.eliminated import EliminatedGram, EliminatedRows, eliminated_sums
from jointplda.model.plan import Plan, make_plan
from jointplda.model.statistics import Statistics
from jointplda.model.sums import PatternSums


@dataclass(frozen=True)
class PatternArrays:
    """Sums over the samples with one missing-label pattern, as arrays over all levels.

    Attributes
    ----------
    observed : tuple of bool
        For each factor, whether these samples have a label of it. The latents of the other factors belong to one
        sample each, and are absorbed into the noise.
    cell_size : float
        n, where these are means of n samples of a cell; else 1.
    count, total, scatter : float, (d,), (d, d)
        N, sum of (m_i - shift) and sum of (m_i - shift)(m_i - shift)'.
    level_sums, level_counts : dict of (levels, d), (levels,)
        g_b and n_b of every observed coupled factor.
    links : dict of sparse (levels_k, levels_l)
        e_bb' for every pair k < l of observed coupled factors.
    """

    observed: tuple[bool, ...]
    cell_size: float
    count: float
    total: Array
    scatter: Array
    level_sums: dict[int, Array]
    level_counts: dict[int, Array]
    links: dict[tuple[int, int], csr_array]

    def noise_scale(self, kappa: float) -> float:
        """1 / n + kappa: the noise of the mean of n samples of a cell, and what they share, relative to C."""
        return 1.0 / self.cell_size + kappa


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
    parts : tuple of PatternArrays
        One for each missing-label pattern p.
    coupled : tuple of int
        Factors with shared levels other than the eliminated one.
    eliminated_parts : tuple of int
        Positions in ``parts`` of those whose samples have a label of the eliminated factor; P in number.
    group_counts : (G, P)
        n_gp, the number of samples that each eliminated level of group g has in part p.
    group_sizes : (G,)
        K_g, the number of eliminated levels in each group.
    eliminated_group : (K,)
        Group of every eliminated level, in the order of its labels.
    eliminated_order : (K,)
        The order in which ``eliminated_sums`` and ``slots`` hold the eliminated levels.
    slots : sparse (K, P * coupled levels)
        h_ob, the number of samples that eliminated level o and coupled level b share in each part.
    batches : tuple of Batch
        Components of the coupled levels.
    """

    plan: Plan
    shift: Array
    levels: tuple[int, ...]
    parts: tuple[PatternArrays, ...]
    coupled: tuple[int, ...]
    eliminated_parts: tuple[int, ...]
    group_counts: Array
    group_sizes: Array
    eliminated_group: IntArray
    eliminated_order: IntArray
    eliminated_sums: EliminatedRows | EliminatedGram
    slots: csr_array
    batches: tuple[Batch, ...]

    @property
    def n_samples(self) -> float:
        """N, the number (or weight) of samples."""
        return float(sum(part.count for part in self.parts))

    def scatter(self, kappa: float = 0.0) -> Array:
        """S around the shift, each part relative to its noise, (d, d)."""
        result: Array = np.sum([part.scatter / part.noise_scale(kappa) for part in self.parts], axis=0)
        return result

    @property
    def kernel_columns(self) -> int:
        """Number of matrices that the coupled precision is a sum of: identity, one per part, and G P^2 of groups."""
        return 1 + len(self.parts) + len(self.group_sizes) * len(self.eliminated_parts) ** 2

    def slot_range(self, eliminated_part: int, k: int) -> slice:
        """Columns of ``slots`` that hold coupled factor k in one of the ``eliminated_parts``."""
        sizes = [self.levels[j] for j in self.coupled]
        start = eliminated_part * sum(sizes) + sum(sizes[: self.coupled.index(k)])
        return slice(start, start + self.levels[k])


def lay_out(
    statistics: Statistics, ranks: tuple[int, ...], eliminated: int | None = None, keep_rows: bool = False
) -> Layout:
    """Arrange ``statistics`` for EM with loadings of these ``ranks`` (all at least 1).

    ``eliminated`` is the factor to eliminate analytically, by default the one that makes an iteration cheapest. With
    ``keep_rows`` every eliminated level is kept by itself, for its posterior.
    """
    plan = make_plan(statistics, ranks, eliminated)
    levels = tuple(len(labels) for labels in statistics.labels)
    coupled = tuple(k for k in range(len(levels)) if k != plan.eliminated and levels[k])
    raw = list(statistics.parts.values())
    eliminated_parts = tuple(p for p, part in enumerate(raw) if plan.eliminated in part.levels)
    counts, sums, slots = _eliminated_tables([raw[p] for p in eliminated_parts], plan.eliminated, coupled, levels)
    group_counts, group, sizes = np.unique(counts, axis=0, return_inverse=True, return_counts=True)
    group = group.reshape(-1)
    order = np.argsort(group, kind="stable")
    slots = slots[order]
    table = np.concatenate([sums, counts], axis=1)[order]
    parts = tuple(_pattern_arrays(part, coupled, levels) for part in raw)
    batches: tuple[Batch, ...] = ()
    if coupled:
        first, second, pair_counts = _pairs(parts, {k: levels[k] for k in coupled}, slots, group[order])
        batches = find_batches(tuple(levels[k] for k in coupled), first, second, pair_counts)
    return Layout(
        plan=plan,
        shift=statistics.shift,
        levels=levels,
        parts=parts,
        coupled=coupled,
        eliminated_parts=eliminated_parts,
        group_counts=group_counts,
        group_sizes=sizes.astype(np.float64),
        eliminated_group=group,
        eliminated_order=order,
        eliminated_sums=eliminated_sums(table, slots, group[order], group_counts, ranks[plan.eliminated], keep_rows),
        slots=slots,
        batches=batches,
    )


def link_table(part: PatternSums, k: int, j: int, levels: tuple[int, ...]) -> csr_array:
    """Number of samples by level of k and level of j, sparse (levels_k, levels_j)."""
    links = part.links[min(k, j), max(k, j)]
    ends = (links.rows, links.columns) if k < j else (links.columns, links.rows)
    return coo_array((links.counts, ends), shape=(levels[k], levels[j])).tocsr()


def _eliminated_tables(
    parts: list[PatternSums], eliminated: int, coupled: tuple[int, ...], levels: tuple[int, ...]
) -> tuple[Array, Array, csr_array]:
    """n_op (K, P), f_o (K, P d) and h_ob (K, P B) of every eliminated level, from parts with labels of its factor."""
    K, d = levels[eliminated], len(parts[0].total)
    counts, sums, slots = np.zeros((K, len(parts))), np.zeros((K, len(parts) * d)), []
    for at, part in enumerate(parts):
        own = part.levels[eliminated]
        counts[own.index, at] = own.counts
        sums[own.index, at * d : (at + 1) * d] = own.sums
        for k in coupled:
            linked = k in part.levels
            slots.append(link_table(part, eliminated, k, levels) if linked else csr_array((K, levels[k])))
    return counts, sums, hstack(slots, format="csr") if slots else csr_array((K, 0))


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


def _pairs(
    parts: tuple[PatternArrays, ...], levels: dict[int, int], slots: csr_array, group: IntArray
) -> tuple[IntArray, IntArray, csr_array]:
    """Pairs of linked levels of coupled factors, by their numbers of ``levels``, and how often each kernel enters their
    block of P.
    """
    start = dict(zip(levels, np.concatenate([[0], np.cumsum(list(levels.values()))[:-1]]), strict=True))
    B = sum(levels.values())
    own = np.arange(B)
    rows, columns, kernels, values = [own], [own], [np.zeros(B, dtype=np.int64)], [np.ones(B)]

    def add(i: AnyArray, j: AnyArray, kernel: AnyArray | int, count: AnyArray) -> None:
        rows.append(i)
        columns.append(j)
        kernels.append(np.broadcast_to(kernel, i.shape))
        values.append(count)

    for p, part in enumerate(parts):
        for k, n in part.level_counts.items():
            used = np.flatnonzero(n)
            add(start[k] + used, start[k] + used, 1 + p, n[used])
        for (k, j), table in part.links.items():
            both = table.tocoo()
            add(start[k] + both.row, start[j] + both.col, 1 + p, both.data)
            add(start[j] + both.col, start[k] + both.row, 1 + p, both.data)
    P, n_groups = slots.shape[1] // B, int(group[-1]) + 1
    ends = np.searchsorted(group, np.arange(n_groups + 1))
    for g in range(n_groups):
        shared = _squared(slots[ends[g] : ends[g + 1]])
        kernel = 1 + len(parts) + (g * P + shared.row // B) * P + shared.col // B
        add(shared.row % B, shared.col % B, kernel, shared.data)
    n_kernels = 1 + len(parts) + n_groups * P * P
    keys = np.concatenate(rows).astype(np.int64) * B + np.concatenate(columns)
    pairs, at = np.unique(keys, return_inverse=True)
    table = coo_array(
        (np.concatenate(values), (at.reshape(-1), np.concatenate(kernels))), shape=(len(pairs), n_kernels)
    ).tocsr()
    table.sum_duplicates()
    return pairs // B, pairs % B, table


def _squared(h: csr_array) -> coo_array:
    """H = h' h, as a dense product where h is not very sparse."""
    n, width = h.shape
    if width <= 4096 and h.nnz > 0.05 * n * width:
        total = np.zeros((width, width))
        step = 1 + 2**24 // width
        for start in range(0, n, step):
            piece = h[start : start + step].toarray()
            total += piece.T @ piece
        return coo_array(total)
    return coo_array(h.T @ h)
