"""Transformers against scikit-learn's own and plain formulas."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.decomposition import PCA as SklearnPCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from jointplda import DataWarning, InputError
from jointplda.preprocessing import LDA, PCA, Center, LengthNorm, Reduce, Scale, Whiten
from worlds.designs import relative, world


@pytest.fixture(scope="module")
def data():
    X, s, _, _ = world(np.random.default_rng(0), 6, (2, 2), 20, 5, 200)
    return X, s


def test_center(data):
    X, _ = data
    assert np.abs(Center().fit_transform(X).mean(axis=0)).max() < 1e-12
    assert Center().fit(X).transform(X[:3] + 1) == pytest.approx(X[:3] + 1 - X.mean(axis=0))


@pytest.mark.parametrize("n", [2, 6, None])
def test_pca(data, n):
    X, _ = data
    ours, theirs = PCA(n).fit(X), SklearnPCA(n).fit(X)
    assert np.abs(ours.transform(X)) == pytest.approx(np.abs(theirs.transform(X)), rel=1e-6, abs=1e-9)
    assert len(ours.get_feature_names_out()) == (n or 6)


@pytest.mark.parametrize("shrinkage", [None, "auto", 0.3])
def test_lda(data, shrinkage):
    X, s = data
    theirs = LinearDiscriminantAnalysis(
        solver="eigen" if shrinkage else "svd", shrinkage=shrinkage, n_components=3
    ).fit(X, s)
    ours = LDA(3, shrinkage=shrinkage).fit(X, [("speaker", int(v)) for v in s])
    a, b = ours.transform(X), theirs.transform(X)
    assert relative(np.abs(a - a.mean(axis=0)), np.abs(b - b.mean(axis=0))) < 1e-9


@pytest.mark.parametrize("shrinkage", [0.0, 0.1, 3.0])
def test_whiten(data, shrinkage):
    X, s = data
    rest = [row - X[s == own].mean(axis=0) for row, own in zip(X, s)]
    within = sum(np.outer(row, row) for row in rest) / (len(X) - len(set(s)))
    within += shrinkage * np.diag(np.diag(within))
    found = Whiten(shrinkage).fit_transform(X, [f"speaker {one}" for one in s])
    # distances between whitened samples are those by the inverse of the covariance
    for i, j in ((0, 1), (5, 150), (30, 31)):
        assert np.sum((found[i] - found[j]) ** 2) == pytest.approx(
            (X[i] - X[j]) @ np.linalg.inv(within) @ (X[i] - X[j])
        )
    assert np.abs(found.mean(axis=0)).max() < 1e-10
    scaled = X * 10.0 ** np.arange(-9, 9, 3)
    if not shrinkage:  # W itself cannot be whitened where a feature is constant
        assert Whiten(0.0).fit_transform(scaled, s) == pytest.approx(found, rel=1e-9, abs=1e-9)
        return
    scaled = Whiten(shrinkage).fit_transform(np.insert(scaled, 2, 5.0, axis=1), s)
    assert np.delete(scaled, 2, axis=1) == pytest.approx(found, rel=1e-9, abs=1e-9)
    assert not scaled[:, 2].any()


def test_scale(data):
    X, _ = data
    found = Scale().fit_transform(X)
    assert np.abs(found).max(axis=0) == pytest.approx(np.ones(6))
    assert found * np.abs(X - X.mean(axis=0)).max(axis=0) == pytest.approx(X - X.mean(axis=0))
    other = np.insert(X * 10.0 ** np.arange(-9, 9, 3) + 3, 2, 5.0, axis=1)
    scaled = Scale().fit_transform(other)
    assert np.delete(scaled, 2, axis=1) == pytest.approx(found, rel=1e-5, abs=1e-5)
    assert not scaled[:, 2].any()


def test_whitening_of_samples_without_variation_is_refused():
    X, s = np.random.default_rng(0).normal(size=(8, 6)), np.arange(8) // 2
    with pytest.raises(InputError, match="do not vary enough within speakers; raise shrinkage"):
        Whiten(0.0).fit(X, s)
    assert np.isfinite(Whiten().fit_transform(X, s)).all()


def test_length_norm():
    X = np.array([[3.0, 4.0], [0.0, 0.0], [-1e-3, 0.0]])
    assert LengthNorm().fit_transform(X) == pytest.approx(np.array([[0.6, 0.8], [0.0, 0.0], [-1.0, 0.0]]))


@pytest.mark.parametrize(
    "step, labels, message",
    [
        (PCA(7), None, "n_components: expected a whole number from 1 to 6, got 7"),
        (PCA(2.5), None, "n_components: expected a whole number from 1 to 6"),
        (LDA(7), "s", "n_components: expected a whole number from 1 to 6, got 7"),
        (LDA(), None, "requires y to be passed"),
        (LDA(), [1, 2], "expected 200 speaker labels"),
        (LDA(), [0] * 200, r"2 or more speakers with several samples each, got 1"),
        (Whiten(), None, "Whiten requires y to be passed"),
        (Whiten(-0.1), "s", "shrinkage: expected"),
        (LDA(), list(range(200)), "2 or more speakers with several samples each, got 200"),
    ],
)
def test_bad_settings(data, step, labels, message):
    X, s = data
    with pytest.raises(InputError, match=message):
        step.fit(X, s if isinstance(labels, str) else labels)


def test_length_norm_of_extreme_numbers():
    X = np.array([[3.0, 4.0]])
    for scale in (1e300, 1e-300):
        assert LengthNorm().fit_transform(X * scale) == pytest.approx(np.array([[0.6, 0.8]]))


def test_lda_without_anything_to_find(data):
    X, s = data
    with pytest.raises(InputError, match="do not differ in any direction"):
        LDA(3).fit(np.ones_like(X), s)
    with pytest.raises(InputError, match="raise shrinkage"):
        LDA(3, shrinkage=0.0).fit(np.column_stack([X, X]), s)
    flat = np.zeros_like(X)
    flat[:, :2] = X[:, :2]
    with pytest.warns(DataWarning, match="only 2 directions"):
        assert LDA(4).fit(flat, s).transform(flat).shape[1] == 2


def test_reduce_needs_as_many_speakers_as_it_says():
    X = np.random.default_rng(0).normal(size=(60, 8))
    assert Reduce(4, least_speakers=20).fit(X, np.arange(60) % 20).matrix_.shape == (8, 4)
    assert Reduce(4, least_speakers=20).fit(X, np.arange(60) % 19).matrix_ is None
    assert Reduce(4).fit(X, np.arange(60) % 19).matrix_ is None


def test_pca_far_from_zero():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(300, 5)) * [3.0, 2.5, 2.0, 1.0, 0.5]
    near, far = (PCA(3).fit(X + offset).matrix_ for offset in (0.0, 2.0**23))
    assert_allclose(far @ far.T, near @ near.T, atol=1e-7)
