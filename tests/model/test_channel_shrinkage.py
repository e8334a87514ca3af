"""U shrunk after EM, and what EM found taken back from the model."""

import warnings

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from jointplda import DataWarning, JointPLDA, JointPLDACV
from jointplda.errors import InputError
from jointplda.labels import ConditionColumns
from jointplda.model.channel_shrinkage import shrunk, unshrunk, with_channel_priors
from jointplda.model.settings import ModelSettings
from oracles.dense import DenseModel
from worlds.designs import channels_of, draw, relative, world


@pytest.fixture(scope="module")
def data():
    X, s, c, _ = world(np.random.default_rng(8), 6, (3, 2), 25, 5, 200)
    return X, s, c


@pytest.mark.parametrize("priors", [(0.3, 2.0), (1.0, 0.0), (0.0, 0.0), (1e6, 1.0)])
def test_shrunk_covariances_are_those_of_the_formula(priors):
    X, columns, p = draw("two conditions", seed=1)
    shrunk = with_channel_priors(p, priors)
    d = len(p.mean)
    same = [np.equal.outer(np.array(column), np.array(column)) for column in columns]
    expected = np.kron(same[0], p.loadings[0] @ p.loadings[0].T) + np.kron(np.eye(len(X)), p.noise)
    for s, U, shared in zip(priors, p.loadings[1:], same[1:]):
        A = (U @ U.T + s * np.trace(U @ U.T) / d * np.eye(d)) / (1 + s)
        assert np.trace(A) == pytest.approx(np.trace(U @ U.T), rel=1e-13)
        expected += np.kron(shared, A)
    found = DenseModel(shrunk.mean, shrunk.loadings, shrunk.noise, columns).covariance
    assert relative(found, expected) < 1e-13
    assert shrunk.ranks[1:] == tuple(d if s else U.shape[1] for s, U in zip(priors, p.loadings[1:]))


def test_the_shrunk_covariance_is_the_mode_of_the_posterior():
    """-K/2 (log|A| + tr(A^-1 U U')) - sK/2 (log|A| + tr(A^-1 psi I)) is highest there."""
    _, _, p = draw("two conditions", seed=3)
    U, s, K, rng = p.loadings[1], 0.7, 9, np.random.default_rng(0)
    d = len(U)
    psi = np.trace(U @ U.T) / d

    def log_posterior(A):
        log_det, inverse = np.linalg.slogdet(A)[1], np.linalg.inv(A)
        return -0.5 * K * ((1 + s) * log_det + np.trace(inverse @ U @ U.T) + s * psi * np.trace(inverse))

    root = with_channel_priors(p, (s, 0.0)).loadings[1]
    best = root @ root.T
    for _ in range(50):
        step = rng.normal(size=(d, d))
        assert log_posterior(best + 1e-3 * psi * (step + step.T)) < log_posterior(best)


@pytest.mark.parametrize("shares", [(1.0, 1.0), (0.4, 1.0), (0.7, 0.2)])
@pytest.mark.parametrize("priors", [(0.0, 0.0), (1.0, 0.0), (0.3, 30.0)])
def test_what_em_found_comes_back(shares, priors):
    _, _, p = draw("two conditions", seed=2)
    settings = ModelSettings(
        speaker_rank=p.ranks[0], channel_rank=p.ranks[1:], channel_share=shares, channel_prior=priors
    )
    back = unshrunk(shrunk(p, settings), settings)
    assert back.ranks == p.ranks
    for found, expected in zip(back.loadings, p.loadings):
        assert relative(found @ found.T, expected @ expected.T) < 1e-11
    assert np.array_equal(back.noise, p.noise)
    assert np.array_equal(back.mean, p.mean)


def test_a_prior_shrinks_what_em_finds(data):
    X, s, c = data
    plain = JointPLDA(speaker_rank=3, channel_rank=2, tol=1e-3).fit(X, s, channels=c)
    model = JointPLDA(speaker_rank=3, channel_rank=2, tol=1e-3, channel_prior=0.5).fit(X, s, channels=c)
    UU = plain.U_ @ plain.U_.T
    assert relative(model.U_ @ model.U_.T, (UU + 0.5 * np.trace(UU) / 6 * np.eye(6)) / 1.5) < 1e-12
    assert model.U_.shape == (6, 6)
    assert model.channel_ranks_ == (6,)
    for name in ("mean_", "V_", "D_", "log_likelihoods_"):
        assert np.array_equal(getattr(model, name), getattr(plain, name))
    both = JointPLDA(speaker_rank=3, channel_rank=2, tol=1e-3, channel_share=0.4, channel_prior=[0.5]).fit(
        X, s, channels=c
    )
    assert relative(both.U_ @ both.U_.T, 0.4 * model.U_ @ model.U_.T) < 1e-12
    assert relative(both.V_ @ both.V_.T, plain.V_ @ plain.V_.T + 0.6 * UU) < 1e-12


