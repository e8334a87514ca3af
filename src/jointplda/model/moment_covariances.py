"""Covariances of the data by the method of moments, where EM starts and where priors have their scales."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, hstack

from jointplda._typing import Array
from jointplda.linalg import symmetric
from jointplda.model.coupled.components import connected
from jointplda.model.layout import link_table
from jointplda.model.statistics import Statistics
from jointplda.model.sums import PatternSums, level_sum_blocks
from jointplda.model.swept_levels import explained_scatter, swept_gram

LEAST_FREEDOM = 0.02


@dataclass(frozen=True)
class Covariances:
    """Method-of-moments covariances: one between the levels of each factor, and one within levels of all factors."""

    between: tuple[Array, ...]
    within: Array


def moment_covariances(
    statistics: Statistics, within: Array | None = None, of_cells: Array | None = None
) -> Covariances:
    """Covariances within and between levels, corrected for the level counts.

    The covariance within, C, is the given one, or the scatter around least-squares means of all levels, divided by its
    degrees of freedom. With T_k = sum over the levels b of factor k of f_b f_b' / n_b, the covariances B_j between
    levels solve

        E[T_k]          = N mu mu' + sum_j c_kj B_j + (levels of k) C,     c_kj = sum_b sum_b' n_bb'^2 / n_b
        E[N mbar mbar'] = N mu mu' + sum_j (sum_b n_b^2 / N) B_j + C.

    Sums of squares are around the mean, where mbar is 0. Where two factors are confounded, or a condition has one
    channel, the solution of least norm is taken. ``of_cells`` (d, d) is the covariance between cells, where there is
    an interaction of which it is known.
    """
    parts = list(statistics.parts.values())
    n, K = statistics.n_samples, len(statistics.labels)
    total = np.sum([part.total for part in parts], axis=0)
    counts = [statistics.level_counts(k) for k in range(K)]
    alone = [sum(part.count for part in parts if k not in part.levels) for k in range(K)]
    within = _within(statistics) if within is None else within
    of_mean = np.outer(total, total) / n
    squares = [_sum_of_squares(statistics, k, counts[k]) - of_mean for k in range(K)]
    squares.append(np.zeros_like(of_mean))
    # Rows: factors, then the grand mean. Columns: B_k, then N mu mu'.
    design = np.full((K + 1, K + 1), n)
    design[:, K] = 1.0
    for k in range(K):
        squares[k] = squares[k] - (len(counts[k]) + alone[k]) * within
        design[K, k] = (counts[k] @ counts[k] + alone[k]) / n
        for j in range(K):
            if j != k:
                design[k, j] = _crossed(parts, k, j, counts)
    squares[K] = squares[K] - within
    if of_cells is not None:
        for k in range(K):
            squares[k] = squares[k] - _crossed_with_cells(parts, k, counts[k]) * of_cells
        squares[K] = squares[K] - _crossed_with_cells(parts, None, np.array([n])) * of_cells
    solved = np.tensordot(np.linalg.pinv(design, rcond=1e-8), np.stack(squares), 1)
    return Covariances(tuple(symmetric(B) for B in solved[:K]), within)


def _within(statistics: Statistics) -> Array:
    """Covariance within levels of all factors, from the samples that have labels of all of them.

    A sample without a label of a condition is a level of its own there, and says nothing about the variance within
    levels. Where the levels leave too few degrees of freedom, the conditions with most levels are ignored one after
    the other, and each of them is assumed to explain half of the scatter that is then left.
    """
    factors = [k for k in range(len(statistics.labels)) if len(statistics.labels[k])]
    share = 1.0
    while True:
        complete = [part for part in statistics.parts.values() if all(k in part.levels for k in factors)]
        if complete:
            residual = _Residual.of(statistics, complete, factors)
            count = sum(part.count for part in complete)
            freedom = count - residual.rank
            if freedom > LEAST_FREEDOM * count or len(factors) == 1:
                return share * residual.scatter() / max(freedom, LEAST_FREEDOM * count)
        largest = max(factors[1:], key=lambda k: len(statistics.labels[k]))
        factors = [k for k in factors if k != largest]
        share *= 0.5


@dataclass(frozen=True)
class _Residual:
    """Samples with labels of all ``factors``, and how often their levels meet.

    Attributes
    ----------
    parts : list of PatternSums
    levels : list of int
        Number of levels of each factor.
    counts : list of (levels,)
        Number of samples of each level.
    tables : dict of sparse (levels_k, levels_j)
        Number of samples that two levels share, by position of both factors, k < j.
    factors : list of int
        Of the statistics; the first is the speaker.
    """

    parts: list[PatternSums]
    levels: list[int]
    counts: list[Array]
    tables: dict[tuple[int, int], csr_array]
    factors: list[int]

    @classmethod
    def of(cls, statistics: Statistics, parts: list[PatternSums], factors: list[int]) -> "_Residual":
        """Collect the counts of these parts."""
        sizes = tuple(len(labels) for labels in statistics.labels)
        counts = [np.zeros(sizes[k]) for k in factors]
        for part in parts:
            for own, k in zip(counts, factors, strict=True):
                own[part.levels[k].index] += part.levels[k].counts
        tables = {}
        for i, k in enumerate(factors):
            for j in range(i + 1, len(factors)):
                shared = [link_table(part, k, factors[j], sizes) for part in parts]
                tables[i, j] = csr_array(sum(shared[1:], start=shared[0]))
        return cls(parts, [sizes[k] for k in factors], counts, tables, factors)

    @property
    def rank(self) -> int:
        """Number of independent level means: with two factors, the levels less the connected components."""
        starts = np.concatenate([[0], np.cumsum(self.levels)])
        rows, columns = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
        for (k, j), table in self.tables.items():
            pairs = table.tocoo()
            rows.append(starts[k] + pairs.row.astype(np.int64))
            columns.append(starts[j] + pairs.col.astype(np.int64))
        components, _ = connected(int(starts[-1]), np.concatenate(rows), np.concatenate(columns))
        used = sum(int(np.count_nonzero(counts)) for counts in self.counts)
        components -= int(starts[-1]) - used  # levels that do not occur
        return used - (len(self.levels) - 1) * components

    def scatter(self) -> Array:
        """Scatter around least-squares means of all levels (d, d); the speakers are swept out of the others."""
        d = len(self.parts[0].total)
        used = [np.flatnonzero(counts) for counts in self.counts]
        counts = np.where(self.counts[0] > 0.0, self.counts[0], 1.0)  # speakers of other samples have sums of 0
        tables = [self.tables[0, j][:, used[j]] for j in range(1, len(used))]
        H = hstack(tables, format="csr") if tables else csr_array((self.levels[0], 0))
        total, g = np.zeros((d, d)), np.zeros((0, d))
        for k, number, own in zip(self.factors[1:], self.levels[1:], used[1:], strict=True):
            blocks = [sums for _, sums in level_sum_blocks(self.parts, k, number)]
            g = np.concatenate([g, np.concatenate(blocks)[own]])
        for rows, sums in level_sum_blocks(self.parts, 0, self.levels[0]):
            means = sums / counts[rows, None]
            total += sums.T @ means
            g = g - np.asarray(H[rows].T @ means)
        scatter = np.sum([part.scatter for part in self.parts], axis=0) - total
        if H.shape[1]:
            others = [own[at] for own, at in zip(self.counts[1:], used[1:], strict=True)]
            linked = {(k - 1, j - 1): self.tables[k, j][used[k]][:, used[j]] for k, j in self.tables if k}
            scatter = scatter - explained_scatter(swept_gram(counts, H, others, linked), g)
        return symmetric(scatter)


def _sum_of_squares(statistics: Statistics, k: int, counts: Array) -> Array:
    """sum_b f_b f_b' / n_b, where samples without a label are levels of their own."""
    parts, d = list(statistics.parts.values()), statistics.n_features
    total = sum((part.scatter for part in parts if k not in part.levels), start=np.zeros((d, d)))
    for rows, sums in level_sum_blocks(parts, k, len(counts)):
        scaled = sums / np.sqrt(counts[rows])[:, None]
        total = total + scaled.T @ scaled
    return total


def _crossed(parts: list[PatternSums], k: int, j: int, counts: list[Array]) -> float:
    """c_kj = sum over levels b of k, b' of j, of n_bb'^2 / n_b."""
    total, table = 0.0, csr_array((len(counts[k]), len(counts[j])))
    levels = tuple(len(level_counts) for level_counts in counts)
    for part in parts:
        if k not in part.levels:
            total += part.count
        elif j not in part.levels:
            total += float(np.sum(part.levels[k].counts / counts[k][part.levels[k].index]))
        else:
            table = table + link_table(part, k, j, levels)
    both = table.tocoo()
    return total + float(np.sum(both.data**2 / counts[k][both.row]))


def _crossed_with_cells(parts: list[PatternSums], k: int | None, counts: Array) -> float:
    """c_kj with j the cell: sum over levels b of k, and their cells, of n^2 / n_b; None is a level of all samples.

    A sample that lacks the label of some condition is a cell of its own.
    """
    total, factors = 0.0, max(len(part.levels) for part in parts)
    for part in parts:
        if k is not None and k not in part.levels:
            total += part.count
        elif part.cells is not None and len(part.levels) == factors:
            level = 0 if k is None else part.cells.codes[:, k]
            total += float(np.sum(part.cells.counts**2 / counts[level]))
        elif k is None:
            total += part.count / float(counts[0])
        else:
            total += float(np.sum(part.levels[k].counts / counts[part.levels[k].index]))
    return total
