"""Calibrations against scipy's optimiser, against their own optimum, and in files."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from jointplda import metrics
from jointplda.calibration import (
    AffineCalibration,
    fit_affine,
    fit_pav,
    load_calibration,
    save_calibration,
)
from jointplda.errors import DataWarning, FileError, InputError
from oracles import metric_definitions


def trials(seed=0, n=500, scale=3.0):
    rng = np.random.default_rng(seed)
    target = rng.random(n) < 0.3
    return (rng.normal(size=n) + 2 * target - 1) * scale + 4, target


@pytest.mark.parametrize("prior", [0.5, 0.05, 0.9])
def test_affine_is_the_weighted_optimum(prior):
    scores, target = trials()
    shift = np.log(prior / (1 - prior))

    def cost(parameters):
        llr = parameters[0] * scores + parameters[1] + shift
        return prior * np.logaddexp(0, -llr[target]).mean() + (1 - prior) * np.logaddexp(0, llr[~target]).mean()

    found = minimize(cost, [0.1, 0.0], method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-15, "maxiter": 5000})
    ours = fit_affine(scores, target, prior=prior)
    assert_allclose([ours.scale, ours.offset], found.x, rtol=1e-5)
    assert cost([ours.scale, ours.offset]) <= found.fun + 1e-14


def test_affine_at_even_prior_minimises_cllr():
    scores, target = trials(1)
    best = fit_affine(scores, target)
    here = metric_definitions.cllr(best.apply(scores), target)
    for change in (1.001, 0.999):
        assert metric_definitions.cllr(best.scale * change * scores + best.offset, target) > here
        assert metric_definitions.cllr(best.scale * scores + best.offset * change, target) > here
    assert metrics.min_cllr(scores, target) <= here


@pytest.mark.parametrize("prior", [0.5, 0.1])
@pytest.mark.parametrize("smoothing", [0.0, 0.05])
def test_whole_weights_are_repeated_trials(prior, smoothing):
    scores, target = trials(7, n=200)
    weights = np.random.default_rng(0).integers(0, 4, len(scores))
    weighted = fit_affine(scores, target, prior=prior, weights=weights, label_smoothing=smoothing)
    repeated = fit_affine(
        np.repeat(scores, weights), np.repeat(target, weights), prior=prior, label_smoothing=smoothing
    )
    assert_allclose([weighted.scale, weighted.offset], [repeated.scale, repeated.offset], rtol=1e-7)
    tenth = fit_affine(scores, target, prior=prior, weights=weights / 10, label_smoothing=smoothing)
    assert_allclose([tenth.scale, tenth.offset], [weighted.scale, weighted.offset], rtol=1e-7)


@pytest.mark.parametrize("separated", [False, True])
@pytest.mark.parametrize("smoothing", [0.02, 0.3])
def test_label_smoothing_gives_a_share_of_every_label_to_the_other_class(smoothing, separated):
    scores, target = trials(8)
    if separated:
        scores = np.where(target, 1.0, -1.0) * np.abs(scores) + 0.5
    weights = np.random.default_rng(1).uniform(0.1, 2.0, len(scores))

    def cost(parameters):
        llr = parameters[0] * scores + parameters[1]
        same, other = np.logaddexp(0, -llr), np.logaddexp(0, llr)
        of_target = np.average(((1 - smoothing) * same + smoothing * other)[target], weights=weights[target])
        of_nontarget = np.average((smoothing * same + (1 - smoothing) * other)[~target], weights=weights[~target])
        return (of_target + of_nontarget) / 2

    found = minimize(cost, [0.1, 0.0], method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-15, "maxiter": 5000})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = fit_affine(scores, target, weights=weights, label_smoothing=smoothing)
    assert_allclose([ours.scale, ours.offset], found.x, rtol=1e-5, atol=1e-7)
    assert cost([ours.scale, ours.offset]) <= found.fun + 1e-14
    assert ours.scale < fit_affine(scores, target, weights=weights, label_smoothing=smoothing / 2).scale


def test_label_smoothing_bounds_what_a_perfect_score_can_say():
    target = np.repeat([True, False], 20)
    found = fit_affine(np.where(target, 1.0, -1.0), target, label_smoothing=1 / 12)
    assert_allclose(found.apply([1.0, -1.0]), [np.log(11), -np.log(11)], rtol=1e-9)


def test_weights_of_infinite_scores_are_left_out_with_them():
    scores, target = trials()
    weights = np.random.default_rng(2).uniform(0.5, 2.0, len(scores))
    more, labels = np.insert(scores, 3, np.inf), np.insert(target, 3, True)
    with pytest.warns(DataWarning, match="1 of 501"):
        found = fit_affine(more, labels, weights=np.insert(weights, 3, 9.0))
    assert found == fit_affine(scores, target, weights=weights)


@pytest.mark.parametrize(
    "given", [{"label_smoothing": 0.5}, {"label_smoothing": -0.1}, {"weights": [1.0]}, {"weights": np.zeros(500)}]
)
def test_bad_weights_and_label_smoothing(given):
    with pytest.raises(InputError, match=next(iter(given))):
        fit_affine(*trials(), **given)


def test_affine_undoes_what_was_done():
    rng = np.random.default_rng(3)
    n = 400_000
    target = rng.random(n) < 0.5
    llr = rng.normal(size=n) * 2 + np.where(target, 2.0, -2.0)  # the LLR of two normals 4 apart of variance 4 is itself
    found = fit_affine(llr * 7 + 3, target)
    assert_allclose(found.scale * 7, 1, rtol=0.02)
    assert_allclose(found.offset + found.scale * 3, 0, atol=0.02)


@pytest.mark.parametrize(("scale", "shift"), [(1e-8, 0.0), (1e8, 0.0), (1.0, 1e6), (1e-6, -5.0)])
def test_affine_does_not_mind_units(scale, shift):
    scores, target = trials(2)
    plain, moved = fit_affine(scores, target), fit_affine(scores * scale + shift, target)
    assert_allclose(moved.apply(scores * scale + shift), plain.apply(scores), rtol=1e-6, atol=1e-6)


def test_separated_scores_warn_and_stay_finite():
    target = np.repeat([True, False], 20)
    scores = np.where(target, 1.0, -1.0) + np.linspace(-0.5, 0.5, 40)
    with pytest.warns(DataWarning, match="separates all targets"):
        found = fit_affine(scores, target)
    assert 0 < found.scale < 100
    assert np.isfinite(found.offset)


def test_affine_says_what_is_wrong():
    scores, target = trials()
    with pytest.warns(DataWarning, match="reverses the order"):
        assert fit_affine(-scores, target).scale < 0
    with pytest.raises(InputError, match="equal"):
        fit_affine(np.ones(4), [1, 0, 1, 0])
    with pytest.raises(InputError, match="prior"):
        fit_affine(scores, target, prior=0)
    with pytest.raises(InputError, match="infinite"):
        fit_affine([np.inf, 1.0, -np.inf, 2.0], [1, 0, 1, 0])
    with pytest.raises(InputError, match="no targets"):
        fit_affine([1.0, 2.0], [0, 0])


@pytest.mark.parametrize("fit", [fit_affine, fit_pav])
def test_infinite_scores_are_left_out_and_stay_infinite_or_extreme(fit):
    scores, target = trials()
    more, labels = np.append(scores, [np.inf, -np.inf]), np.append(target, [True, False])
    with pytest.warns(DataWarning, match="2 of 502 scores are infinite"):
        found = fit(more, labels)
    assert_allclose(found.apply(scores), fit(scores, target).apply(scores), rtol=1e-12)
    ends = found.apply([-np.inf, np.inf])
    assert ends[0] <= found.apply(scores).min()
    assert ends[1] >= found.apply(scores).max()


@pytest.mark.parametrize("ties", [False, True])
def test_pav_is_pool_adjacent_violators(ties):
    scores, target = trials(5, n=200)
    scores = np.round(scores) if ties else scores
    low, high = scores.min() - 1, scores.max() + 1
    shares = metric_definitions.pav(np.append(scores, [low, high]), np.append(target, [True, False]))[:-2]
    odds = (target.sum() + 1) / ((~target).sum() + 1)
    expected = np.log(shares) - np.log1p(-shares) - np.log(odds)
    found = fit_pav(scores, target)
    assert_allclose(found.apply(scores), expected, rtol=1e-10, atol=1e-12)
    assert np.isfinite(found.apply([low - 100, high + 100, -np.inf, np.inf])).all()
    grid = found.apply(np.linspace(low, high, 1000))
    assert (np.diff(grid) >= 0).all()


def test_pav_comes_close_to_min_cllr():
    scores, target = trials(6, n=5000)
    least = metrics.min_cllr(scores, target)
    reached = metrics.cllr(fit_pav(scores, target).apply(scores), target)
    assert least <= reached <= least + 0.01


def test_pav_of_separated_and_of_useless_scores():
    target = np.repeat([True, False], 20)
    llrs = fit_pav(np.where(target, 1.0, -1.0), target).apply([-1.0, 1.0])
    assert_allclose(llrs, [np.log(1 / 21) - np.log(20 / 21), np.log(20 / 21) - np.log(1 / 21)])
    assert_allclose(fit_pav(np.zeros(40), target).apply([0.0, 5.0]), 0.0, atol=1e-12)


@pytest.mark.parametrize("fit", [fit_affine, fit_pav])
def test_files(fit, tmp_path):
    scores, target = trials()
    found = fit(scores, target)
    save_calibration(found, tmp_path / "c.safetensors")
    again = load_calibration(tmp_path / "c.safetensors")
    assert type(again) is type(found)
    np.testing.assert_array_equal(again.apply(scores), found.apply(scores))


def test_foreign_files(tmp_path):
    (tmp_path / "text").write_text("scale 1\n")
    with pytest.raises(FileError, match="not a safetensors file"):
        load_calibration(tmp_path / "text")
    with pytest.raises(FileError, match="no such file"):
        load_calibration(tmp_path / "absent")
    save_calibration(AffineCalibration(1.0, 0.0), tmp_path / "ok")
    data = (tmp_path / "ok").read_bytes()
    (tmp_path / "cut").write_bytes(data[: len(data) // 2])
    with pytest.raises(FileError):
        load_calibration(tmp_path / "cut")
