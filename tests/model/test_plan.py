"""What a plan says against counts made by hand."""

import numpy as np
import pytest

from jointplda import TooLargeError
from jointplda.model import plan as plan_module
from jointplda.model import training_posterior as module
from jointplda.model.costs import Cost
from jointplda.model.parameters import Parameters
from jointplda.model.plan import make_plan
from jointplda.model.statistics import Statistics
from jointplda.model.training_posterior import posterior_fits_in_memory, training_posterior


def crossed(speakers, *levels):
    """Every speaker once in every combination of the channels of all conditions."""
    grids = np.meshgrid(np.arange(speakers), *(np.arange(n) for n in levels), indexing="ij")
    columns = [grid.ravel() for grid in grids]
    X = np.random.default_rng(0).normal(size=(len(columns[0]), 3))
    return Statistics.from_samples(X, columns[0], np.column_stack(columns[1:]))


def test_exact_systems_cost_the_cube_of_their_unknowns():
    """One system of all levels of the coupled factors: (sum of levels x rank) cubed, and squared in memory."""
    plan = make_plan(crossed(50, 4, 6), (3, 2, 1))
    assert plan.names[plan.eliminated] == "speaker"
    assert (plan.components, plan.largest, plan.solver) == (1, 4 * 2 + 6 * 1, "exact")
    small, large = (make_plan(crossed(40, n), (3, 10), 0, "exact") for n in (200, 400))
    assert large.work / small.work == pytest.approx(8.0, rel=0.02)
    assert large.memory / small.memory == pytest.approx(4.0, rel=0.02)


def test_many_unknowns_are_sampled_and_the_plan_says_why():
    statistics = crossed(40, 400)
    plan = make_plan(statistics, (3, 3), 0)
    assert plan.solver == "sampled"
    assert "exact systems would take" in plan.reason
    assert plan.reason in str(plan)
    assert plan.work < make_plan(statistics, (3, 3), 0, "exact").work / 3
    assert make_plan(statistics, (3, 3), 0, "sampled").reason == "as asked for"
    assert make_plan(crossed(50, 4), (3, 2)).reason == "the systems are small"
    assert make_plan(crossed(50, 4).without_channels(), (3,)).reason == "nothing is coupled"


def test_systems_that_do_not_fit_into_memory_are_sampled(monkeypatch):
    statistics, ranks = crossed(50, 40), (3, 2)
    sampled = make_plan(statistics, ranks, 0, "sampled").memory
    monkeypatch.setattr(plan_module, "GAIN", 1e9)
    assert make_plan(statistics, ranks, 0).solver == "exact"
    monkeypatch.setattr(plan_module, "exact_cost", lambda sizes: Cost(0.0, 1e18))
    plan = make_plan(statistics, ranks, 0)
    assert (plan.solver, plan.memory) == ("sampled", sampled)
    assert "would take 1e+09 GB" in plan.reason


def test_the_cheapest_factor_is_eliminated():
    statistics = crossed(4, 50)
    assert make_plan(statistics, (3, 2)).eliminated == 1
    assert make_plan(crossed(50, 4), (3, 2)).eliminated == 0


def test_what_would_take_more_than_seven_tenths_of_the_memory_is_refused(monkeypatch):
    statistics, ranks = crossed(50, 4, 6), (3, 2, 1)
    needed = make_plan(statistics, ranks, solver="exact").memory
    monkeypatch.setattr(plan_module, "physical_memory", lambda: needed / 0.69)
    make_plan(statistics, ranks, solver="exact")
    monkeypatch.setattr(plan_module, "physical_memory", lambda: needed / 0.71)
    with pytest.raises(TooLargeError, match=r"link 14 unknowns in one system.*Lower the ranks"):
        make_plan(statistics, ranks, solver="exact")


@pytest.mark.parametrize("conditions", [1, 2])
def test_the_posterior_of_training_is_kept_up_to_its_limit(monkeypatch, conditions):
    """Channels times columns of U, over all conditions, may be as many as the limit and not one more."""
    statistics = crossed(8, *(5, 3)[:conditions])
    ranks = (2, 2, 3)[: 1 + conditions]
    unknowns = 5 * 2 + (3 * 3 if conditions == 2 else 0)
    rng = np.random.default_rng(1)
    parameters = Parameters.of(np.zeros(3), tuple(rng.normal(size=(3, r)) for r in ranks), np.eye(3))
    monkeypatch.setattr(module, "MEAN_NUMBERS", unknowns)
    assert posterior_fits_in_memory(statistics, ranks)
    assert len(training_posterior(statistics, parameters).channel_means) == unknowns
    monkeypatch.setattr(module, "CHANNEL_UNKNOWNS", unknowns)
    assert training_posterior(statistics, parameters).is_whole
    monkeypatch.setattr(module, "CHANNEL_UNKNOWNS", unknowns - 1)
    assert not training_posterior(statistics, parameters).is_whole
    monkeypatch.setattr(module, "MEAN_NUMBERS", unknowns - 1)
    assert training_posterior(statistics, parameters) is None
    monkeypatch.setattr(module, "MEAN_NUMBERS", unknowns)
    monkeypatch.setattr(module, "SPEAKER_NUMBERS", 8 * 2 - 1)
    assert training_posterior(statistics, parameters) is None


def test_the_limits_are_those_of_the_documents():
    assert module.CHANNEL_UNKNOWNS == 3000
    assert module.MEAN_NUMBERS == 2e6
    assert module.SPEAKER_NUMBERS == 2e7
