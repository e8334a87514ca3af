"""Models of Kaldi: scores by its own formula."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

from jointplda import InputError, JointPLDA
from jointplda.estimators.interchange import from_covariances, from_kaldi, to_covariances, to_kaldi
from jointplda.formats import KaldiPlda

PRIORS = (0.05, 0.5, 0.8)


def test_scores_of_a_kaldi_model_are_kaldis():
    rng = np.random.default_rng(0)
    A, mean, psi = rng.normal(size=(4, 4)), rng.normal(size=4), np.array([3.0, 1.0, 0.2, 0.0])
    X, Y = rng.normal(size=(3, 4)), rng.normal(size=(5, 4))

    def ratio(x, y):  # Plda::LogLikelihoodRatio with one enrollment utterance
        u, v = A @ (x - mean), A @ (y - mean)
        given, alone = 1 + psi / (psi + 1), 1 + psi
        same = np.log(given) + (v - psi / (psi + 1) * u) ** 2 / given
        return -0.5 * (same - np.log(alone) - v**2 / alone).sum()

    expected = [[ratio(x, y) for y in Y] for x in X]
    assert_allclose(from_kaldi(KaldiPlda(mean, A, psi)).score_matrix(X, Y), expected, atol=1e-9)


def test_an_absorbed_channel_is_part_of_the_noise():
    rng = np.random.default_rng(1)
    A = rng.normal(size=(4, 4))
    model = JointPLDA.from_parameters(rng.normal(size=4), rng.normal(size=(4, 2)), rng.normal(size=(4, 1)), A @ A.T)
    between, within = model.V_ @ model.V_.T, np.linalg.inv(A @ A.T) + model.U_ @ model.U_.T
    total = between + within
    both = multivariate_normal(np.tile(model.mean_, 2), np.block([[total, between], [between, total]]))
    one = multivariate_normal(model.mean_, total)
    X, Y = rng.normal(size=(3, 4)), rng.normal(size=(5, 4))
    expected = [[both.logpdf(np.append(x, y)) - one.logpdf(x) - one.logpdf(y) for y in Y] for x in X]
    found = from_kaldi(to_kaldi(model, absorb_channel=True)).score_matrix(X, Y)
    assert_allclose(found, expected, atol=1e-8)


def test_covariances():
    MEAN, TRANSFORM, PSI = [0.5, -1.0], [[2.0, 0.25], [0.0, 4.0]], [3.0, 0.125]
    mean, between, within = to_covariances(KaldiPlda(np.array(MEAN), np.array(TRANSFORM), np.array(PSI)))
    A = np.array(TRANSFORM)
    np.testing.assert_array_equal(mean, MEAN)
    np.testing.assert_allclose(A @ within @ A.T, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(A @ between @ A.T, np.diag(PSI), atol=1e-12)


def test_covariances_there_and_back():
    rng = np.random.default_rng(2)
    G, H = rng.normal(size=(2, 6, 6))
    between, within = G[:, :3] @ G[:, :3].T, H @ H.T + np.eye(6)
    plda = from_covariances(rng.normal(size=6), between, within)
    assert np.all(np.diff(plda.psi) <= 0)
    np.testing.assert_allclose(plda.psi[3:], 0, atol=1e-12)
    _, again_between, again_within = to_covariances(plda)
    np.testing.assert_allclose(again_between, between, atol=1e-10)
    np.testing.assert_allclose(again_within, within, atol=1e-10)


def test_covariances_that_cannot_be():
    eye = np.eye(2)
    with pytest.raises(InputError, match="within: expected a positive definite"):
        from_covariances(np.zeros(2), eye, np.zeros((2, 2)))
    with pytest.raises(InputError, match="between: expected a positive semidefinite"):
        from_covariances(np.zeros(2), -eye, eye)
    with pytest.raises(InputError, match="between: expected a finite and symmetric"):
        from_covariances(np.zeros(2), np.array([[1.0, 2.0], [0.0, 1.0]]), eye)
    with pytest.raises(InputError, match=r"within: expected shape \(2, 2\), got \(3, 3\)"):
        from_covariances(np.zeros(2), eye, np.eye(3))
    with pytest.raises(InputError, match="has no inverse"):
        to_covariances(KaldiPlda(np.zeros(2), np.zeros((2, 2)), np.ones(2)))
