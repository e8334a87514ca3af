"""Draws of speakers against copied trials, and intervals against a world whose truth is known."""

from statistics import NormalDist

import numpy as np
import pytest
from numpy.testing import assert_allclose

from jointplda import metrics
from jointplda.errors import InputError
from jointplda.metrics import speaker_bootstrap as module
from jointplda.metrics.measure_kind import CLLR, EER
from jointplda.progress import Progress
from oracles import metric_definitions


def world(rng, speakers=12, samples=3, spread=0.5):
    """All pairs of a few samples of a few speakers, with effects of speakers and of pairs on the scores."""
    owner = np.repeat(np.arange(speakers), samples)
    first, second = np.triu_indices(len(owner), 1)
    a, b = owner[first], owner[second]
    target = a == b
    effect = rng.normal(size=speakers) * spread
    scores = np.where(target, 1.5, -1.5) + effect[a] + effect[b] + rng.normal(size=len(a))
    return scores, target, a, b


def weights_of(draw, a, b):
    return np.where(a == b, draw[a], draw[a] * draw[b])


def check_draws(scores, target, a, b, **tolerance):
    result = metrics.bootstrap(scores, target, a, b, draws=5, seed=3, priors=(0.05, 0.3))
    speakers = a.max() + 1
    drawn = np.random.default_rng(3).multinomial(speakers, np.full(speakers, 1 / speakers), size=5)
    for index, draw in enumerate(drawn):
        copies = weights_of(draw, a, b).astype(int)
        s, t = np.repeat(scores, copies), np.repeat(target, copies)
        expected = metrics.measure(s, t, (0.05, 0.3)).figures()
        assert set(result.draws) == set(expected)
        for measure, value in expected.items():
            assert_allclose(result.draws[measure][index], value, err_msg=str(measure), **tolerance)
        assert_allclose(expected[CLLR], metric_definitions.cllr(s, t), rtol=1e-9)


def test_draws_are_measures_of_copied_trials():
    rng = np.random.default_rng(0)
    check_draws(*world(rng), rtol=2e-6)
    scores, *rest = world(rng)
    check_draws(np.round(scores), *rest, rtol=2e-6)


def test_binned_draws_stay_close(monkeypatch):
    monkeypatch.setattr(module, "EXACT_BINS", 50)
    check_draws(*world(np.random.default_rng(1), speakers=40, samples=6), rtol=5e-3)


def test_pairs_in_pieces(monkeypatch):
    monkeypatch.setattr(module, "_PAIRS_AT_ONCE", 7)
    check_draws(*world(np.random.default_rng(0)), rtol=2e-6)


def test_infinite_scores():
    scores, target, a, b = world(np.random.default_rng(2))
    scores[0], scores[5] = np.inf, -np.inf
    with np.errstate(all="raise"):
        result = metrics.bootstrap(scores, target, a, b, draws=20)
    drawn = np.random.default_rng(0).multinomial(12, np.full(12, 1 / 12), size=20)
    hit = [bool(weights_of(draw, a, b)[5]) for draw in drawn] if target[5] else [False] * 20
    wrong = [h or (not target[0] and bool(weights_of(draw, a, b)[0])) for h, draw in zip(hit, drawn)]
    np.testing.assert_array_equal(np.isinf(result.draws[CLLR]), wrong)
    assert not np.isnan(result.draws[EER]).any()


def test_speakers_may_be_any_labels_and_sides_may_swap():
    scores, target, a, b = world(np.random.default_rng(4))
    plain = metrics.bootstrap(scores, target, a, b, draws=50)
    names = np.array([f"speaker {i:02d}" for i in range(12)])
    named = metrics.bootstrap(scores, target, names[b], names[a], draws=50)
    assert plain.speakers == named.speakers == 12
    assert_allclose(plain.draws[EER], named.draws[EER], rtol=1e-12)
    low, high = plain.interval("EER")
    assert low <= metrics.eer(scores, target) <= high


def test_a_class_that_vanishes_is_left_out():
    scores, target, a, b = np.array([1.0, 2.0, -1.0]), np.array([1, 1, 0]), np.array([0, 1, 0]), np.array([0, 1, 1])
    result = metrics.bootstrap(scores, target, a, b, draws=100)
    assert 0 < np.isnan(result.draws[EER]).sum() < 100
    assert result.interval("EER") == (0.0, 0.0)


def test_progress_and_bad_settings():
    scores, target, a, b = world(np.random.default_rng(4))
    calls = []
    metrics.bootstrap(scores, target, a, b, draws=300, callback=calls.append)
    assert calls == [Progress("bootstrap", done, 300) for done in (128, 256, 300)]
    with pytest.raises(InputError, match="draws"):
        metrics.bootstrap(scores, target, a, b, draws=0)
    with pytest.raises(InputError, match="level"):
        metrics.bootstrap(scores, target, a, b, level=1.0)
    with pytest.raises(InputError, match=r"'EER', .*got 'eer'"):
        metrics.bootstrap(scores, target, a, b, draws=1).interval("eer")
    with pytest.raises(InputError, match="test_speakers"):
        metrics.bootstrap(scores, target, a, b[:-1])
    with pytest.raises(InputError, match="missing"):
        metrics.bootstrap(scores, target, np.where(a == 0, "", "x"), np.where(b == 1, "y", "z"))


def test_interval_is_a_percentile_moved_by_the_bias():
    draws = np.arange(1.0, 1001.0)
    plain = metrics.Bootstrap({EER: draws}, {EER: 500.5}, 0.9, 10)
    assert plain.interval("EER", correct_bias=False) == (50.0, 950.0)
    assert plain.interval("EER") == (50.0, 950.0)
    biased = metrics.Bootstrap({EER: draws}, {EER: 700.5}, 0.9, 10)
    z0 = NormalDist().inv_cdf(0.7)
    expected = [1000 * NormalDist().cdf(2 * z0 + z) for z in (-1.6448536, 1.6448536)]
    assert_allclose(biased.interval("EER"), expected, atol=1.0)


@pytest.mark.slow
def test_intervals_cover_the_truth():
    """90 % intervals of 300 worlds of 100 speakers; the truth is the mean of six worlds of 600.

    The standard error of a share of 300 is 1.7 %. minCllr of a finite set is so optimistic that it falls short.
    """
    rng = np.random.default_rng(1)
    names = ["EER", "Cllr", "actDCF(0.05)", "minDCF(0.05)", "minCllr"]
    large = [metrics.measure(*world(rng, speakers=600)[:2], (0.05,)).named() for _ in range(6)]
    truth = {name: np.mean([each[name] for each in large]) for name in names}
    inside = dict.fromkeys(names, 0)
    for _ in range(300):
        result = metrics.bootstrap(*world(rng, speakers=100), draws=400, priors=(0.05,))
        for name in names:
            low, high = result.interval(name)
            inside[name] += low <= truth[name] <= high
    shares = {name: count / 300 for name, count in inside.items()}
    for name in names[:4]:
        assert 0.84 <= shares[name] <= 0.96, shares
    assert shares["minCllr"] >= 0.75, shares
