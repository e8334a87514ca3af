"""Where EM starts: from the moments of the data, or at random."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from scipy.sparse import coo_array, csr_array

from jointplda.learn.mstep import NoiseModel, Prior
from jointplda.learn.parameters import Parameters
from jointplda.learn.part import Part
from jointplda.learn.statistics import Statistics
from jointplda.linalg import Array, cholesky, symmetric

SMALLEST_SHARE = 1e-4
SWEEPS = 5


@dataclass(frozen=True)
class Covariances:
    """Method-of-moments covariances: one between the levels of each factor, and one within."""

    between: tuple[Array, ...]
    within: Array


def moment_covariances(statistics: Statistics) -> Covariances:
    """Covariances within and between levels, corrected for the level counts.

    C is the scatter left by least-squares means of all levels. With it, and T_k = sum over the levels b of
    factor k of f_b f_b' / n_b, the covariances B_j between levels solve a small linear system,

        E[T_k]          = N mu mu' + sum_j c_kj B_j + (levels of k) C,     c_kj = sum_b sum_b' n_bb'^2 / n_b
        E[N mbar mbar'] = N mu mu' + sum_j (sum_b n_b^2 / N) B_j + C.

    Sums of squares stay around the shift, near the mean. Where the design cannot tell two factors apart,
    the shortest solution is taken.
    """
    parts = list(statistics.parts.values())
    n, K = statistics.n_samples, len(statistics.labels)
    total = np.sum([part.total for part in parts], axis=0)
    counts = [_level_counts(parts, k, len(statistics.labels[k])) for k in range(K)]
    alone = [sum(part.count for part in parts if k not in part.levels) for k in range(K)]
    within = _residual_covariance(statistics, counts)
    squares = [_sum_of_squares(parts, k, counts[k], len(total)) for k in range(K)]
    squares.append(np.outer(total, total) / n)
    # Rows: factors, grand mean. Columns: B_k, N mu mu'.
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


def _residual_covariance(statistics: Statistics, counts: list[Array]) -> Array:
    """Covariance of what least-squares means of all levels leave, found by sweeping over the factors."""
    K, d, n = len(counts), statistics.n_features, statistics.n_samples
    parts = list(statistics.parts.values())
    sums = [_level_sums(parts, k, len(counts[k]), d) for k in range(K)]
    tables = {
        (k, j): _linked(parts, k, j, (len(counts[k]), len(counts[j]))) for k in range(K) for j in range(K) if k != j
    }
    effects = [np.zeros_like(f) for f in sums]
    for _ in range(SWEEPS if K > 1 else 1):
        for k in reversed(range(K)):
            explained = sum((tables[k, j] @ effects[j] for j in range(K) if j != k), start=np.zeros_like(sums[k]))
            effects[k] = (sums[k] - explained) / counts[k][:, None]
    scatter = np.sum([part.scatter for part in parts], axis=0)
    for k in range(K):
        cross = effects[k].T @ sums[k]
        scatter -= cross + cross.T - effects[k].T @ (counts[k][:, None] * effects[k])
        for j in range(k):
            cross = effects[k].T @ (tables[k, j] @ effects[j])
            scatter += cross + cross.T
    freedom = n - sum(len(c) for c in counts) + K - 1
    return symmetric(scatter) / (freedom if freedom > 0 else n)


def _level_counts(parts: list[Part], k: int, size: int) -> Array:
    counts = np.zeros(size)
    for part in parts:
        if k in part.levels:
            counts[part.levels[k].index] += part.levels[k].counts
    return counts


def _level_sums(parts: list[Part], k: int, size: int, d: int) -> Array:
    sums = np.zeros((size, d))
    for part in parts:
        if k in part.levels:
            sums[part.levels[k].index] += part.levels[k].sums
    return sums


def _linked(parts: list[Part], k: int, j: int, shape: tuple[int, int]) -> csr_array:
    """n_bb': samples by level of k and level of j, over all parts."""
    table = csr_array(shape)
    for part in parts:
        if k in part.levels and j in part.levels:
            links = part.links[min(k, j), max(k, j)]
            ends = (links.rows, links.columns) if k < j else (links.columns, links.rows)
            table = table + coo_array((links.counts, ends), shape=shape).tocsr()
    return table


def _sum_of_squares(parts: list[Part], k: int, counts: Array, d: int) -> Array:
    """sum_b f_b f_b' / n_b, samples without a label being levels of their own."""
    scaled = _level_sums(parts, k, len(counts), d) / np.sqrt(counts)[:, None]
    alone = [part.scatter for part in parts if k not in part.levels]
    return scaled.T @ scaled + sum(alone, start=np.zeros((d, d)))


def _crossed(parts: list[Part], k: int, j: int, counts: list[Array]) -> float:
    """c_kj = sum over levels b of k, b' of j, of n_bb'^2 / n_b."""
    total = 0.0
    for part in parts:
        if k not in part.levels:
            total += part.count
        elif j not in part.levels:
            total += float(np.sum(part.levels[k].counts / counts[k][part.levels[k].index]))
    both = _linked(parts, k, j, (len(counts[k]), len(counts[j]))).tocoo()
    return total + float(np.sum(both.data**2 / counts[k][both.row]))


def make_prior(statistics: Statistics, covariances: Covariances, noise_prior: float, speaker_prior: float) -> Prior:
    """Prior with strengths relative to the data: 1 is one prior sample per sample, one speaker per speaker.

    The scales are the average variances of the moment covariances.
    """
    smallest = SMALLEST_SHARE * float(statistics.scales.mean())
    return Prior(
        noise_strength=noise_prior * statistics.n_samples,
        noise_scale=max(float(np.mean(np.diagonal(covariances.within))), smallest),
        speaker_strength=speaker_prior * statistics.n_speakers,
        speaker_scale=max(float(np.mean(np.diagonal(covariances.between[0]))), smallest),
    )


def start_from_moments(
    statistics: Statistics, covariances: Covariances, ranks: tuple[int, ...], noise: NoiseModel, prior: Prior
) -> Parameters:
    """The directions that stand out most from the noise within, and what is left as noise.

    A direction without variance gets a little, since EM cannot move a column away from zero. A factor
    whose every level is one sample takes its share of the covariance within. A prior shrinks the start too.
    """
    d = statistics.n_features
    share = prior.noise_strength / (prior.noise_strength + statistics.n_samples)
    C = (1 - share) * _at_least(covariances.within, statistics.scales) + share * prior.noise_scale * np.eye(d)
    alone = [k for k in range(len(ranks)) if not statistics.labels[k]]
    loadings = {}
    for k in alone:
        loadings[k] = _share_of_noise(C, ranks[k], noise.diagonal)
        C = C - loadings[k] @ loadings[k].T
    for k, (between, rank) in enumerate(zip(covariances.between, ranks, strict=True)):
        if k == 0 and prior.speaker_strength:
            share = prior.speaker_strength / (prior.speaker_strength + statistics.n_speakers)
            positive = _at_least(between, np.zeros(d))
            between = (1 - share) * positive + share * prior.speaker_scale * np.eye(d)
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
    """Leading directions of the correlations of C: all that stands out of them if D is diagonal, else half."""
    scale = np.sqrt(np.diagonal(C))
    values, vectors = np.linalg.eigh(C / np.outer(scale, scale))
    rest = float(np.mean(values[: len(values) - rank])) if diagonal and rank < len(values) else 0.5 * values[-rank:]
    kept = np.clip(values[-rank:] - rest, SMALLEST_SHARE, 0.9 * values[-rank:])
    loading: Array = scale[:, None] * (vectors[:, -rank:] * np.sqrt(kept))
    return loading


def _at_least(covariance: Array, scales: Array) -> Array:
    """Raise the eigenvalues, after scaling by typical variances, to a small share of them (or to zero)."""
    root = np.sqrt(np.where(scales > 0, scales, 1.0))
    values, vectors = np.linalg.eigh(symmetric(covariance) / np.outer(root, root))
    least = SMALLEST_SHARE if scales.any() else 0.0
    return symmetric((vectors * np.maximum(values, least)) @ vectors.T * np.outer(root, root))
