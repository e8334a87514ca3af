"""Files of version 1, written by a development version of 0.1.0 and kept here, load and score as they did."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from jointplda import PLDA, JointPLDA, JointPLDACV, Pipeline, Statistics
from jointplda.calibration import AffineCalibration, PAVCalibration, load_calibration

FOLDER = Path(__file__).parent / "version1"
EXPECTED = dict(np.load(FOLDER / "expected.npz"))
E, T = EXPECTED["E"], EXPECTED["T"]


@pytest.mark.parametrize("name", ["automatic", "confounded", "untestable", "joint", "plain"])
def test_models_score_as_they_did(name, tmp_path):
    pipe = Pipeline.load(FOLDER / f"{name}.safetensors")
    assert_allclose(pipe.score_matrix(E, T), EXPECTED[name], rtol=1e-12, atol=1e-12)
    pipe.save(tmp_path / "again")
    assert_array_equal(Pipeline.load(tmp_path / "again").score_matrix(E, T), pipe.score_matrix(E, T))


def test_what_training_knew_is_kept():
    pipe = Pipeline.load(FOLDER / "automatic.safetensors")
    model = pipe[-1]
    speakers = model.best_estimator_.fitted_.training.speakers  # in the order of folds; columns are sorted since
    expected = EXPECTED["automatic.proba"][:, np.argsort(speakers)]
    assert_allclose(pipe.predict_proba(T), expected, rtol=1e-12, atol=1e-12)
    assert (model.cv, model.n_jobs, model.random_state) == (4, -1, 3)
    assert model.best_estimator_.fitted_.conditions == ("language", "room")
    assert len(model.candidates_) > 3
    assert model.best_params_["noise_prior"] == model.selection_.chosen.candidate.noise_prior
    assert {("r1", 1), ("r2", 2)} < set(model.best_estimator_.fitted_.training.channels[1])
    channels = pd.DataFrame({"language": ["en"] * 13, "room": [("r1", 1)] * 13})
    known = pipe.score_matrix(E, T, enroll_channels=channels[:5], test_channels=channels[5:])
    assert np.abs(known - EXPECTED["automatic"]).max() > 1e-3


def test_tests_that_could_not_be_made_are_kept():
    model = Pipeline.load(FOLDER / "untestable.safetensors")[-1]
    assert np.isnan(model.design_.tests[0].ratio)
    assert model.design_.confounded


def test_classes_settings_and_feature_names_are_kept():
    plain = PLDA.load(FOLDER / "plain.safetensors")
    assert plain.feature_names_in_.tolist() == list("abcdef")
    assert not plain.fitted_.channels_shared
    joint = JointPLDA.load(FOLDER / "joint.safetensors")
    assert joint.get_params()["channel_rank"] == [1, 1]
    assert joint.training_ == {"samples": 144.0, "speakers": 24, "channels": [3, 3], "conditions": ["language", "room"]}
    assert joint.n_iter_ == len(joint.log_likelihoods_) == 6
    assert joint.converged_
    with pytest.raises(ValueError, match=r"Pipeline\.load"):
        JointPLDACV.load(FOLDER / "automatic.safetensors")


def test_statistics_fit_as_they_did(tmp_path):
    statistics = Statistics.load(FOLDER / "statistics.safetensors")
    fitted = JointPLDA(2, [1, 1], max_iter=5, tol=0.0).fit_statistics(statistics)
    assert_allclose(fitted.log_likelihoods_, EXPECTED["statistics.ll"], rtol=1e-12)
    assert_allclose(fitted.V_, EXPECTED["statistics.V"], rtol=1e-9, atol=1e-12)
    statistics.save(tmp_path / "again")
    again = Statistics.load(tmp_path / "again")
    assert again.labels == statistics.labels
    assert_array_equal(again.covariance, statistics.covariance)


def test_calibrations_apply_as_they_did():
    affine, pav = (load_calibration(FOLDER / f"{name}.safetensors") for name in ("affine", "pav"))
    assert isinstance(affine, AffineCalibration)
    assert isinstance(pav, PAVCalibration)
    assert_array_equal(affine.apply(EXPECTED["scores"]), EXPECTED["affine"])
    assert_array_equal(pav.apply(EXPECTED["scores"]), EXPECTED["pav"])
