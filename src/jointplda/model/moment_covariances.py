"""Covariances of the data by the method of moments, where EM starts and where priors have their scales."""

from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
from scipy.sparse import csr_array

from jointplda._typing import Array
from jointplda.linalg import symmetric
from jointplda.model.coupled.components import connected
from jointplda.model.layout import link_table
from jointplda.model.statistics import Statistics
from jointplda.model.sums import PatternSums

SWEEPS = 50
LEAST_FREEDOM = 0.02


@dataclass(frozen=True)
class Covariances:
    """Method-of-moments covariances: one between the levels of each factor, and one within levels of all factors."""

    between: tuple[Array, ...]
    within: Array


def moment_covariances(statistics: Statistics, within: Array | None = None, last: Array | None = None) -> Covariances:
    """Covariances within and between levels, corrected for the level counts.

    The covariance within, C, is the given one, or the scatter around least-squares means of all levels, divided by its
    degrees of freedom. With T_k = sum over the levels b of factor k of f_b f_b' / n_b, the covariances B_j between
    levels solve

        E[T_k]          = N mu mu' + sum_j c_kj B_j + (levels of k) C,     c_kj = sum_b sum_b' n_bb'^2 / n_b
        E[N mbar mbar'] = N mu mu' + sum_j (sum_b n_b^2 / N) B_j + C.

    Sums of squares are around the shift, near the mean. Where two factors are confounded, the solution of least norm
    is taken. ``last`` (d, d) is the covariance of the last factor where it is known; its equation is then left out.
    """
    parts = list(statistics.parts.values())
    n, K = statistics.n_samples, len(statistics.labels)
    total = np.sum([part.total for part in parts], axis=0)
    counts = [statistics.level_counts(k) for k in range(K)]
    alone = [sum(part.count for part in parts if k not in part.levels) for k in range(K)]
    within = _within(statistics) if within is None else within
    squares = [_sum_of_squares(statistics, k, counts[k]) for k in range(K)]
    squares.append(np.outer(total, total) / n)
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
    known: tuple[Array, ...] = ()
    if last is not None:
        known, K = (last,), K - 1
        rows = [*range(K), K + 1]
        squares = [squares[k] - design[k, K] * last for k in rows]
        design = design[np.ix_(rows, rows)]
    solved = np.tensordot(np.linalg.pinv(design, rcond=1e-8), np.stack(squares), 1)
    return Covariances((*(symmetric(B) for B in solved[:K]), *known), within)


def _within(statistics: Statistics) -> Array:
    """Covariance within levels of all factors, from the samples that have labels of all of them.

    A sample without a label of a condition is a level of its own there, and says nothing about the variance within
    levels. Where the levels leave too few degrees of freedom, the conditions with most levels are ignored one after
    the other, and each of them is assumed to explain half of the scatter that is then left.
    """
    factors = [k for k in range(len(statistics.labels)) if len(statistics.labels[k])]
    share = 1.0
    while True:
        reduced = [part.only({k: i for i, k in enumerate(factors)}) for part in statistics.parts.values()]
        complete = [part for part in reduced if len(part.levels) == len(factors)]
        if complete:
            part = reduce(add, complete)
            freedom = part.count - _design_rank(part)
            if freedom > LEAST_FREEDOM * part.count or len(factors) == 1:
                return share * _residual_scatter(part) / max(freedom, LEAST_FREEDOM * part.count)
        largest = max(factors[1:], key=lambda k: len(statistics.labels[k]))
        factors = [k for k in factors if k != largest]
        share *= 0.5


def _design_rank(part: PatternSums) -> int:
    """Number of independent level means: with two factors, the levels less the connected components."""
    sizes = [len(part.levels[k].index) for k in sorted(part.levels)]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    rows, columns = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for (k, j), links in part.links.items():
        rows.append(starts[k] + np.searchsorted(part.levels[k].index, links.rows))
        columns.append(starts[j] + np.searchsorted(part.levels[j].index, links.columns))
    components, _ = connected(int(starts[-1]), np.concatenate(rows), np.concatenate(columns))
    return int(sum(sizes) - (len(sizes) - 1) * components)


def _residual_scatter(part: PatternSums) -> Array:
    """Scatter around least-squares means of all levels, which sweeps over the factors find."""
    factors = sorted(part.levels)
    counts, sums = [part.levels[k].counts for k in factors], [part.levels[k].sums for k in factors]
    tables = part.link_tables()
    tables |= {(j, k): table.T.tocsr() for (k, j), table in tables.items()}
    effects = [np.zeros_like(f) for f in sums]
    size = np.sqrt(max(float(np.trace(part.scatter)), np.finfo(float).tiny))
    for _ in range(SWEEPS if len(factors) > 1 else 1):
        moved = 0.0
        for k in reversed(factors):
            explained = sum((tables[k, j] @ effects[j] for j in factors if j != k), start=np.zeros_like(sums[k]))
            new = (sums[k] - explained) / counts[k][:, None]
            moved += float(np.linalg.norm((new - effects[k]) * np.sqrt(counts[k])[:, None]))
            effects[k] = new
        if moved < 1e-4 * size:
            break
    scatter = part.scatter.copy()
    for k in factors:
        cross = effects[k].T @ sums[k]
        scatter -= cross + cross.T - effects[k].T @ (counts[k][:, None] * effects[k])
        for j in range(k):
            cross = effects[k].T @ (tables[k, j] @ effects[j])
            scatter += cross + cross.T
    return symmetric(scatter)


def _sum_of_squares(statistics: Statistics, k: int, counts: Array) -> Array:
    """sum_b f_b f_b' / n_b, where samples without a label are levels of their own."""
    d = statistics.n_features
    scaled = statistics.level_sums(k) / np.sqrt(counts)[:, None]
    alone = [part.scatter for part in statistics.parts.values() if k not in part.levels]
    return scaled.T @ scaled + sum(alone, start=np.zeros((d, d)))


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
