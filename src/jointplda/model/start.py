"""Starting points of EM: the moments of the data, or random loadings."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from jointplda._typing import Array
from jointplda.linalg import cholesky, symmetric
from jointplda.model.cell_sums import WithinCells
from jointplda.model.interaction import with_cell_condition
from jointplda.model.kappa import KappaPrior
from jointplda.model.layout import link_table
from jointplda.model.mstep import NoiseModel, Prior, target
from jointplda.model.parameters import Parameters
from jointplda.model.statistics import Statistics
from jointplda.model.sums import PatternSums

SMALLEST_SHARE = 1e-4
SWEEPS = 50
LEAST_FREEDOM = 0.02


@dataclass(frozen=True)
class Covariances:
    """Method-of-moments covariances: one between the levels of each factor, and one within levels of all factors."""

    between: tuple[Array, ...]
    within: Array
    cell: Array | None = None


def cell_covariances(statistics: Statistics, within: WithinCells) -> Covariances:
    """Method-of-moments covariances of a model in which speaker and channel interact.

    C is the scatter within cells over its degrees of freedom, and the cell is one more factor of the moment equations.
    Without enough cells of two samples the interaction is part of C.
    """
    if within.freedom <= LEAST_FREEDOM * statistics.n_samples:
        return moment_covariances(statistics)
    moments = moment_covariances(with_cell_condition(statistics), within.scatter / within.freedom)
    return Covariances(moments.between[:-1], moments.within, moments.between[-1])


def moment_covariances(statistics: Statistics, within: Array | None = None) -> Covariances:
    """Covariances within and between levels, corrected for the level counts.

    The covariance within, C, is the given one, or the scatter around least-squares means of all levels, divided by its
    degrees of freedom. With T_k = sum over the levels b of factor k of f_b f_b' / n_b, the covariances B_j between
    levels solve

        E[T_k]          = N mu mu' + sum_j c_kj B_j + (levels of k) C,     c_kj = sum_b sum_b' n_bb'^2 / n_b
        E[N mbar mbar'] = N mu mu' + sum_j (sum_b n_b^2 / N) B_j + C.

    Sums of squares are around the shift, near the mean. Where two factors are confounded, the solution of least norm
    is taken.
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
        reduced = [part.only({k: i for i, k in enumerate(factors)}) for part in statistics.parts.values()]
        complete = [part for part in reduced if len(part.levels) == len(factors)]
        if complete:
            part = complete[0]
            for other in complete[1:]:
                part = part + other
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
    empty = np.zeros(0, dtype=np.int64)
    rows, columns = [empty], [empty]
    for (k, j), links in part.links.items():
        rows.append(starts[k] + np.searchsorted(part.levels[k].index, links.rows))
        columns.append(starts[j] + np.searchsorted(part.levels[j].index, links.columns))
    ends = (np.concatenate(rows), np.concatenate(columns))
    graph = coo_array((np.ones(len(ends[0]), dtype=np.int8), ends), shape=(int(starts[-1]), int(starts[-1])))
    components, _ = connected_components(graph, directed=False)
    return int(sum(sizes) - (len(sizes) - 1) * components)


def _residual_scatter(part: PatternSums) -> Array:
    """Scatter around least-squares means of all levels, which sweeps over the factors find."""
    factors = sorted(part.levels)
    counts, sums = [part.levels[k].counts for k in factors], [part.levels[k].sums for k in factors]
    tables = {}
    for (k, j), links in part.links.items():
        ends = [np.searchsorted(part.levels[a].index, b) for a, b in ((k, links.rows), (j, links.columns))]
        tables[k, j] = coo_array((links.counts, tuple(ends)), shape=(len(counts[k]), len(counts[j]))).tocsr()
        tables[j, k] = tables[k, j].T.tocsr()
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


def make_prior(
    statistics: Statistics,
    covariances: Covariances,
    noise_prior: float,
    speaker_prior: float,
    kappa: KappaPrior | None = None,
) -> Prior:
    """Prior with strengths relative to the data: 1 is one prior sample per sample, and one prior speaker per speaker.

    Its targets are identities times the average variance of the moment covariances.
    """
    smallest = SMALLEST_SHARE * float(statistics.scales.mean())
    return Prior(
        noise_strength=noise_prior * statistics.n_samples,
        noise_scale=max(float(np.mean(np.diagonal(covariances.within))), smallest),
        speaker_strength=speaker_prior * statistics.n_speakers,
        speaker_scale=max(float(np.mean(np.diagonal(covariances.between[0]))), smallest),
        kappa=kappa,
    )


def start_from_moments(
    statistics: Statistics, covariances: Covariances, ranks: tuple[int, ...], noise: NoiseModel, prior: Prior
) -> Parameters:
    """Loadings along the directions of largest variance between levels relative to the noise.

    A direction without variance gets a little, since EM cannot move a column away from zero. A factor with a level
    of its own for every sample takes a share of the covariance within. A prior shrinks the start too.
    """
    d = statistics.n_features
    share = prior.noise_strength / (prior.noise_strength + statistics.n_samples)
    C = (1 - share) * _at_least(covariances.within, statistics.scales) + share * target(prior.noise_scale, d)
    alone = [k for k in range(len(ranks)) if not statistics.labels[k]]
    loadings = {}
    for k in alone:
        loadings[k] = _share_of_noise(C, ranks[k], noise.diagonal)
        C = C - loadings[k] @ loadings[k].T
    for k, (between, rank) in enumerate(zip(covariances.between, ranks, strict=True)):
        if k == 0 and prior.speaker_strength:
            share = prior.speaker_strength / (prior.speaker_strength + statistics.n_speakers)
            positive = _at_least(between, np.zeros(d))
            between = (1 - share) * positive + share * target(prior.speaker_scale, d)
        if k not in alone:
            loadings[k] = _leading(between, C, rank)
    return Parameters(statistics.mean, tuple(loadings[k] for k in range(len(ranks))), noise.nearest(C))


def start_at_random(
    statistics: Statistics, ranks: tuple[int, ...], noise: NoiseModel, rng: np.random.Generator
) -> Parameters:
    """Loadings drawn so that every factor and the noise have equal shares of the total covariance."""
    total = _at_least(statistics.covariance, statistics.scales)
    share, d = 1.0 / (len(ranks) + 1), len(total)
    root = cholesky(total)
    loadings = tuple(root @ rng.normal(scale=np.sqrt(share / r), size=(d, r)) for r in ranks)
    return Parameters(statistics.mean, loadings, noise.nearest(share * total))


def _leading(between: Array, C: Array, rank: int) -> Array:
    """The ``rank`` directions of largest variance between levels relative to the noise C."""
    root = cholesky(C)
    whitened = solve_triangular(root, solve_triangular(root, symmetric(between), lower=True).T, lower=True)
    values, vectors = np.linalg.eigh(symmetric(whitened))
    chosen = slice(len(values) - rank, None)
    loading: Array = root @ (vectors[:, chosen] * np.sqrt(np.maximum(values[chosen], SMALLEST_SHARE)))
    return loading


def _share_of_noise(C: Array, rank: int, diagonal: bool) -> Array:
    """Leading directions of the correlations of C, with all of their excess variance if D is diagonal, else half."""
    scale = np.sqrt(np.diagonal(C))
    values, vectors = np.linalg.eigh(C / np.outer(scale, scale))
    rest = float(np.mean(values[: len(values) - rank])) if diagonal and rank < len(values) else 0.5 * values[-rank:]
    kept = np.clip(values[-rank:] - rest, SMALLEST_SHARE, 0.9 * values[-rank:])
    loading: Array = scale[:, None] * (vectors[:, -rank:] * np.sqrt(kept))
    return loading


def _at_least(covariance: Array, scales: Array) -> Array:
    """Raise the eigenvalues, after scaling by ``scales``, to a small share of them (to zero where all scales are 0)."""
    root = np.sqrt(np.where(scales > 0, scales, 1.0))
    values, vectors = np.linalg.eigh(symmetric(covariance) / np.outer(root, root))
    least = SMALLEST_SHARE if scales.any() else 0.0
    return symmetric((vectors * np.maximum(values, least)) @ vectors.T * np.outer(root, root))
