"""Models of Kaldi: scores by its own formula."""

import numpy as np
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

from jointplda import JointPLDA
from jointplda.estimators.interchange import from_kaldi, to_kaldi
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
