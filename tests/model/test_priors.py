"""Priors with targets of any shape, shares of the channel, starts from the speaker, and conditions left out."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from jointplda import PLDA, DataWarning, JointPLDA
from jointplda.errors import InputError
from jointplda.model import em
from jointplda.model.channel_shrinkage import with_channel_shares
from jointplda.model.em import run_em
from jointplda.model.estep import e_step
from jointplda.model.fit import FitMemory, fit, restart
from jointplda.model.layout import lay_out
from jointplda.model.moment_covariances import moment_covariances
from jointplda.model.mstep import NoiseModel, Prior, m_step
from jointplda.model.resolve import resolve
from jointplda.model.settings import ModelSettings
from jointplda.model.start import start_from_moments
from oracles.dense import DenseModel
from worlds.designs import channels_of, draw, draw_parameters, relative, start_at_random, statistics_of, world

D, R = 3, 2


def spread(rng, d=D):
    """A covariance far from a multiple of the identity."""
    A = rng.normal(size=(d, d))
    return A @ A.T + np.diag(np.linspace(0.1, 3.0, d))


def small_world(seed=3):
    X, s, c, _ = world(np.random.default_rng(seed), D, (2, R), 8, 4, 50)
    columns = [list(s), list(c)]
    return X, columns, statistics_of(X, columns)


def objective(theta, X, columns, prior):
    """Penalised log-likelihood of m = mean + V y + U x + e from a flat vector, by the dense oracle."""
    mean, V, U, lower = np.split(theta, np.cumsum([D, D * D, D * R]))
    A = np.zeros((D, D))
    A[np.tril_indices(D)] = lower
    V, U, C = V.reshape(D, D), U.reshape(D, R), A @ A.T
    value = DenseModel(mean, (V, U), C, columns).log_likelihood(X)
    for nu, Psi, B in [
        (prior.noise_strength, prior.noise_scale, C),
        (prior.speaker_strength, prior.speaker_scale, V @ V.T),
    ]:
        value -= 0.5 * nu * (np.log(np.linalg.det(B)) + np.trace(np.linalg.inv(B) @ Psi))
    return value


@pytest.mark.parametrize(("nu_noise", "nu_speaker"), [(20.0, 6.0), (0.0, 6.0), (50.0, 0.5)])
def test_matrix_targets_end_where_the_penalised_likelihood_is_flat(nu_noise, nu_speaker):
    rng = np.random.default_rng(1)
    X, columns, statistics = small_world()
    prior = Prior(nu_noise, spread(rng), nu_speaker, spread(rng))
    noise = NoiseModel(False, np.full(D, 1e-9))
    start = start_from_moments(statistics, moment_covariances(statistics), (D, R), noise, prior)
    found = run_em(lay_out(statistics, (D, R)), start, prior=prior, noise=noise, max_iter=20000, tol=1e-15)
    trace = np.array([found.start, *found.log_likelihoods])
    assert np.all(np.diff(trace) >= -1e-12 * np.abs(trace[1:]))
    p = found.parameters
    lower = np.linalg.cholesky(p.noise)[np.tril_indices(D)]
    theta = np.concatenate([p.mean, p.loadings[0].ravel(), p.loadings[1].ravel(), lower])
    assert found.log_likelihoods[-1] * len(X) == pytest.approx(objective(theta, X, columns, prior), rel=1e-10)
    away = np.abs(approx_fprime(1.3 * theta, objective, 1e-6, X, columns, prior)).max()
    assert np.abs(approx_fprime(theta, objective, 1e-6, X, columns, prior)).max() < 1e-4 * away


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("diagonal", [False, True])
def test_likelihood_never_falls_with_matrix_targets(seed, diagonal):
    rng = np.random.default_rng([seed, 5])
    _, _, statistics = small_world(seed)
    prior = Prior(30.0, np.diag(rng.uniform(0.1, 5.0, D)) if diagonal else spread(rng), 4.0, spread(rng))
    noise = NoiseModel(diagonal, np.full(D, 1e-6))
    start = start_at_random(statistics, (D, R), noise, rng)
    found = run_em(lay_out(statistics, (D, R)), start, prior=prior, noise=noise, max_iter=80, tol=-np.inf)
    trace = np.array([found.start, *found.log_likelihoods])
    assert np.all(np.diff(trace) >= -1e-10 * np.abs(trace[1:]))
    assert trace[-1] > trace[0]


@pytest.mark.parametrize("speaker_strength", [0.0, 5.0])
def test_the_identity_as_a_matrix_is_the_number(speaker_strength):
    _, _, statistics = small_world()
    parameters = draw_parameters(np.random.default_rng(2), D, (D, R))
    number = Prior(12.0, 0.7, speaker_strength, 2.5)
    matrix = Prior(12.0, 0.7 * np.eye(D), speaker_strength, 2.5 * np.eye(D))
    assert matrix.penalty(parameters) == pytest.approx(number.penalty(parameters), rel=1e-13)
    noise, crossing = NoiseModel(False, np.full(D, 1e-9)), lay_out(statistics, (D, R))
    moments, _ = e_step(crossing, parameters)
    steps = [
        m_step(moments, parameters, crossing.scatter(), crossing.shift, prior, noise)[0] for prior in (number, matrix)
    ]
    covariances = moment_covariances(statistics)
    starts = [start_from_moments(statistics, covariances, (D, R), noise, prior) for prior in (number, matrix)]
    for one, other in (steps, starts):
        for a, b in zip((one.mean, one.noise, *one.loadings), (other.mean, other.noise, *other.loadings)):
            assert relative(a, b) < 1e-12


def test_a_prior_of_the_speaker_without_channels():
    """SPLDA: the speaker is the only factor."""
    X, columns, _ = small_world()
    statistics = statistics_of(X, columns[:1])
    prior, noise = Prior(0.0, 1.0, 1e9, 2.5), NoiseModel(False, np.full(D, 1e-9))
    start = start_at_random(statistics, (D,), noise, np.random.default_rng(0))
    found = run_em(lay_out(statistics, (D,)), start, prior=prior, noise=noise, max_iter=50, tol=0.0).parameters
    assert relative(found.loadings[0] @ found.loadings[0].T, 2.5 * np.eye(D)) < 1e-6
    V = found.loadings[0]
    expected = -0.5e9 * (np.linalg.slogdet(V @ V.T)[1] + 2.5 * np.trace(np.linalg.inv(V @ V.T)))
    assert prior.penalty(found) == pytest.approx(expected, rel=1e-10)


def test_strong_priors_end_at_their_targets():
    rng = np.random.default_rng(4)
    _, _, statistics = small_world()
    prior = Prior(1e9, spread(rng), 1e9, spread(rng))
    noise = NoiseModel(False, np.full(D, 1e-9))
    start = start_at_random(statistics, (D, R), noise, rng)
    p = run_em(lay_out(statistics, (D, R)), start, prior=prior, noise=noise, max_iter=50, tol=0.0).parameters
    assert relative(p.noise, prior.noise_scale) < 1e-6
    assert relative(p.loadings[0] @ p.loadings[0].T, prior.speaker_scale) < 1e-6


@pytest.mark.parametrize("shares", [(0.3, 0.8), (1.0, 0.0), (1.0, 1.0), (0.0, 0.5)])
def test_shares_move_covariance_from_the_channel_to_the_speaker(shares):
    X, columns, p = draw("two conditions", seed=1)
    moved = with_channel_shares(p, shares)
    assert relative(moved.total_covariance, p.total_covariance) < 1e-14
    V, *channels = p.loadings
    same = [np.equal.outer(np.array(column), np.array(column)) for column in columns]
    given = sum((1 - rho) * U @ U.T for rho, U in zip(shares, channels))
    expected = np.kron(same[0], V @ V.T + given) + np.kron(np.eye(len(X)), p.noise)
    for rho, U, shared in zip(shares, channels, same[1:]):
        expected += np.kron(shared, rho * U @ U.T)
    found = DenseModel(moved.mean, moved.loadings, moved.noise, columns).covariance
    assert relative(found, expected) < 1e-13
    assert np.array_equal(moved.mean, p.mean)
    assert np.array_equal(moved.noise, p.noise)


@pytest.fixture(scope="module")
def data():
    X, s, c, _ = world(np.random.default_rng(8), 6, (3, 2), 25, 5, 200)
    return X, s, c


def test_a_share_divides_what_em_finds(data):
    X, s, c = data
    whole = JointPLDA(speaker_rank=3, channel_rank=2, tol=1e-3).fit(X, s, channels=c)
    part = JointPLDA(speaker_rank=3, channel_rank=2, tol=1e-3, channel_share=0.4).fit(X, s, channels=c)
    UU = whole.U_ @ whole.U_.T
    assert relative(part.U_ @ part.U_.T, 0.4 * UU) < 1e-10
    assert relative(part.V_ @ part.V_.T, whole.V_ @ whole.V_.T + 0.6 * UU) < 1e-10
    assert np.array_equal(part.D_, whole.D_)
    assert part.V_.shape == (6, 5)
    assert np.array_equal(part.log_likelihoods_, whole.log_likelihoods_)
    gram = part.V_.T @ part.V_
    assert gram == pytest.approx(np.diag(np.diagonal(gram)), abs=1e-9)


@pytest.mark.parametrize("settings", [{"channel_share": 0.0}, {"channel_rank": 0}, {"channel_share": [0.0]}])
@pytest.mark.parametrize("priors", [{}, {"noise_prior": 0.5, "speaker_prior": 1.0}])
def test_a_channel_without_share_or_rank_is_left_out_as_in_plda(data, settings, priors):
    X, s, c = data
    joint = JointPLDA(tol=1e-4, **settings, **priors).fit(X, s, channels=c)
    plain = PLDA(tol=1e-4, **priors).fit(X, s)
    assert joint.channel_ranks_ == (0,)
    assert joint.U_.shape == (6, 0)
    for name in ("mean_", "V_", "D_", "log_likelihoods_"):
        assert np.array_equal(getattr(joint, name), getattr(plain, name))
    assert np.array_equal(joint.score_matrix(X, X), plain.score_matrix(X, X))
    assert joint.log_likelihood(X, s, channels=c) == plain.log_likelihood(X, s)
    assert np.array_equal(joint.predict(X, channels=c), plain.predict(X))


def test_one_of_two_conditions_left_out():
    X, columns, _ = draw("two conditions", seed=2)
    channels = channels_of(columns)
    alone = JointPLDA(speaker_rank=2, channel_rank=1, tol=1e-4).fit(X, columns[0], channels=channels[:, 1])
    for settings in ({"channel_rank": [0, 1]}, {"channel_rank": [2, 1], "channel_share": [0.0, 1.0]}):
        model = JointPLDA(speaker_rank=2, tol=1e-4, **settings).fit(X, columns[0], channels=channels)
        assert model.channel_ranks_ == (0, 1)
        for name in ("mean_", "V_", "U_", "D_"):
            assert relative(getattr(model, name), getattr(alone, name)) < 1e-12
        found = model.log_likelihood(X, columns[0], channels=channels)
        assert found == pytest.approx(alone.log_likelihood(X, columns[0], channels=channels[:, 1]), rel=1e-12)


@pytest.mark.parametrize("share", [1.5, -0.1, "half", [0.5, 0.5], np.nan, True])
def test_shares_out_of_range(data, share):
    X, s, c = data
    with pytest.raises(InputError, match="channel_share"):
        JointPLDA(speaker_rank=2, channel_rank=2, channel_share=share).fit(X, s, channels=c)


def test_a_rank_given_as_zero_is_not_warned_of(data, recwarn):
    X, s, c = data
    JointPLDA(speaker_rank=3, channel_rank=0, tol=1e-3).fit(X, s, channels=c)
    assert not [one for one in recwarn if issubclass(one.category, DataWarning)]


def test_fits_that_share_a_memory_do_not_touch_each_other(data):
    X, s, c = data
    statistics, apart, together = statistics_of(X, [s, c]), FitMemory(goes_on=False), FitMemory()
    settings = [
        ModelSettings(channel_rank=2, noise_prior=strength, speaker_prior=strength, tol=1e-3) for strength in (0.1, 3.0)
    ]
    fits = [fit(statistics, settings[i], memory=apart) for i in (0, 1, 0)]
    assert len(apart.problems) == 1
    assert len(apart.ended) == 2
    alone = [fit(statistics, one) for one in settings]
    for i, j in enumerate((0, 1, 0)):
        assert np.array_equal(fits[i].precision, alone[j].precision)
        assert np.array_equal(fits[i].trace.log_likelihoods, alone[j].trace.log_likelihoods)
    assert not np.array_equal(fits[0].precision, fits[1].precision)
    model = JointPLDA(channel_rank=2, noise_prior=0.1, speaker_prior=0.1, tol=1e-3).fit(X, s, channels=c)
    assert np.array_equal(model.log_likelihoods_, fits[0].trace.log_likelihoods)
    warm = [fit(statistics, one, memory=together) for one in settings][1]
    assert warm.notes.start != alone[1].notes.start
    moved = fit(statistics, replace(settings[1], channel_prior=0.5, channel_share=0.5), memory=together)
    assert len(together.ended) == 2
    assert np.array_equal(moved.trace.log_likelihoods, warm.trace.log_likelihoods)


def test_a_fit_goes_on_where_another_ended(data):
    X, s, c = data
    statistics = statistics_of(X, [s, c])
    settings = ModelSettings(channel_rank=2, noise_prior=0.1, speaker_prior=0.1, tol=1e-3)
    first = fit(statistics, settings)
    start = restart(first, resolve(settings, statistics), statistics.conditions)
    warm = fit(statistics, settings, start=start)
    assert warm.notes.start == pytest.approx(first.trace.log_likelihoods[-1], rel=1e-12)
    assert warm.trace.log_likelihoods[-1] >= warm.notes.start
    far = replace(start, mean=start.mean + 1e6)
    assert fit(statistics, settings, start=far).notes.start > warm.notes.start - 0.1


def test_an_interrupted_fit_is_not_remembered(data, monkeypatch):
    """Else the next fit would take it for the end of EM."""
    monkeypatch.setattr(em, "_interrupted", [float("-inf")])
    X, s, c = data
    statistics, settings = statistics_of(X, [s, c]), ModelSettings(channel_rank=2, noise_prior=0.1, tol=1e-3)

    def stop(progress):
        raise KeyboardInterrupt

    memory = FitMemory()
    assert fit(statistics, settings, callback=stop, memory=memory).trace.interrupted
    assert not memory.ended
    assert fit(statistics, settings, memory=memory).trace.converged
