"""Where EM starts: moment covariances are right on average for any design, and starts have the right covariance."""

import numpy as np
import pytest

from jointplda import Statistics
from jointplda.model.moment_covariances import Covariances, moment_covariances
from jointplda.model.mstep import NoiseModel, Prior
from jointplda.model.settings import ModelSettings
from jointplda.model.start import make_prior, start_from_moments
from worlds.designs import relative, world

DESIGNS = {
    "crossed": [(s, c) for s in range(40) for c in (s % 7, (3 * s + 1) % 7, (s + 2) % 7)],
    "nested, equal": [(s, f"{s}-{c}") for s in range(40) for c in (0, 0, 1, 1)],
    "nested, unequal": [(s, f"{s}-{c}") for s in range(40) for c in (0, 0, 1)],
    "one channel each": [(s, s % 8) for s in range(40) for _ in range(3)],
    "half missing": [(s, None if i % 2 else (s + i) % 6) for s in range(40) for i in range(6)],
    "a chain": [(s, c) for s in range(12) for c in (s, s, s + 1, s + 1)],
}


@pytest.mark.parametrize("name", DESIGNS)
def test_moment_covariances_are_unbiased(name):
    """Variances 1, 2 and 0.5 of speaker, channel and noise, averaged over many draws."""
    rng = np.random.default_rng(1)
    speakers = [s for s, _ in DESIGNS[name]]
    channels = [c for _, c in DESIGNS[name]]
    own = [("alone", i) if c is None else c for i, c in enumerate(channels)]
    levels = {c: i for i, c in enumerate(dict.fromkeys(own))}
    where = np.array([levels[c] for c in own])
    d = 400  # independent dimensions are independent draws
    X = rng.normal(size=(max(speakers) + 1, d))[speakers]
    X += np.sqrt(2.0) * rng.normal(size=(len(levels), d))[where] + np.sqrt(0.5) * rng.normal(size=X.shape)
    found = moment_covariances(Statistics.from_samples(X + 3.0, speakers, channels))
    averages = [np.mean(np.diagonal(C)) for C in (*found.between, found.within)]
    assert averages[2] == pytest.approx(0.5, rel=0.05)
    assert averages[:2] == pytest.approx([1.0, 2.0], rel=0.15)


def test_sessions_of_one_sample_share_what_cannot_be_told_apart():
    rng = np.random.default_rng(2)
    s, d = np.repeat(np.arange(60), 3), 400
    X = rng.normal(size=(60, d))[s] + np.sqrt(2.0) * rng.normal(size=(180, d))
    found = moment_covariances(Statistics.from_samples(X, s, np.arange(180)))
    averages = [np.mean(np.diagonal(C)) for C in (*found.between, found.within)]
    assert averages == pytest.approx([1.0, 1.0, 1.0], rel=0.15)


def test_prior_strengths_and_scales():
    X, s, c, _ = world(np.random.default_rng(3), 4, (2, 1), 12, 3, 80)
    statistics = Statistics.from_samples(X, s, c)
    found = moment_covariances(statistics)
    prior = make_prior(statistics, found, ModelSettings(noise_prior=0.3, speaker_prior=0.6))
    assert prior.noise_strength == pytest.approx(0.3 * 80)
    assert prior.speaker_strength == pytest.approx(0.6 * 12)
    assert prior.noise_scale == pytest.approx(np.trace(found.within) / 4)
    assert prior.speaker_scale == pytest.approx(np.trace(found.between[0]) / 4)


def test_a_start_of_full_rank_has_the_moment_covariances():
    rng = np.random.default_rng(4)
    X, s, c, _ = world(rng, 3, (3, 3), 30, 9, 300)
    statistics = Statistics.from_samples(X, s, c)
    A, B, C = (M @ M.T + np.eye(3) for M in rng.normal(size=(3, 3, 3)))
    noise = NoiseModel(False, np.full(3, 1e-9))
    start = start_from_moments(statistics, Covariances((A, B), C), (3, 3), noise, Prior())
    assert relative(start.loadings[0] @ start.loadings[0].T, A) < 1e-9
    assert relative(start.loadings[1] @ start.loadings[1].T, B) < 1e-9
    assert relative(start.noise, C) < 1e-9
    assert start.mean == pytest.approx(X.mean(axis=0))
    shrunk = start_from_moments(statistics, Covariances((A, B), C), (3, 3), noise, Prior(300.0, 5.0, 10.0, 7.0))
    assert relative(shrunk.noise, 0.5 * C + 2.5 * np.eye(3)) < 1e-9
    assert relative(shrunk.loadings[0] @ shrunk.loadings[0].T, 0.75 * A + 0.25 * 7.0 * np.eye(3)) < 1e-9


def test_a_channel_per_sample_takes_a_share_of_the_noise():
    X, s, _, _ = world(np.random.default_rng(5), 5, (2, 1), 30, 9, 300)
    statistics = Statistics.from_samples(X, s).with_channel_per_sample()
    found = moment_covariances(statistics)
    for diagonal in (False, True):
        start = start_from_moments(statistics, found, (2, 2), NoiseModel(diagonal, np.full(5, 1e-9)), Prior())
        total = start.loadings[1] @ start.loadings[1].T + start.noise
        assert np.diagonal(total) == pytest.approx(np.diagonal(found.within), rel=1e-6)
        assert np.linalg.matrix_rank(start.loadings[1]) == 2
