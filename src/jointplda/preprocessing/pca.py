"""Principal components."""

from typing import Any, Self

import numpy as np
from sklearn.decomposition import PCA as _SklearnPCA
from sklearn.utils.validation import validate_data

from jointplda._validation import check_number
from jointplda.labels import encode
from jointplda.preprocessing.affine_transform import Affine


class PCA(Affine):
    """Project on the leading principal components, and whiten on request.

    Parameters
    ----------
    n_components : int, optional
        Default: as many as samples and dimensions allow.
    whiten : bool
        Scale every component to unit variance.
    """

    def __init__(self, n_components: int | None = None, *, whiten: bool = False) -> None:
        self.n_components = n_components
        self.whiten = whiten

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the components of X (n, d)."""
        X = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        limit = min(X.shape)
        size = None
        if self.n_components is not None:
            size = int(check_number("n_components", self.n_components, 1, limit, whole=True))
        solver = "covariance_eigh" if X.shape[0] >= X.shape[1] else "full"
        found = _SklearnPCA(size, svd_solver=solver).fit(X)
        matrix, variances = found.components_.T, found.explained_variance_
        if self.whiten:
            matrix = matrix / np.sqrt(np.maximum(variances, 1e-12 * variances[0] or 1.0))
        self.offset_, self.matrix_ = found.mean_, np.ascontiguousarray(matrix)
        self.explained_variance_ratio_ = found.explained_variance_ratio_
        return self


class Reduce(Affine):
    """PCA where there are samples and speakers enough for it; else only the mean is subtracted.

    A projection found from fewer samples than it keeps dimensions, or from a handful of speakers, drops directions
    that tell other speakers apart. Shrinkage deals with them better.

    Parameters
    ----------
    n_components : int
        Dimensions to keep.
    least_speakers : int
        With fewer speakers all dimensions stay; so they do with no more samples than ``n_components``.
    """

    def __init__(self, n_components: int = 150, *, least_speakers: int = 20) -> None:
        self.n_components = n_components
        self.least_speakers = least_speakers

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the components of X (n, d); y (n,) are the speakers, if known."""
        X = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        size = int(check_number("n_components", self.n_components, 1, whole=True))
        least = int(check_number("least_speakers", self.least_speakers, 0, whole=True))
        enough = y is None or len(encode(y, what="y (speakers)")[1]) >= least
        if enough and min(X.shape) > size:
            found = PCA(size).fit(X)
            self.offset_, self.matrix_ = found.offset_, found.matrix_
        else:
            self.offset_, self.matrix_ = X.mean(axis=0), None
        return self
