"""Principal components."""

from typing import Any, Self

import numpy as np
from sklearn.decomposition import PCA as _SklearnPCA
from sklearn.utils.validation import validate_data

from jointplda._validation import check_number
from jointplda.labels import encode
from jointplda.preprocessing.affine_transform import Affine


class PCA(Affine):
    """Project on the leading principal components.

    Parameters
    ----------
    n_components : int, optional
        Number of components; default: as many as samples and dimensions allow.
    whiten : bool
        Whether to scale every component to unit variance.
    """

    def __init__(self, n_components: int | None = None, *, whiten: bool = False) -> None:
        self.n_components = n_components
        self.whiten = whiten

    def fit(self, X: Any, y: Any = None) -> Self:
        """Compute the components of X (n, d)."""
        X = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        limit = min(X.shape)
        size = None
        if self.n_components is not None:
            size = int(check_number("n_components", self.n_components, 1, limit, whole=True))
        solver = "covariance_eigh" if X.shape[0] >= X.shape[1] else "full"
        pca = _SklearnPCA(size, svd_solver=solver).fit(X)
        matrix, variances = pca.components_.T, pca.explained_variance_
        if self.whiten:
            matrix = matrix / np.sqrt(np.maximum(variances, 1e-12 * variances[0] or 1.0))
        self.offset_, self.matrix_ = pca.mean_, np.ascontiguousarray(matrix)
        self.explained_variance_ratio_ = pca.explained_variance_ratio_
        return self


class Reduce(Affine):
    """PCA if there are enough samples and speakers for it; else only the mean is subtracted.

    A projection estimated from fewer samples than dimensions, or from a handful of speakers, drops directions in which
    other speakers differ. The priors of a model deal with these directions better.

    Parameters
    ----------
    n_components : int
        Number of components.
    least_speakers : int
        With fewer speakers, or no more samples than ``n_components``, all dimensions are kept.
    """

    def __init__(self, n_components: int = 150, *, least_speakers: int = 20) -> None:
        self.n_components = n_components
        self.least_speakers = least_speakers

    def fit(self, X: Any, y: Any = None) -> Self:
        """Compute the components of X (n, d); y (n,) are the speakers, if they are known."""
        X = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        size = int(check_number("n_components", self.n_components, 1, whole=True))
        least = int(check_number("least_speakers", self.least_speakers, 0, whole=True))
        enough = y is None or len(encode(y, what="y")[1]) >= least
        if enough and min(X.shape) > size:
            pca = PCA(size).fit(X)
            self.offset_, self.matrix_ = pca.offset_, pca.matrix_
        else:
            self.offset_, self.matrix_ = X.mean(axis=0), None
        return self
