"""What settings are tried on: trials, folds of speakers, and the test of channels."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import brentq
from sklearn.model_selection import GroupKFold, GroupShuffleSplit, KFold

from jointplda import Statistics
from jointplda.errors import InputError
from jointplda.preprocessing.front_ends import NONE
from jointplda.selection import design as design_module
from jointplda.selection.design import ChannelTest, Design, channel_test, crossed_speakers, design_of
from jointplda.selection.fold_trials import all_pairs, trial_rows, type_weights
from jointplda.selection.folds import make_folds, moved_samples, other_channels
from worlds.automatic import ALONE, NO_EFFECT, small_world


def test_pairs_and_their_weights_are_what_they_say():
    rng = np.random.default_rng(0)
    codes = np.column_stack([rng.integers(0, 5, 25), rng.integers(-1, 3, 25), rng.integers(-1, 2, 25)])
    for columns in (1, 2, 3):
        some = codes[:, :columns]
        pairs = all_pairs(some)
        expected = list(itertools.combinations(range(25), 2))
        assert pairs.rows.tolist() == [list(pair) for pair in expected]
        assert pairs.target.tolist() == [bool(some[i, 0] == some[j, 0]) for i, j in expected]
        shared = [columns > 1 and all(a == b != -1 for a, b in zip(some[i, 1:], some[j, 1:])) for i, j in expected]
        assert pairs.same_channel.tolist() == shared
        weights = type_weights(pairs.target, pairs.same_channel)
        kinds = list(zip(pairs.target.tolist(), pairs.same_channel.tolist()))
        cells = {target: len({kind for kind in kinds if kind[0] == target}) for target in (True, False)}
        assert_allclose(weights, [1 / (cells[kind[0]] * kinds.count(kind)) for kind in kinds], rtol=1e-14)


@pytest.mark.parametrize("most", [30, 60, 90, 400])
def test_rows_for_trials_are_of_whole_speakers_spread_over_their_channels(most):
    rng = np.random.default_rng(1)
    codes = np.column_stack([rng.choice(12, 200, p=np.arange(1, 13) / 78), rng.integers(0, 4, 200)])
    each = max(8, most // 12)
    rows = trial_rows(codes, np.random.default_rng(2), most)
    assert len(rows) <= most
    assert (np.diff(rows) > 0).all()
    for speaker in np.unique(codes[rows, 0]):
        own, kept = (codes[some, 1] for some in (codes[:, 0] == speaker, rows[codes[rows, 0] == speaker]))
        assert len(kept) == min(len(own), each)
        counts, there = np.bincount(kept, minlength=4), np.bincount(own, minlength=4)
        assert (counts >= np.minimum(there, counts.max() - 1)).all()
    if most == 400:
        assert len(np.unique(codes[rows, 0])) == 12
    assert_array_equal(rows, trial_rows(codes, np.random.default_rng(2), most))


def sums_of(statistics):
    """Counts and sums by label, and counts by pair of labels, of plain sums over samples."""
    found = {}
    for part in statistics.parts.values():
        for k, levels in part.levels.items():
            for index, count, total in zip(levels.index, levels.counts, levels.sums):
                key = (k, statistics.labels[k][index])
                found[key] = found.get(key, 0.0) + np.append(total + count * statistics.shift, count)
        for (k, j), links in part.links.items():
            for row, column, count in zip(links.rows, links.columns, links.counts):
                key = (k, statistics.labels[k][row], j, statistics.labels[j][column])
                found[key] = found.get(key, 0.0) + count
    return found


def made(folds):
    """Splits and folds of embeddings as they are."""
    return [(split, folds.fold(NONE[0], i)) for i, split in enumerate(folds.splits)]


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_a_fold_is_trained_on_exactly_the_samples_of_the_other_folds(missing):
    X, s, c = small_world()
    c = np.where(np.random.default_rng(5).random(len(c)) < missing, None, c.astype(object))
    folds = make_folds(X, s, c, 4, np.random.default_rng(0))
    place = {row.tobytes(): i for i, row in enumerate(X)}
    met = []
    for split, fold in made(folds):
        held = np.array([place[row.tobytes()] for row in fold.X])
        out = np.isin(s, s[held])
        assert_array_equal(np.sort(held), np.flatnonzero(out))
        assert not set(fold.training.labels[0]) & set(s[held].tolist())
        expected = Statistics.from_samples(X[~out], s[~out], c[~out])
        assert fold.training.n_samples == expected.n_samples == len(X) - len(held)
        assert_allclose(fold.training.covariance, expected.covariance, rtol=1e-10, atol=1e-12)
        found, wanted = sums_of(fold.training), sums_of(expected)
        assert found.keys() == wanted.keys()
        for key, value in wanted.items():
            assert_allclose(found[key], value, rtol=1e-10, atol=1e-10)
        assert_array_equal(split.pairs.target, np.equal(*s[held][split.pairs.rows.T]))
        met += np.unique(s[held]).tolist()
    assert sorted(met) == np.unique(s).tolist()
    assert folds.speakers == len(met)
    assert folds.whole(NONE[0]).statistics.n_samples == len(X)


@pytest.mark.parametrize(
    ("singles", "several", "number"), [(0, 5, 4), (6, 6, 4), (30, 4, 4), (1, 3, 2), (3, 5, 4), (4, 4, 3), (20, 3, 4)]
)
def test_every_fold_has_targets_and_non_targets(singles, several, number):
    y = np.repeat(np.arange(singles + several), [1] * singles + [3] * several)
    X = np.random.default_rng(0).normal(size=(len(y), 3))
    for seed in range(5):
        for split in make_folds(X, y, None, number, np.random.default_rng(seed)).splits:
            assert split.pairs.target.any()
            assert not split.pairs.target.all()


def test_folds_of_many_speakers_with_one_sample_keep_those_with_several():
    y = np.concatenate([np.repeat(np.arange(8), 2), np.arange(8, 2408)])
    X = np.random.default_rng(0).normal(size=(len(y), 2))
    for seed in range(3):
        assert all(split.pairs.target.any() for split in make_folds(X, y, None, 4, np.random.default_rng(seed)).splits)


def test_too_few_speakers_for_folds():
    X = np.zeros((6, 2))
    own, none = "Choose the settings yourself", "No model can be trained"
    for y, advice in (([0, 0, 1, 1, 2, 2], own), ([0, 0, 0, 1, 2, 3], own), (np.arange(6), none)):
        with pytest.raises(InputError, match=rf"at least 4 speakers.*{advice}"):
            make_folds(X, y, None, 4, np.random.default_rng(0))


def test_given_splits_make_the_folds():
    X, s, c = small_world(3)
    splits = list(GroupKFold(3).split(X, groups=s))
    for cv in (GroupKFold(3), splits, iter(splits)):
        folds = make_folds(X, s, c, cv, np.random.default_rng(0))
        assert folds.whole(NONE[0]).statistics.n_samples == len(X)
        assert len(folds.splits) == 3
        for (_, fold), (train, test) in zip(made(folds), splits):
            assert set(fold.training.labels[0]) == set(s[train])
            assert fold.training.covariance == pytest.approx(np.cov(X[train].T, bias=True), rel=1e-10)
            held = {row.tobytes() for row in fold.X}
            assert held <= {row.tobytes() for row in X[test]}


@pytest.mark.parametrize(
    ("cv", "message"),
    [
        (KFold(3, shuffle=True, random_state=0), r"cv: a split has \d+ speaker\(s\) on both sides"),
        ([(np.arange(100), np.arange(100, 192))], "on both sides"),
        ([], "cv: expected two splits or more, got 0"),
        ([3, 4], "cv: expected a number of folds, a scikit-learn splitter, or pairs"),
        ("four", "cv: expected"),
        (True, "cv: expected a whole number"),
        ([(np.arange(9) + 0.7, np.arange(9, 20) + 0.7)], "pairs of row numbers"),
    ],
)
def test_splits_that_cannot_be_used(cv, message):
    X, s, c = small_world(3)
    with pytest.raises(InputError, match=message):
        make_folds(X, s, c, cv, np.random.default_rng(0))


def test_a_held_out_part_needs_speakers_to_compare():
    X, s, c = small_world(3)
    one = np.flatnonzero(s == 0), np.flatnonzero(s != 0)
    with pytest.raises(InputError, match="two or more held-out speakers in every split"):
        make_folds(X, s, c, [one[::-1], one], np.random.default_rng(0))


@pytest.mark.parametrize("distance", [1.0, 2.0])
def test_moved_samples_go_by_the_means_of_training_channels(distance):
    X, s, c = small_world(3, channels_per_speaker=1)
    c = c.astype(object)
    c[s == 0] = "rare"
    c[s == 1] = None
    folds = make_folds(X, s, c, 4, np.random.default_rng(0))
    place, kinds = {row.tobytes(): i for i, row in enumerate(X)}, set()
    for k, (_, fold) in enumerate(made(folds)):
        held = np.array([place[row.tobytes()] for row in fold.X])
        trained = ~np.isin(s, s[held])
        named = trained & np.array([label is not None for label in c])
        means = {label: X[trained & (c == label)].mean(axis=0) for label in set(c[named])}
        moved = moved_samples(folds, fold, k, 0, other_channels(folds, k, 0, np.random.default_rng(1)), distance)
        for i, new in zip(held, moved):
            here = means.get(c[i], X[trained].mean(axis=0))
            ends = [X[i] + distance * (mean - here) for label, mean in means.items() if label != c[i]]
            assert np.abs(np.array(ends) - new).max(axis=1).min() < 1e-10
            kinds.add("known" if c[i] in means else c[i])
    assert kinds == {"known", "rare", None}


def test_samples_of_a_single_channel_stay_where_they_are():
    X, s, _ = small_world(3)
    folds = make_folds(X, s, ["en"] * len(X), 4, np.random.default_rng(0))
    fold, to = folds.fold(NONE[0], 0), other_channels(folds, 0, 0, np.random.default_rng(1))
    assert_array_equal(moved_samples(folds, fold, 0, 0, to, 2.0), fold.X)


def ratio_of(means, channels):
    """F of speaker means by loops."""
    grand, levels = np.mean(means, axis=0), sorted(set(channels))
    between = within = 0.0
    for level in levels:
        members = [m for m, one in zip(means, channels) if one == level]
        centre = np.mean(members, axis=0)
        between += len(members) * np.sum((centre - grand) ** 2)
        within += sum(np.sum((m - centre) ** 2) for m in members)
    return (between / (len(levels) - 1)) / (within / (len(means) - len(levels)))


def standardised(means, counts, c):
    """Means around their weighted mean over the root of b + c / n, with b so that their variance is as expected."""
    means, counts = np.array(means), np.array(counts)

    def excess(b):
        v = b + c / counts
        return np.sum((means - np.average(means, axis=0, weights=1 / v)) ** 2 / v[:, None]) - (len(means) - 1)

    b = brentq(excess, 0.0, 1e3, xtol=1e-13) if excess(0.0) > 0 else 0.0
    v = b + c / counts
    return (means - np.average(means, axis=0, weights=1 / v)) / np.sqrt(v)[:, None]


@pytest.mark.parametrize(("d", "n_speakers"), [(3, 20), (12, 8)])
def test_the_channel_test_compares_speakers_of_one_channel(d, n_speakers):
    rng = np.random.default_rng(4)
    s = np.repeat(np.arange(n_speakers), rng.integers(2, 6, n_speakers))
    home = np.arange(n_speakers) % 3
    c = np.array([f"c{home[one]}" for one in s], dtype=object)
    c[s == 0] = np.where(np.arange(np.sum(s == 0)) % 2, "c1", "c2")  # crossed: not compared
    c[np.flatnonzero(s == 1)[0]] = None  # not known: left out of the speaker's mean
    c[s == 2] = None
    X = rng.normal(size=(len(s), d)) + rng.normal(size=(n_speakers, d))[s]
    known = np.array([label is not None for label in c])
    means = [X[known & (s == one)].mean(axis=0) for one in [1, *range(3, n_speakers)]]
    statistics = Statistics.from_samples(X, s, c)
    found = channel_test(statistics, 1, np.random.default_rng(0))
    counts = [np.sum(known & (s == one)) for one in [1, *range(3, n_speakers)]]
    c = sum(np.sum((X[s == one] - X[s == one].mean(axis=0)) ** 2) for one in range(n_speakers)) / (len(X) - n_speakers)
    expected = ratio_of(standardised(means, counts, c), [home[one] for one in [1, *range(3, n_speakers)]])
    assert found.ratio == pytest.approx(expected, rel=1e-9)
    assert (found.speakers, found.channels) == (n_speakers - 2, 3)
    assert crossed_speakers(statistics, 1) == 1


def test_the_p_value_is_the_share_of_permutations():
    rng = np.random.default_rng(3)
    s, home = np.repeat(np.arange(7), 3), np.array([0, 0, 0, 0, 1, 1, 1])
    X = rng.normal(size=(21, 2)) + 1.2 * rng.normal(size=(2, 2))[home[s]]
    means = [X[s == one].mean(axis=0) for one in range(7)]
    here = ratio_of(means, home)
    splits = [np.isin(np.arange(7), chosen) for chosen in itertools.combinations(range(7), 3)]
    exact = np.mean([ratio_of(means, split) >= here * (1 - 1e-9) for split in splits])
    assert 0.03 < exact < 0.3
    found = [channel_test(Statistics.from_samples(X, s, home[s]), 1, np.random.default_rng(i)) for i in range(4)]
    assert np.mean([one.p_value for one in found]) == pytest.approx(exact, abs=4 * np.sqrt(exact / 2000) + 0.002)


def test_p_values_tell_an_effect_from_none(monkeypatch):
    monkeypatch.setattr(design_module, "PERMUTATIONS", 99)
    p_values = []
    for seed in range(60):
        rng = np.random.default_rng([seed, 7])
        s = np.repeat(np.arange(18), 4)
        X = rng.normal(size=(72, 3)) + rng.normal(size=(18, 3))[s]
        p_values.append(channel_test(Statistics.from_samples(X, s, s % 4), 1, rng).p_value)
        if seed < 5:
            shifted = X + 3.0 * rng.normal(size=(4, 3))[s % 4]
            strong = channel_test(Statistics.from_samples(shifted, s, s % 4), 1, rng)
            assert strong.p_value <= 0.01
            assert strong.share > 0.5
    # Kolmogorov's distance to the uniform distribution: above 0.21 once in a hundred.
    at = np.arange(1, 61) / 60
    assert np.abs(np.sort(p_values) - at).max() < 0.21
    assert np.mean(np.array(p_values) <= 0.1) < 0.25


@pytest.mark.parametrize(("share", "first", "others"), [(0.8, 20, 1), (0.8, 1, 20), (0.5, 20, 1)])
def test_the_test_keeps_its_level_where_channels_differ_in_sample_counts(share, first, others, monkeypatch):
    """Without an effect p is at most 0.1 about once in ten; means of one sample differ more than means of twenty."""
    monkeypatch.setattr(design_module, "PERMUTATIONS", 99)
    found = []
    for seed in range(150):
        rng = np.random.default_rng([seed, 11])
        home = (np.arange(40) >= 40 * share).astype(int)
        s = np.repeat(np.arange(40), np.where(home, others, first))
        X = rng.normal(size=(len(s), 8)) + 0.5 * rng.normal(size=(40, 8))[s]
        found.append(channel_test(Statistics.from_samples(X, s, home[s]), 1, rng).p_value)
    assert 0.03 < np.mean(np.array(found) <= 0.1) < 0.18


def test_many_speakers_leave_room_for_those_in_several_channels():
    """Of 200 speakers eight were heard in two channels: all of them make trials."""
    codes = np.column_stack([np.repeat(np.arange(200), 6), np.repeat(np.arange(200) % 5, 6)])
    crossed = np.arange(3, 200, 25)
    again = np.isin(codes[:, 0], crossed) & (np.arange(len(codes)) % 2 == 1)
    codes[again, 1] = (codes[again, 1] + 1) % 5
    for seed in range(5):
        rows = trial_rows(codes, np.random.default_rng(seed), 120)
        assert set(crossed) <= set(codes[rows, 0])
        pairs = all_pairs(codes[rows])
        assert np.any(pairs.target & ~pairs.same_channel)


def test_the_test_of_channels_knows_when_it_cannot_tell():
    X, s, _ = small_world()
    for channels in (["en"] * len(X), s, [None] * len(X)):
        found = channel_test(Statistics.from_samples(X, s, channels), 1, np.random.default_rng(0))
        assert np.isnan(found.ratio)
        assert (found.p_value, found.share) == (1.0, 0.0)


def test_shares_and_designs():
    assert ChannelTest("a", 9, 3, 2.0, 0.01).share == 0.875
    assert ChannelTest("a", 9, 3, 1.0, 0.5).share == ChannelTest("a", 9, 3, 0.4, 0.9).share == 0.0
    assert Design((20, 0, 0), (None, ALONE, NO_EFFECT)).shares() == (1.0, ALONE.share, 0.0)
    assert not Design((20,), (None,)).confounded
    X, s, c = small_world(5, channels_per_speaker=1)
    for number in (0, 7, 8):
        crossed = np.where((s < number) & (np.arange(len(s)) % 2 == 0), (c + 1) % 4, c)
        seen = sum(len(set(crossed[s == one])) > 1 for one in np.unique(s))
        found = design_of(Statistics.from_samples(X, s, np.column_stack([crossed, s % 2])), np.random.default_rng(0))
        assert found.crossed == (seen, 0) == (number, 0)
        assert [test is None for test in found.tests] == [number >= 8, False]


def test_speakers_held_out_several_times_count_once():
    X, s, c = small_world(3)
    folds = make_folds(X, s, c, GroupShuffleSplit(6, test_size=0.4, random_state=0), np.random.default_rng(0))
    assert len(folds.splits) == 6
    assert folds.speakers <= len(set(s))
