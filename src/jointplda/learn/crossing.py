"""Statistics arranged for EM: the outer factor, its groups, and the components of the inner levels."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array, csr_array, hstack

from jointplda.learn.components import Batch, find_batches
from jointplda.learn.outer import OuterGram, OuterRows, outer_sums
from jointplda.learn.part import Part
from jointplda.learn.plan import Plan, make_plan
from jointplda.learn.statistics import Statistics
from jointplda.linalg import AnyArray, Array, IntArray


@dataclass(frozen=True)
class PartSums:
    """One part of the samples: those that carry labels of the same factors.

    Attributes
    ----------
    observed : tuple of bool
        For each factor, whether these samples have a label. The latents of the other factors belong
        to one sample each, and are absorbed into the noise.
    level_sums, level_counts : dict of (levels, d), (levels,)
        g_b and n_b of every observed inner factor.
    links : dict of sparse (levels_k, levels_l)
        e_bb' for every pair k < l of observed inner factors.
    """

    observed: tuple[bool, ...]
    count: float
    total: Array
    scatter: Array
    level_sums: dict[int, Array]
    level_counts: dict[int, Array]
    links: dict[tuple[int, int], csr_array]


@dataclass(frozen=True)
class Crossing:
    """All that an EM iteration reads.

    Attributes
    ----------
    inner : tuple of int
        Factors with shared levels other than the outer one.
    outer_parts : tuple of int
        Parts in which the outer factor is observed.
    group_counts : (G, len(outer_parts))
        n_gp: samples that each outer level of a group has in each part.
    group_sizes : (G,)
        K_g.
    outer_group : (K,)
        Group of every outer level, in the order of its labels.
    outer_order : (K,)
        Outer levels as ``outer_sums`` has them.
    slots : sparse (K, parts * inner levels)
        h_ob by part, rows in ``outer_order``.
    """

    plan: Plan
    shift: Array
    levels: tuple[int, ...]
    parts: tuple[PartSums, ...]
    inner: tuple[int, ...]
    outer_parts: tuple[int, ...]
    group_counts: Array
    group_sizes: Array
    outer_group: IntArray
    outer_order: IntArray
    outer_sums: OuterRows | OuterGram
    slots: csr_array
    batches: tuple[Batch, ...]

    @property
    def n_samples(self) -> float:
        """N, the number (or weight) of samples."""
        return float(sum(part.count for part in self.parts))

    @property
    def scatter(self) -> Array:
        """S around the shift, (d, d)."""
        result: Array = np.sum([part.scatter for part in self.parts], axis=0)
        return result

    @property
    def kernel_columns(self) -> int:
        """Kernels of the inner precision: identity, samples per part, and groups by pair of parts."""
        return 1 + len(self.parts) + len(self.group_sizes) * len(self.outer_parts) ** 2

    def slot_range(self, outer_part: int, k: int) -> slice:
        """Columns of ``slots`` of inner factor k in the given outer part."""
        sizes = [self.levels[j] for j in self.inner]
        start = outer_part * sum(sizes) + sum(sizes[: self.inner.index(k)])
        return slice(start, start + self.levels[k])


def cross(
    statistics: Statistics, ranks: tuple[int, ...], outer: int | None = None, keep_rows: bool = False
) -> Crossing:
    """Arrange statistics for EM with loadings of the given ranks (all at least 1).

    Parameters
    ----------
    outer : int, optional
        The factor to eliminate analytically; default: the one that makes an iteration cheapest.
    keep_rows : bool
        Keep the outer levels one by one, for their own posteriors.
    """
    plan = make_plan(statistics, ranks, outer)
    levels = tuple(len(labels) for labels in statistics.labels)
    inner = tuple(k for k in range(len(levels)) if k != plan.outer and levels[k])
    raw = list(statistics.parts.values())
    outer_parts = tuple(p for p, part in enumerate(raw) if plan.outer in part.levels)
    counts, sums, slots = _outer_tables(raw, outer_parts, plan.outer, inner, levels)
    group_counts, group, sizes = np.unique(counts, axis=0, return_inverse=True, return_counts=True)
    group = group.reshape(-1)
    order = np.argsort(group, kind="stable")
    slots = slots[order]
    table = np.concatenate([sums, counts], axis=1)[order]
    parts = tuple(_part_sums(part, plan.outer, inner, levels) for part in raw)
    batches: tuple[Batch, ...] = ()
    if inner:
        first, second, pair_counts = _pairs(parts, outer_parts, inner, levels, slots, group[order], len(sizes))
        batches = find_batches(tuple(levels[k] for k in inner), first, second, pair_counts)
    return Crossing(
        plan=plan,
        shift=statistics.shift,
        levels=levels,
        parts=parts,
        inner=inner,
        outer_parts=outer_parts,
        group_counts=group_counts,
        group_sizes=sizes.astype(np.float64),
        outer_group=group,
        outer_order=order,
        outer_sums=outer_sums(table, slots, group[order], group_counts, ranks[plan.outer], keep_rows),
        slots=slots,
        batches=batches,
    )


def link_table(part: Part, k: int, j: int, levels: tuple[int, ...]) -> csr_array:
    """Samples of ``part`` by level of k and level of j, sparse (levels_k, levels_j)."""
    links = part.links[min(k, j), max(k, j)]
    ends = (links.rows, links.columns) if k < j else (links.columns, links.rows)
    return coo_array((links.counts, ends), shape=(levels[k], levels[j])).tocsr()


def _outer_tables(
    raw: list[Part], outer_parts: tuple[int, ...], outer: int, inner: tuple[int, ...], levels: tuple[int, ...]
) -> tuple[Array, Array, csr_array]:
    """n_op (K, P), f_o (K, P d) and h_ob (K, P B) of every outer level."""
    K, d = levels[outer], len(raw[0].total)
    counts, sums, slots = np.zeros((K, len(outer_parts))), np.zeros((K, len(outer_parts) * d)), []
    for at, p in enumerate(outer_parts):
        mine = raw[p].levels[outer]
        counts[mine.index, at] = mine.counts
        sums[mine.index, at * d : (at + 1) * d] = mine.sums
        for k in inner:
            seen = k in raw[p].levels
            slots.append(link_table(raw[p], outer, k, levels) if seen else csr_array((K, levels[k])))
    return counts, sums, hstack(slots, format="csr") if slots else csr_array((K, 0))


def _part_sums(part: Part, outer: int, inner: tuple[int, ...], levels: tuple[int, ...]) -> PartSums:
    level_sums, level_counts = {}, {}
    here = [k for k in inner if k in part.levels]
    for k in here:
        mine = part.levels[k]
        level_sums[k] = np.zeros((levels[k], len(part.total)))
        level_sums[k][mine.index] = mine.sums
        level_counts[k] = np.zeros(levels[k])
        level_counts[k][mine.index] = mine.counts
    return PartSums(
        observed=tuple(k in part.levels for k in range(len(levels))),
        count=part.count,
        total=part.total,
        scatter=part.scatter,
        level_sums=level_sums,
        level_counts=level_counts,
        links={(k, j): link_table(part, k, j, levels) for k in here for j in here if k < j},
    )


def _pairs(
    parts: tuple[PartSums, ...],
    outer_parts: tuple[int, ...],
    inner: tuple[int, ...],
    levels: tuple[int, ...],
    slots: csr_array,
    group: IntArray,
    n_groups: int,
) -> tuple[IntArray, IntArray, csr_array]:
    """Linked pairs of inner levels, and how often each kernel enters their block of P."""
    start = dict(zip(inner, np.concatenate([[0], np.cumsum([levels[k] for k in inner])[:-1]]), strict=True))
    B = sum(levels[k] for k in inner)
    own = np.arange(B)
    rows, columns, kernels, values = [own], [own], [np.zeros(B, dtype=np.int64)], [np.ones(B)]

    def add(i: AnyArray, j: AnyArray, kernel: AnyArray | int, count: AnyArray) -> None:
        rows.append(i)
        columns.append(j)
        kernels.append(np.broadcast_to(kernel, i.shape))
        values.append(count)

    for p, part in enumerate(parts):
        for k, n in part.level_counts.items():
            seen = np.flatnonzero(n)
            add(start[k] + seen, start[k] + seen, 1 + p, n[seen])
        for (k, j), table in part.links.items():
            both = table.tocoo()
            add(start[k] + both.row, start[j] + both.col, 1 + p, both.data)
            add(start[j] + both.col, start[k] + both.row, 1 + p, both.data)
    P = len(outer_parts)
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
    """H = h' h, by a dense product where h is mostly filled."""
    n, width = h.shape
    if width <= 4096 and h.nnz > 0.05 * n * width:
        total = np.zeros((width, width))
        step = 1 + 2**24 // width
        for start in range(0, n, step):
            piece = h[start : start + step].toarray()
            total += piece.T @ piece
        return coo_array(total)
    return coo_array(h.T @ h)
