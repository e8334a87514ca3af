"""Passes over shards in one process: they find what a pass over one source finds."""

import warnings
from dataclasses import fields

import numpy as np
import pytest
from numpy.testing import assert_allclose

from jointplda import InputError, JointPLDA, Progress, make_pipeline
from jointplda._pairwise import merged_pairwise
from jointplda.labels import ConditionColumns
from jointplda.passes import ArraySource, fit_in_passes
from jointplda.passes.census import Census
from jointplda.passes.learned_steps import learned_front_end
from jointplda.passes.readers import ShardReader, SourceReader
from jointplda.passes.speaker_sample import drawn_speakers, gathered
from jointplda.passes.summing import CovarianceSums, LevelSums
from jointplda.passes.training import fit_by
from jointplda.preprocessing import LDA, PCA, LengthNorm, Reduce, Scale, Whiten
from jointplda.preprocessing.front_ends import FrontEnd
from worlds.shards import samples


def divided(X, s, c, number=5):
    """Shards of the samples; the first has no channel at all."""
    rows = np.array_split(np.arange(len(X)), number)
    c = c.astype(object)
    c[rows[0]] = None
    return c, [ArraySource(X[own], s[own], c[own], rows=37) for own in rows]


def test_parts_are_merged_with_their_neighbours():
    def merge(a, b):
        return f"({a}{b})"

    assert merged_pairwise("abcdefg", merge) == "(((ab)(cd))((ef)g))"
    assert merged_pairwise("abcde", merge) == "(((ab)(cd))e)"
    assert merged_pairwise("a", merge) == "a"
    assert merged_pairwise("", merge) is None


def test_a_census_of_shards_is_that_of_the_whole():
    X, s, c = samples()
    order = np.argsort(s, kind="stable")  # most speakers are in one shard, some in two
    c, shards = divided(X[order], s[order], c[order])
    said = []
    found = Census.of(ShardReader(shards, said.append))
    whole = Census.of(SourceReader(ArraySource(X[order], s[order], c, rows=100)))
    for one in fields(Census):
        a, b = getattr(found, one.name), getattr(whole, one.name)
        assert_allclose(a, b, rtol=1e-13) if one.name == "mean" else np.testing.assert_equal(a, b)
    assert 0 < whole.crossed.sum() < len(whole.crossed)
    assert said[:2] == [Progress("census", 1, 5), Progress("census", 2, 5)]
    assert said[-1].detail is found


def test_speakers_are_crossed_by_channels_of_two_shards():
    X, s, _ = samples(speakers=4)
    own = np.array(["en", "fr"])[np.arange(len(X)) % 2]
    shards = [ArraySource(X[own == name], s[own == name], own[own == name]) for name in ("en", "fr")]
    assert Census.of(ShardReader(shards)).crossed.all()
    assert not Census.of(ShardReader(shards[:1])).crossed.any()


@pytest.mark.parametrize("step", [PCA(3), Reduce(5), Whiten(), LDA(4, shrinkage=0.2)])
def test_steps_learn_from_shards_what_they_learn_from_the_whole(step):
    X, s, c = samples()
    X[: len(X) // 5] += 3.0  # a shard whose mean is another
    _, shards = divided(X, s, c)
    expected = Scale().fit(X)
    expected = (expected, step.fit(expected.transform(X), s))
    reader = ShardReader(shards)
    found = learned_front_end(FrontEnd("given", (Scale(), step)), reader, Census.of(reader), ())
    images = [steps[1].transform(steps[0].transform(X)) for steps in (found, expected)]
    signs = np.sign(np.sum(images[0] * images[1], axis=0))
    assert_allclose(images[0], images[1] * signs, rtol=1e-8, atol=1e-8)


def test_a_fit_to_shards_is_that_to_the_whole():
    X, s, c = samples()
    c, shards = divided(X, s, c)
    pipe = make_pipeline(LengthNorm(), PCA(6), JointPLDA(max_iter=10, interaction=0.2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = fit_by(ShardReader(shards), pipe, 2e9).score_matrix(X[:40], X[40:90])
        expected = fit_in_passes(pipe, ArraySource(X, s, c)).score_matrix(X[:40], X[40:90])
    assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


def test_shards_of_other_conditions_are_refused():
    X, s, c = samples()
    other = ArraySource(X, s, ConditionColumns(("room",), (c,)))
    with pytest.raises(InputError, match=r"condition\(s\) channel in all chunks, got 8 and room"):
        Census.of(ShardReader([ArraySource(X, s, c), other]))


def test_a_very_frequent_speaker_is_thinned_by_shard():
    X, s, c = samples()
    s[:400] = "somebody"
    rows = np.array_split(np.arange(len(X)), 5)
    reader = ShardReader([ArraySource(X[own], s[own], c[own], rows=37) for own in rows])
    census = Census.of(reader)
    rng = np.random.default_rng(0)
    chosen = drawn_speakers(census, 500, rng)
    sample = gathered(reader, census, chosen, 500, rng)
    taken = [np.flatnonzero((X[own][:, None] == sample.X).all(axis=2).any(axis=1)) for own in rows]
    frequent = [set(t[s[own][t] == "somebody"]) for own, t in zip(rows, taken)]
    assert frequent[0] != frequent[1]
    assert 0 < sum(map(len, frequent)) < 30
    others = np.isin(s, np.array(census.labels[0])[chosen]) & (s != "somebody")
    assert len(sample.X) == others.sum() + sum(map(len, frequent))


def test_ranges_are_those_of_all_shards():
    X, s, c = samples()
    X[3, 1], X[-3, 2] = 90.0, -90.0
    _, shards = divided(X, s, c)
    for one in (CovarianceSums("front end", ()), LevelSums("front end", (), conditions=False)):
        for order in (shards, shards[::-1]):
            found = ShardReader(order).made(one)
            np.testing.assert_array_equal([found.low, found.high], [X.min(axis=0), X.max(axis=0)])
