"""Moments with an interaction: residuals of cell means against least squares, and expectations that are the truth."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from jointplda.model.cell_sums import WithinCells
from jointplda.model.interaction import cell_moments
from jointplda.model.interaction.cell_means import cell_means
from jointplda.model.interaction.cell_moments import (
    CellResidual,
    MomentKappa,
    cell_covariances,
    cell_residual,
    moment_kappa,
)
from jointplda.model.kappa import KappaPrior
from jointplda.model.statistics import Statistics
from oracles.expectations import columns_of_the_root

D = 2
NO_BELIEF = KappaPrior(0.4, 0.0)


def cells_of(X, codes):
    """Means and sizes of cells, and their rows of codes."""
    distinct, which, counts = np.unique(codes, axis=0, return_inverse=True, return_counts=True)
    sums = np.zeros((len(distinct), X.shape[1]))
    np.add.at(sums, which.reshape(-1), X)
    return distinct, counts, sums / counts[:, None]


@pytest.mark.parametrize("conditions", [1, 2])
def test_residuals_are_those_of_least_squares(conditions):
    rng = np.random.default_rng(conditions)
    codes = np.column_stack([rng.integers(0, 8, 60), *(rng.integers(0, 3, 60) for _ in range(conditions))])
    X = rng.normal(size=(60, D)) + codes[:, :1]
    found = cell_residual(Statistics.from_samples(X, codes[:, 0], codes[:, 1:], cells=True))
    cells, counts, means = cells_of(X, codes)
    dummies = np.concatenate([np.eye(8)[cells[:, 0]], *(np.eye(3)[cells[:, 1 + k]] for k in range(conditions))], axis=1)
    residual = means - dummies @ np.linalg.lstsq(dummies, means, rcond=None)[0]
    assert found.freedom == len(cells) - np.linalg.matrix_rank(dummies)
    assert_allclose(found.scatter, residual.T @ residual, rtol=1e-9)
    left = 1 - np.diag(dummies @ np.linalg.pinv(dummies))
    assert found.inverse_size == pytest.approx(np.sum(left / counts) / np.sum(left), rel=1e-9)
    assert found.cells == len(cells)


@pytest.mark.parametrize("design", ["nested", "twice", "ring", "one cell each", "own channels"])
def test_freedom_and_residual_of_designs_with_dependent_means(design):
    """Conditions nested in each other or the same, long circles, channels with one speaker."""
    rng = np.random.default_rng(5)
    speakers = np.arange(60)
    codes = {
        "nested": np.column_stack([np.repeat(speakers, 4), rng.integers(0, 12, 240)]),
        "twice": np.column_stack([np.repeat(speakers, 4), rng.integers(0, 5, 240)]),
        "ring": np.concatenate([np.column_stack([speakers, (speakers + k) % 60]) for k in (0, 1)]),
        "one cell each": np.column_stack([speakers, speakers % 5]),
        "own channels": np.concatenate(
            [np.column_stack([speakers, c]) for c in (0 * speakers, 0 * speakers + 1, 2 + speakers)]
        ),
    }[design]
    if design in ("nested", "twice", "one cell each"):
        codes = np.column_stack(
            [codes, {"nested": codes[:, 1] // 4, "twice": codes[:, 1]}.get(design, codes[:, 0] % 4)]
        )
    codes = codes.repeat(rng.integers(1, 4, len(codes)), axis=0)
    X = rng.normal(size=(len(codes), D))
    found = cell_residual(Statistics.from_samples(X, codes[:, 0], codes[:, 1:], cells=True))
    cells, counts, means = cells_of(X, codes)
    dummies = np.concatenate([column[:, None] == np.unique(column) for column in cells.T], axis=1).astype(float)
    assert found.freedom == len(cells) - np.linalg.matrix_rank(dummies)
    assert found.freedom == 0 or design != "one cell each"
    if found.freedom:
        residual = means - dummies @ np.linalg.lstsq(dummies, means, rcond=None)[0]
        assert_allclose(found.scatter, residual.T @ residual, rtol=1e-8)
        left = 1 - np.diag(dummies @ np.linalg.pinv(dummies))
        assert found.inverse_size == pytest.approx(np.sum(left / counts) / np.sum(left), rel=1e-8)


def test_of_very_many_channels_the_most_frequent_are_used(monkeypatch):
    monkeypatch.setattr(cell_moments, "MOST_LEVELS", 6)
    rng = np.random.default_rng(6)
    codes = np.column_stack(
        [np.repeat(np.arange(50), 6), np.minimum(rng.integers(0, 40, 300), rng.integers(0, 40, 300))]
    )
    X = rng.normal(size=(300, D))
    found = cell_residual(Statistics.from_samples(X, codes[:, 0], codes[:, 1], cells=True))
    cells, _, _ = cells_of(X, codes)
    most = np.argsort(-np.bincount(cells[:, 1]), kind="stable")[:6]
    rows = np.isin(codes[:, 1], most)
    expected = cell_residual(Statistics.from_samples(X[rows], codes[rows, 0], codes[rows, 1], cells=True))
    assert 0 < found.freedom == expected.freedom
    assert_allclose(found.scatter, expected.scatter, rtol=1e-9)


def test_without_circles_of_cells_there_is_no_residual():
    """Speakers in one channel each, then one speaker in two, then a circle of two speakers in two channels."""
    rng = np.random.default_rng(0)
    for extra, freedom in (([], 0), ([(0, 1)], 0), ([(0, 1), (1, 0)], 1)):
        pairs = np.array([(0, 0), (1, 1), (2, 0), *extra]).repeat(3, axis=0)
        statistics = Statistics.from_samples(rng.normal(size=(len(pairs), D)), pairs[:, 0], pairs[:, 1], cells=True)
        assert cell_residual(statistics).freedom == freedom


def test_kappa_is_a_mean_of_moments_and_belief():
    residual, within = CellResidual(np.eye(D) * 24.0, 20.0, 0.5, 40), WithinCells(np.eye(D) * 60.0, 60.0, 0.0)
    for belief, value, believed in (
        (NO_BELIEF, 0.7, 0.0),
        (KappaPrior(0.4, 15.0), 0.5 * (0.7 + 0.4), 0.5),
        (KappaPrior(0.0, 45.0), 0.25 * 0.7, 0.75),
    ):
        found = moment_kappa(residual, within, belief)
        assert found.value == pytest.approx(value)
        assert found.prior_share == pytest.approx(believed)
    nothing = CellResidual(np.zeros((D, D)), 0.0, 0.5, 40)
    assert moment_kappa(nothing, within, KappaPrior(0.3, 0.0)) == MomentKappa(0.3, 1.0, 0.0)
    small = CellResidual(np.eye(D), 20.0, 0.5, 40)
    assert moment_kappa(small, within, NO_BELIEF).value == 0.0


@pytest.mark.parametrize("per_speaker", [3, 1])
def test_the_expectation_of_covariances_is_the_truth(per_speaker):
    """Even cells with G G' = kappa C, kappa given: also where every speaker is in one channel."""
    rng = np.random.default_rng(per_speaker)
    cells = [(s, (s + c) % 3) for s in range(9) for c in range(per_speaker)]
    codes = np.array(cells).repeat(2, axis=0)
    roots = rng.normal(size=(3, D, D))
    B, A, C = (root @ root.T + 0.3 * np.eye(D) for root in roots)
    which = np.unique(codes, axis=0, return_inverse=True)[1].reshape(-1)
    total = [np.zeros((D, D)) for _ in range(3)]
    for X in columns_of_the_root(rng.normal(size=D), [B, A, 0.7 * C, C], np.column_stack([codes, which])):
        statistics = Statistics.from_samples(X, codes[:, 0], codes[:, 1], shift=np.zeros(D), cells=True)
        found, kappa = cell_covariances(statistics, cell_means(statistics)[1], NO_BELIEF, 0.7)
        assert (kappa.value, kappa.prior_share) == (0.7, float(per_speaker == 1))
        for sums, covariance in zip(total, (*found.between, found.within), strict=True):
            sums += covariance
    for sums, covariance in zip(total, (B, A, C), strict=True):
        assert_allclose(sums, covariance, rtol=1e-6, atol=1e-6)


def test_without_a_cell_of_two_samples_kappa_is_believed():
    """Only (1 + kappa) C is seen then."""
    rng = np.random.default_rng(3)
    codes = np.array([(s, c) for s in range(40) for c in range(6)])
    X = rng.normal(size=(len(codes), D)) + rng.normal(size=(40, D))[codes[:, 0]]
    statistics = Statistics.from_samples(X, codes[:, 0], codes[:, 1], cells=True)
    found, kappa = cell_covariances(statistics, cell_means(statistics)[1], KappaPrior(0.25, 10.0))
    assert (kappa.value, kappa.prior_share) == (0.25, 1.0)
    assert_allclose(found.within, np.eye(D) / 1.25, atol=0.15)
