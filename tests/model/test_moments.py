"""Moment covariances against their expectation, which must be the truth, for uneven designs with missing labels."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from jointplda.model.interaction.cell_means import cell_means
from jointplda.model.moment_covariances import moment_covariances
from jointplda.model.statistics import Statistics
from oracles.expectations import columns_of_the_root
from worlds.cell_condition import with_cell_condition

D = 2


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("conditions", [1, 2])
def test_with_an_interaction_too(conditions, missing):
    """The cell is one more factor, and what is within cells is noise."""
    rng = np.random.default_rng(10 + conditions)
    n = 40
    codes = np.column_stack([rng.integers(0, 6, n), *(rng.integers(0, 3, n) for _ in range(conditions))])
    codes[:, 1:][rng.random((n, conditions)) < missing] = -1
    cells = np.unique(codes, axis=0, return_inverse=True)[1].reshape(-1)
    cells[(codes < 0).any(axis=1)] = -1
    truth = []
    for _ in range(conditions + 3):
        A = rng.normal(size=(D, D))
        truth.append(A @ A.T + 0.5 * np.eye(D))
    channels = np.where(codes[:, 1:] < 0, None, codes[:, 1:].astype(object))
    total = [np.zeros((D, D)) for _ in truth]
    for X in columns_of_the_root(rng.normal(size=D), truth, np.column_stack([codes, cells])):
        statistics = Statistics.from_samples(X, codes[:, 0], channels, shift=np.zeros(D), cells=True)
        within = cell_means(statistics)[1]
        moments = moment_covariances(with_cell_condition(statistics), within.scatter / within.freedom)
        for sums, covariance in zip(total, (*moments.between, moments.within), strict=True):
            sums += covariance
    for sums, covariance in zip(total, truth, strict=True):
        assert_allclose(sums, covariance, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("conditions", [0, 1, 2])
def test_their_expectation_is_the_truth(conditions, missing):
    rng = np.random.default_rng(conditions)
    n = 40
    codes = np.column_stack([rng.integers(0, 7, n), *(rng.integers(0, 4, n) for _ in range(conditions))])
    codes[:, 1:][rng.random((n, conditions)) < missing] = -1
    truth = []
    for _ in range(conditions + 2):
        A = rng.normal(size=(D, D))
        truth.append(A @ A.T + 0.5 * np.eye(D))
    channels = np.where(codes[:, 1:] < 0, None, codes[:, 1:].astype(object)) if conditions else None
    total = [np.zeros((D, D)) for _ in truth]
    for X in columns_of_the_root(rng.normal(size=D), truth, codes):
        moments = moment_covariances(Statistics.from_samples(X, codes[:, 0], channels, shift=np.zeros(D)))
        for sums, covariance in zip(total, (*moments.between, moments.within), strict=True):
            sums += covariance
    for sums, covariance in zip(total, truth, strict=True):
        assert_allclose(sums, covariance, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("most", [3.0, 0.22])
def test_weights_below_1_count_as_such(most):
    """The covariance within is that of weighted least squares, also where speakers weigh less than one sample."""
    rng = np.random.default_rng(3)
    n = 400
    s, c = rng.integers(0, 50, n), rng.integers(0, 4, n)
    X, w = rng.normal(size=(50, D))[s] + rng.normal(size=(n, D)), rng.uniform(0.5 * most, most, n)
    levels = np.concatenate([s[:, None] == np.unique(s), c[:, None] == np.unique(c)], axis=1)
    root = np.sqrt(w)[:, None]
    rest = root * X - root * levels @ np.linalg.lstsq(root * levels, root * X)[0]
    freedom = w.sum() - np.linalg.matrix_rank(levels)
    assert freedom > 0.02 * w.sum()
    within = moment_covariances(Statistics.from_samples(X, s, c, sample_weight=w)).within
    assert_allclose(within, rest.T @ rest / freedom, rtol=1e-9)


def test_they_do_not_depend_on_the_shift():
    """Also where a condition has one channel, whose effect cannot be told from the mean."""
    rng = np.random.default_rng(4)
    s, c = rng.integers(0, 10, 80), np.zeros(80, dtype=int)
    X = rng.normal(size=(10, D))[s] + rng.normal(size=(80, D))
    near, far = (moment_covariances(Statistics.from_samples(X, s, c, shift=X.mean(axis=0) + e)) for e in (0.0, 3.0))
    for one, other in zip((*near.between, near.within), (*far.between, far.within), strict=True):
        assert_allclose(one, other, rtol=1e-9, atol=1e-9)