def test_scores_of_a_shrunk_model_are_those_of_the_dense_gaussian(data):
    X, s, c = data
    model = JointPLDA(channel_prior=0.5, noise_prior=0.3, speaker_prior=0.3, tol=1e-3).fit(X, s, channels=c)
    B, A, C = model.V_ @ model.V_.T, model.U_ @ model.U_.T, np.linalg.inv(model.D_)

    def log_p(pair, speaker, channel):
        T, shared = A + B + C, speaker * B + channel * A
        return multivariate_normal(np.tile(model.mean_, 2), np.block([[T, shared], [shared, T]])).logpdf(pair)

    def expected(pair):
        top, bottom = (np.logaddexp(log_p(pair, y, 1), log_p(pair, y, 0)) for y in (1, 0))
        return top - bottom

    found = model.score_matrix(X[:4], X[4:7], use_training=False)
    for i in range(4):
        for j in range(3):
            assert found[i, j] == pytest.approx(expected(np.concatenate([X[i], X[4 + j]])), rel=1e-8, abs=1e-9)
    enrollment = model.enroll(X[:4], [0, 1, 2, 3], use_training=False)
    assert model.score_enrollment(enrollment, X[4:7]) == pytest.approx(found, rel=1e-8, abs=1e-9)
    dense = DenseModel(model.mean_, (model.V_, model.U_), C, [list(s), list(c)])
    assert model.log_likelihood(X, s, channels=c) == pytest.approx(dense.log_likelihood(X), rel=1e-10)


def test_channels_of_training_are_remembered_with_the_shrunk_u(data):
    X, s, c = data
    model = JointPLDA(speaker_rank=3, channel_rank=2, tol=1e-3, channel_prior=0.5).fit(X, s, channels=c)
    dense = DenseModel(model.mean_, (model.V_, model.U_), np.linalg.inv(model.D_), [list(s), list(c)])
    z, covariance = dense.posterior(X)
    order = [dense.names[1].index(("shared", label)) for label in model.fitted_.training.channels[0]]
    at = np.concatenate([np.arange(dense.spans[1][i].start, dense.spans[1][i].stop) for i in order])
    assert relative(model.fitted_.training.channel_means, z[at]) < 1e-9
    assert relative(model.fitted_.training.channel_covariance, covariance[np.ix_(at, at)]) < 1e-9


@pytest.mark.filterwarnings("ignore:EM did not converge")
@pytest.mark.parametrize("settings", [{}, {"channel_prior": 0.7}, {"channel_share": 0.4, "channel_prior": 2.0}])
def test_a_fit_goes_on_from_what_em_found(data, settings, tmp_path):
    X, s, c = data
    given = {"tol": 0.0, "warm_start": True, **settings}
    whole = JointPLDA(speaker_rank=3, channel_rank=2, max_iter=5, **given).fit(X, s, channels=c)
    part = JointPLDA(speaker_rank=3, channel_rank=2, max_iter=3, **given).fit(X, s, channels=c)
    part.save(tmp_path / "part.safetensors")
    loaded = JointPLDA.load(tmp_path / "part.safetensors").set_params(max_iter=2)
    for model in (part.set_params(max_iter=2), loaded):
        model.fit(X, s, channels=c)
        assert model.log_likelihoods_ == pytest.approx(whole.log_likelihoods_[3:], rel=1e-10)
        for name in ("V_", "U_"):
            found, expected = getattr(model, name), getattr(whole, name)
            assert relative(found @ found.T, expected @ expected.T) < 1e-6
    loaded.set_params(channel_prior=0.0, channel_share=1.0, max_iter=1).fit(X, s, channels=c)
    assert loaded.log_likelihoods_[0] > whole.log_likelihoods_[-1]
    assert loaded.U_.shape == (6, 2)


def test_a_prior_for_each_of_two_conditions():
    X, columns, _ = draw("two conditions", seed=2)
    channels, d = channels_of(columns), draw("two conditions", seed=2)[0].shape[1]
    model = JointPLDA(speaker_rank=2, channel_rank=[2, 1], tol=1e-4, channel_prior=[0.0, 1.0]).fit(
        X, columns[0], channels=channels
    )
    assert model.channel_ranks_ == (2, d)
    alone = JointPLDA(speaker_rank=2, channel_rank=[0, 1], tol=1e-4, channel_prior=[5.0, 1.0]).fit(
        X, columns[0], channels=channels
    )
    assert alone.channel_ranks_ == (0, d)


