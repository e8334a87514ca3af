"""The starting point of EM, from the moments of the data, and the scales of priors."""

import numpy as np
from scipy.linalg import solve_triangular

from jointplda._typing import Array
from jointplda.linalg import cholesky, raised, symmetric
from jointplda.model.moment_covariances import Covariances
from jointplda.model.mstep import NoiseModel, Prior, target
from jointplda.model.parameters import Parameters
from jointplda.model.settings import ModelSettings
from jointplda.model.statistics import Statistics

SMALLEST_SHARE = 1e-4


def make_prior(statistics: Statistics, covariances: Covariances, settings: ModelSettings) -> Prior:
    """Prior of the settings, whose strengths are relative to the data: 1 is one prior sample per sample, and one prior
    speaker per speaker.

    Its targets are identities times the average variance of the moment covariances.
    """
    smallest = SMALLEST_SHARE * float(statistics.scales.mean())
    return Prior(
        noise_strength=settings.noise_prior * statistics.n_samples,
        noise_scale=max(float(np.mean(np.diagonal(covariances.within))), smallest),
        speaker_strength=settings.speaker_prior * statistics.n_speakers,
        speaker_scale=max(float(np.mean(np.diagonal(covariances.between[0]))), smallest),
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
    C = (1 - share) * raised(symmetric(covariances.within), statistics.scales, SMALLEST_SHARE) + share * target(
        prior.noise_scale, d
    )
    alone = [k for k in range(len(ranks)) if not statistics.labels[k]]
    loadings = {}
    for k in alone:
        loadings[k] = _share_of_noise(C, ranks[k], noise.diagonal)
        C = C - loadings[k] @ loadings[k].T
    for k, (between, rank) in enumerate(zip(covariances.between, ranks, strict=True)):
        if k == 0 and prior.speaker_strength:
            share = prior.speaker_strength / (prior.speaker_strength + statistics.n_speakers)
            positive = raised(symmetric(between), np.ones(d), 0.0)
            between = (1 - share) * positive + share * target(prior.speaker_scale, d)
        if k not in alone:
            loadings[k] = _leading(between, C, rank)
    return Parameters.of(statistics.mean, [loadings[k] for k in range(len(ranks))], noise.nearest(C))


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
