"""The scikit-learn face: its own checks, pipelines, cross-validation, and what a fit promises."""

import logging
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline as sklearn_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from jointplda import PLDA, DataWarning, JointPLDA, JointPLDACV, Statistics, make_pipeline
from jointplda.model import em
from jointplda.preprocessing import LDA, PCA, Center, LengthNorm, Reduce
from oracles.dense import DenseModel
from worlds.designs import DESIGNS, channels_of, draw, world


class OfMoreSpeakers(JointPLDACV):
    """JointPLDACV, each speaker divided into three: the checks have two or three, and it needs four."""

    def fit(self, X, y, channels=None):
        if np.ndim(y) == 1:
            y = 3 * np.unique(y, return_inverse=True)[1] + np.arange(len(y)) // 3 % 3
        return super().fit(X, y, channels)


MODELS = [JointPLDA(), JointPLDA(noise="diagonal"), OfMoreSpeakers(), PLDA(), PLDA(speaker_rank=1, channel_rank=1)]
TRANSFORMERS = [
    Center(),
    LengthNorm(),
    PCA(),
    Reduce(),
    Reduce(1, least_speakers=0),
    LDA(),
    LDA(shrinkage="auto"),
]


@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks(MODELS + TRANSFORMERS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X, s, c, _ = world(rng, 8, (3, 2), 40, 5, 400)
    return X, np.array([f"spk{v}" for v in s]), np.array(["en", "fr", "de", "es", "it"])[c]


@pytest.fixture(params=[False, True], ids=["plain", "routing"])
def routing(request):
    with sklearn.config_context(enable_metadata_routing=request.param):
        yield request.param


def test_fit_and_fit_statistics_agree(data):
    X, s, c = data
    model = JointPLDA(speaker_rank=3, channel_rank=2).fit(X, s, channels=c)
    again = JointPLDA(speaker_rank=3, channel_rank=2).fit_statistics(Statistics.from_samples(X, s, channels=c))
    for name in ("mean_", "V_", "U_", "D_", "log_likelihoods_"):
        assert np.array_equal(getattr(model, name), getattr(again, name))
    assert model.mean_.shape == (8,)
    assert model.V_.shape == (8, 3)
    assert model.U_.shape == (8, 2)
    assert model.D_.shape == (8, 8)
    assert len(model.log_likelihoods_) == model.n_iter_
    assert model.converged_


def test_the_trace_is_the_likelihood_of_the_model_it_ends_with(data):
    X, s, c = data
    model = JointPLDA(speaker_rank=3, channel_rank=2).fit(X, s, channels=c)
    assert model.log_likelihoods_[-1] * len(X) == pytest.approx(model.log_likelihood(X, s, channels=c), rel=1e-10)
    assert model.score(X, s, channels=c) == pytest.approx(model.log_likelihoods_[-1], rel=1e-10)
    plain = PLDA(speaker_rank=3, channel_rank=2, tol=1e-3).fit(X, s)
    assert plain.log_likelihoods_[-1] == pytest.approx(plain.score(X, s), rel=1e-10)


@pytest.mark.parametrize("name", DESIGNS)
@pytest.mark.parametrize("diagonal", [False, True])
def test_log_likelihood_and_posterior_of_given_parameters(name, diagonal):
    X, columns, p = draw(name, seed=11, diagonal=diagonal)
    cls = PLDA if len(columns) == 1 else JointPLDA
    U = None if len(columns) == 1 else np.concatenate(p.loadings[1:], axis=1)
    D = 1.0 / np.diagonal(p.noise) if diagonal else np.linalg.inv(p.noise)
    ranks = None if len(columns) == 1 else p.ranks[1:]
    model = cls.from_parameters(p.mean, p.loadings[0], U, D, channel_ranks=ranks)
    dense = DenseModel(p.mean, p.loadings, p.noise, columns)
    channels = channels_of(columns)
    assert model.log_likelihood(X, columns[0], channels=channels) == pytest.approx(dense.log_likelihood(X), rel=1e-9)
    z, covariance = dense.posterior(X)
    found = model.posterior(X, columns[0], channels=channels).speakers
    for i in range(len(X)):
        rows = dense._rows(0, i)
        assert found.means[found.index[i]] == pytest.approx(z[rows], rel=1e-8, abs=1e-10)
        assert found.covariances[found.index[i]] == pytest.approx(covariance[np.ix_(rows, rows)], rel=1e-8, abs=1e-10)


def test_channels_left_out_are_channels_of_their_own():
    X, columns, p = draw("joint, Rx < Ry", seed=12)
    model = JointPLDA.from_parameters(p.mean, *p.loadings, np.linalg.inv(p.noise))
    dense = DenseModel(p.mean, p.loadings, p.noise, [columns[0], [None] * len(X)])
    assert model.log_likelihood(X, columns[0]) == pytest.approx(dense.log_likelihood(X), rel=1e-10)


def test_score_with_weights_repeats_samples(data):
    X, s, c = data
    model = JointPLDA(speaker_rank=3, channel_rank=2).fit(X, s, channels=c)
    w = np.random.default_rng(1).integers(0, 3, len(X))
    repeated = model.score(np.repeat(X, w, axis=0), np.repeat(s, w), channels=np.repeat(c, w))
    assert model.score(X, s, channels=c, sample_weight=w) == pytest.approx(repeated, rel=1e-10)


def test_loadings_come_in_canonical_form(data):
    X, s, c = data
    model = JointPLDA(speaker_rank=3, channel_rank=2).fit(X, s, channels=c)
    gram = model.V_.T @ model.V_
    assert gram == pytest.approx(np.diag(np.diagonal(gram)), abs=1e-9)
    assert np.all(np.diff(np.diagonal(gram)) <= 0)


def test_default_ranks_are_what_the_data_support(data):
    X, s, c = data
    model = JointPLDA(max_iter=200).fit(X, s, channels=c)
    assert model.V_.shape[1] == 8  # 40 speakers, dimension 8
    assert model.U_.shape[1] == 4  # 5 channels and a mean
    few = np.isin(s, np.unique(s)[:6])
    assert PLDA(max_iter=1000).fit(X[few], s[few]).V_.shape[1] == 5
    assert PLDA(speaker_prior=1.0, tol=1e-4).fit(X[few], s[few]).V_.shape[1] == 8


def test_several_conditions(data):
    X, s, c = data
    rooms = np.random.default_rng(2).integers(0, 4, len(X))
    frame = pd.DataFrame({"language": c, "room": rooms})
    model = JointPLDA(speaker_rank=3, channel_rank=[2, 1]).fit(X, s, channels=frame)
    assert model.channel_ranks_ == (2, 1)
    assert model.U_.shape == (8, 3)
    assert model.training_["conditions"] == ["language", "room"]
    same = JointPLDA(speaker_rank=3, channel_rank=1).fit(X, s, channels=np.column_stack([c, rooms]))
    assert same.channel_ranks_ == (1, 1)
    assert model.score(X, s, channels=frame) == pytest.approx(model.log_likelihoods_[-1], rel=1e-9)


def test_without_channels(data):
    X, s, c = data
    with pytest.raises(ValueError, match=r"channel_rank: got 2, but there are no channels.*PLDA"):
        JointPLDA(speaker_rank=3, channel_rank=2).fit(X, s)
    with pytest.warns(DataWarning, match="SPLDA"):
        joint = JointPLDA(speaker_rank=3).fit(X, s)
    plain = PLDA(speaker_rank=3).fit(X, s)
    assert np.array_equal(joint.V_, plain.V_)
    assert joint.U_.shape == (8, 0)
    assert joint.log_likelihood(X, s) == plain.log_likelihood(X, s)
    with pytest.raises(ValueError, match=r"expected 0 nuisance"):
        joint.score(X, s, channels=c)
    with pytest.raises(ValueError, match="PLDA has no channels"):
        plain.score(X, s, channels=c)


def test_a_single_channel_is_left_out(data):
    X, s, _ = data
    with pytest.warns(DataWarning, match="fewer than two channels"):
        model = JointPLDA(speaker_rank=3).fit(X, s, channels=["en"] * len(X))
    assert model.channel_ranks_ == (0,)
    assert model.log_likelihood(X, s, channels=["en"] * len(X)) == PLDA(speaker_rank=3).fit(X, s).log_likelihood(X, s)
    found = model.posterior(X[:6], s[:6], channels=["en", None] * 3)
    assert found.channels[0].means.shape == (4, 0)
    assert found.channels[0].covariances.shape == (4, 0, 0)
    assert model.sample(s[:6], channels=["en", None] * 3).shape == (6, 8)


def test_sampling_has_the_right_covariance():
    rng = np.random.default_rng(3)
    V, U = rng.normal(size=(3, 2)), rng.normal(size=(3, 1))
    noise = np.array([[0.5, 0.3, 0.0], [0.3, 0.4, 0.1], [0.0, 0.1, 0.3]])
    model = JointPLDA.from_parameters(np.ones(3), V, U, np.linalg.inv(noise))
    s = np.repeat(np.arange(40000), 2)
    # Pairs of one speaker in one channel, and pairs of one speaker with no channel known.
    for channels, shared in [(s, V @ V.T + U @ U.T), ([None] * len(s), V @ V.T)]:
        X = model.sample(s, channels=channels, random_state=0) - 1.0
        first, second = X[::2], X[1::2]
        total = V @ V.T + U @ U.T + noise
        assert np.cov(X.T) == pytest.approx(total, abs=0.1)
        assert first.T @ second / len(first) == pytest.approx(shared, abs=0.1)
    assert np.array_equal(model.sample(s, random_state=1), model.sample(s, random_state=1))


def test_pipeline_grid_search_and_cross_validation(data, routing):
    X, s, c = data
    model = JointPLDA(channel_rank=2, max_iter=20, tol=1e-3)
    pipe = sklearn_pipeline(StandardScaler(), model)
    key = "channels" if routing else "jointplda__channels"
    pipe.fit(X, s, **{key: c})
    assert pipe[-1].channel_ranks_ == (2,)
    groups = {"groups": s} if routing else {}
    extra = {} if routing else {"groups": s}
    found = cross_validate(pipe, X, s, cv=GroupKFold(4), params={key: c, **groups}, error_score="raise", **extra)
    assert np.isfinite(found["test_score"]).all()
    search = GridSearchCV(model, {"speaker_rank": [1, 3]}, cv=GroupKFold(3), error_score="raise")
    search.fit(X, s, channels=c, groups=s)
    assert search.best_params_ == {"speaker_rank": 3}
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_our_pipeline_in_a_grid_search(data, routing):
    X, s, c = data
    pipe = make_pipeline(
        Center(), LengthNorm(), PCA(6), JointPLDA(speaker_rank=3, channel_rank=2, max_iter=50, tol=1e-3)
    )
    pipe.fit(X, s, channels=c)
    direct = pipe.score(X, s, channels=c)
    assert direct == pytest.approx(pipe[-1].log_likelihoods_[-1], rel=1e-9)
    assert pipe.log_likelihood(X, s, channels=c) == pytest.approx(direct * len(X), rel=1e-9)
    assert pipe.posterior(X, s, channels=c).speakers.means.shape == (40, 3)
    if routing:
        search = GridSearchCV(pipe, {"pca__n_components": [4, 6]}, cv=GroupKFold(3), error_score="raise")
        search.fit(X, s, channels=c, groups=s)
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_routing_reaches_the_score(data):
    """Under routing the held-out score knows the channels; it must differ from the one that does not."""
    X, s, c = data
    model, cv = JointPLDA(speaker_rank=3, channel_rank=2, max_iter=20, tol=1e-3), GroupKFold(3)
    with sklearn.config_context(enable_metadata_routing=True):
        routed = cross_validate(model, X, s, cv=cv, params={"channels": c, "groups": s})["test_score"]
    expected = []
    for train, test in cv.split(X, s, s):
        fitted = clone(model).fit(X[train], s[train], channels=c[train])
        expected.append(fitted.score(X[test], s[test], channels=c[test]))
    assert routed == pytest.approx(expected, rel=1e-10)


def test_callback_sees_every_iteration(data, caplog):
    X, s, c = data
    seen = []
    with caplog.at_level(logging.INFO, logger="jointplda"):
        model = JointPLDA(speaker_rank=3, channel_rank=2, callback=seen.append).fit(X, s, channels=c)
    assert [(p.stage, p.done, p.total) for p in seen] == [("EM", i, 100) for i in range(1, model.n_iter_ + 1)]
    seen = [progress.detail for progress in seen]
    assert [i.iteration for i in seen] == list(range(1, model.n_iter_ + 1))
    assert [i.log_likelihood for i in seen] == model.log_likelihoods_.tolist()
    assert np.diff([i.log_likelihood for i in seen]) == pytest.approx([i.gain for i in seen[1:]])
    assert all(i.seconds > 0 for i in seen)
    assert sum("nats per sample" in record.message for record in caplog.records) == model.n_iter_
    assert any("eliminated: speaker" in record.message for record in caplog.records)


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Interrupts of one test are not taken for the second of another."""
    monkeypatch.setattr(em, "_interrupted", [float("-inf")])


def test_an_interrupt_keeps_the_model_so_far(data):
    X, s, c = data

    def stop(progress):
        if progress.done == 3:
            raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="interrupted after 3"):
        model = JointPLDA(speaker_rank=3, channel_rank=2, callback=stop, tol=0.0).fit(X, s, channels=c)
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        three = JointPLDA(speaker_rank=3, channel_rank=2, max_iter=3, tol=0.0).fit(X, s, channels=c)
    assert model.interrupted_
    assert not three.interrupted_
    assert not model.converged_
    assert model.n_iter_ == 3
    assert np.array_equal(model.V_, three.V_)


def test_an_interrupt_in_the_middle_of_an_iteration_keeps_the_last_whole_one(data, monkeypatch):
    X, s, c = data
    calls, real = [], em.solve

    def solve(*args):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return real(*args)

    monkeypatch.setattr(em, "solve", solve)
    with pytest.warns(ConvergenceWarning, match="interrupted after 2"):
        model = JointPLDA(speaker_rank=3, channel_rank=2, tol=0.0).fit(X, s, channels=c)
    assert model.score(X, s, channels=c) == pytest.approx(model.log_likelihoods_[-1], rel=1e-9)


@pytest.mark.filterwarnings("ignore:EM did not converge")
def test_warm_start_goes_on(data, tmp_path):
    X, s, c = data
    straight = JointPLDA(speaker_rank=3, channel_rank=2, max_iter=6, tol=0.0).fit(X, s, channels=c)
    model = JointPLDA(speaker_rank=3, channel_rank=2, max_iter=3, tol=0.0, warm_start=True).fit(X, s, channels=c)
    model.save(tmp_path / "half.safetensors")
    model.fit(X, s, channels=c)
    resumed = JointPLDA.load(tmp_path / "half.safetensors").fit(X, s, channels=c)
    assert model.log_likelihoods_[-1] == pytest.approx(straight.log_likelihoods_[-1], rel=1e-9)
    assert resumed.log_likelihoods_[-1] == pytest.approx(straight.log_likelihoods_[-1], rel=1e-9)
    # Another shape starts afresh.
    assert model.set_params(speaker_rank=2).fit(X, s, channels=c).V_.shape == (8, 2)


def test_not_converged_is_a_warning(data):
    X, s, c = data
    with pytest.warns(ConvergenceWarning, match=r"did not converge in 2 iterations.*Raise max_iter or tol"):
        model = JointPLDA(speaker_rank=3, channel_rank=2, max_iter=2).fit(X, s, channels=c)
    assert not model.converged_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert JointPLDA(speaker_rank=3, channel_rank=2, tol=1e-3).fit(X, s, channels=c).converged_


def test_not_fitted():
    for name, given in [("score", ([[0.0]], [0])), ("sample", ([0],)), ("save", ("x",)), ("posterior", ([[0.0]], [0]))]:
        with pytest.raises(NotFittedError):
            getattr(JointPLDA(), name)(*given)


def test_clone_and_params(data):
    X, s, c = data
    model = clone(JointPLDA(speaker_rank=3, channel_rank=2, noise_prior=0.1)).fit(X, s, channels=c)
    assert model.get_params()["noise_prior"] == 0.1
    assert repr(JointPLDA(speaker_rank=3)) == "JointPLDA(speaker_rank=3)"


def test_a_second_interrupt_stops_for_good(data):
    X, s, c = data

    def stop(progress):
        raise KeyboardInterrupt

    model = JointPLDA(speaker_rank=3, channel_rank=2, callback=stop)
    with pytest.warns(ConvergenceWarning, match="interrupted after 1"):
        model.fit(X, s, channels=c)
    before = model.V_
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, s, channels=c)
    assert model.V_ is before
