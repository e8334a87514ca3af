"""Where a warm start goes on, and where it must not."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from jointplda import PLDA, JointPLDA
from jointplda.model import fit as fit_module
from worlds.designs import world


@pytest.fixture(scope="module")
def data():
    X, s, c, _ = world(np.random.default_rng(0), 6, (2, 2), 20, 5, 200)
    return X, s, pd.DataFrame({"language": c, "room": (c + s) % 3})


def started_from(monkeypatch, model, X, s, channels):
    """The parameters that the next fit of a model starts from, None for a fresh start."""
    seen, real = [], fit_module.fit

    def watched(*arguments, start, **options):
        seen.append(start)
        return real(*arguments, start=start, **options)

    monkeypatch.setattr("jointplda.estimators.base.fit", watched)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, s, channels=channels)
    return seen[-1]


def fitted(X, s, channels, **settings):
    model = JointPLDA(speaker_rank=2, warm_start=True, max_iter=3, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, s, channels=channels)


def test_the_same_conditions_go_on(monkeypatch, data):
    X, s, channels = data
    model = fitted(X, s, channels, channel_rank=[1, 1])
    before = model.fitted_.parameters
    found = started_from(monkeypatch, model, X, s, channels)
    assert np.allclose(found.loadings[1] @ found.loadings[1].T, before.loadings[1] @ before.loadings[1].T)


def test_conditions_of_other_names_start_afresh(monkeypatch, data):
    X, s, channels = data
    model = fitted(X, s, channels, channel_rank=[1, 1])
    renamed = channels.rename(columns={"room": "microphone"})
    assert started_from(monkeypatch, model, X, s, renamed) is None
    model = fitted(X, s, channels, channel_rank=[1, 1])
    assert started_from(monkeypatch, model, X, s, channels[["room", "language"]]) is None


def test_other_conditions_kept_start_afresh(monkeypatch, data):
    X, s, channels = data
    model = fitted(X, s, channels, channel_rank=[1, 0])
    model.set_params(channel_rank=[0, 1])
    assert started_from(monkeypatch, model, X, s, channels) is None
    assert model.channel_ranks_ == (0, 1)


def test_other_ranks_and_dimensions_start_afresh(monkeypatch, data):
    X, s, channels = data
    model = fitted(X, s, channels, channel_rank=[1, 1])
    model.set_params(channel_rank=[2, 1])
    assert started_from(monkeypatch, model, X, s, channels) is None
    assert started_from(monkeypatch, model, X[:, :5], s, channels) is None


def test_a_model_from_parameters_goes_on_whatever_the_names(monkeypatch, data):
    X, s, channels = data
    model = fitted(X, s, channels, channel_rank=[1, 1])
    nameless = JointPLDA.from_parameters(model.mean_, model.V_, model.U_, model.D_, channel_ranks=[1, 1])
    nameless.set_params(warm_start=True, max_iter=2)
    assert started_from(monkeypatch, nameless, X, s, channels) is not None


@pytest.mark.parametrize("far", [[0], [5], [0, 1, 2, 3, 4, 5]])
def test_a_mean_that_is_far_in_any_dimension_is_not_gone_on_from(data, far):
    """30 standard deviations in one dimension are enough; EM would climb back slowly, or not at all."""
    X, s, channels = data
    model = fitted(X, s, channels, channel_rank=[1, 1])
    mean = model.mean_.copy()
    mean[far] += 31.0 * X.std(axis=0)[far]
    model.fitted_ = replace(model.fitted_, mean=mean)
    statistics = fit_module.Statistics.from_samples(X, s, channels)
    noise = fit_module.NoiseModel(False, np.full(6, 1e-9))
    resumed = fit_module._near(model.fitted_.parameters, statistics, noise)
    np.testing.assert_allclose(resumed.mean, statistics.mean)


def test_a_mean_that_is_near_is_gone_on_from(data):
    X, s, channels = data
    model = fitted(X, s, channels, channel_rank=[1, 1])
    mean = model.mean_ + 29.0 * X.std(axis=0)
    model.fitted_ = replace(model.fitted_, mean=mean)
    statistics = fit_module.Statistics.from_samples(X, s, channels)
    noise = fit_module.NoiseModel(False, np.full(6, 1e-9))
    assert np.array_equal(fit_module._near(model.fitted_.parameters, statistics, noise).mean, mean)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_plda_with_a_channel_per_sample_goes_on(data, tmp_path):
    X, s, _ = data
    halves = PLDA(speaker_rank=2, channel_rank=1, warm_start=True, max_iter=3).fit(X, s)
    halves.save(tmp_path / "model")
    whole = PLDA(speaker_rank=2, channel_rank=1, max_iter=6).fit(X, s)
    for model in (halves, PLDA.load(tmp_path / "model")):
        model.fit(X, s)
        assert model.channel_ranks_ == (1,)
        assert model.log_likelihoods_[-1] == pytest.approx(whole.log_likelihoods_[-1], rel=1e-9)
