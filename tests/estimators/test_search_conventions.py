"""JointPLDACV keeps the conventions of scikit-learn's searches."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import log_loss
from sklearn.model_selection import GroupKFold

from jointplda import JointPLDA, JointPLDACV, make_pipeline
from jointplda.calibration import AffineCalibration
from jointplda.preprocessing import Center
from worlds.automatic import FIXED, quietly


def test_results_are_a_table_of_what_was_tried(crossed):
    _, model = crossed
    table = pd.DataFrame(model.cv_results_)
    assert len(table) == len(model.candidates_)
    assert table.loc[model.best_index_, "chosen"]
    assert table.loc[model.best_index_, "params"] == model.best_params_
    assert table["chosen"].sum() == 1
    for row, result in zip(table.itertuples(), model.candidates_, strict=True):
        splits = [getattr(row, f"split{i}_test_score") for i in range(model.n_splits_)]
        assert splits == [-value for value in result.min_cllrs]
        assert row.mean_test_score == pytest.approx(-result.criterion)
        assert row.std_test_score == pytest.approx(np.std(result.min_cllrs))
        assert row.mean_cllr == pytest.approx(np.mean(result.cllrs))
        assert row.param_noise_prior == result.candidate.noise_prior
        assert row.param_channel_rank == list(result.candidate.channel_rank)
        assert row.fit_time == result.seconds
    order = table["mean_test_score"].rank(ascending=False, method="min").astype(int)
    assert table["rank_test_score"].tolist() == order.tolist()
    assert model.best_score_ == table.loc[model.best_index_, "mean_test_score"]


def test_results_without_channels_have_no_columns_of_channels(crossed):
    (X, s, _), _ = crossed
    table = pd.DataFrame(quietly(JointPLDACV(max_iter=3), X, s).cv_results_)
    assert [name for name in table if name.startswith("param_")] == ["param_noise_prior", "param_speaker_prior"]


def test_a_splitter_gives_the_folds(crossed):
    (X, s, c), _ = crossed
    by_splitter, by_rows = (
        quietly(JointPLDACV(cv=cv, **FIXED), X, s, c) for cv in (GroupKFold(3), list(GroupKFold(3).split(X, groups=s)))
    )
    assert by_splitter.n_splits_ == 3
    assert [r.min_cllrs for r in by_splitter.candidates_] == [r.min_cllrs for r in by_rows.candidates_]
    assert_array_equal(by_splitter.score_matrix(X, X), by_rows.score_matrix(X, X))


def test_a_splitter_is_not_stored(crossed, tmp_path):
    (X, s, c), _ = crossed
    model = quietly(JointPLDACV(cv=GroupKFold(3), **FIXED), X, s, c)
    model.save(tmp_path / "model")
    loaded = JointPLDACV.load(tmp_path / "model")
    assert loaded.cv == 4
    assert loaded.n_splits_ == 3
    assert_array_equal(loaded.score_matrix(X, X), model.score_matrix(X, X))


def test_another_calibration_makes_another_model(crossed):
    (X, _, c), model = crossed
    calibrated, X = model.best_estimator_[-1], model.best_estimator_[:-1].transform(X)
    raw = calibrated.with_calibration(None)
    assert raw.calibration_ is None
    assert calibrated.calibration_ is not None
    assert type(raw) is JointPLDA
    assert raw.get_params() == calibrated.get_params()
    expected = calibrated.calibration_.scale * raw.score_matrix(X, X) + calibrated.calibration_.offset
    assert_allclose(calibrated.score_matrix(X, X), expected, rtol=1e-12, atol=1e-12)
    side = calibrated.prepare(X)
    assert_array_equal(raw.score_matrix(side, side), raw.score_matrix(X, X))
    enrollment = raw.enroll(X[:6], list("aabbcc"), channels=c[:6])
    assert_allclose(
        calibrated.score_enrollment(enrollment, X[:3]),
        calibrated.calibration_.scale * raw.score_enrollment(enrollment, X[:3]) + calibrated.calibration_.offset,
    )
    with pytest.raises(ValueError, match="calibration: expected an AffineCalibration or None, got float"):
        raw.with_calibration(2.0)


def test_fitted_attributes_are_read_only(crossed):
    _, model = crossed
    for estimator, names in (
        (model, ("best_params_", "cv_results_", "calibration_", "held_out_cllr_")),
        (model.best_estimator_[-1], ("mean_", "V_", "U_", "D_", "calibration_", "converged_")),
    ):
        for name in names:
            with pytest.raises(AttributeError):
                setattr(estimator, name, None)


def test_classes_are_sorted_whatever_the_folds(crossed):
    (X, s, _), model = crossed
    assert model.classes_.tolist() == sorted(set(s))
    chances = model.predict_proba(X)
    assert_array_equal(model.predict(X), model.classes_[chances.argmax(axis=1)])
    assert log_loss(s, chances) < 0.8 * np.log(len(model.classes_))


def test_calibrations_of_searches_and_pipelines(crossed):
    (X, s, c), model = crossed
    raw = model.score_matrix(X[:4], X[:4], calibrated=False)
    assert_array_equal(model.with_calibration(None).score_matrix(X[:4], X[:4]), raw)
    assert model.calibration_ is not None
    pipe = make_pipeline(Center(), JointPLDA(speaker_rank=2, channel_rank=1, tol=1e-3)).fit(X, s, channels=c)
    other = pipe.with_calibration(AffineCalibration(2.0, -1.0))
    assert_allclose(other.score_matrix(X[:4], X[:4]), 2.0 * pipe.score_matrix(X[:4], X[:4]) - 1.0)
    assert pipe[-1].calibration_ is None
