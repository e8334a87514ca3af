"""V V' divided between speaker and interaction after EM."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import eigh

from jointplda import JointPLDA
from jointplda.model.interaction.cell_factor import joined_speaker, split_speaker
from jointplda.model.parameters import Parameters


def drawn(rank=3, d=5, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(d, d))
    return Parameters.of(rng.normal(size=d), (rng.normal(size=(d, rank)), rng.normal(size=(d, 2))), A @ A.T + np.eye(d))


@pytest.mark.parametrize("rank", [1, 3, 5])
def test_shares_follow_generalised_eigenvalues(rank):
    before = drawn(rank)
    after = split_speaker(before, 0.4)
    G = after.cell.loading
    B, C = before.loadings[0] @ before.loadings[0].T, before.noise
    new, interaction = after.loadings[0] @ after.loadings[0].T, G @ G.T
    assert_allclose(new + interaction, B, rtol=1e-10, atol=1e-10)
    assert after.loadings[1] is before.loadings[1]
    w, directions = eigh(B, C)  # directions' C directions = I
    w = np.maximum(w, 0.0)
    assert_allclose(directions.T @ new @ directions, np.diag(w**2 / (w + 0.4)), atol=1e-10)
    assert_allclose(directions.T @ interaction @ directions, np.diag(0.4 * w / (w + 0.4)), atol=1e-10)
    joined = joined_speaker(after)
    assert joined.loadings[0].shape == before.loadings[0].shape
    assert_allclose(joined.loadings[0] @ joined.loadings[0].T, B, rtol=1e-9, atol=1e-9)


def test_without_kappa_nothing_moves():
    before = drawn()
    after = split_speaker(before, 0.0)
    assert_allclose(after.loadings[0] @ after.loadings[0].T, before.loadings[0] @ before.loadings[0].T, atol=1e-10)
    assert not after.cell.loading.any()


def test_the_estimator_splits_what_em_of_the_paper_found():
    """kappa is the belief where every speaker is in one channel, and a warm start goes on from V V' + G G'."""
    rng = np.random.default_rng(1)
    speakers = np.repeat(np.arange(60), 4)
    channels = speakers % 5
    X = rng.normal(size=(240, 4)) + 2 * rng.normal(size=(60, 4))[speakers] + rng.normal(size=(5, 4))[channels]
    settings = {"noise_prior": 0.1, "speaker_prior": 0.1, "tol": 0.0}
    plain = JointPLDA(max_iter=6, **settings).fit(X, speakers, channels=channels)
    split = JointPLDA(max_iter=6, interaction="split", interaction_prior=(0.3, 5.0), **settings)
    split.fit(X, speakers, channels=channels)
    expected = split_speaker(plain.fitted_.parameters, 0.3)
    G = expected.cell.loading
    assert_allclose(split.V_ @ split.V_.T, expected.loadings[0] @ expected.loadings[0].T, rtol=1e-9)
    assert_allclose(split.G_ @ split.G_.T, G @ G.T, rtol=1e-9, atol=1e-12)
    assert_allclose(split.D_, plain.D_, rtol=1e-9)
    warm = JointPLDA(max_iter=3, interaction="split", interaction_prior=(0.3, 5.0), warm_start=True, **settings)
    warm.fit(X, speakers, channels=channels).fit(X, speakers, channels=channels)
    assert_allclose(warm.V_ @ warm.V_.T, split.V_ @ split.V_.T, rtol=1e-6)
