"""What a report draws, against the scores and models it is drawn from."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from jointplda import PLDA, JointPLDA
from jointplda.evaluation.evaluate import EvaluationSettings, TrialSides, evaluate
from jointplda.metrics.trial_types import TRIAL_TYPES
from jointplda.report import gather
from oracles import metric_definitions
from worlds.files_on_disk import scored_world
from worlds.report_pages import evaluated

PRIORS = (0.05, 0.5, 0.8)


@pytest.mark.parametrize("decimals", [1, 12])
def test_what_is_drawn_comes_from_the_scores(decimals):
    scores, target, _, _, same = scored_world(3, 2000)
    scores = np.round(scores, decimals)
    drawn = gather.system_of(
        "x", evaluate(scores, target, TrialSides(same_channel=same), EvaluationSettings(priors=(0.05, 0.3)))
    )
    for name, members in (("target", target), ("non-target", ~target)):
        curve = drawn.tippett[name]
        step = 1 / members.sum()
        at_least = np.array([(scores[members] >= x).mean() for x in curve.x])
        above = np.array([(scores[members] > x).mean() for x in curve.x])
        assert (curve.y <= at_least + 1e-12).all()
        assert (curve.y >= above + step - 1e-12).all()
        assert (curve.x[0], curve.y[0]) == (scores[members].min(), 1.0)
    for prior, point in zip((0.05, 0.3), drawn.points):
        p_miss, p_fa = metric_definitions.rates_at(scores, target, np.log((1 - prior) / prior))
        assert_allclose(point.actual, (p_fa, p_miss))
        cost = metric_definitions.dcf(point.best[1], point.best[0], prior)
        assert_allclose(cost, metric_definitions.min_dcf(scores, target, prior))
    with np.errstate(divide="ignore"):
        shares = metric_definitions.pav(scores, target)
        llrs = np.log(shares) - np.log1p(-shares) - np.log(target.sum() / (~target).sum())
    at = [np.flatnonzero(scores == x)[0] for x in drawn.pav.x]
    assert_allclose(drawn.pav.y, llrs[at], rtol=1e-9, atol=1e-12)
    assert (drawn.pav.x[0], drawn.pav.x[-1]) == (scores.min(), scores.max())
    for name, part in drawn.histograms.items():
        wanted = (same == int(name.startswith("same"))) & (target == (name.split()[1] == "target"))
        assert part.count == wanted.sum()
        inside = part.density * np.diff(part.edges)
        assert_allclose(inside.sum() + part.below + part.above, 1)
        assert_allclose(inside * part.count, np.histogram(scores[wanted], part.edges)[0], atol=1e-9)
        assert_allclose(part.above, (scores[wanted] > part.edges[-1]).mean())
    for name, curve in drawn.det.items():
        chosen = np.ones(2000, dtype=bool)
        if name != "pooled":
            of_target, of_nontarget = (int(word == "same") for word in name.split(" / "))
            chosen = np.where(target, same == of_target, same == of_nontarget)
        there = {(round(m, 9), round(f, 9)) for m, f in metric_definitions.rates(scores[chosen], target[chosen])}
        assert {(round(m, 9), round(f, 9)) for f, m in zip(curve.x, curve.y)} <= there
        assert (curve.x[0], curve.y[0], curve.x[-1], curve.y[-1]) == (1, 0, 0, 1)


@pytest.mark.parametrize("kind", ["separated", "good", "random"])
def test_a_histogram_holds_nearly_all_of_its_cell(kind):
    drawn = gather.system_of("x", evaluated(kind))
    assert set(drawn.histograms) == set(TRIAL_TYPES)
    for histogram in drawn.histograms.values():
        assert histogram.below + histogram.above <= 0.0021
        assert_allclose((histogram.density * np.diff(histogram.edges)).sum(), 1 - histogram.below - histogram.above)
        assert (histogram.density > 0).mean() > 0.6  # the range is that of the type, not of all scores


def test_few_scores_are_all_inside():
    drawn = gather.system_of("x", evaluate([3.0, 1.0, 2.0, -9.0, 0.0], [1, 1, 1, 0, 0]))
    assert [histogram.below + histogram.above for histogram in drawn.histograms.values()] == [0.0, 0.0]


def test_scores_are_sorted_once(monkeypatch):
    result = evaluated("good")
    calls = []
    sort, argsort = np.sort, np.argsort
    monkeypatch.setattr(np, "sort", lambda a, *rest, **more: calls.append(len(a)) or sort(a, *rest, **more))
    monkeypatch.setattr(np, "argsort", lambda a, *rest, **more: calls.append(len(a)) or argsort(a, *rest, **more))
    gather.system_of("x", result)
    assert [size for size in calls if size > 5000] == [20_000]


def test_channels_sit_where_U_x_is():
    rng = np.random.default_rng(0)
    speakers = np.repeat([f"s{i}" for i in range(60)], 5)
    channels = np.stack((rng.choice(["en", "fr", "de", "sv"], 300), rng.choice(["p", "q", "r"], 300)), axis=1)
    truth = JointPLDA.from_parameters(
        np.zeros(8), rng.normal(size=(8, 3)), rng.normal(size=(8, 5)), 2 * np.eye(8), channel_ranks=(3, 2)
    )
    X = truth.sample(speakers, channels=channels, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = JointPLDA(speaker_rank=3, channel_rank=[3, 2], max_iter=20).fit(X, speakers, channels=channels)
    start = 0
    for k, (rows, drawn) in enumerate(zip(([0, 1, 2], [3, 4]), gather.training_of(model).channels, strict=True)):
        U = model.U_[:, rows]
        size = len(drawn.names) * len(rows)
        x = model.fitted_.training.channel_means[start : start + size].reshape(-1, len(rows))
        start += size
        axes, lengths, _ = np.linalg.svd(U, full_matrices=False)
        assert_allclose(np.abs(drawn.at), np.abs(x @ U.T @ axes[:, :2]), atol=1e-10)
        assert_allclose(drawn.at @ drawn.at.T, (x @ U.T @ axes[:, :2]) @ (x @ U.T @ axes[:, :2]).T, atol=1e-10)
        assert_allclose(drawn.shares, (lengths**2 / (lengths**2).sum())[:2])
        assert_array_equal(drawn.counts, [(channels[:, k] == name).sum() for name in drawn.names])


def test_channels_of_a_U_whose_columns_are_not_orthogonal():
    from types import SimpleNamespace

    rng = np.random.default_rng(2)
    U, x = rng.normal(size=(6, 3)), rng.normal(size=(4, 3))
    seen = SimpleNamespace(channels=[list("abcd")], channel_counts=[np.ones(4)], channel_means=x.ravel())
    (drawn,) = gather._channels({"room": U}, seen)
    along = x @ U.T @ np.linalg.svd(U, full_matrices=False)[0][:, :2]
    assert_allclose(drawn.at @ drawn.at.T, along @ along.T, atol=1e-10)


@pytest.mark.parametrize("priors, name", [((0, 0), "log-likelihood"), ((1, 0), "log-likelihood with priors"),
                                          ((0, 1), "log-likelihood with priors")])  # fmt: skip
def test_the_objective_is_named_after_the_priors(priors, name):
    rng = np.random.default_rng(0)
    speakers = np.repeat(np.arange(20), 4)
    X = rng.normal(size=(20, 3))[speakers] + rng.normal(size=(80, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = PLDA(noise_prior=priors[0], speaker_prior=priors[1], max_iter=3).fit(X, speakers)
    assert gather.training_of(model).objective_name == name


def test_a_report_of_cells_with_one_trial_each():
    result = evaluate([2.0, -1.0, 1.0, 0.0], [1, 0, 1, 0], TrialSides(same_channel=[1, 1, 0, 0]))
    assert "same / same" in gather.system_of("x", result).det


def test_a_report_of_infinite_scores():
    result = evaluate([np.inf, -np.inf, np.inf, -np.inf, 1.0], [1, 0, 1, 0, 1])
    assert gather.system_of("x", result).name == "x"


def test_scores_one_bit_apart_have_a_histogram():
    with np.errstate(all="raise"):
        drawn = gather.system_of("x", evaluate([1, 1 + 2.3e-16, 1 + 4.5e-16, 1], [1, 0, 1, 0]))
    assert all(np.isfinite(part.density).all() for part in drawn.histograms.values())
