"""Every number of the E step against one dense Gaussian over all samples and latents (relative 1e-8 or better)."""

import numpy as np
import pytest

from jointplda.model import eliminated, eliminated_table
from jointplda.model.eliminated import EliminatedGram, EliminatedRows
from jointplda.model.estep import e_step
from jointplda.model.layout import lay_out
from jointplda.model.posterior import posterior
from oracles.dense import DenseModel
from worlds.designs import DESIGNS, channels_of, draw, relative, statistics_of

TOLERANCE = 1e-11


def orders(name):
    """Every factor that can be eliminated, and the choice by cost."""
    _, _, _, levels, missing = DESIGNS[name]
    return [None, 0] if missing == 1.0 else [None, *range(len(levels))]


CASES = [(name, order) for name in DESIGNS for order in orders(name)]


@pytest.mark.parametrize("name, order", CASES)
@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("form", [EliminatedRows, EliminatedGram])
def test_likelihood_and_moments(name, order, diagonal, form, monkeypatch):
    X, columns, parameters = draw(name, seed=1, diagonal=diagonal)
    if form is EliminatedRows:
        monkeypatch.setattr(eliminated, "GRAM_BYTES", 0)
    else:
        monkeypatch.setattr(eliminated_table, "gram_pays", lambda *sizes: True)
    statistics = statistics_of(X, columns)
    crossing = lay_out(statistics, parameters.ranks, order)
    assert isinstance(crossing.eliminated_sums, form)
    moments, log_likelihood = e_step(crossing, parameters)
    dense = DenseModel(parameters.mean, parameters.loadings, parameters.noise, columns)
    R, T = dense.moments(X)
    T -= np.outer(R[:, -1], statistics.shift)
    assert log_likelihood == pytest.approx(dense.log_likelihood(X), rel=TOLERANCE)
    assert relative(moments.R, R) < TOLERANCE
    assert relative(moments.T, T) < TOLERANCE


@pytest.mark.parametrize("name", DESIGNS)
def test_moments_over_levels(name):
    X, columns, parameters = draw(name, seed=2)
    moments, _ = e_step(lay_out(statistics_of(X, columns), parameters.ranks), parameters)
    dense = DenseModel(parameters.mean, parameters.loadings, parameters.noise, columns)
    z, covariance = dense.posterior(X)
    for k, level in enumerate(moments.levels):
        spans = dense.spans[k]
        assert level.count == len(spans)
        assert level.first == pytest.approx(sum(z[span] for span in spans), rel=1e-9, abs=1e-9)
        second = sum(np.outer(z[span], z[span]) + covariance[span, span] for span in spans)
        assert relative(level.second, second) < TOLERANCE


@pytest.mark.parametrize("name", DESIGNS)
def test_posterior_of_every_level(name):
    X, columns, parameters = draw(name, seed=3)
    found = posterior(X, columns[0], channels_of(columns), parameters)
    dense = DenseModel(parameters.mean, parameters.loadings, parameters.noise, columns)
    z, covariance = dense.posterior(X)
    assert found.log_likelihood == pytest.approx(dense.log_likelihood(X), rel=TOLERANCE)
    for k, factor in enumerate([found.speakers, *found.channels]):
        for i in range(len(X)):
            rows = dense._rows(k, i)
            level = factor.index[i]
            assert factor.labels[level] == columns[k][i]
            assert factor.means[level] == pytest.approx(z[rows], rel=1e-9, abs=1e-11)
            assert factor.covariances[level] == pytest.approx(covariance[np.ix_(rows, rows)], rel=1e-9, abs=1e-11)


def test_equal_components_are_solved_once():
    rng = np.random.default_rng(0)
    # Each speaker in two sessions of its own, of 2 and 3 samples, or 1 and 4: two classes of components.
    speakers, sessions = [], []
    for s in range(10):
        for session, n in enumerate((2, 3) if s % 2 else (4, 1)):
            speakers += [f"s{s}"] * n
            sessions += [f"s{s}-{session}"] * n
    _, _, parameters = draw("joint, Rx < Ry", seed=4)
    X = rng.normal(size=(len(speakers), 4))
    statistics = statistics_of(X, [speakers, sessions])
    dense = DenseModel(parameters.mean, parameters.loadings, parameters.noise, [speakers, sessions])
    R, T = dense.moments(X)
    for order, shape, classes in [(0, (2,), 2), (1, (1,), 2)]:
        crossing = lay_out(statistics, parameters.ranks, order)
        (batch,) = crossing.solver.batches
        assert batch.sizes == shape
        assert batch.multiplicity.tolist() == [5, 5]
        assert len(batch.multiplicity) == classes
        moments, log_likelihood = e_step(crossing, parameters)
        assert log_likelihood == pytest.approx(dense.log_likelihood(X), rel=TOLERANCE)
        assert relative(moments.R, R) < TOLERANCE
        assert relative(moments.T, T - np.outer(R[:, -1], statistics.shift)) < TOLERANCE


def test_components_with_the_same_sizes_but_other_counts_are_kept_apart():
    rng = np.random.default_rng(1)
    pairs = [("a", "x")] * 2 + [("a", "y")] * 2 + [("b", "y")] * 2
    pairs += [("c", "u")] * 2 + [("c", "v")] * 3 + [("d", "v")] * 1
    columns = [[p[0] for p in pairs], [p[1] for p in pairs]]
    _, _, parameters = draw("joint, Rx < Ry", seed=5)
    X = rng.normal(size=(len(pairs), 4))
    dense = DenseModel(parameters.mean, parameters.loadings, parameters.noise, columns)
    for order in (0, 1):
        crossing = lay_out(statistics_of(X, columns), parameters.ranks, order)
        assert [len(b.multiplicity) for b in crossing.solver.batches] == [2]
        _, log_likelihood = e_step(crossing, parameters)
        assert log_likelihood == pytest.approx(dense.log_likelihood(X), rel=TOLERANCE)


def test_a_channel_per_sample_equals_absorbing_it():
    """PLDA three ways: x absorbed, x eliminated first, and y eliminated first."""
    X, columns, parameters = draw("plda, a channel per sample", seed=6)
    unique = [columns[0], [f"sample{i}" for i in range(len(X))]]
    results = [
        e_step(lay_out(statistics_of(X, cols), parameters.ranks, order), parameters)
        for cols, order in [(columns, 0), (unique, 0), (unique, 1)]
    ]
    dense = DenseModel(parameters.mean, parameters.loadings, parameters.noise, columns)
    R, _ = dense.moments(X)
    for moments, log_likelihood in results:
        assert log_likelihood == pytest.approx(dense.log_likelihood(X), rel=TOLERANCE)
        assert relative(moments.R, R) < TOLERANCE
