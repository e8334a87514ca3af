"""The search for settings: its rules of choice, and its results against the public model."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from jointplda import JointPLDA
from jointplda.preprocessing.front_ends import NONE
from jointplda.selection.candidates import LADDER
from jointplda.selection.design import Design
from jointplda.selection.fold_trials import all_pairs, type_weights
from jointplda.selection.folds import Recipe, moved_samples
from jointplda.selection.search import CONFOUNDED_STRENGTHS, FIRST_STRENGTHS, FORMS
from oracles import metric_definitions
from worlds.automatic import ALONE, NO_EFFECT, small_world
from worlds.searches import Told, candidate, searching


def tried_by(search):
    """The settings of all candidates."""
    return [recipe.settings for recipe in search.tried]


@pytest.mark.parametrize(
    ("best", "tried"), [(1.0, FIRST_STRENGTHS), (0.01, LADDER[1:8]), (30.0, LADDER[5:]), (0.001, LADDER[:8])]
)
def test_the_ladder_is_climbed_to_the_best_strength(best, tried):
    search = searching(*small_world(), Told)
    search.table = lambda one: np.full(4, abs(np.log(one.noise_prior / best)) + abs(np.log(one.speaker_prior / best)))
    found = search.tried[search.run()]
    assert found.chosen
    assert (found.candidate.noise_prior, found.candidate.speaker_prior) == (best, best)
    assert {one.noise_prior for one in tried_by(search) if one.noise_prior == one.speaker_prior} == set(tried)
    assert [one for one in search.tried.values() if one.chosen] == [found]
    assert found.candidate.channel_rank == (3,)
    assert {one.channel_rank for one in tried_by(search)} == {(3,), (1,), (0,)}


@pytest.mark.parametrize(("gains", "taken"), [([3, 1, 2, 2], True), ([9, -4, 1, -3], False), ([0, 0, 0, 0], False)])
@pytest.mark.parametrize(
    "change",
    [
        {"channel_rank": (0,), "channel_prior": (0.0,), "interaction": 0.0},
        {"channel_rank": (1,)},
        {"channel_prior": (0.3,)},
        {"channel_prior": (3.0,)},
        {"noise_prior": 3.0},
        {"speaker_prior": 0.3},
        {"interaction": 0.0},
        {"interaction": "full"},
        {"cell_share": 0.5},
        {"cell_share": 0.0},
    ],
)
def test_fewer_columns_or_another_prior_are_taken_only_if_clearly_better(gains, taken, change):
    search = searching(*small_world(), Told)
    search.forms = FORMS  # whatever the sizes of cells
    plain = candidate(1.0, 1.0, (3,), (1.0,), (1.0,), "proportional")
    changed = replace(plain, **change)
    far = [0.5, 0.4, 0.6, 0.5]
    search.table = lambda one: {plain: far, changed: np.subtract(far, np.array(gains) / 100)}.get(one, np.ones(4))
    assert search.run().settings == (changed if taken else plain)


@pytest.mark.parametrize(("losses", "strength"), [([0, 1, 3, 9], 3.0), ([0, 9, 1, 9], 10.0), ([0, 9, 9, 9], 1.0)])
def test_without_crossed_speakers_the_strongest_within_one_standard_error_is_taken(losses, strength):
    search = searching(*small_world(channels_per_speaker=1), Told, design=Design((0,), (ALONE,)))
    noise = {1.0: [0, 0, 0, 0], 3.0: [4, -4, 1, -1], 10.0: [7, -7, 1, -1], 30.0: [1, -1, 0, 0]}
    cost = dict(zip(CONFOUNDED_STRENGTHS, losses))
    search.table = lambda one: 0.5 + (cost[one.noise_prior] + np.array(noise[one.noise_prior])) / 100
    assert search.run().settings == candidate(strength, strength, (3,), (ALONE.share,), (1.0,), "split")
    assert [one.noise_prior for one in tried_by(search)] == [*CONFOUNDED_STRENGTHS, strength]
    assert [(one.interaction, one.cell_share) for one in tried_by(search)][4:] == [("proportional", 1.0)]


@pytest.mark.parametrize("uneven", [False, True])
def test_a_full_interaction_is_tried_where_cells_have_few_sizes(uneven):
    rng = np.random.default_rng(0)
    s, c = np.repeat(np.arange(20), 16), np.tile(np.repeat(np.arange(4), 4), 20)
    if uneven:
        kept = rng.random(len(s)) < 0.6
        s, c = s[kept], c[kept]
    X = rng.normal(size=(len(s), 5)) + rng.normal(size=(20, 5))[s]
    assert (len(np.unique(np.unique(np.column_stack([s, c]), axis=0, return_counts=True)[1])) > 3) == uneven
    search = searching(X, s, c, Told)
    search.table = lambda one: np.full(4, 0.5)
    search.run()
    assert ("full" in {one.interaction for one in tried_by(search)}) != uneven


def test_channels_without_effect_have_no_columns():
    search = searching(*small_world(channels_per_speaker=1), Told)
    search.design = Design((0,), (NO_EFFECT,))
    search.table = lambda one: np.full(4, 0.5)
    assert search.run().settings == candidate(30.0, 30.0, (0,), (0.0,), (0.0,))


def test_an_interrupt_ends_the_search_with_the_best_so_far():
    seen = []

    def stop(progress):
        seen.append(progress.detail)
        assert progress.done == len(seen)
        if progress.done == 2:
            raise KeyboardInterrupt

    search = searching(*small_world(), callback=stop)
    best = search.tried[search.run()]
    assert search.interrupted
    assert best.criterion == min(one.criterion for one in seen)
    assert len(search.tried) == len(seen) == 2
    search = searching(*small_world(), Told)
    search.table = lambda one: (_ for _ in ()).throw(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        search.run()


@pytest.mark.parametrize("channels_per_speaker", [None, 1])
@pytest.mark.parametrize(
    ("rank", "share", "prior", "interaction", "cell_share"),
    [
        (2, 1.0, 1.0, 0.0, 1.0),
        (2, 0.6, 0.3, 0.0, 1.0),
        (2, 0.6, 0.0, 0.0, 1.0),
        (0, 1.0, 0.0, 0.0, 1.0),
        (2, 1.0, 1.0, "proportional", 1.0),
        (2, 1.0, 0.0, "proportional", 0.5),
        (2, 1.0, 1.0, "proportional", 0.0),
        (2, 0.6, 1.0, "split", 1.0),
        (2, 1.0, 1.0, "full", 1.0),
        (2, 1.0, 1.0, 0.7, 1.0),
    ],
)
def test_criteria_are_those_of_the_public_model(channels_per_speaker, rank, share, prior, interaction, cell_share):
    X, s, c = small_world(channels_per_speaker=channels_per_speaker)
    c = np.where((s < 5) & (np.arange(len(s)) % 2 == 0), (c + 1) % 4, c)  # too few in two channels, but some
    search = searching(X, s, c)
    tried = candidate(0.3, 1.0, (rank,), (share,), (prior,), interaction, cell_share)
    found = search.attempt(NONE[0], tried)
    every, moved_there = [], 0
    for i, split in enumerate(search.folds.splits):
        fold = search.folds.fold(NONE[0], i)
        model = JointPLDA(max_iter=25, tol=1e-3, **tried.searched).fit_statistics(fold.training)
        scores = model.score_matrix(fold.X, fold.X)[*np.triu_indices(len(fold.X), 1)]
        pairs = all_pairs(split.codes)
        weights = type_weights(pairs.target, pairs.same_channel)
        assert found.min_cllrs[i] == pytest.approx(metric_definitions.min_cllr(scores, pairs.target, weights), rel=1e-8)
        assert found.cllrs[i] == pytest.approx(metric_definitions.cllr(scores, pairs.target, weights), rel=1e-8)
        rows = pairs.rows[pairs.target] if channels_per_speaker else pairs.rows[:0]
        to = search.moved_to[i] if channels_per_speaker else np.full(len(fold.X), -1)
        elsewhere = moved_samples(search.folds, fold, i, 0, to, search.distance)
        moved = model.score_matrix(fold.X, elsewhere)[*rows.T]
        every += [np.stack([scores, pairs.target, pairs.same_channel]), np.stack([moved, moved**0, 0 * moved])]
        moved_there += len(moved)
    assert found.criterion == pytest.approx(np.mean(found.min_cllrs), rel=1e-14)
    scores, target, weights, fold_of = search.calibration_trials(Recipe(NONE[0], tried))
    assert_array_equal(np.unique(fold_of), np.arange(len(search.folds.splits)))
    expected = np.concatenate(every, axis=1)
    assert_allclose(scores, expected[0], rtol=1e-8, atol=1e-8)
    assert_array_equal(target, expected[1] == 1)
    assert_allclose(weights, type_weights(expected[1] == 1, expected[2] == 1), rtol=1e-14)
    assert bool(moved_there) == bool(channels_per_speaker)
