"""Corners of metrics, draws and calibrations, each by brute force."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from jointplda import metrics
from jointplda.calibration import AffineCalibration, fit_affine, load_calibration, save_calibration
from jointplda.calibration.pav import pav_curve
from jointplda.errors import DataWarning
from jointplda.metrics.measure_kind import CLLR, EER, MIN_CLLR, Measure, MeasureKind
from jointplda.metrics.sorted_trials import SortedTrials, roc_for_drawing, spread_ranks
from oracles import metric_definitions

PRIORS = (0.05, 0.5, 0.8)


def test_infinite_scores_do_not_tie_with_the_largest_finite_one():
    scores, target = [np.inf, 5.0, -5.0, -np.inf, 5.0, -5.0], [1, 0, 1, 0, 1, 0]
    assert_allclose(metrics.eer(scores, target), metric_definitions.eer(scores, target))
    assert metrics.eer([np.inf, 5.0], [1, 0]) == 0.0


@pytest.mark.parametrize("n", range(2, 300, 7))
def test_spread_ranks_reach_both_ends(n):
    ranks = spread_ranks(n, 1.02, 1.05)
    assert (ranks[0], ranks[-1]) == (0, n - 1)
    assert (np.diff(ranks) > 0).all()


def mixed_world(seed, n=60, speakers=5):
    """Trials at random: non-targets within a speaker and targets across speakers are there too."""
    rng = np.random.default_rng(seed)
    target = rng.random(n) < 0.5
    target[:2] = True, False
    return np.round(rng.normal(size=n) * 3 + target, 1), target, *rng.integers(0, speakers, (2, n))


def defined(scores, target):
    figures = {EER: metric_definitions.eer(scores, target), CLLR: metric_definitions.cllr(scores, target)}
    with np.errstate(all="ignore"):
        figures[MIN_CLLR] = metric_definitions.min_cllr(scores, target)
    for prior in PRIORS:
        figures[Measure(MeasureKind.MIN_DCF, prior)] = metric_definitions.min_dcf(scores, target, prior)
        figures[Measure(MeasureKind.ACT_DCF, prior)] = metric_definitions.act_dcf(scores, target, prior)
    return figures


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("infinite", [False, True])
def test_draws_and_estimates_of_any_trials_are_measures_of_copies(seed, infinite):
    scores, target, a, b = mixed_world(seed)
    if infinite:
        scores[[3, 4]] = np.inf, -np.inf
    result = metrics.bootstrap(scores, target, a, b, draws=4, seed=seed, priors=PRIORS)
    drawn = np.random.default_rng(seed).multinomial(5, np.full(5, 0.2), size=4)
    assert result.speakers == 5
    for index, draw in enumerate([*drawn, np.ones(5, dtype=int)]):
        copies = np.where(a == b, draw[a], draw[a] * draw[b])
        s, t = np.repeat(scores, copies), np.repeat(target, copies)
        for measure, value in defined(s, t).items():
            found = result.draws[measure][index] if index < 4 else result.estimates[measure]
            assert_allclose(found, value, rtol=1e-5, atol=1e-7, err_msg=str(measure))


def test_ties_with_the_estimate_are_no_bias():
    draws = np.concatenate((np.arange(300.0), np.full(400, 300.0), np.arange(301.0, 601.0)))
    found = metrics.Bootstrap({EER: draws}, {EER: 300.0}, 0.9, 10)
    assert_allclose(found.interval("EER"), found.interval("EER", correct_bias=False), atol=1.0)


def test_infinite_draws_have_an_interval():
    draws = np.concatenate((np.arange(40.0), np.full(60, np.inf)))
    found = metrics.Bootstrap({CLLR: draws}, {CLLR: np.inf}, 0.9, 10)
    assert found.interval("Cllr", correct_bias=False) == (4.0, np.inf)
    assert metrics.Bootstrap({CLLR: draws[40:]}, {CLLR: np.inf}, 0.9, 10).interval("Cllr") == (np.inf, np.inf)


@pytest.mark.parametrize("sign", [1, -1])
def test_separated_scores_are_fitted_to_shares_by_the_rule_of_succession(sign):
    target = np.repeat([True, False], [6, 30])
    scores = sign * (np.where(target, 1.0, -1.0) + np.linspace(-0.5, 0.5, 36))
    high, low = 7 / 8, 1 / 32

    def cost(parameters):
        llr = parameters[0] * scores + parameters[1]
        t, n = llr[target], llr[~target]
        of_target = high * np.logaddexp(0, -t) + (1 - high) * np.logaddexp(0, t)
        of_nontarget = low * np.logaddexp(0, -n) + (1 - low) * np.logaddexp(0, n)
        return of_target.mean() + of_nontarget.mean()

    best = minimize(cost, [sign, 0.0], method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-15, "maxiter": 5000})
    with pytest.warns(DataWarning, match="separates all targets"):
        found = fit_affine(scores, target)
    assert_allclose([found.scale, found.offset], best.x, rtol=1e-5)


def test_the_prior_is_stored(tmp_path):
    save_calibration(AffineCalibration(2.0, -1.0, 0.05), tmp_path / "c")
    assert load_calibration(tmp_path / "c") == AffineCalibration(2.0, -1.0, 0.05)


@pytest.mark.parametrize("ties", [False, True])
def test_pav_curve_has_the_ends_and_ratios_of_the_blocks(ties):
    rng = np.random.default_rng(5)
    target = rng.random(200) < 0.3
    scores = rng.normal(size=200) + 2 * target
    scores = np.round(scores * 2) if ties else scores
    shares = metric_definitions.pav(scores, target)
    at, llrs = pav_curve(SortedTrials.of(scores, target))
    levels = np.unique(shares)
    assert_allclose(at[0::2], [scores[shares == level].min() for level in levels])
    assert_allclose(at[1::2], [scores[shares == level].max() for level in levels])
    with np.errstate(divide="ignore"):
        expected = np.log(levels) - np.log1p(-levels) - np.log(target.sum() / (~target).sum())
    assert_allclose(llrs[0::2], expected, rtol=1e-10, atol=1e-12)
    assert_allclose(llrs[1::2], expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("n_nontargets", [1, 3])
def test_one_target_is_drawn(n_nontargets):
    _, p_miss, p_fa = roc_for_drawing(SortedTrials.of([5.0, *range(n_nontargets)], [1] + [0] * n_nontargets))
    assert (p_miss[0], p_fa[0], p_miss[-1], p_fa[-1]) == (0, 1, 1, 0)
    assert (0.0, 0.0) in set(zip(p_miss, p_fa))


def test_quasi_separated_scores_are_separated():
    with pytest.warns(DataWarning, match="separates all targets"):
        found = fit_affine([0.0, 1, 2, 0, -1, -2], [1, 1, 1, 0, 0, 0])
    assert found.scale < 5


def test_infinities_beside_the_largest_floats():
    scores, target = [np.inf, 1e308, 0.0], [0, 0, 1]
    assert_allclose(metrics.eer(scores, target), metric_definitions.eer(scores, target))


def test_tiny_scores_beside_huge_ones():
    scores, target = [1e300, 1e-30, 2e-30, -1e300], [1, 0, 1, 0]
    assert_allclose(metrics.eer(scores, target), metric_definitions.eer(scores, target))
