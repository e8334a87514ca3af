"""Sufficient statistics drawn directly from a model: millions of samples that never exist."""

import numpy as np
from scipy.stats import wishart

from jointplda.model.parameters import Parameters
from jointplda.model.statistics import Statistics
from jointplda.model.sums import Levels, Links, PatternSums


def draw_parameters(rng, d, speaker_rank, channel_rank):
    """A model with a correlated noise of about unit variance."""
    A = rng.normal(size=(d, d)) / np.sqrt(d)
    V = rng.normal(size=(d, speaker_rank)) / np.sqrt(speaker_rank)
    U = rng.normal(size=(d, channel_rank)) / np.sqrt(channel_rank)
    return Parameters.of(np.zeros(d), (V, U), A @ A.T + 0.5 * np.eye(d))


def draw_statistics(rng, parameters, counts, n_channels, chunk=5000):
    """Statistics of speakers with the given counts, each sample in a random channel.

    Given the latents, the sum of the h samples of a cell (speaker, channel) is normal with covariance h C, and
    the scatter within all cells together is Wishart; nothing else of the samples enters.
    """
    V, U = parameters.loadings
    d, n_speakers = len(V), len(counts)
    root = np.linalg.cholesky(parameters.noise)
    channel_terms = rng.normal(size=(n_channels, U.shape[1])) @ U.T
    f, g = np.zeros((n_speakers, d)), np.zeros((n_channels, d))
    scatter, h = np.zeros((d, d)), np.zeros((n_speakers, n_channels))
    for start in range(0, n_speakers, chunk):
        rows = slice(start, min(start + chunk, n_speakers))
        cells = rng.multinomial(counts[rows], np.full(n_channels, 1.0 / n_channels)).astype(float)
        means = (rng.normal(size=(len(cells), V.shape[1])) @ V.T)[:, None, :] + channel_terms
        noise = rng.normal(size=means.shape) @ root.T
        sums = cells[..., None] * means + np.sqrt(cells)[..., None] * noise
        h[rows], f[rows] = cells, sums.sum(axis=1)
        g += sums.sum(axis=0)
        scaled = (sums / np.sqrt(np.maximum(cells, 1.0))[..., None]).reshape(-1, d)
        scatter += scaled.T @ scaled
    within = h.sum() - np.count_nonzero(h)
    scatter += wishart.rvs(within, parameters.noise, random_state=rng)
    speakers, channels = np.nonzero(h)
    part = PatternSums(
        count=float(h.sum()),
        total=f.sum(axis=0),
        scatter=scatter,
        levels={
            0: Levels(np.arange(n_speakers), h.sum(axis=1), f),
            1: Levels(np.arange(n_channels), h.sum(axis=0), g),
        },
        links={(0, 1): Links(speakers, channels, h[speakers, channels])},
    )
    labels = (tuple(range(n_speakers)), tuple(range(n_channels)))
    return Statistics(labels, ("channel",), np.zeros(d), {(True,): part})
