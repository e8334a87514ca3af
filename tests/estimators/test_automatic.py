"""Joint PLDA that chooses its settings: what it chooses, its calibration, and what it says."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from sklearn.base import clone

from jointplda import PLDA, DataWarning, JointPLDA, JointPLDACV, metrics
from jointplda.errors import InputError
from jointplda.selection.folds import Fold
from jointplda.selection.search import Search
from oracles import metric_definitions
from worlds.automatic import FIXED, few_speakers, named_world, quietly, training_and_new_speakers
from worlds.designs import relative


def covariances(model):
    model = model.best_estimator_[-1] if hasattr(model, "best_estimator_") else model
    return model.V_ @ model.V_.T, model.U_ @ model.U_.T, np.linalg.inv(model.D_)


def in_front(X, model):
    """What the front end makes of a few dimensions: centred, and where it is so chosen of length one, centred again."""
    centred = X - X.mean(axis=0)
    if model.selection_.chosen.front_end == "no length norm":
        return centred
    unit = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    return unit - unit.mean(axis=0)


def test_the_same_every_time(crossed):
    data, model = crossed
    again, other = quietly(clone(model), *data), quietly(JointPLDACV(random_state=5), *data)
    assert_array_equal(again.score_matrix(data[0], data[0]), model.score_matrix(data[0], data[0]))
    assert [one.candidate for one in again.candidates_] == [one.candidate for one in model.candidates_]
    assert [one.min_cllrs for one in again.candidates_] == [one.min_cllrs for one in model.candidates_]
    assert again.calibration_ == model.calibration_
    assert other.candidates_[0].min_cllrs != model.candidates_[0].min_cllrs


@pytest.mark.filterwarnings("ignore:EM did not converge")
def test_the_settings_chosen_make_the_model(fitted):
    (X, s, c), model = fitted
    Z = in_front(X, model)
    plain = JointPLDA(**FIXED, **model.best_params_).fit(Z, s, channels=c)
    for found, expected in zip(covariances(model), covariances(plain)):
        assert relative(found, expected) < 1e-9
    assert_allclose(model.best_estimator_[-1].mean_, plain.mean_, rtol=1e-9, atol=1e-10)
    chosen = [one for one in model.candidates_ if one.chosen]
    assert len(chosen) == 1
    assert chosen[0].candidate.searched == model.best_params_
    assert len({(one.front_end, one.candidate) for one in model.candidates_}) == len(model.candidates_)
    assert_allclose(model.score_matrix(X, X, calibrated=False), plain.score_matrix(Z, Z), rtol=1e-8, atol=1e-8)
    assert model.best_estimator_[-1].training_ == plain.training_


def test_crossed_speakers_and_strong_channels_are_told_apart(crossed, confounded):
    _, model = crossed
    assert model.design_.tests == (None,)
    assert model.best_params_["channel_share"] == [1.0]
    assert model.held_out_cllr_.cross_channel_targets
    _, model = confounded
    assert model.design_.crossed == (0,)
    assert model.best_params_["channel_share"] == [model.design_.tests[0].share]
    assert 0.5 < model.design_.tests[0].share < 1.0
    assert not model.held_out_cllr_.cross_channel_targets


def test_the_calibration_is_the_best_of_the_held_out_scores(fitted, monkeypatch):
    data, model = fitted
    kept, real = [], Search.calibration_trials
    monkeypatch.setattr(Search, "calibration_trials", lambda *given: kept.append(real(*given)) or kept[0])
    again = quietly(clone(model), *data)
    scores, target, weights, fold = kept[0]
    speakers = len(np.unique(data[1]))

    def best(doubt, some=slice(None)):
        s, t, w = scores[some], target[some], weights[some]
        truth = np.where(t, 1 - doubt, doubt)

        def cost(parameters):
            llr = parameters[0] * s + parameters[1]
            each = truth * np.logaddexp(0, -llr) + (1 - truth) * np.logaddexp(0, llr)
            return np.average(each[t], weights=w[t]) + np.average(each[~t], weights=w[~t])

        options = {"xatol": 1e-9, "fatol": 1e-14, "maxiter": 4000}
        return minimize(cost, [1.0, 0.0], method="Nelder-Mead", options=options).x

    doubt = 1 / (speakers + 2)
    if model.held_out_cllr_.cross_channel_targets:  # with doubt or without: what is better on the folds left out
        costs = {share: 0.0 for share in (0.0, doubt)}
        for share in costs:
            for i in range(4):
                a, b = best(share, fold != i)
                own = fold == i
                costs[share] += metric_definitions.cllr(a * scores[own] + b, target[own], weights[own])
        doubt = min(costs, key=costs.get)
    found = again.calibration_
    assert_allclose([found.scale, found.offset], best(doubt), rtol=1e-5, atol=1e-6)
    assert found == model.calibration_
    checked = model.held_out_cllr_
    assert checked.raw_cllr == pytest.approx(metric_definitions.cllr(scores, target, weights), rel=1e-10)
    calibrated = found.scale * scores + found.offset
    assert checked.calibrated_cllr == pytest.approx(metric_definitions.cllr(calibrated, target, weights), rel=1e-10)
    assert checked.min_cllr == pytest.approx(metric_definitions.min_cllr(scores, target, weights), rel=1e-9)
    assert (checked.speakers, checked.trials) == (speakers, len(scores))


def test_speakers_in_one_channel_each_are_warned_of(confounded):
    (X, s, c), model = confounded
    with pytest.warns(DataWarning, match=r"No speaker was heard in two channels of 'channel'.*F = .*cautious guess"):
        clone(model).fit(X, s, channels=c)


def test_channels_without_effect_are_left_out(tmp_path):
    rng = np.random.default_rng(1)
    s = np.repeat(np.arange(20), 6)
    X, c = rng.normal(size=(120, 4)) + 1.5 * rng.normal(size=(20, 4))[s], s % 4
    with pytest.warns(DataWarning, match=r"no more than chance allows \(p = .*'channel' is left out, as in PLDA"):
        model = JointPLDACV().fit(X, s, channels=c)
    assert model.best_estimator_[-1].channel_ranks_ == (0,)
    assert model.best_params_["channel_share"] == [0.0]
    priors = {name: model.best_params_[name] for name in ("noise_prior", "speaker_prior")}
    Z = in_front(X, model)
    plain = quietly(PLDA(**FIXED, **priors), Z, s)
    assert_allclose(model.score_matrix(X, X, calibrated=False), plain.score_matrix(Z, Z), rtol=1e-9, atol=1e-9)
    known = model.score_matrix(X, X, enroll_channels=c, test_channels=c)
    assert_allclose(known, model.score_matrix(X, X), rtol=1e-12)
    model.save(tmp_path / "model")
    assert_array_equal(JointPLDACV.load(tmp_path / "model").score_matrix(X, X), model.score_matrix(X, X))


def test_a_single_channel_is_left_out_and_stored(tmp_path):
    X, s, _ = named_world(4)
    with pytest.warns(DataWarning, match="'channel' has fewer than two channels"):
        model = JointPLDACV().fit(X, s, channels=["en"] * len(X))
    assert model.best_estimator_[-1].channel_ranks_ == (0,)
    assert model.held_out_cllr_ == JointPLDACV().fit(X, s).held_out_cllr_
    model.save(tmp_path / "model")
    loaded = JointPLDACV.load(tmp_path / "model")
    assert loaded.design_.tests == (None,)
    assert_array_equal(loaded.score_matrix(X, X), model.score_matrix(X, X))


def test_a_channel_for_every_speaker_is_left_out_and_stored(tmp_path):
    X, s, _ = named_world(4)
    with pytest.warns(DataWarning, match="cannot be separated: 'channel' is left out"):
        model = JointPLDACV().fit(X, s, channels=s)
    assert model.best_estimator_[-1].channel_ranks_ == (0,)
    model.save(tmp_path / "model")
    assert np.isnan(JointPLDACV.load(tmp_path / "model").design_.tests[0].ratio)


def test_without_channels_it_is_splda():
    X, s, _ = named_world(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = JointPLDACV().fit(X, s)
    assert model.best_estimator_[-1].channel_ranks_ == ()
    assert set(model.best_params_) == {"noise_prior", "speaker_prior"}
    Z = in_front(X, model)
    plain = quietly(PLDA(**FIXED, **model.best_params_), Z, s)
    assert_allclose(model.score_matrix(X, X, calibrated=False), plain.score_matrix(Z, Z), rtol=1e-9, atol=1e-9)


def test_overconfidence_is_said_if_calibration_is_declined():
    X, s, c = few_speakers()
    model = quietly(JointPLDACV(), X, s, c)
    assert model.held_out_cllr_.raw_cllr > model.held_out_cllr_.min_cllr + 0.1
    with pytest.warns(DataWarning, match=r"overconfident.*bits raw.*Let the model calibrate"):
        raw = JointPLDACV(calibrate=False).fit(X, s, channels=c)
    assert raw.calibration_ is None
    assert raw.held_out_cllr_ == model.held_out_cllr_
    assert_array_equal(raw.score_matrix(X, X), model.score_matrix(X, X, calibrated=False))
    assert_array_equal(raw.best_estimator_.score_matrix(X, X), raw.score_matrix(X, X))


def test_threads_do_not_change_what_is_found():
    X, s, c = named_world()
    one, two = (quietly(JointPLDACV(n_jobs=jobs), X, s, c) for jobs in (1, 2))
    for first, second in zip(one.candidates_, two.candidates_, strict=True):
        assert first.candidate == second.candidate
        assert first.min_cllrs == second.min_cllrs
        assert first.cllrs == second.cllrs
    assert_array_equal(one.score_matrix(X, X), two.score_matrix(X, X))
    with pytest.raises(InputError, match="n_jobs: expected a whole number other than 0"):
        JointPLDACV(n_jobs=0).fit(X, s, channels=c)


def test_a_prior_for_u_that_is_given_is_not_chosen():
    X, s, c = named_world()
    for prior in (0.0, 0.5, [0.0]):
        model = quietly(JointPLDACV(channel_prior=prior), X, s, c)
        strength = float(np.ravel(prior)[0])
        tried = [one.candidate for one in model.candidates_]
        assert {one.channel_prior for one in tried if one.channel_rank != (0,)} == {(strength,)}
        assert len({one.channel_rank for one in tried}) > 1
        assert strength or model.best_estimator_[-1].U_.shape[1] == model.best_params_["channel_rank"][0]


def two_conditions(seed=5):
    """30 speakers in both of two conditions of 4 levels; only the first matters."""
    rng = np.random.default_rng(seed)
    s = np.repeat(np.arange(30), 8)
    real, idle = rng.integers(4, size=(2, len(s)))
    X = rng.normal(size=(30, 5))[s] + 2.0 * rng.normal(size=(4, 5))[real] + 0.7 * rng.normal(size=(len(s), 5))
    return X, s, np.stack([real, idle], axis=1)


def test_the_order_of_conditions_does_not_matter():
    X, s, both = two_conditions()
    first = quietly(JointPLDACV(front_end="none"), X, s, both)
    second = quietly(JointPLDACV(front_end="none"), X, s, both[:, ::-1])

    def criteria(model, turn):
        return {
            (one.candidate.noise_prior, one.candidate.speaker_prior, one.candidate.channel_rank[::turn]): one.criterion
            for one in model.candidates_
            if set(one.candidate.channel_prior) <= {0.0, 1.0}
        }

    here, there = criteria(first, 1), criteria(second, -1)
    common = set(here) & set(there)
    strengths = {key[:2] for key in common}
    assert {(ranks[0] > 0, ranks[1] > 0) for *_, ranks in common} == {(True, True), (True, False), (False, True)}
    assert len(strengths) >= 3
    for key in common:
        assert here[key] == pytest.approx(there[key], abs=2e-3)  # fits of one strength start from those of another
    one_left_out = {key[2]: value for key, value in here.items() if 0 in key[2]}
    assert one_left_out[3, 0] < one_left_out[0, 3] - 0.02


def test_a_confounded_condition_is_moved_wherever_it_stands():
    rng = np.random.default_rng(8)
    s = np.repeat(np.arange(24), 8)
    alone, crossed = s % 4, rng.integers(3, size=len(s))
    X = rng.normal(size=(24, 5))[s] + 3 * rng.normal(size=(4, 5))[alone] + 0.7 * rng.normal(size=(len(s), 5))
    found = [quietly(JointPLDACV(), X, s, np.stack(each, axis=1)) for each in ((alone, crossed), (crossed, alone))]
    assert found[0].held_out_cllr_.trials == found[1].held_out_cllr_.trials
    assert found[0].held_out_cllr_.calibrated_cllr == pytest.approx(found[1].held_out_cllr_.calibrated_cllr, rel=0.1)


def test_a_few_speakers_in_all_channels_are_crossed():
    X, s, c = named_world(6)
    kept = np.isin(s, np.unique(s)[:6])
    model = quietly(JointPLDACV(), X[kept], s[kept], c[kept])
    assert model.design_.crossed == (6,)
    assert not model.design_.confounded


def test_speakers_that_cannot_be_told_apart_are_not_calibrated():
    rng = np.random.default_rng(3)
    s = np.repeat(np.arange(12), 2)
    X = rng.normal(size=(12, 3))[s] * np.tile([1.0, -1.0], 12)[:, None] + 0.1 * rng.normal(size=(24, 3))
    with pytest.warns(DataWarning, match="the model is not calibrated"):
        model = JointPLDACV().fit(X, s)
    assert model.calibration_ is None


def test_models_that_score_held_out_speakers_were_not_trained_on_them(crossed, monkeypatch):
    (X, s, c), _ = crossed
    met, real = [], Fold.fitted

    def watched(fold, recipe):
        fitted = real(fold, recipe)
        held = {row.tobytes() for row in fold.X}
        own = {one for row, one in zip(X, s) if row.tobytes() in held}
        for made in fold.memory.problems.values():
            assert not own & set(made.statistics.labels[0])
            assert own | set(made.statistics.labels[0]) == set(s)
        met.append(len(fold.X))
        return fitted

    monkeypatch.setattr(Fold, "fitted", watched)
    quietly(JointPLDACV(front_end="none", max_iter=2, callback=None), X, s, c)
    assert len(met) >= 4


def trials(model, test):
    X, s, c = test
    i, j = np.triu_indices(len(X), 1)
    return model.score_matrix(X, X)[i, j], s[i] == s[j], c[i] == c[j]


def test_across_channels_it_beats_plda_where_speakers_were_in_one_channel_each():
    train, test = training_and_new_speakers(0, 1.5, crossed=False)
    results = []
    for model in (quietly(JointPLDACV(), *train), quietly(PLDA(**FIXED), *train[:2])):
        scores, target, same = trials(model, test)
        counted = ~(target & same)
        results.append((metrics.eer(scores[counted], target[counted]), metrics.cllr(scores, target)))
    (eer, cllr), (plain_eer, plain_cllr) = results
    assert eer < 0.8 * plain_eer
    assert cllr < 1.0
    assert cllr < plain_cllr


def test_crossed_speakers_calibrate_new_ones():
    train, test = training_and_new_speakers(1, 1.0, crossed=True)
    scores, target, _ = trials(quietly(JointPLDACV(), *train), test)
    assert metrics.cllr(scores, target) < metrics.min_cllr(scores, target) + 0.1
