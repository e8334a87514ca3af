"""EM as a whole: the paper's step, a likelihood that never falls, starts, recovery, and MAP."""

import numpy as np
import pytest
from scipy.linalg import subspace_angles
from scipy.optimize import approx_fprime

from jointplda import PLDA, JointPLDA, Statistics
from jointplda.model.em import run_em
from jointplda.model.estep import e_step
from jointplda.model.layout import lay_out
from jointplda.model.moment_covariances import moment_covariances
from jointplda.model.mstep import NoiseModel, Prior, m_step
from jointplda.model.settings import ModelSettings
from jointplda.model.start import make_prior, start_from_moments
from oracles import paper
from oracles.dense import DenseModel
from worlds.designs import DESIGNS, draw, draw_parameters, relative, start_at_random, statistics_of, world

FREE = NoiseModel(False, np.full(4, 1e-12))


def one_step(X, columns, parameters, prior, noise):
    crossing = lay_out(statistics_of(X, columns), parameters.ranks)
    moments, _ = e_step(crossing, parameters)
    return m_step(moments, parameters, crossing.scatter(), crossing.shift, prior, noise)[0]


@pytest.mark.parametrize("name", ["joint, Rx < Ry", "joint, Rx = Ry", "joint, Rx > Ry"])
def test_one_step_equals_the_paper(name):
    X, columns, parameters = draw(name, seed=7)
    s, c = (np.unique(column, return_inverse=True)[1] for column in columns)
    V, U = parameters.loadings
    D = np.linalg.inv(parameters.noise)
    crossing = lay_out(statistics_of(X, columns), parameters.ranks)
    moments, log_likelihood = e_step(crossing, parameters)
    data = paper.Data(X - parameters.mean, s, c, U.shape[1])
    assert log_likelihood == pytest.approx(paper.log_likelihood(data, V, U, D), rel=1e-11)
    U1, V1, step, noise1, (x_mean, x_second), (y_mean, y_second) = paper.em_step(data, V, U, D)
    stepped = m_step(moments, parameters, crossing.scatter(), crossing.shift, Prior(), FREE)[0]
    assert relative(stepped.noise, noise1) < 1e-9
    # Minimum divergence: latents get back zero mean and unit covariance, and what that moves goes to the mean.
    for W, W1, mean, second in [
        (stepped.loadings[0], V1, y_mean, y_second),
        (stepped.loadings[1], U1, x_mean, x_second),
    ]:
        assert relative(W @ W.T, W1 @ (second - np.outer(mean, mean)) @ W1.T) < 1e-9
    assert stepped.mean == pytest.approx(parameters.mean + step + V1 @ y_mean + U1 @ x_mean, rel=1e-9)


def test_a_diagonal_step_takes_the_diagonal():
    X, columns, parameters = draw("joint, Rx < Ry", seed=8)
    full = one_step(X, columns, parameters, Prior(), FREE)
    diagonal = one_step(X, columns, parameters, Prior(), NoiseModel(True, np.full(4, 1e-12)))
    assert np.array_equal(diagonal.noise, np.diag(np.diagonal(full.noise)))


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("strength", [0.0, 0.7])
def test_likelihood_never_falls(seed, strength):
    rng = np.random.default_rng([seed, 99])
    names = list(DESIGNS)
    _, d, ranks, _, _ = DESIGNS[names[seed % len(names)]]
    X, columns, _ = draw(names[seed % len(names)], seed=seed)
    X = X + rng.normal(size=(6, d))[np.unique(columns[0], return_inverse=True)[1] % 6]
    statistics = statistics_of(X, columns)
    ranks = (d, *ranks[1:]) if strength else ranks
    noise = NoiseModel(bool(seed % 2), 1e-6 * X.var(axis=0))
    prior = make_prior(
        statistics, moment_covariances(statistics), ModelSettings(noise_prior=strength, speaker_prior=strength)
    )
    start = start_at_random(statistics, ranks, noise, rng)
    fit = run_em(lay_out(statistics, ranks), start, prior=prior, noise=noise, max_iter=100, tol=-np.inf)
    trace = np.array([fit.start, *fit.log_likelihoods])
    assert len(trace) == 101
    assert np.all(np.diff(trace) >= -1e-9 * np.abs(trace[1:]))
    assert trace[-1] > trace[0]


def test_likelihood_never_falls_at_the_noise_floor():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 4))
    X[:, 3] = X[:, 2]
    columns = [np.arange(40) % 8]
    statistics = statistics_of(X, columns)
    noise = NoiseModel(False, 1e-6 * X.var(axis=0))
    start = start_at_random(statistics, (3,), noise, rng)
    fit = run_em(lay_out(statistics, (3,)), start, prior=Prior(), noise=noise, max_iter=100, tol=-np.inf)
    trace = np.array([fit.start, *fit.log_likelihoods])
    assert np.all(np.diff(trace) >= -1e-9 * np.abs(trace[1:]))
    assert noise.at_floor(fit.parameters.noise) == 1


