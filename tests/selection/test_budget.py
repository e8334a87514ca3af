"""Ranks that a search can afford."""

import warnings

import numpy as np
import pytest

from jointplda import DataWarning, JointPLDACV
from jointplda.errors import TooLargeError
from jointplda.model.fit import plan_fit
from jointplda.model.settings import ModelSettings
from jointplda.model.statistics import Statistics
from jointplda.selection import budget
from jointplda.selection.budget import MOST_WORK, affordable_ranks
from worlds.automatic import quietly


def statistics_of(channels, rooms=None, speakers=200, d=40, each=6):
    rng = np.random.default_rng(0)
    s = np.repeat(np.arange(speakers), each)
    labels = [rng.integers(0, number, len(s)) for number in (channels, rooms) if number]
    return Statistics.from_samples(rng.normal(size=(len(s), d)), s, np.column_stack(labels), cells=True)


def settings(*ranks):
    return ModelSettings(channel_rank=ranks, channel_share=1.0, channel_prior=1.0, interaction="proportional")


def work(statistics, *ranks):
    given = ModelSettings(noise_prior=1.0, speaker_prior=1.0, channel_rank=ranks, interaction="proportional")
    return plan_fit(statistics, given).work


def test_a_few_channels_keep_their_rank():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert affordable_ranks(statistics_of(10), settings(9)) == (9,)
        assert affordable_ranks(statistics_of(10, 4), settings(9, 3)) == (9, 3)
        assert affordable_ranks(statistics_of(10), settings(0)) == (0,)


def test_many_channels_get_as_many_columns_as_can_be_afforded():
    many = statistics_of(120)
    with pytest.warns(DataWarning, match=r"With 120 channels of '.*' a search over 40 columns of U .* it has \d+\."):
        (rank,) = affordable_ranks(many, settings(40))
    assert work(many, rank) <= MOST_WORK < work(many, 2 * rank)
    two = statistics_of(120, 5)
    with pytest.warns(DataWarning, match="With 120 channels"):
        ranks = affordable_ranks(two, settings(40, 4))
    assert ranks[1] == 4
    assert work(two, *ranks) <= MOST_WORK


def test_what_does_not_fit_into_memory_is_not_afforded(monkeypatch):
    def plan(statistics, given):
        if given.channel_rank[0] > 2:
            raise TooLargeError("no memory")
        return plan_fit(statistics, given)

    monkeypatch.setattr(budget, "plan_fit", plan)
    with pytest.warns(DataWarning, match="it has 2"):
        assert affordable_ranks(statistics_of(10), settings(9)) == (2,)
    monkeypatch.setattr(budget, "MOST_WORK", 0.0)
    with pytest.warns(DataWarning, match="it has 1"):
        assert affordable_ranks(statistics_of(10), settings(9)) == (1,)


def test_the_search_starts_with_what_it_can_afford(monkeypatch):
    rng = np.random.default_rng(1)
    s, c = np.repeat(np.arange(24), 8), np.tile(np.arange(8), 24)
    X = rng.normal(size=(24, 6))[s] + rng.normal(size=(8, 6))[c] + rng.normal(size=(len(s), 6))
    monkeypatch.setattr(budget, "_work", lambda statistics, given: 2e9 if given.channel_rank[0] > 3 else 1.0)
    model = quietly(JointPLDACV(max_iter=3, cv=3), X, s, c)
    assert {one.candidate.channel_rank for one in model.candidates_} == {(3,), (1,), (0,)}