def test_channels_too_many_to_remember_are_said(monkeypatch, data):
    X, s, c = data
    monkeypatch.setattr("jointplda.model.training_posterior.MEAN_NUMBERS", 29)
    with pytest.warns(DataWarning, match=r"5 training channels .*U 6 columns.*predicted.*use no channel prior"):
        model = JointPLDA(speaker_rank=3, channel_rank=2, tol=1e-3, channel_prior=1.0).fit(X, s, channels=c)
    assert model.fitted_.training is None
    assert JointPLDA(speaker_rank=3, channel_rank=2, tol=1e-3).fit(X, s, channels=c).fitted_.training is not None


def test_nothing_is_said_of_channels_that_would_be_too_many_anyway(monkeypatch, data):
    X, s, c = data
    for name, limit in (("MEAN_NUMBERS", 9), ("SPEAKER_NUMBERS", 50)):
        with monkeypatch.context() as patch, warnings.catch_warnings():
            patch.setattr(f"jointplda.model.training_posterior.{name}", limit)
            warnings.simplefilter("error", DataWarning)
            model = JointPLDA(speaker_rank=3, channel_rank=2, tol=1e-3, channel_prior=1.0).fit(X, s, channels=c)
            if name == "MEAN_NUMBERS":
                assert model.fitted_.training is None
            else:
                assert model.fitted_.training.speakers == ()


def test_conditions_in_another_order_are_not_gone_on_from():
    X, columns, _ = draw("two conditions", seed=2)
    names = ("language", "room")
    both = ConditionColumns(names, tuple(np.array(column, dtype=object) for column in columns[1:]))
    model = JointPLDA(speaker_rank=2, channel_rank=[2, 1], tol=1e-5, channel_prior=[0.1, 3.0], warm_start=True).fit(
        X, columns[0], channels=both
    )
    end = model.log_likelihoods_[-1]
    assert model.fit(X, columns[0], channels=both).log_likelihoods_[0] == pytest.approx(end, abs=1e-3)
    turned = model.set_params(channel_rank=[1, 2], channel_prior=[3.0, 0.1]).fit(
        X, columns[0], channels=both.ordered(names[::-1])
    )
    assert turned.log_likelihoods_[-1] == pytest.approx(end, abs=1e-3)
    same = JointPLDA(speaker_rank=2, channel_rank=[1, 2], tol=1e-5).fit(
        X, columns[0], channels=both.ordered(names[::-1])
    )
    assert np.array_equal(turned.log_likelihoods_, same.log_likelihoods_)


def test_plans_leave_out_what_has_no_share(data):
    X, s, c = data
    assert JointPLDA(speaker_rank=3, channel_rank=2, channel_share=0.0).plan(X, s, c).ranks == (3,)
    assert JointPLDA(speaker_rank=3, channel_rank=2, channel_share=0.5, channel_prior=1.0).plan(X, s, c).ranks == (3, 2)
    with pytest.raises(InputError, match="channel_prior"):
        JointPLDA(speaker_rank=3, channel_rank=2, channel_prior=np.nan).plan(X, s, c)


def test_numbers_of_any_kind_are_stored(data, tmp_path):
    X, s, c = data
    given = {"channel_rank": [np.int64(2)], "channel_prior": [np.float32(0.5)], "channel_share": np.array([0.5])}
    model = JointPLDA(speaker_rank=3, tol=1e-3, **given).fit(X, s, channels=c)
    model.save(tmp_path / "m.safetensors")
    found = JointPLDA.load(tmp_path / "m.safetensors")
    assert (found.channel_rank, found.channel_prior, found.channel_share) == ([2], [0.5], [0.5])
    settings = found.fitted_.settings
    assert settings == model.fitted_.settings
    assert (settings.ranks, settings.channel_share, settings.channel_prior) == ((3, 2), (0.5,), (0.5,))


@pytest.mark.parametrize("prior", [-0.1, "strong", [0.5, 0.5], [[1], [1, 2]], [[0.5]], np.nan, np.inf, True])
def test_priors_out_of_range(data, prior):
    X, s, c = data
    with pytest.raises(InputError, match="channel_prior"):
        JointPLDA(speaker_rank=2, channel_rank=2, channel_prior=prior).fit(X, s, channels=c)
    with pytest.raises(InputError, match="channel_prior"):
        JointPLDACV(channel_prior=prior).fit(X, s, channels=c)