@pytest.mark.filterwarnings("ignore:EM did not converge")
@pytest.mark.parametrize("channels_per_speaker, short_by", [(1, 0.0), (2, 1e-7), (3, 1e-9)])
def test_moments_reach_in_15_iterations_what_a_random_start_reaches_in_200(channels_per_speaker, short_by):
    """With speakers in one channel each the random start is still far away; otherwise both are at the top."""
    rng = np.random.default_rng(5)
    X, s, c, _ = world(rng, 30, (15, 5), 400, 12, 4000, channels_per_speaker)
    moments = JointPLDA(speaker_rank=15, channel_rank=5, tol=0.0, max_iter=15).fit(X, s, channels=c)
    statistics, noise = Statistics.from_samples(X, s, c), NoiseModel(False, np.full(30, 1e-6))
    start = start_at_random(statistics, (15, 5), noise, np.random.default_rng(0))
    random = run_em(lay_out(statistics, (15, 5)), start, prior=Prior(), noise=noise, max_iter=200, tol=0.0)
    assert moments.log_likelihoods_[-1] >= random.log_likelihoods[-1] - short_by


def test_parameters_come_back_better_with_more_speakers_and_channels():
    errors = np.zeros((3, 5))
    for seed in range(4):
        for at, size in enumerate((1, 4, 16)):
            X, s, c, truth = world(np.random.default_rng(seed), 8, (3, 2), 60 * size, 10 * size, 900 * size, 2)
            model = JointPLDA(speaker_rank=3, channel_rank=2, tol=1e-7, max_iter=300).fit(X, s, channels=c)
            V, U = truth.loadings
            errors[at] += [
                np.max(subspace_angles(model.V_, V)) / 4,
                np.max(subspace_angles(model.U_, U)) / 4,
                relative(model.V_ @ model.V_.T, V @ V.T) / 4,
                relative(model.U_ @ model.U_.T, U @ U.T) / 4,
                relative(np.linalg.inv(model.D_), truth.noise) / 4,
            ]
    # Sixteen times the data: errors should fall to about a quarter.
    assert np.all(errors[2] < 0.4 * errors[0])
    assert np.all(errors[1] < errors[0])
    assert np.all(errors[2] < [0.05, 0.05, 0.1, 0.15, 0.05])


def test_plda_takes_the_channel_for_the_speaker_and_joint_plda_does_not():
    """Every training speaker in one channel: the failure this model exists for."""
    rng = np.random.default_rng(2)
    X, s, c, truth = world(rng, 10, (3, 2), 300, 10, 3000, 1)
    plain = PLDA(speaker_rank=5).fit(X, s)
    joint = JointPLDA(speaker_rank=3, channel_rank=2).fit(X, s, channels=c)
    V, U = truth.loadings
    inside = np.linalg.svd(np.linalg.qr(plain.V_)[0].T @ np.linalg.qr(U)[0])[1]
    assert inside.min() > 0.99  # U lies inside PLDA's speaker space
    assert np.max(subspace_angles(joint.V_, V)) < 0.1
    assert relative(joint.V_ @ joint.V_.T, V @ V.T) < 0.15
    assert relative(plain.V_ @ plain.V_.T, V @ V.T) > 0.3


def test_the_mean_is_the_maximum_likelihood_one():
    """Crossed, unbalanced data: generalised least squares, not the average of the samples."""
    X, columns, _ = draw("joint, Rx < Ry", seed=9)
    X = X + 4.0 * (np.unique(columns[0], return_inverse=True)[1] == 0)[:, None]
    statistics = statistics_of(X, columns)
    noise = NoiseModel(False, 1e-2 * X.var(axis=0))
    start = start_at_random(statistics, (1, 1), noise, np.random.default_rng(0))
    fit = run_em(lay_out(statistics, (1, 1)), start, prior=Prior(), noise=noise, max_iter=20000, tol=1e-15)
    p = fit.parameters
    covariance = DenseModel(p.mean, p.loadings, p.noise, columns).covariance
    ones = np.kron(np.ones((len(X), 1)), np.eye(4))
    weighted = np.linalg.solve(covariance, ones)
    assert p.mean == pytest.approx(np.linalg.solve(ones.T @ weighted, weighted.T @ X.reshape(-1)), abs=1e-6)
    assert np.abs(p.mean - X.mean(axis=0)).max() > 0.01


