"""Measures against their definitions (tests/oracles/metric_definitions.py) and against llreval."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from jointplda import metrics
from jointplda.errors import InputError, InputTypeError
from jointplda.metrics.convex_hull import hull, hull_of_labels, labels_in_order, pool
from jointplda.metrics.sorted_trials import SortedTrials, roc_for_drawing
from oracles import metric_definitions

TIGHT = {"rtol": 1e-10, "atol": 1e-13}


def trials(seed, n=60, kind="plain"):
    rng = np.random.default_rng(seed)
    target = rng.random(n) < rng.uniform(0.1, 0.9)
    target[:2] = True, False
    scores = rng.normal(size=n) * 2 + 2.0 * target - 1
    if kind == "ties":
        scores = np.round(scores)
    if kind == "one value":
        scores = np.zeros(n)
    if kind == "separated":
        scores = np.where(target, 1.0, -1.0) * rng.uniform(0.5, 30, n)
    if kind == "reversed":
        scores = -np.where(target, 1.0, -1.0) * rng.uniform(0.5, 3, n)
    if kind == "infinite":
        scores[rng.integers(0, n, 8)] = np.inf
        scores[rng.integers(0, n, 8)] = -np.inf
    if kind == "last bit":
        scores = 1.0 + np.spacing(1.0) * rng.integers(0, 4, n) * np.where(rng.random(n) < 0.5, 1, 2)
    if kind == "zeros":
        scores = rng.choice([-0.0, 0.0, 5e-324, -5e-324, 1e-30, -1e-30], n)
    if kind == "huge":
        scores *= 1e300
    return scores, target


KINDS = ["plain", "ties", "one value", "separated", "reversed", "infinite", "last bit", "huge"]
CASES = [(seed, kind) for kind in KINDS for seed in range(4)]


@pytest.mark.parametrize(("seed", "kind"), CASES)
def test_eer_and_minimum_costs_are_their_definitions(seed, kind):
    scores, target = trials(seed, kind=kind)
    assert_allclose(metrics.eer(scores, target), metric_definitions.eer(scores, target), **TIGHT)
    assert_allclose(metrics.min_cllr(scores, target), metric_definitions.min_cllr(scores, target), **TIGHT)
    for prior, miss, false_alarm in [(0.05, 1, 1), (0.01, 1, 1), (0.5, 10, 1), (0.3, 1, 5)]:
        expected = metric_definitions.min_dcf(scores, target, prior, miss, false_alarm)
        assert_allclose(metrics.min_dcf(scores, target, prior, miss, false_alarm), expected, **TIGHT)


@pytest.mark.parametrize(("seed", "kind"), [case for case in CASES if case[1] != "huge"])
def test_cllr_and_actual_costs_are_their_definitions(seed, kind):
    scores, target = trials(seed, kind=kind)
    assert_allclose(metrics.cllr(scores, target), metric_definitions.cllr(scores, target), rtol=1e-10)
    for prior, miss, false_alarm in [(0.05, 1, 1), (0.5, 1, 1), (0.3, 1, 5)]:
        expected = metric_definitions.act_dcf(scores, target, prior, miss, false_alarm)
        assert_allclose(metrics.act_dcf(scores, target, prior, miss, false_alarm), expected, **TIGHT)


def test_measure_gives_what_the_functions_give():
    scores, target = trials(3, n=300)
    result = metrics.measure(scores, target)
    named = result.named()
    assert named["EER"] == metrics.eer(scores, target)
    assert named["Cllr"] == metrics.cllr(scores, target)
    assert named["minCllr"] == metrics.min_cllr(scores, target)
    assert_allclose(named["calibration loss"], named["Cllr"] - named["minCllr"])
    for prior in metrics.PRIORS:
        assert named[f"minDCF({prior:g})"] == metrics.min_dcf(scores, target, prior)
        assert named[f"actDCF({prior:g})"] == metrics.act_dcf(scores, target, prior)
    assert result.targets == target.sum()
    assert result.nontargets == (~target).sum()
    assert set(metrics.measure(scores, target, is_llr=False).named()) & {"Cllr", "actDCF(0.05)"} == set()


def test_figures_carry_their_kind_and_prior():
    figures = metrics.measure(*trials(3), (0.05, 0.5)).figures()
    assert [(each.kind.value, each.prior) for each in figures] == [
        ("EER", None),
        *((kind, prior) for kind in ("minDCF", "actDCF") for prior in (0.05, 0.5)),
        ("Cllr", None),
        ("minCllr", None),
        ("calibration loss", None),
    ]
    assert [str(each) for each in figures][:3] == ["EER", "minDCF(0.05)", "minDCF(0.5)"]
    cosines = metrics.measure(*trials(3), (0.05,), is_llr=False).figures()
    assert {each for each in figures if not each.kind.needs_llr and each.prior != 0.5} == set(cosines)


def test_the_hull_comes_with_the_measures():
    scores, target = trials(4, n=300)
    own, again = metrics.measure(scores, target).hull, hull(scores, target)
    np.testing.assert_array_equal(own.targets, again.targets)
    np.testing.assert_array_equal(own.nontargets, again.nontargets)


def test_known_values():
    target = [True, True, False, False]
    assert metrics.eer([3, 1, 0, -1], target) == 0.0
    assert metrics.min_cllr([3, 1, 0, -1], target) == 0.0
    assert metrics.eer([0, 0, 0, 0], target) == 0.5
    assert metrics.cllr([0, 0, 0, 0], target) == pytest.approx(1.0)
    assert metrics.min_cllr([0, 0, 0, 0], target) == pytest.approx(1.0)
    assert metrics.min_dcf([-1, -1, 1, 1], target) == 1.0
    assert metrics.cllr([np.inf, np.inf, -np.inf, -np.inf], target) == 0.0
    assert metrics.cllr([-np.inf, np.inf, -np.inf, -np.inf], target) == np.inf


@pytest.mark.parametrize("kind", [*KINDS, "zeros"])
def test_labels_ride_in_the_sort_without_disturbing_it(kind):
    scores, target = trials(9, n=1000, kind=kind)
    order = np.lexsort((~target, scores))
    np.testing.assert_array_equal(labels_in_order(scores, target), target[order])


@pytest.mark.parametrize(
    ("n", "share", "gap"), [(1, 0.5, 0), (64, 0.5, 0), (5003, 0.5, 2), (40_000, 0.02, 1), (999, 0.9, 0)]
)
def test_hull_by_words_is_the_hull_of_single_labels(n, share, gap):
    rng = np.random.default_rng(n)
    scores = rng.normal(size=n + 2)
    labels = np.concatenate(([False, True], rng.random(n) < share))
    labels = labels[np.argsort(scores + gap * labels)]
    slow, fast = pool(labels * 1.0, 1.0 - labels), hull_of_labels(labels)
    np.testing.assert_array_equal(slow.targets, fast.targets)
    np.testing.assert_array_equal(slow.nontargets, fast.nontargets)


@pytest.mark.parametrize("kind", ["plain", "ties", "infinite"])
def test_weights_count_as_copies(kind):
    scores, target = trials(5, kind=kind)
    weights = np.random.default_rng(1).integers(0, 4, len(scores))
    weights[:2] = 1
    copied = hull(np.repeat(scores, weights), np.repeat(target, weights))
    weighted = hull(scores, target, weights)
    assert_allclose(metrics.measures.hull_eer(weighted), metrics.measures.hull_eer(copied), **TIGHT)
    assert_allclose(metrics.measures.hull_min_cllr(weighted), metrics.measures.hull_min_cllr(copied), **TIGHT)
    assert_allclose(metrics.measures.hull_eer(weighted), metric_definitions.eer(scores, target, weights), **TIGHT)


@pytest.mark.parametrize(("seed", "kind"), CASES)
def test_weighted_costs_are_those_of_repeated_trials(seed, kind):
    scores, target = trials(seed, kind=kind)
    weights = np.random.default_rng(seed).integers(0, 4, len(scores))
    weights[:2] = 2
    copied, labels = np.repeat(scores, weights), np.repeat(target, weights)
    assert_allclose(metrics.min_cllr(scores, target, weights), metrics.min_cllr(copied, labels), **TIGHT)
    assert_allclose(metrics.min_cllr(scores, target, 0.1 * weights), metrics.min_cllr(copied, labels), **TIGHT)
    if kind != "huge":
        assert_allclose(metrics.cllr(scores, target, weights), metrics.cllr(copied, labels), rtol=1e-10)
        used = weights > 0
        expected = metric_definitions.cllr(scores[used], target[used], weights[used])
        assert_allclose(metrics.cllr(scores, target, weights), expected, rtol=1e-10)


@pytest.mark.parametrize("measure", [metrics.cllr, metrics.min_cllr])
def test_equal_weights_change_nothing(measure):
    scores, target = trials(11, n=300)
    unequal = np.where(target, 5.0, 0.2)  # only weights within a class count
    for weights in (np.ones(300), np.full(300, 7.0), unequal):
        assert_allclose(measure(scores, target, weights), measure(scores, target), **TIGHT)


@pytest.mark.parametrize("measure", [metrics.cllr, metrics.min_cllr])
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, 1.0], "one value for each of 3"),
        ([1.0, -1.0, 1.0], "not negative"),
        ([1.0, np.nan, 1.0], "finite"),
        ([0.0, 1.0, 1.0], "some targets"),
        ([1.0, 0.0, 0.0], "some non-targets"),
    ],
)
def test_bad_weights(measure, weights, message):
    with pytest.raises(InputError, match=message):
        measure([2.0, 1.0, 0.0], [1, 0, 0], weights)


def test_order_of_trials_does_not_matter():
    scores, target = trials(7, kind="ties")
    order = np.random.default_rng(0).permutation(len(scores))
    assert metrics.measure(scores, target).eer == metrics.measure(scores[order], target[order]).eer


def test_type_pairs():
    target = np.array([1, 1, 0, 0, 1, 0])
    same = np.array([1, 0, 1, 0, 0, 0])
    parts = metrics.type_pairs(target, same)
    assert list(parts) == list(metrics.TYPE_PAIRS)
    np.testing.assert_array_equal(np.flatnonzero(parts["cross / same"]), [1, 2, 4])
    np.testing.assert_array_equal(np.flatnonzero(parts["same / cross"]), [0, 3, 5])
    np.testing.assert_array_equal(np.flatnonzero(parts["same / same"]), [0, 2])
    np.testing.assert_array_equal(np.flatnonzero(parts["cross / cross"]), [1, 3, 4, 5])


def test_roc_steps_over_ties():
    scores, target = trials(2, kind="ties")
    _, p_miss, p_fa = metrics.roc(scores, target)
    assert_allclose(np.stack((p_miss, p_fa), axis=1), metric_definitions.rates(scores, target), **TIGHT)


@pytest.mark.parametrize("kind", ["plain", "ties", "infinite", "one value"])
def test_rates_for_drawing_are_on_the_roc(kind):
    scores, target = trials(3, n=3000, kind=kind)
    whole = {t: (m, f) for t, m, f in zip(*metrics.roc(scores, target))}
    thresholds, p_miss, p_fa = roc_for_drawing(SortedTrials.of(scores, target))
    assert (p_miss[0], p_fa[0], p_miss[-1], p_fa[-1]) == (0.0, 1.0, 1.0, 0.0)
    for t, m, f in zip(thresholds[:-1], p_miss[:-1], p_fa[:-1]):
        assert_allclose((m, f), metric_definitions.rates_at(scores, target, t), **TIGHT)
    assert len(thresholds) <= len(whole) + 1
    if kind == "plain":
        assert len(thresholds) < 1500


def test_agrees_with_llreval():
    peer = pytest.importorskip("llreval.quick_eval", reason="llreval is in the dev extra")
    for seed in range(3):
        scores, target = trials(seed, n=400)
        eer, cllr, min_cllr = peer.tarnon_2_eer_cllr_mincllr(scores[target], scores[~target])
        ours = metrics.measure(scores, target)
        assert_allclose([ours.eer, ours.cllr, ours.min_cllr], [eer, cllr, min_cllr], rtol=1e-9)


@pytest.mark.slow
def test_agrees_with_lir():
    peer = pytest.importorskip("lir.metrics", reason="lir is installed by make test-all")
    from lir.data.models import LLRData

    for seed in range(3):
        scores, target = trials(seed, n=400)
        theirs = LLRData(features=scores[:, None] / np.log(10), labels=target.astype(int))  # lir takes log10 ratios
        ours = metrics.measure(scores, target)
        assert_allclose([ours.cllr, ours.min_cllr], [peer.cllr(theirs), peer.cllr_min(theirs)], rtol=1e-6)


@pytest.mark.parametrize(
    ("scores", "target", "message"),
    [
        ([1.0, np.nan, 2.0], [1, 0, 1], "position 1"),
        ([1.0, 2.0], [1, 1], "no non-targets"),
        ([1.0, 2.0], [0, 0], "no targets"),
        ([], [], "no targets"),
        ([1.0, 2.0], [1, 0, 1], "2 scores"),
        ([1.0, 2.0], [1, 2], "True or 1"),
        ([1.0, 2.0], ["target", "nontarget"], "True or 1"),
        ([[1.0, 2.0]], [1, 0], "one dimension"),
    ],
)
def test_bad_trials(scores, target, message):
    with pytest.raises(InputError, match=message):
        metrics.measure(scores, target)


def test_bad_scores_and_settings():
    with pytest.raises(InputTypeError, match="numbers"):
        metrics.eer(["a", "b"], [1, 0])
    with pytest.raises(InputError, match="between 0 and 1"):
        metrics.min_dcf([1.0, 0.0], [1, 0], prior=1.0)
    with pytest.raises(InputError, match="positive"):
        metrics.act_dcf([1.0, 0.0], [1, 0], cost_fa=0)
    with pytest.raises(InputError, match="not negative"):
        hull([1.0, 0.0], [1, 0], [1, -1])
