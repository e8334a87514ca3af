"""Automatic models in use: calibrated and raw scores, files, pipelines, bad input, interrupts."""

from copy import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from jointplda import PLDA, DataWarning, JointPLDA, JointPLDACV, Pipeline, make_pipeline
from jointplda.errors import InputError
from jointplda.estimators.model_file import description, write_model
from jointplda.preprocessing import PCA, Center, LengthNorm, Reduce
from jointplda.selection.search import Search
from worlds.automatic import RECORDS, named_world, quietly


def test_scores_are_calibrated_unless_raw_ones_are_asked_for(crossed, tmp_path):
    (X, s, c), model = crossed
    scale, offset = model.calibration_.scale, model.calibration_.offset
    pairs = np.random.default_rng(0).integers(0, 20, (30, 2))
    sets, others = [X[:2], X[2:5]], [X[5:6], X[6:9]]
    enrollments = [model.enroll(X[:9], s[:9], channels=given) for given in (None, c[:9])]
    calls = [
        lambda **given: model.score_matrix(X[:9], X[9:30], **given),
        lambda **given: model.score_matrix(X[:9], X[9:30], enroll_channels=c[:9], test_channels=c[9:30], **given),
        lambda **given: model.score_matrix(model.prepare(X[:9]), model.prepare(X[9:30]), 0.1, **given),
        lambda **given: model.score_matrix(X[:9], X[9:30], out=tmp_path / f"{len(given)}.npy", **given),
        lambda **given: model.score_trials(X[:20], X[20:40], pairs, **given),
        lambda **given: model.score_enrollment(enrollments[0], X[9:14], **given),
        lambda **given: model.score_enrollment(enrollments[1], X[9:14], test_channels=c[9:14], **given),
        lambda **given: model.score_enrollment(enrollments[1], X[9:14], models=[s[0]], **given),
        lambda **given: model.score_sets(sets, others, **given),
        lambda **given: model.score_sets(sets, others, pairs=[(0, 1), (1, 0)], **given),
    ]
    for call in calls:
        calibrated, raw = call(), call(calibrated=False)
        assert calibrated.shape == raw.shape
        assert_allclose(calibrated, scale * raw + offset, rtol=1e-12, atol=1e-12)
        assert np.abs(calibrated - raw).max() > 1e-3
        with pytest.raises(InputError, match="calibrated: expected True or False"):
            call(calibrated="yes")
    for name in ("0", "1"):
        assert_array_equal(
            np.load(tmp_path / f"{name}.npy"), calls[0](**({"calibrated": False} if name == "1" else {}))
        )
    single = model.score_matrix(X[:9].astype(np.float32), X[9:30].astype(np.float32), dtype=np.float32)
    assert single.dtype == np.float32
    assert_allclose(single, calls[0](), rtol=1e-3, atol=1e-3)


def test_files_keep_scores_and_what_was_tried(fitted, tmp_path):
    (X, _, _), model = fitted
    model.save(tmp_path / "model")
    loaded = JointPLDACV.load(tmp_path / "model")
    assert_array_equal(loaded.score_matrix(X, X), model.score_matrix(X, X))
    assert_array_equal(loaded.score_matrix(X, X, calibrated=False), model.score_matrix(X, X, calibrated=False))
    for name in RECORDS:
        assert getattr(loaded, name) == getattr(model, name)
    assert loaded.get_params() == model.get_params()
    with pytest.raises(InputError, match=r"JointPLDACV.load"):
        JointPLDA.load(tmp_path / "model")


def test_the_chosen_model_is_a_plain_one_with_the_same_scores(fitted, tmp_path):
    (X, s, c), model = fitted
    plain = model.best_estimator_
    steps = {"length norm": [Center, LengthNorm, Center], "no length norm": [Center]}[model.selection_.chosen.front_end]
    assert [type(step) for _, step in plain.steps] == [*steps, JointPLDA]
    assert_array_equal(plain.score_matrix(X, X), model.score_matrix(X, X))
    assert plain.score(X, s, channels=c) == model.score(X, s, channels=c)
    plain.save(tmp_path / "plain")
    loaded = Pipeline.load(tmp_path / "plain")
    assert_array_equal(loaded.score_matrix(X, X), model.score_matrix(X, X))
    assert loaded[-1].calibration_ == model.calibration_
    assert quietly(loaded, X, s, c)[-1].calibration_ is None
    model.save(tmp_path / "model")
    assert_array_equal(
        JointPLDACV.load(tmp_path / "model").best_estimator_.score_matrix(X, X), model.score_matrix(X, X)
    )


def test_a_file_without_what_was_tried_is_refused(crossed, tmp_path):
    _, model = crossed
    write_model(tmp_path / "model", description(model, model.best_estimator_[-1].fitted_))
    with pytest.raises(InputError, match="lacks the candidates of its search"):
        JointPLDACV.load(tmp_path / "model")


def test_two_conditions_and_missing_labels(tmp_path):
    X, s, c = named_world(6)
    rooms = np.where(np.arange(len(X)) % 5 == 0, None, np.arange(len(X)) % 3)
    model = quietly(JointPLDACV(max_iter=5), X, s, np.column_stack([c.astype(object), rooms]))
    assert (
        len(model.best_params_["channel_rank"])
        == len(model.best_params_["channel_share"])
        == len(model.design_.tests)
        == 2
    )
    model.save(tmp_path / "model")
    loaded = JointPLDACV.load(tmp_path / "model")
    assert_array_equal(loaded.score_matrix(X, X), model.score_matrix(X, X))
    assert loaded.candidates_ == model.candidates_