def objective(theta, X, columns, prior, d, r):
    """Penalised likelihood of m = mean + V y + U x + e from a flat vector, by the dense oracle."""
    mean, theta = theta[:d], theta[d:]
    V, theta = theta[: d * d].reshape(d, d), theta[d * d :]
    U, theta = theta[: d * r].reshape(d, r), theta[d * r :]
    A = np.zeros((d, d))
    A[np.tril_indices(d)] = theta
    C = A @ A.T
    value = DenseModel(mean, (V, U), C, columns).log_likelihood(X)
    for nu, psi, B in [
        (prior.noise_strength, prior.noise_scale, C),
        (prior.speaker_strength, prior.speaker_scale, V @ V.T),
    ]:
        value -= 0.5 * nu * (np.linalg.slogdet(B)[1] + psi * np.trace(np.linalg.inv(B)))
    return value


def test_map_ends_where_the_penalised_likelihood_is_flat():
    rng = np.random.default_rng(3)
    d, r = 3, 2
    X, s, c, _ = world(rng, d, (2, r), 8, 4, 50)
    columns = [list(s), list(c)]
    statistics = statistics_of(X, columns)
    prior = make_prior(statistics, moment_covariances(statistics), ModelSettings(noise_prior=0.5, speaker_prior=1.5))
    noise = NoiseModel(False, np.full(d, 1e-9))
    start = start_from_moments(statistics, moment_covariances(statistics), (d, r), noise, prior)
    fit = run_em(lay_out(statistics, (d, r)), start, prior=prior, noise=noise, max_iter=20000, tol=1e-15)
    p = fit.parameters
    lower = np.linalg.cholesky(p.noise)[np.tril_indices(d)]
    theta = np.concatenate([p.mean, p.loadings[0].ravel(), p.loadings[1].ravel(), lower])
    value = objective(theta, X, columns, prior, d, r)
    assert fit.log_likelihoods[-1] * len(X) == pytest.approx(value, rel=1e-10)
    at_start = np.abs(approx_fprime(1.3 * theta, objective, 1e-6, X, columns, prior, d, r)).max()
    assert np.abs(approx_fprime(theta, objective, 1e-6, X, columns, prior, d, r)).max() < 1e-4 * at_start


def test_noise_prior_alone_keeps_a_low_rank_and_shrinks():
    rng = np.random.default_rng(4)
    X, s, c, _ = world(rng, 6, (2, 1), 10, 4, 60)
    spread = []
    for strength in (0.0, 1.0, 100.0):
        model = JointPLDA(speaker_rank=2, channel_rank=1, noise_prior=strength, max_iter=500).fit(X, s, channels=c)
        assert model.V_.shape == (6, 2)
        spread.append(np.ptp(np.log(np.linalg.eigvalsh(model.D_))))
    assert spread[0] > spread[1] > spread[2]
    assert spread[2] < 0.1


def test_strengths_are_relative_to_the_data():
    """Every sample twice over, under new labels, has the same objective at the same parameters."""
    rng = np.random.default_rng(5)
    X, s, c, _ = world(rng, 4, (2, 1), 12, 3, 80)
    one = Statistics.from_samples(X, s, c)
    two = one + Statistics.from_samples(X, s + 1000, c + 1000)
    parameters = draw_parameters(rng, 4, (4, 1))
    values = []
    for statistics in (one, two):
        covariances = moment_covariances(one)
        prior = make_prior(statistics, covariances, ModelSettings(noise_prior=0.3, speaker_prior=0.6))
        assert prior.noise_scale == pytest.approx(np.trace(covariances.within) / 4)
        _, log_likelihood = e_step(lay_out(statistics, (4, 1)), parameters)
        values.append((log_likelihood + prior.penalty(parameters)) / statistics.n_samples)
    assert values[1] == pytest.approx(values[0], rel=1e-10)


def test_moment_covariances_are_unbiased():
    rng = np.random.default_rng(6)
    truth = draw_parameters(rng, 3, (2, 2))
    s, c = np.repeat(np.arange(40), 6), rng.integers(0, 15, 240)
    sums = [np.zeros((3, 3)) for _ in range(3)]
    repeats = 300
    for _ in range(repeats):
        X = truth.mean + rng.multivariate_normal(np.zeros(3), truth.noise, len(s))
        for W, labels in zip(truth.loadings, (s, c)):
            X += rng.normal(size=(labels.max() + 1, 2))[labels] @ W.T
        found = moment_covariances(Statistics.from_samples(X, s, c))
        for total, one in zip(sums, (*found.between, found.within)):
            total += one / repeats
    for total, W in zip(sums, truth.loadings):
        assert relative(total, W @ W.T) < 0.06
    assert relative(sums[2], truth.noise) < 0.02
