"""The analysis of variance against the covariances of the moments, and against worlds whose shares are known."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import t

from jointplda import InputError, JointPLDA, Statistics
from jointplda.model.interaction.cell_means import cell_means
from jointplda.model.moment_covariances import moment_covariances
from jointplda.model.variance_shares import _half_width, variance_shares
from worlds.cell_condition import with_cell_condition


@pytest.mark.parametrize("conditions", [1, 2])
def test_shares_are_traces_of_moment_covariances(conditions):
    """Two implementations of the same estimator."""
    rng = np.random.default_rng(conditions)
    n = 300
    codes = np.column_stack([rng.integers(0, 12, n), *(rng.integers(0, 4, n) for _ in range(conditions))])
    X = rng.normal(size=(n, 3)) + 2.0 * rng.normal(size=(12, 3))[codes[:, 0]] + rng.normal(size=(4, 3))[codes[:, 1]]
    names = tuple(f"c{k}" for k in range(conditions))
    found = variance_shares(X, codes, names)
    assert found.names == ("speaker", *names, "interaction", "noise")
    statistics = Statistics.from_samples(X, codes[:, 0], codes[:, 1:], shift=X.mean(axis=0), cells=True)
    within = cell_means(statistics)[1]
    moments = moment_covariances(with_cell_condition(statistics), within.scatter / within.freedom)
    traces = np.maximum([np.trace(B) for B in (*moments.between, moments.within)], 0.0)
    assert_allclose(found.shares, traces / traces.sum(), rtol=1e-7, atol=1e-9)
    assert found.kappa == pytest.approx(traces[-2] / traces[-1], rel=1e-7)


def drawn(seed, speakers=80, channels=12):
    rng = np.random.default_rng(seed)
    V, U = rng.normal(size=(5, 2)), rng.normal(size=(5, 1))
    truth = JointPLDA.from_parameters(np.zeros(5), V, U, np.eye(5), interaction=0.6)
    s, c = (grid.ravel() for grid in np.meshgrid(np.arange(speakers), np.arange(channels), indexing="ij"))
    codes = np.repeat(np.column_stack([s, c]), 2, axis=0)
    shares = np.array([np.trace(V @ V.T), np.trace(U @ U.T), 3.0, 5.0])
    return truth.sample(codes[:, 0], channels=codes[:, 1], random_state=seed), codes, shares / shares.sum()


def test_an_interval_without_interaction_is_not_a_point():
    """An estimate below 0 counts as 0, but how far it may be off is still told."""
    rng = np.random.default_rng(0)
    codes = np.column_stack([np.arange(10).repeat(12), np.tile(np.arange(4).repeat(3), 10)])
    means = rng.normal(size=(40, 3))
    X = rng.normal(size=(120, 3))
    X = X - X.reshape(40, 3, 3).mean(axis=1).repeat(3, axis=0) + 0.54 * means.repeat(3, axis=0)
    found = variance_shares(X, codes, ("channel",))
    assert found.kappa == 0.0
    assert found.kappa_interval[0] == 0.0
    assert found.kappa_interval[1] > 0.03
    assert 0.0 <= found.shares.min() <= found.shares.max() <= 1.0


def test_known_shares_come_back():
    X, codes, truth = drawn(0, speakers=200, channels=40)
    found = variance_shares(X, codes, ("channel",))
    assert_allclose(found.shares, truth, atol=0.07)
    assert found.kappa == pytest.approx(0.6, abs=0.03)
    assert np.all(found.intervals[:, 0] < found.shares)
    assert np.all(found.shares < found.intervals[:, 1])


def test_intervals_cover_the_truth():
    """90 % intervals: 24 worlds of four shares and kappa, so that 0.8 of 120 is three standard errors below."""
    rng = np.random.default_rng(100)
    V, U = rng.normal(size=(5, 2)), rng.normal(size=(5, 1))
    truth = JointPLDA.from_parameters(np.zeros(5), V, U, np.eye(5), interaction=0.6)
    _, codes, _ = drawn(0, speakers=80, channels=12)
    shares = np.array([np.trace(V @ V.T), np.trace(U @ U.T), 3.0, 5.0])
    expected = np.append(shares / shares.sum(), 0.6)
    covered = []
    for seed in range(24):
        X = truth.sample(codes[:, 0], channels=codes[:, 1], random_state=seed)
        found = variance_shares(X, codes, ("channel",))
        low, high = np.vstack([found.intervals, found.kappa_interval]).T
        covered += ((low <= expected) & (expected <= high)).tolist()
    assert 0.8 <= np.mean(covered) < 1


def test_jackknife_of_a_mean_is_its_standard_error():
    """Of the mean of n numbers: s / sqrt(n) times the quantile of Student's t with n - 1 degrees of freedom."""
    numbers = np.random.default_rng(3).normal(size=9)
    without = np.array([[np.delete(numbers, i).mean()] for i in range(9)])
    expected = numbers.std(ddof=1) / 3 * t.ppf(0.95, 8)
    assert_allclose(_half_width([without]), [expected], rtol=1e-12)
    constant = np.zeros((4, 1))
    assert_allclose(_half_width([without, constant]), [expected], rtol=1e-12)
    assert np.isinf(_half_width([without, [None, constant[0]]])).all()


def test_one_channel_or_speaker_that_decides_alone():
    """Without one of two channels, or without the only speaker in both, nothing tells the components apart."""
    X, codes, _ = drawn(0, speakers=10, channels=2)
    several = drawn(0, speakers=10, channels=3)
    kept = (several[1][:, 1] == several[1][:, 0] % 3) | (several[1][:, 0] == 0)
    for samples, labels in [(X, codes), (several[0][kept], several[1][kept])]:
        found = variance_shares(samples, labels, ("channel",))
        assert found.intervals.tolist() == [[0, 1]] * 4
        assert found.kappa_interval.tolist() == [0, np.inf]


@pytest.mark.parametrize("kept", ["one channel", "one speaker", "a channel of their own"])
def test_components_that_cannot_be_told_apart_are_refused(kept):
    X, codes, _ = drawn(0, speakers=10, channels=3)
    rows = {"one channel": codes[:, 1] == 0, "one speaker": codes[:, 0] == 0}
    rows["a channel of their own"] = codes[:, 1] == codes[:, 0] % 3
    with pytest.raises(InputError, match="cannot be told apart"):
        variance_shares(X[rows[kept]], codes[rows[kept]], ("channel",))


def test_what_cannot_be_analysed_is_refused():
    with pytest.raises(InputError, match="two or more samples in a channel"):
        variance_shares(np.eye(4), np.array([[0, 0], [0, 1], [1, 0], [1, 1]]), ("channel",))
    with pytest.raises(InputError, match="all of them are copies"):
        variance_shares(np.repeat(np.eye(4), 2, axis=0), np.repeat([[0, 0], [0, 1], [1, 0], [1, 1]], 2, axis=0), ("c",))