def with_nan(X):
    return np.where(np.arange(X.size).reshape(X.shape) == 7, np.nan, X)


@pytest.mark.parametrize(
    ("settings", "change", "message"),
    [
        ({}, lambda X, s, c: (X, np.zeros(len(s)), c), "at least 4 speakers"),
        ({}, lambda X, s, c: (X, np.arange(len(s)) % 3, c), "got 3 speaker"),
        ({}, lambda X, s, c: (X, np.arange(len(s)), c), "0 with several samples"),
        ({}, lambda X, s, c: (X[:, :2], np.arange(len(s)) % 3, c), "got 3 speaker"),
        ({}, lambda X, s, c: (with_nan(X), s, c), "NaN"),
        ({}, lambda X, s, c: (X, s[:-1], c), "expected 192 labels"),
        ({}, lambda X, s, c: (X, s, c[:-1]), "expected 192 labels"),
        ({}, lambda X, s, c: (X, None, c), "requires y to be passed"),
        ({}, lambda X, s, c: (X[0], s, c), "X: "),
        ({"cv": 1}, None, "cv: expected a whole number at least 2"),
        ({"cv": 2.5}, None, "cv: expected a whole number at least 2"),
        ({"callback": 3}, None, "callback: expected a function of one argument"),
        ({"max_iter": 0}, None, "max_iter: expected"),
        ({"tol": -1.0}, None, "tol: expected"),
        ({"noise": "round"}, None, "noise: expected"),
        ({"noise_floor": 2.0}, None, "noise_floor: expected"),
        ({"random_state": "seed"}, None, "random_state: expected"),
    ],
)
def test_bad_input_is_one_error_and_changes_nothing(crossed, settings, change, message):
    data, fitted = crossed
    model = copy(fitted).set_params(**settings)
    X, s, c = data if change is None else change(*data)
    with pytest.raises(InputError, match=message):
        model.fit(X, s, channels=c)
    for name in ("best_estimator_", "selection_", "n_features_in_"):
        assert getattr(model, name) is getattr(fitted, name)


def test_what_an_automatic_model_cannot_do(crossed):
    (X, _, _), model = crossed
    for name in ("fit_statistics", "from_parameters", "V_", "parameters_"):
        assert not hasattr(model, name)
    with pytest.raises(NotFittedError):
        JointPLDACV().score_matrix(X, X)


def test_an_interrupt_keeps_what_was_tried():
    X, s, c = named_world()
    seen = []

    def stop(progress):
        seen.append((progress.detail, progress.done))
        assert (progress.stage, progress.total) == ("settings", None)
        if progress.done == 3:
            raise KeyboardInterrupt

    with pytest.warns(DataWarning, match=r"interrupted: the best of 3 candidate\(s\) so far"):
        model = JointPLDACV(callback=stop).fit(X, s, channels=c)
    assert [number for _, number in seen] == [1, 2, 3]
    best = min((tried for tried, _ in seen), key=lambda one: one.criterion)
    assert model.best_params_ == best.candidate.searched
    assert len(model.candidates_) == 3
    assert model.calibration_.scale > 0
    assert np.isfinite(model.score_matrix(X[:3], X[:3])).all()


@pytest.mark.parametrize("method", ["_scores", "calibration_trials"])
def test_an_interrupt_before_or_after_the_search_leaves_the_model_as_it_was(crossed, monkeypatch, method):
    data, model = crossed
    before = model.best_estimator_

    def interrupted(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(Search, method, interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*data[:2], channels=data[2])
    assert model.best_estimator_ is before


def test_reduce_is_pca_where_there_is_enough_and_centring_where_not(tmp_path):
    rng = np.random.default_rng(0)
    X, s = rng.normal(size=(120, 6)) + 3.0, np.repeat(np.arange(30), 4)
    assert_allclose(Reduce(4).fit_transform(X, s), PCA(4).fit_transform(X), rtol=1e-12, atol=1e-12)
    assert_allclose(Reduce(4).fit(X).transform(X), PCA(4).fit_transform(X), rtol=1e-12, atol=1e-12)
    for reduce, some in [(Reduce(6), 120), (Reduce(4), 76), (Reduce(4, least_speakers=31), 120), (Reduce(), 120)]:
        found = reduce.fit(X[:some], s[:some]).transform(X)
        assert_allclose(found, X - X[:some].mean(axis=0), rtol=1e-12, atol=1e-12)
    assert Reduce(4).fit(X[:80], s[:80]).transform(X).shape == (120, 4)
    for size in (4, 6):
        pipe = quietly(make_pipeline(Reduce(size), PLDA(speaker_rank=2, max_iter=3)), X, s)
        pipe.save(tmp_path / "pipe")
        assert_array_equal(Pipeline.load(tmp_path / "pipe").score_matrix(X, X), pipe.score_matrix(X, X))
    with pytest.raises(InputError, match="n_components"):
        Reduce(0).fit(X)
