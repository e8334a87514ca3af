"""The rules of the search at their boundaries, against numbers worked out by hand."""

import numpy as np
import pytest

from jointplda import Statistics
from jointplda.calibration import fit_affine
from jointplda.model.settings import ModelSettings
from jointplda.selection.candidates import CandidateResult, strongest, worse
from jointplda.selection.design import design_of
from jointplda.selection.held_out_calibration import CalibrationTrials, calibrate_held_out


def result(*min_cllrs, strength=1.0):
    return CandidateResult(ModelSettings(noise_prior=strength, speaker_prior=strength), min_cllrs, min_cllrs, 0.0)


def test_worse_is_by_more_than_one_standard_error_of_the_difference():
    """Differences 0 and 2 have the mean 1 and the standard error sqrt(2) / sqrt(2) = 1: not more than one."""
    base = result(0.5, 0.5)
    assert not worse(result(0.5, 2.5), base)
    assert worse(result(0.5 + 1e-6, 2.5), base)
    assert not worse(base, result(0.5, 2.5))


def test_of_those_within_one_standard_error_the_last_is_taken():
    weak, middle, strong = result(0.5, 0.5), result(0.5, 2.5, strength=3.0), result(1.6, 2.5, strength=10.0)
    assert strongest([weak, middle, strong]) is middle
    assert strongest([weak, strong]) is weak


def trials(n_folds=4):
    """Scores that are log-likelihood ratios already, of many trials: smoothing can only hurt."""
    rng = np.random.default_rng(0)
    target = np.tile([True, False], 2000)
    scores = np.where(target, 2.0, -2.0) + 2.0 * rng.normal(size=4000)
    return CalibrationTrials(scores, target, np.full(4000, 0.5), np.arange(4000) // 2 % n_folds)


@pytest.mark.parametrize(
    ("speakers", "confounded", "smoothing"),
    [(19, False, 1 / 21), (20, False, 0.0), (20, True, 1 / 22), (40, False, 0.0)],
)
def test_labels_are_smoothed_where_speakers_are_few_or_confounded(speakers, confounded, smoothing):
    calibration, checked = calibrate_held_out(trials(), speakers, confounded=confounded)
    scores, target, weights, _ = trials()
    expected = fit_affine(scores, target, weights=weights, label_smoothing=smoothing)
    assert (calibration.scale, calibration.offset) == (expected.scale, expected.offset)
    assert checked.speakers == speakers
    assert checked.cross_channel_targets is not confounded


def test_scores_that_point_the_wrong_way_are_not_calibrated():
    scores, target, weights, fold = trials()
    calibration, checked = calibrate_held_out(CalibrationTrials(-scores, target, weights, fold), 30, confounded=False)
    assert calibration is None
    assert checked.calibrated_cllr == checked.raw_cllr


def speakers_in_two_channels(crossed, speakers):
    """Statistics of so many speakers with two samples each, of whom the first few were heard in two channels."""
    s = np.repeat(np.arange(speakers), 2)
    c = s % 3
    c[1 : 2 * crossed : 2] = (c[1 : 2 * crossed : 2] + 1) % 3
    return Statistics.from_samples(np.random.default_rng(0).normal(size=(len(s), 2)), s, c)


@pytest.mark.parametrize(
    ("crossed", "speakers", "enough"), [(8, 40, True), (7, 40, False), (5, 10, True), (4, 10, False)]
)
def test_eight_crossed_speakers_or_half_of_them_are_enough(crossed, speakers, enough):
    design = design_of(speakers_in_two_channels(crossed, speakers), np.random.default_rng(0))
    assert design.crossed == (crossed,)
    assert design.confounded is not enough
