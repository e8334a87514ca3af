"""A few counts that stand for many, against the sums over all of them."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from jointplda.model.count_nodes import CountNodes, nodes_needed
from jointplda.model.eliminated import EliminatedGram, Precision
from jointplda.model.eliminated_table import EliminatedTable, eliminated_sums
from jointplda.model.estep import solve, summed_moments
from jointplda.model.layout import lay_out
from jointplda.model.statistics import Statistics
from jointplda.model.sums import Levels
from oracles.dense import DenseModel
from worlds.designs import draw_parameters, relative, statistics_of


@pytest.mark.parametrize("low, high", [(10, 19), (1, 100), (10, 3_000), (1, 100_000), (0.3, 7.0)])
def test_functions_of_all_counts_are_those_at_the_nodes(low, high):
    rng = np.random.default_rng(0)
    counts = np.exp(rng.uniform(np.log(low), np.log(high), 400))
    nodes = CountNodes.of(counts)
    assert len(nodes.nodes) == min(nodes_needed(counts), 400)
    for b in (1e-8, 1e-3, 1.0, 30.0, 1e6):
        for times, power in ((0, 1), (0, 2), (1, 2)):
            exact = counts**times / (1.0 + counts * b) ** power
            found = nodes.weights @ (nodes.nodes**times / (1.0 + nodes.nodes * b) ** power)
            assert np.abs(found - exact).max() < 1e-12 * np.abs(exact).max()


def test_few_counts_stand_for_themselves():
    nodes = CountNodes.of(np.array([3.0, 7.0, 3.0]))
    assert nodes.nodes.tolist() == [3.0, 7.0]
    assert nodes.weights.tolist() == [[1, 0], [0, 1], [1, 0]]
    assert CountNodes.of(np.array([5.0, 5.0])).nodes.tolist() == [5.0]


@pytest.mark.parametrize("channels, rank", [(2, 1), (30, 1), (30, 2)])
def test_every_speaker_with_a_count_of_its_own(channels, rank):
    """60 distinct counts, for which fewer nodes stand: likelihood and moments are those of the dense Gaussian."""
    rng = np.random.default_rng(1)
    s = np.repeat(np.arange(60), np.arange(1, 61))
    c = rng.integers(0, channels, len(s))
    X, parameters = rng.normal(size=(len(s), 2)), draw_parameters(rng, 2, (2, rank))
    columns = [s.tolist(), c.tolist()]
    layout = lay_out(statistics_of(X, columns), parameters.ranks, 0, solver="exact")
    assert len(layout.links.group_counts) == 60
    assert len(layout.solver.counts) == nodes_needed(np.arange(1.0, 61.0)) < 40
    solution = solve(layout, parameters)
    moments = summed_moments(layout, parameters, solution)
    dense = DenseModel(parameters.mean, parameters.loadings, parameters.noise, columns)
    R, T = dense.moments(X)
    T -= np.outer(R[:, -1], layout.shift)
    assert solution.log_likelihood == pytest.approx(dense.log_likelihood(X), rel=1e-10)
    assert relative(moments.R, R) < 1e-9
    assert relative(moments.T, T) < 1e-9


def test_sums_over_eliminated_levels_are_kept_at_the_nodes():
    """The Gram matrices and the levels as they are give the same moments."""
    rng = np.random.default_rng(2)
    counts, group = np.arange(1.0, 201.0)[:, None], np.arange(200)
    group = rng.permutation(np.repeat(group, 20))
    table = table_of(rng.normal(size=(4_000, 3)), group, counts, csr_array(rng.poisson(1.0, (4_000, 2)).astype(float)))
    slots = table.slots[table.order]
    gram = eliminated_sums(table, slots, counts, 2)
    rows = eliminated_sums(table, slots, counts, 2, keep_rows=True)
    assert isinstance(gram, EliminatedGram)
    assert gram.gram.shape[1] == nodes_needed(counts) < 50
    E, Jx, L = rng.normal(size=(2, 4)), rng.normal(size=(2, 2)), Precision.diagonal(counts, np.array([0.3, 20.0]))
    (kept, fit, back), (own, own_fit, own_back) = (one.projected_sums(E, L) for one in (gram, rows))
    assert fit == pytest.approx(own_fit, rel=1e-11)
    assert relative(back, own_back) < 1e-11
    found, expected = gram.moments(kept, E, Jx, L), rows.moments(own, E, Jx, L)
    for name in ("total", "sums", "slots", "squares"):
        assert relative(getattr(found, name), getattr(expected, name)) < 1e-11


@pytest.mark.parametrize("total", [5.0, 9.0, 13.0, 4.0])
@pytest.mark.parametrize("solver", ["exact", "sampled"])
def test_counts_that_differ_by_rounding_are_one_count(total, solver):
    """Weights that give every speaker the same total are such counts."""
    rng = np.random.default_rng(0)
    n = rng.integers(3, 12, 40)
    s = np.repeat(np.arange(40), n)
    c = rng.integers(0, 8, len(s))
    X = rng.normal(size=(40, 4))[s] + rng.normal(size=(8, 4))[c] + rng.normal(size=(len(s), 4))
    statistics = Statistics.from_samples(X, s, c, sample_weight=total / n[s])
    parameters = draw_parameters(rng, 4, (3, 2))
    found = solve(lay_out(statistics, (3, 2), 0, solver=solver), parameters).log_likelihoods
    assert np.isfinite(found).all()
    counts = statistics.level_counts(0)
    assert np.ptp(counts) < 1e-12 * total
    assert CountNodes.of(counts).nodes == pytest.approx([total])


def test_sums_of_very_different_counts_are_kept_group_by_group():
    assert wide_sums(1e3).gram.shape[1] == nodes_needed(np.geomspace(1.0, 1e3, 150)) < 60
    assert wide_sums(1e6).gram.shape[1] == 150


def wide_sums(most):
    counts = np.geomspace(1.0, most, 150)[:, None]
    group = np.repeat(np.arange(150), 40)
    table = table_of(np.ones((6_000, 3)), group, counts, csr_array(np.ones((6_000, 2))))
    return eliminated_sums(table, table.slots, counts, 2)


def table_of(sums, group, counts, slots):
    """Eliminated levels with these sums (K, d), whose groups have these counts."""
    levels = Levels(np.arange(len(sums)), counts[group, 0], sums)
    return EliminatedTable([levels], counts[group], slots, group, np.argsort(group, kind="stable"))
