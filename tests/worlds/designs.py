"""Random designs and parameters for tests."""

import numpy as np

from jointplda.model.parameters import Parameters
from jointplda.model.statistics import Statistics

# name: samples, dimension, ranks, levels per factor, share of missing labels
DESIGNS = {
    "splda": (24, 4, (3,), (5,), 0.0),
    "joint, Rx < Ry": (30, 4, (3, 2), (6, 3), 0.0),
    "joint, Rx = Ry": (30, 4, (2, 2), (6, 3), 0.0),
    "joint, Rx > Ry": (30, 4, (2, 3), (6, 3), 0.0),
    "joint, full ranks": (30, 3, (3, 3), (6, 3), 0.0),
    "plda, a channel per sample": (28, 4, (3, 2), (6, 3), 1.0),
    "joint, some channels missing": (30, 4, (3, 2), (6, 3), 0.3),
    "many components": (30, 4, (2, 3), (12, 25), 0.0),
    "many components, some missing": (30, 4, (2, 3), (12, 25), 0.2),
    "two conditions": (30, 4, (3, 2, 1), (5, 3, 4), 0.0),
    "two conditions, some missing": (30, 4, (3, 2, 2), (6, 3, 4), 0.3),
    "three conditions": (30, 4, (3, 2, 1, 2), (6, 3, 4, 2), 0.0),
    "three conditions, some missing": (30, 4, (2, 2, 1, 1), (6, 3, 4, 3), 0.25),
}


def draw(name, seed=0, diagonal=False):
    """Samples, columns of labels, and parameters that have nothing to do with them."""
    n, d, ranks, levels, missing = DESIGNS[name]
    rng = np.random.default_rng([seed, *name.encode()])
    columns = []
    for k, size in enumerate(levels):
        column = [f"{k}-{v}" for v in rng.integers(0, size, n)]
        columns.append([None if k and rng.random() < missing else label for label in column])
    X = 3.0 + 2.0 * rng.normal(size=(n, d))
    return X, columns, draw_parameters(rng, d, ranks, diagonal, offset=3.0)


def draw_parameters(rng, d, ranks, diagonal=False, offset=0.0):
    A = rng.normal(size=(d, d))
    noise = np.diag(rng.uniform(0.3, 2.0, d)) if diagonal else A @ A.T / d + 0.3 * np.eye(d)
    loadings = tuple(rng.normal(size=(d, r)) for r in ranks)
    return Parameters.of(offset + rng.normal(size=d), loadings, noise)


def start_at_random(statistics, ranks, noise, rng):
    """A start of EM with loadings drawn so that every factor and the noise have equal shares of the covariance."""
    values, vectors = np.linalg.eigh(statistics.covariance)
    root, share = vectors * np.sqrt(np.maximum(values, 1e-4 * values[-1])), 1.0 / (len(ranks) + 1)
    loadings = [root @ rng.normal(scale=np.sqrt(share / r), size=(len(root), r)) for r in ranks]
    return Parameters.of(statistics.mean, loadings, noise.nearest(share * statistics.covariance))


def channels_of(columns):
    """The channel columns as users give them."""
    if len(columns) == 1:
        return None
    return np.array(columns[1:], dtype=object).T


def statistics_of(X, columns):
    return Statistics.from_samples(X, columns[0], channels_of(columns))


def relative(a, b):
    """Largest difference over largest entry."""
    return np.abs(np.asarray(a) - b).max() / np.abs(b).max()


def world(rng, d, ranks, n_speakers, n_channels, n_samples, channels_per_speaker=None):
    """Labels and samples drawn from a model: speakers in a few channels each."""
    truth = draw_parameters(rng, d, ranks)
    speakers = rng.integers(0, n_speakers, n_samples)
    channels = rng.integers(0, n_channels, n_samples)
    if channels_per_speaker:
        home = np.stack([rng.permutation(n_channels)[:channels_per_speaker] for _ in range(n_speakers)])
        channels = home[speakers, rng.integers(0, channels_per_speaker, n_samples)]
    X = truth.mean + rng.multivariate_normal(np.zeros(d), truth.noise, n_samples)
    for W, labels in zip(truth.loadings, (speakers, channels)):
        X += rng.normal(size=(labels.max() + 1, W.shape[1]))[labels] @ W.T
    return X, speakers, channels, truth
