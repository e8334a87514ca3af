"""Rules of choice: strengths where minCllr cannot tell, front ends, trials made harder, and separable trials."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from jointplda import JointPLDA, JointPLDACV
from jointplda.calibration.affine import fit_affine
from jointplda.metrics import cllr
from jointplda.model.settings import ModelSettings
from jointplda.preprocessing import Center, LengthNorm, Reduce, Whiten
from jointplda.preprocessing.front_ends import AUTO, FrontEnd
from jointplda.selection.candidates import CandidateResult, best_strength
from jointplda.selection.fold_trials import type_weights
from jointplda.selection.folds import Recipe
from jointplda.selection.held_out_calibration import CalibrationTrials, calibrate_held_out
from worlds.automatic import quietly, small_world
from worlds.searches import Told, searching


def result(strength, min_cllrs, cllrs):
    return CandidateResult(ModelSettings(noise_prior=strength), tuple(min_cllrs), tuple(cllrs), 0.0)


@pytest.mark.parametrize(
    ("results", "by_cllr", "strength"),
    [
        # clearly lower minCllr
        ({0.1: ([5, 6, 5, 6], [9, 9, 9, 9]), 1.0: ([9, 9, 9, 9], [1, 1, 1, 1])}, True, 0.1),
        # within one standard error of the lowest minCllr: the lower Cllr
        ({0.1: ([5, 6, 5, 6], [9, 9, 9, 8]), 1.0: ([4, 6, 6, 7], [7, 7, 6, 7])}, True, 1.0),
        ({0.1: ([5, 6, 5, 6], [7, 7, 6, 7]), 1.0: ([4, 6, 6, 7], [9, 9, 9, 8])}, True, 0.1),
        ({0.1: ([5, 6, 5, 6], [7, 7, 6, 7]), 1.0: ([4, 6, 6, 7], [9, 9, 9, 8])}, False, 1.0),
        # all alike: the strength nearest to 1
        ({s: ([0] * 4, [0] * 4) for s in (0.001, 0.3, 3.0, 30.0)}, True, 3.0),
        ({s: ([0] * 4, [1e-20 * s * k for k in (1, 9, 2, 3)]) for s in (0.1, 0.3, 3.0)}, True, 3.0),
    ],
)
def test_cllr_decides_where_min_cllr_cannot(results, by_cllr, strength):
    found = best_strength([result(s, *values) for s, values in results.items()], by_cllr=by_cllr)
    assert found.candidate.noise_prior == strength


FRONT_ENDS = tuple(FrontEnd(name, steps) for name, steps in (
    ("first", (Center(),)), ("second", (LengthNorm(),)), ("third", (Whiten(),)),
))  # fmt: skip


class ToldByFrontEnd(Told):
    """A search of three front ends whose results are told."""

    def __init__(self, folds, front_ends, *given, **settings):
        super().__init__(folds, FRONT_ENDS, *given, **settings)

    def attempt(self, front_end, candidate):
        gain = self.gains.get(front_end.name, np.zeros(4))
        self.table = lambda one: 0.5 + 0.01 * abs(np.log(one.noise_prior)) - gain / 100
        return super().attempt(front_end, candidate)


@pytest.mark.parametrize(
    ("gains", "stretch", "chosen"),
    [
        ({}, 1.0, "first"),
        ({"second": [2, 4, 2, 4]}, 1.0, "second"),
        ({"second": [-1, 3, 1, 3]}, 1.0, "first"),  # better by one standard error, and not by two
        ({"third": [2, 4, 2, 4]}, 1.0, "third"),
        ({"second": [2, 4, 2, 4], "third": [3, 4, 3, 4]}, 1.0, "second"),
        ({"second": [2, 4, 2, 4], "third": [5, 7, 5, 7]}, 1.0, "third"),
        ({"second": [2, 4, 2, 4], "third": [5, 7, 5, 7]}, 2.0, "second"),  # it undoes what was stretched
    ],
)
def test_another_front_end_must_win_by_two_standard_errors(gains, stretch, chosen):
    search = searching(*small_world(), ToldByFrontEnd)
    search.gains, search.stretch = {name: np.array(gain) for name, gain in gains.items()}, stretch
    recipe = search.run()
    assert recipe.front_end.name == chosen
    assert search.tried[recipe].front_end == chosen
    refined = [one.front_end.name for one in list(search.tried)[-5:]]
    assert set(refined) == {chosen}


def easy_world(spread=6.0, speakers=24, each=8):
    rng = np.random.default_rng(0)
    s = np.repeat(np.arange(speakers), each)
    c = np.tile(np.arange(4), len(s) // 4)
    X = spread * rng.normal(size=(speakers, 5))[s] + rng.normal(size=(4, 5))[c] + 0.3 * rng.normal(size=(len(s), 5))
    return X, s, c


def test_trials_that_are_too_easy_are_made_harder():
    X, s, c = easy_world()
    search = searching(X, s, c)
    search.run()
    assert search.stretch >= 2.0
    first = next(iter(search.tried.values()))
    assert first.criterion >= 0.01
    # the same from the samples: further from the mean of their speaker, scored by the model of the fold
    for i, split in enumerate(search.folds.splits):
        Z = X[split.held_out]
        own = s[split.held_out]
        means = np.stack([Z[own == one].mean(axis=0) for one in own])
        far = means + search.stretch * (Z - means)
        model = quietly(JointPLDA(max_iter=25, tol=1e-3, **first.candidate.searched), *(
            labels[split.training] for labels in (X, s, c)
        ))  # fmt: skip
        scores = model.score_matrix(far, far)[*split.pairs.rows.T]
        weights = type_weights(split.pairs.target, split.pairs.same_channel)
        assert first.cllrs[i] == pytest.approx(cllr(scores, split.pairs.target, weights), rel=1e-8)
    plain = searching(*small_world())
    plain.run()
    assert plain.stretch == 1.0


def test_stretched_samples_go_through_the_front_end_once():
    X, s, c = easy_world()
    folds = searching(X, s, c).folds
    front_end = FrontEnd("unit", (Center(), LengthNorm()))
    fold, split = folds.fold(front_end, 1), folds.splits[1]
    Z, own = X[split.held_out], s[split.held_out]
    means = np.stack([Z[own == one].mean(axis=0) for one in own])
    far = means + 4 * (Z - means) - X[split.training].mean(axis=0)
    expected = far / np.linalg.norm(far, axis=1, keepdims=True)
    assert_allclose(folds.stretched(fold, 1, 4.0), expected, rtol=1e-10, atol=1e-12)


def test_cllr_of_stretched_trials_decides_nothing():
    search = searching(*small_world(), Told)
    search.stretch = 2.0
    search.table = lambda one: np.array([5, 6, 5, 6]) / 10 - (one.noise_prior == 1.0) * np.array([-1, 1, 0, 1]) / 100
    real = search.attempt

    def attempt(front_end, candidate):
        found = replace(real(front_end, candidate), cllrs=(1.0 / candidate.noise_prior,) * 4)
        search.tried[Recipe(front_end, candidate)] = found
        return found

    search.attempt = attempt
    assert search.run().settings.noise_prior == 1.0


def test_the_usual_front_end_comes_first_and_whitening_last():
    assert [one.name for one in AUTO] == ["length norm", "no length norm", "scaled features", "whitening"]


def test_the_calibration_of_an_easy_world_leaves_scores_as_they_are():
    X, s, c = easy_world()
    model = quietly(JointPLDACV(), X, s, c)
    assert model.held_out_cllr_.separable
    assert (model.calibration_.scale, model.calibration_.offset) == (1.0, 0.0)
    assert model.held_out_cllr_.raw_cllr < 0.01


def trials_of(targets, nontargets):
    scores = np.concatenate([targets, nontargets])
    target = np.arange(len(scores)) < len(targets)
    return CalibrationTrials(scores, target, type_weights(target, target), np.arange(len(scores)) % 4)


@pytest.mark.parametrize("confounded", [False, True])
def test_separable_trials_are_calibrated_towards_their_own_scores(confounded):
    rng = np.random.default_rng(1)
    easy = trials_of(rng.uniform(20, 40, 50), rng.uniform(-40, -20, 500))
    calibration, found = calibrate_held_out(easy, 40, confounded=confounded)
    assert found.separable
    assert 0.95 < calibration.scale < 1.3
    assert ((calibration.scale, calibration.offset) == (1.0, 0.0)) != confounded
    assert calibration.offset == pytest.approx(0.0, abs=0.5)
    moved = trials_of(rng.uniform(50, 60, 50), rng.uniform(10, 20, 500))  # separable, but not at 0
    calibration, found = calibrate_held_out(moved, 40, confounded=confounded)
    assert found.separable
    assert calibration.apply([15.0])[0] < 0 < calibration.apply([55.0])[0]
    assert found.calibrated_cllr < 0.05 < found.raw_cllr
    mixed = trials_of(np.append(rng.uniform(20, 40, 50), -5.0), np.append(rng.uniform(-40, -20, 500), 5.0))
    assert not calibrate_held_out(mixed, 40, confounded=confounded)[1].separable


def test_labels_smoothed_towards_scores():
    """Where all labels are what the scores say, the scores are the best calibration of themselves."""
    rng = np.random.default_rng(2)
    scores, target = rng.normal(size=300) * 3, rng.random(300) < 0.5
    near = fit_affine(scores, target, label_smoothing=0.4999999, towards_scores=True)
    plain = fit_affine(scores, target, label_smoothing=0.0)

    def cost(one, truth):
        logit = one.scale * scores + one.offset
        share = np.where(target, 0.5 / target.sum(), 0.5 / (~target).sum())
        return np.sum(share * (np.logaddexp(0, logit) - truth * logit))

    truth = 0.5000001 * target + 0.4999999 / (1 + np.exp(-scores))
    best = cost(near, truth)
    for change in (1e-3, -1e-3):
        assert cost(type(near)(near.scale + change, near.offset), truth) > best
        assert cost(type(near)(near.scale, near.offset + change), truth) > best
    shifted = fit_affine(scores, target, prior=0.2, label_smoothing=0.4999999, towards_scores=True)
    share = np.where(target, 0.2 / target.sum(), 0.8 / (~target).sum())
    shift = np.log(0.2 / 0.8)
    own = 0.5000001 * target + 0.4999999 / (1 + np.exp(-scores - shift))
    gap = share * (1 / (1 + np.exp(-(shifted.scale * scores + shifted.offset) - shift)) - own)
    assert abs(gap.sum()) < 1e-9
    assert abs(gap @ scores) < 1e-9
    assert_allclose(fit_affine(scores, target, towards_scores=True).apply(scores), plain.apply(scores), rtol=1e-12)


def test_automatic_settings_try_every_front_end():
    X, s, c = small_world()
    model = quietly(JointPLDACV(max_iter=5), X, s, c)
    assert {one.front_end for one in model.candidates_} == {one.name for one in AUTO}
    assert Reduce not in [type(step) for _, step in model.best_estimator_.steps[:-1]]  # its size is decided once
