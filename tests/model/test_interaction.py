"""Speaker and channel interact: every number against one dense Gaussian in which a cell is one more factor."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime

from jointplda import InputError, Statistics
from jointplda.linalg import inverse
from jointplda.model.cell_sums import WithinCells
from jointplda.model.em import run_em
from jointplda.model.estep import e_step, solve
from jointplda.model.interaction.cell_factor import with_cell
from jointplda.model.interaction.cell_means import cell_means, held_cells, with_cell_factor
from jointplda.model.kappa import KappaPrior, best_kappa
from jointplda.model.layout import lay_out
from jointplda.model.mstep import NoiseModel, Prior, m_step
from jointplda.model.parameters import Parameters
from oracles.dense import DenseModel
from worlds.designs import draw_parameters

D = 3
FREE = NoiseModel(False, np.full(D, 1e-12))
DESIGNS = {
    "even cells": (24, 4, (3,), 0.0, True),
    "uneven cells": (30, 5, (3,), 0.0, False),
    "some channels missing": (30, 5, (3,), 0.3, False),
    "two conditions": (36, 5, (2, 3), 0.0, False),
    "two conditions, some missing": (36, 4, (2, 3), 0.25, False),
}


def drawn(name, seed=0):
    """Samples, columns of labels (None: missing), and parameters that have nothing to do with them."""
    n, speakers, levels, missing, even = DESIGNS[name]
    rng = np.random.default_rng([seed, *name.encode()])
    if even:
        s, c = np.arange(n) // (n // speakers), np.arange(n) % levels[0]
        columns = [s.tolist(), c.tolist()]
    else:
        columns = [rng.integers(0, size, n).tolist() for size in (speakers, *levels)]
    for column in columns[1:]:
        for i in np.flatnonzero(rng.random(n) < missing):
            column[i] = None
    X = 3.0 + 2.0 * rng.normal(size=(n, D))
    return X, columns, draw_parameters(rng, D, (2, *[1] * len(levels)), offset=3.0), rng


def cells_of(columns):
    """The cell of every sample; None where a label is missing."""
    return [None if None in row else row for row in zip(*columns)]


def statistics_of(X, columns, **settings):
    channels = np.empty((len(X), len(columns) - 1), dtype=object)
    for k, column in enumerate(columns[1:]):
        channels[:, k] = column
    return Statistics.from_samples(X, columns[0], channels, cells=True, **settings)


def setting(name, form, seed=0):
    """Statistics of cell means, what is within, parameters and kappa, and the dense oracle of either form."""
    X, columns, plain, rng = drawn(name, seed)
    means, within = cell_means(statistics_of(X, columns))
    if form == "proportional":
        parameters, kappa = plain, 0.6
        G = np.sqrt(0.6) * np.linalg.cholesky(plain.noise)
    else:
        G, means = rng.normal(size=(D, 2)), with_cell_factor(means)
        parameters, kappa = with_cell(plain, G), 0.0
    dense = DenseModel(plain.mean, [*plain.loadings, G], plain.noise, [*columns, cells_of(columns)])
    return X, means, within, parameters, kappa, dense


def log_likelihood(means, within, parameters, kappa=0.0):
    layout = lay_out(means, parameters.ranks)
    return solve(layout, parameters, kappa).log_likelihood + within.log_likelihood(*inverse(parameters.noise))


@pytest.mark.parametrize("form", ["proportional", "full"])
@pytest.mark.parametrize("name", DESIGNS)
def test_likelihood(name, form):
    X, means, within, parameters, kappa, dense = setting(name, form)
    assert log_likelihood(means, within, parameters, kappa) == pytest.approx(dense.log_likelihood(X), rel=1e-11)


@pytest.mark.parametrize("form", ["proportional", "full"])
@pytest.mark.parametrize("name", DESIGNS)
def test_an_m_step_is_the_maximum_of_the_expected_likelihood(name, form):
    """Against the dense posterior: sums over samples of the residual's second moment, with and without w.

    In the proportional form the cell latent is integrated out, so the regression is that of cell means with weights
    n / (1 + kappa n); in the full form it is one more latent, and all samples weigh alike.
    """
    X, means, within, parameters, kappa, dense = setting(name, form)
    layout = lay_out(means, parameters.ranks)
    moments, _ = e_step(layout, parameters, kappa)
    stepped, _ = m_step(moments, parameters, layout.scatter(kappa), layout.shift, Prior(), FREE, within)
    R, T = dense.moments(X)
    if form == "full":
        W = np.linalg.solve(R, T).T
        C = (X.T @ X - W @ T) / len(X)
        assert_allclose(stepped.noise, C, rtol=1e-8, atol=1e-8)
    else:
        z, covariance = dense.posterior(X)
        weights, S = np.zeros(len(X)), 0.0
        groups = {}
        for i, cell in enumerate(cells_of_dense(dense)):
            groups.setdefault(cell, []).append(i)
        R, T = 0.0, 0.0
        width = sum(W.shape[1] for W in parameters.loadings)
        for rows in groups.values():
            n, mean = len(rows), X[rows].mean(axis=0)
            weight = n / (1.0 + 0.6 * n)
            at = np.concatenate([dense._rows(k, rows[0]) for k in range(len(parameters.loadings))])
            first = np.append(z[at], 1.0)
            second = np.outer(first, first)
            second[:width, :width] += covariance[np.ix_(at, at)]
            R, T = R + weight * second, T + weight * np.outer(first, mean)
            S = S + weight * np.outer(mean, mean) + (X[rows] - mean).T @ (X[rows] - mean)
        W = np.linalg.solve(R, T).T
        assert_allclose(stepped.noise, (S - W @ T) / len(X), rtol=1e-8, atol=1e-8)
        assert weights.sum() == 0


def cells_of_dense(dense):
    """The cell of every sample, read off the design matrix of the last factor."""
    found = []
    for i in range(dense.n):
        found.append(int(dense._rows(len(dense.spans) - 1, i)[0]))
    return found


@pytest.mark.parametrize("form", ["proportional", "full"])
@pytest.mark.parametrize("name", DESIGNS)
@pytest.mark.parametrize("speaker_prior", [0.0, 4.0])
def test_em_never_lowers_the_likelihood(name, form, speaker_prior):
    X, means, within, parameters, kappa, _ = setting(name, form)
    prior = Prior(
        speaker_strength=speaker_prior,
        noise_strength=speaker_prior,
        kappa=KappaPrior(0.4, 3.0) if form == "proportional" else None,
    )
    loadings = parameters.loadings
    if speaker_prior:
        loadings = (np.eye(D), *loadings[1:])
    start = parameters.with_loadings(loadings)
    result = run_em(
        lay_out(means, start.ranks),
        start,
        kappa,
        prior=prior,
        noise=FREE,
        max_iter=60,
        tol=0.0,
        within=within,
    )
    trace = np.array([result.start, *result.log_likelihoods])
    assert len(trace) > 20
    assert np.diff(trace).min() > -1e-9
    found = log_likelihood(means, within, result.parameters, result.kappa)
    assert (found + prior.penalty(result.parameters, result.kappa)) / len(X) == pytest.approx(
        result.log_likelihoods[-1], rel=1e-10
    )


@pytest.mark.parametrize("name", ["uneven cells", "two conditions"])
def test_the_cell_as_one_more_condition_is_the_same_model(name):
    """The engine without the interaction, given the cell as a condition: likelihood and optimum are the same."""
    X, columns, plain, rng = drawn(name)
    means, within = cell_means(statistics_of(X, columns))
    G = rng.normal(size=(D, 2))
    slow = np.empty((len(X), len(columns)), dtype=object)
    for k, column in enumerate([*columns[1:], cells_of(columns)]):
        for i, label in enumerate(column):
            slow[i, k] = label
    statistics = Statistics.from_samples(X, columns[0], slow)
    parameters = with_cell(plain, G)
    other = solve(lay_out(statistics, parameters.ranks), parameters).log_likelihood
    assert log_likelihood(with_cell_factor(means), within, parameters) == pytest.approx(other, rel=1e-10)
    settings = {"prior": Prior(noise_strength=5.0), "noise": FREE, "max_iter": 3000, "tol": 1e-12}
    fast = run_em(lay_out(with_cell_factor(means), parameters.ranks), parameters, within=within, **settings)
    check = run_em(lay_out(statistics, parameters.ranks), parameters, **settings)
    assert fast.log_likelihoods[-1] == pytest.approx(check.log_likelihoods[-1], abs=1e-6)


def test_statistics_of_cells_add_up_however_a_cell_is_split():
    X, columns, plain, _ = drawn("two conditions, some missing")
    whole = statistics_of(X, columns)
    rng = np.random.default_rng(5)
    which = rng.integers(0, 3, len(X))
    pieces = []
    for p in (2, 0, 1):
        rows = np.flatnonzero(which == p)
        pieces.append(statistics_of(X[rows], [[column[i] for i in rows] for column in columns]))
    added = Statistics.sum(pieces)
    values = [log_likelihood(*cell_means(one), plain, 0.6) for one in (whole, added)]
    assert values[0] == pytest.approx(values[1], rel=1e-11)
    for kept in ([0], [1], []):
        fewer = Parameters.of(plain.mean, (plain.loadings[0], *(plain.loadings[1 + k] for k in kept)), plain.noise)
        values = [log_likelihood(*cell_means(one.with_conditions(kept)), fewer, 0.6) for one in (whole, added)]
        direct = statistics_of(X, [columns[0], *(columns[1 + k] for k in kept)])
        values.append(log_likelihood(*cell_means(direct), fewer, 0.6))
        assert_allclose(values, values[0], rtol=1e-11)


def test_statistics_without_cells_are_no_larger_and_are_refused(tmp_path):
    X, columns, _, _ = drawn("uneven cells")
    channels = np.array(columns[1])
    plain = Statistics.from_samples(X, columns[0], channels)
    assert all(part.cells is None for part in plain.parts.values())
    with pytest.raises(InputError, match="statistics: hold no sums of cells"):
        cell_means(plain)
    both = statistics_of(X, columns)
    both.save(tmp_path / "cells")
    loaded = Statistics.load(tmp_path / "cells")
    for pattern, part in both.parts.items():
        assert np.array_equal(loaded.parts[pattern].cells.sums, part.cells.sums)
    mixed = plain + both
    with pytest.raises(InputError, match="statistics: hold no sums of cells"):
        cell_means(mixed)


def test_weights_are_copies_within_a_cell():
    X, columns, plain, rng = drawn("uneven cells")
    weights = rng.integers(1, 4, len(X))
    copies = np.repeat(np.arange(len(X)), weights)
    weighted = statistics_of(X, columns, sample_weight=weights)
    repeated = statistics_of(X[copies], [[column[i] for i in copies] for column in columns])
    values = [log_likelihood(*cell_means(one), plain, 0.6) for one in (weighted, repeated)]
    assert values[0] == pytest.approx(values[1], rel=1e-10)


def test_kappa_of_equal_cells_has_a_closed_form():
    """With one size n, kappa is v / K - 1 / n where that is positive, else 0."""
    counts, sizes = np.array([50.0]), np.array([4.0])
    assert best_kappa(counts, sizes, np.array([50.0 * 0.9]), 3, KappaPrior(), 0.1) == pytest.approx(0.65, abs=1e-7)
    assert best_kappa(counts, sizes, np.array([50.0 * 0.2]), 3, KappaPrior(), 0.1) == 0.0


def test_a_belief_fades_as_cells_grow():
    """Where the data say 0 the estimate falls from the belief towards 0, without a step."""
    found = []
    for number in (0.0, 1.0, 4.0, 16.0, 64.0, 1024.0):
        squares = np.array([number / 2.0])
        found.append(best_kappa(np.array([number]), np.array([2.0]), squares, 3, KappaPrior(0.4, 10.0), 0.4))
    assert found[0] == pytest.approx(0.4, abs=1e-6)
    assert np.all(np.diff(found) < 0)
    assert found[-1] < 0.01


@pytest.mark.parametrize("name", DESIGNS)
def test_with_kappa_held_all_cells_are_one_part(name):
    """Likelihood, posterior means and a step of EM are those of parts by cell size."""
    X, columns, plain, _ = drawn(name)
    statistics = statistics_of(X, columns)
    means, within = cell_means(statistics)
    held, left = held_cells(statistics, 0.6, shape_weight=0.0)
    assert len(held.parts) <= len(means.parts)
    expected = log_likelihood(means, within, plain, 0.6)
    assert log_likelihood(held, left, plain) == pytest.approx(expected, rel=1e-12)
    layouts = lay_out(means, plain.ranks), lay_out(held, plain.ranks)
    steps = []
    for layout, kappa, rest in zip(layouts, (0.6, 0.0), (within, left), strict=True):
        moments, _ = e_step(layout, plain, kappa)
        scatter = layout.scatter(kappa)
        steps.append(m_step(moments, plain, scatter, layout.shift, Prior(5.0, 1.2), FREE, rest)[0])
    for a, b in zip((steps[0].mean, steps[0].noise), (steps[1].mean, steps[1].noise), strict=True):
        assert_allclose(a, b, rtol=1e-9, atol=1e-10)
    for a, b in zip(steps[0].loadings, steps[1].loadings, strict=True):
        assert_allclose(a @ a.T, b @ b.T, rtol=1e-9, atol=1e-10)


def penalised(theta, X, columns, prior):
    """Log-likelihood of m = mean + V y + U x + G w + e and its penalties from a flat vector, by the dense oracle."""
    mean, V, U, G, lower = np.split(theta, np.cumsum([D, D * D, D, D * D]))
    A = np.zeros((D, D))
    A[np.tril_indices(D)] = lower
    V, U, G, C = V.reshape(D, D), U.reshape(D, 1), G.reshape(D, D), A @ A.T
    value = DenseModel(mean, [V, U, G], C, [*columns, cells_of(columns)]).log_likelihood(X)
    for nu, psi, B in [
        (prior.noise_strength, prior.noise_scale, C),
        (prior.speaker_strength, prior.speaker_scale, V @ V.T),
        (prior.cell_strength, prior.cell_scale, G @ G.T),
    ]:
        value -= 0.5 * nu * (np.linalg.slogdet(B)[1] + psi * np.trace(np.linalg.inv(B))) if nu else 0.0
    return value


@pytest.mark.parametrize("speaker_strength", [0.0, 3.0])
@pytest.mark.parametrize("name", ["uneven cells", "some channels missing"])
def test_a_prior_of_the_loading_ends_where_the_penalised_likelihood_is_flat(name, speaker_strength):
    X, columns, plain, rng = drawn(name)
    means, within = cell_means(statistics_of(X, columns))
    prior = Prior(8.0, 1.5, speaker_strength, 0.8, cell_strength=6.0, cell_scale=0.4)
    start = with_cell(plain.with_loadings((rng.normal(size=(D, D)), plain.loadings[1])), rng.normal(size=(D, D)))
    layout = lay_out(with_cell_factor(means), start.ranks)
    found = run_em(layout, start, prior=prior, noise=FREE, max_iter=20000, tol=1e-14, within=within)
    trace = np.array([found.start, *found.log_likelihoods])
    assert np.diff(trace).min() > -1e-9
    p = found.parameters
    theta = np.concatenate([p.mean, *(W.ravel() for W in p.loadings), np.linalg.cholesky(p.noise)[np.tril_indices(D)]])
    assert found.log_likelihoods[-1] * len(X) == pytest.approx(penalised(theta, X, columns, prior), rel=1e-10)
    away = np.abs(approx_fprime(1.3 * theta, penalised, 1e-6, X, columns, prior)).max()
    assert np.abs(approx_fprime(theta, penalised, 1e-6, X, columns, prior)).max() < 2e-4 * away


def test_what_is_within_cells():
    within = WithinCells(np.eye(2) * 3.0, 5.0, 1.5)
    C = np.array([[2.0, 0.3], [0.3, 1.0]])
    D_, log_det = inverse(C)
    expected = -2.5 * (2 * np.log(2 * np.pi) + np.log(np.linalg.det(C))) - 0.5 * np.trace(3.0 * np.linalg.inv(C)) - 1.5
    assert within.log_likelihood(D_, log_det) == pytest.approx(expected)
