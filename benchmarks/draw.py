"""Sufficient statistics drawn directly from a model: millions of samples that never exist."""

import numpy as np
from scipy.stats import wishart

from jointplda.linalg import sums_by_level
from jointplda.model.parameters import Parameters
from jointplda.model.statistics import Statistics
from jointplda.model.sums import Levels, PatternSums, summed_links


def draw_parameters(rng, d, speaker_rank, channel_rank):
    """A model with a correlated noise of about unit variance."""
    A = rng.normal(size=(d, d)) / np.sqrt(d)
    V = rng.normal(size=(d, speaker_rank)) / np.sqrt(speaker_rank)
    U = rng.normal(size=(d, channel_rank)) / np.sqrt(channel_rank)
    return Parameters.of(np.zeros(d), (V, U), A @ A.T + 0.5 * np.eye(d))


def draw_statistics(rng, parameters, counts, n_channels, each=None, chunk=5000):
    """Statistics of speakers with the given counts, each sample in a random channel, of ``each`` for a speaker.

    Given the latents, the sum of the h samples of a cell (speaker, channel) is normal with covariance h C, and
    the scatter within all cells together is Wishart; nothing else of the samples enters.
    """
    V, U = parameters.loadings
    d, n_speakers = len(V), len(counts)
    each = n_channels if each is None else each
    root = np.linalg.cholesky(parameters.noise)
    channel_terms = rng.normal(size=(n_channels, U.shape[1])) @ U.T
    f, g = np.zeros((n_speakers, d)), np.zeros((n_channels, d))
    scatter, speakers, channels, sizes = np.zeros((d, d)), [], [], []
    for start in range(0, n_speakers, chunk):
        own = np.arange(start, min(start + chunk, n_speakers))
        heard = np.stack([rng.choice(n_channels, each, replace=False, shuffle=False) for _ in own])
        cells = rng.multinomial(counts[own], np.full(each, 1.0 / each)).astype(float)
        s, at = np.nonzero(cells)
        h, c = cells[s, at], heard[s, at]
        means = (rng.normal(size=(len(own), V.shape[1])) @ V.T)[s] + channel_terms[c]
        sums = h[:, None] * means + np.sqrt(h)[:, None] * (rng.normal(size=means.shape) @ root.T)
        f += sums_by_level(start + s, sums, n_speakers)
        g += sums_by_level(c, sums, n_channels)
        scatter += (sums / h[:, None]).T @ sums
        speakers, channels, sizes = [*speakers, start + s], [*channels, c], [*sizes, h]
    s, c, h = (np.concatenate(pieces) for pieces in (speakers, channels, sizes))
    scatter += wishart.rvs(h.sum() - len(h), parameters.noise, random_state=rng)
    used, c = np.unique(c, return_inverse=True)
    part = PatternSums(
        count=float(h.sum()),
        total=f.sum(axis=0),
        scatter=scatter,
        levels={
            0: Levels(np.arange(n_speakers), np.bincount(s, h), f),
            1: Levels(np.arange(len(used)), np.bincount(c, h), g[used]),
        },
        links={(0, 1): summed_links(s, c, h)},
    )
    labels = (tuple(range(n_speakers)), tuple(used.tolist()))
    return Statistics(labels, ("channel",), np.zeros(d), {(True,): part})
