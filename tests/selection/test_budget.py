"""What a search may spend."""

import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from jointplda import DataWarning, InputError, JointPLDACV
from jointplda.errors import TooLargeError
from jointplda.model.fit import plan_fit
from jointplda.model.plan import FLOPS
from jointplda.model.settings import ModelSettings
from jointplda.model.statistics import Statistics
from jointplda.selection import budget as module
from jointplda.selection.budget import FIRST_SHARE, FITS, ITERATIONS, MOST_FITS, Budget
from worlds.automatic import quietly


def statistics_of(channels, rooms=None, speakers=200, d=40, each=6):
    rng = np.random.default_rng(0)
    s = np.repeat(np.arange(speakers), each)
    labels = [rng.integers(0, number, len(s)) for number in (channels, rooms) if number]
    return Statistics.from_samples(rng.normal(size=(len(s), d)), s, np.column_stack(labels), cells=True)


def settings(*ranks, **others):
    values = dict(speaker_prior=1.0, noise_prior=1.0, channel_share=1.0, channel_prior=1.0, max_iter=25)
    return ModelSettings(channel_rank=ranks, interaction="proportional", **(values | others))


def first_ranks(statistics, *ranks, seconds=60.0, confounded=False):
    return Budget(statistics, 4, seconds).first_ranks(settings(*ranks), confounded=confounded)


def test_a_search_costs_so_many_iterations_of_the_plan():
    statistics, given = statistics_of(10), settings(9)
    iteration = plan_fit(statistics, given).work / FLOPS
    budget = Budget(statistics, 4)
    assert budget.candidate(given) == pytest.approx(4 * ITERATIONS * iteration)
    assert budget.candidate(given, 25) == pytest.approx(4 * 25 * iteration)
    assert budget.candidate(replace(given, max_iter=3)) == pytest.approx(4 * 3 * iteration)
    assert budget.search(given, confounded=False) == pytest.approx(FITS * 4 * ITERATIONS * iteration)
    budget.spend(given)
    assert budget.spent == pytest.approx(4 * ITERATIONS * iteration)
    assert budget.candidate(replace(given, channel_prior=3.0)) == 0.0  # follows EM


def test_a_few_channels_keep_their_rank():
    assert first_ranks(statistics_of(10), 9) == (9,)
    assert first_ranks(statistics_of(10, 4), 9, 3) == (9, 3)
    assert first_ranks(statistics_of(10), 0) == (0,)


@pytest.mark.parametrize("confounded, share", [(False, FIRST_SHARE), (True, 1.0)])
def test_many_channels_start_with_as_many_columns_as_can_be_afforded(confounded, share):
    statistics = statistics_of(120)
    (rank,) = first_ranks(statistics, 40, seconds=20.0, confounded=confounded)
    budget = Budget(statistics, 4)
    cost = [budget.search(settings(r), confounded=confounded) for r in (rank, 2 * rank)]
    assert cost[0] <= 20.0 * share < cost[1]
    two = first_ranks(statistics_of(120, 5), 40, 4, seconds=20.0, confounded=confounded)
    assert two[0] < 40
    assert two[1] == 4


def test_what_does_not_fit_into_memory_is_not_afforded(monkeypatch):
    def plan(statistics, given):
        if given.channel_rank[0] > 2:
            raise TooLargeError("no memory")
        return plan_fit(statistics, given)

    monkeypatch.setattr(module, "plan_fit", plan)
    assert first_ranks(statistics_of(10), 9) == (2,)
    assert first_ranks(statistics_of(10), 9, seconds=1e-9) == (2,)  # one column costs as much


def costly(monkeypatch, power):
    """The work of an iteration, as if it grew with a power of the columns of U."""
    cost = lambda statistics, given: SimpleNamespace(work=2e7 * max(*given.channel_rank, 1) ** power)  # noqa: E731
    monkeypatch.setattr(module, "plan_fit", cost)


def test_where_columns_cost_next_to_nothing_they_are_kept(monkeypatch):
    """A set so large that no search is within the budget has its U as wide as costs little more, and its own budget."""
    costly(monkeypatch, 0.1)
    budget = Budget(statistics_of(120), 4, seconds=0.1)
    (rank,) = budget.first_ranks(settings(40), confounded=False)
    assert rank == 40
    assert budget.seconds == pytest.approx(MOST_FITS / FITS * budget.search(settings(40), confounded=False))
    costly(monkeypatch, 1.0)
    budget = Budget(statistics_of(120), 4, seconds=0.1)
    assert budget.first_ranks(settings(40), confounded=False) == (1,)


def test_what_is_left_out_is_said():
    statistics, chosen = statistics_of(10), settings(4)
    budget = Budget(statistics, 4, seconds=2.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        budget.warn(chosen)
    assert budget.allows(chosen)
    budget.spent = 2.0
    for other in (settings(8), settings(4, noise_prior=0.3), replace(chosen, interaction="full")):
        assert not budget.allows(other)
    text = (
        r"budget of the search \(2 s\) does not suffice to try 8 columns of U instead of 4 for the 10 channels of "
        r"'channel'; noise prior 0.3; interaction full. JointPLDACV\(budget=10\) does."
    )
    with pytest.warns(DataWarning, match=text):
        budget.warn(chosen)


def samples(confounded=False):
    rng = np.random.default_rng(1)
    s, c = np.repeat(np.arange(32), 8), np.tile(np.arange(8), 32)
    c = s % 8 if confounded else c
    X = rng.normal(size=(32, 6))[s] + 2.0 * rng.normal(size=(8, 6))[c] + 0.5 * rng.normal(size=(len(s), 6))
    return X, s, c


def tried(model):
    return [one.candidate.channel_rank[0] for one in model.candidates_]


def test_a_search_starts_with_what_it_can_afford_and_doubles_while_that_is_better(monkeypatch):
    X, s, c = samples()
    wide = quietly(JointPLDACV(max_iter=3, cv=3), X, s, c)
    assert tried(wide)[0] == max(tried(wide)) == 6
    costly(monkeypatch, 2.0)
    model = quietly(JointPLDACV(max_iter=3, cv=3, budget=3.0), X, s, c)
    assert tried(model)[0] == 3
    doubled = list(dict.fromkeys(rank for rank in tried(model) if rank > 3))
    assert doubled == [6]
    assert model.best_params_["channel_rank"][0] in (0, 1, 3, 6)


def test_a_search_that_could_not_widen_says_how_much_it_needs(monkeypatch):
    X, s, c = samples()
    costly(monkeypatch, 5.0)
    text = r"budget of the search \(. s\) does not suffice to try .*2 columns of U instead of 1 .*\(budget=10\) does"
    with pytest.warns(DataWarning, match=text):
        JointPLDACV(cv=4, budget=1.0, noise_floor=1e-5).fit(X, s, channels=c)


def test_confounded_designs_do_not_widen_and_say_so(monkeypatch):
    X, s, c = samples(confounded=True)
    costly(monkeypatch, 2.0)
    model = JointPLDACV(cv=3, budget=1.0)
    with pytest.warns(DataWarning, match=r"does not suffice to try 3 columns of U instead of 1 for the 8 channels"):
        model.fit(X, s, channels=c)
    assert set(tried(model)) <= {0, 1}


@pytest.mark.parametrize("value", [0, -1.0, "60", None, True, float("nan"), float("inf")])
def test_a_budget_is_a_number_of_seconds(value):
    X, s, c = samples()
    with pytest.raises(InputError, match="budget: expected a number at least 1"):
        JointPLDACV(budget=value).fit(X, s, channels=c)
