"""Transformers to put before a model; a ``jointplda.Pipeline`` stores them in the model's file.

All but ``LengthNorm`` are affine, x -> (x - offset) A, whatever scikit-learn class found A.
"""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import PCA as _SklearnPCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.utils.validation import check_is_fitted, validate_data

from jointplda.data.labels import MISSING, encode
from jointplda.errors import InputError, warn
from jointplda.linalg import Array
from jointplda.settings import check_choice, check_number


class _Affine(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """x -> (x - offset_) matrix_, shapes (d,) and (d, k); ``matrix_`` None is the identity."""

    offset_: Array
    matrix_: Array | None

    def transform(self, X: Any) -> Array:
        """Apply the transform to X (n, d)."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        centred: Array = X - self.offset_
        return centred if self.matrix_ is None else centred @ self.matrix_

    @property
    def _n_features_out(self) -> int:
        return len(self.offset_) if self.matrix_ is None else int(self.matrix_.shape[1])

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Names of the output dimensions: class name and number."""
        check_is_fitted(self)
        name = type(self).__name__.lower()
        return np.array([f"{name}{i}" for i in range(self._n_features_out)], dtype=object)


class Center(_Affine):
    """Subtract the mean of the training samples."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the mean of X (n, d)."""
        X = validate_data(self, X, dtype=np.float64)
        self.offset_ = X.mean(axis=0)
        self.matrix_ = None
        return self


class PCA(_Affine):
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


class Reduce(_Affine):
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


class LDA(_Affine):
    """Project on the directions that best separate the speakers.

    Parameters
    ----------
    n_components : int, optional
        Default: one less than the speakers, at most the dimension.
    shrinkage : float or "auto", optional
        Passed to scikit-learn; "auto" is Ledoit-Wolf.
    """

    def __init__(self, n_components: int | None = None, *, shrinkage: float | str | None = None) -> None:
        self.n_components = n_components
        self.shrinkage = shrinkage

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the directions for X (n, d) and speakers y (n,), any hashables."""
        X = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        if y is None:
            raise InputError("LDA requires y to be passed, but the target y is None; give the speakers.")
        codes, levels = encode(y, what="y (speakers)")
        if len(codes) != len(X) or (codes == MISSING).any():
            raise InputError(f"LDA: expected {len(X)} speaker labels, none of them missing, got {len(codes)}.")
        limit = min(len(levels) - 1, X.shape[1])
        if limit < 1 or len(levels) >= len(X):
            raise InputError(
                f"LDA: expected 2 or more speakers with several samples each, got {len(levels)} speaker(s)."
            )
        size = limit
        if self.n_components is not None:
            size = int(check_number("n_components", self.n_components, 1, limit, whole=True))
        if not np.ptp(X, axis=0).any():
            raise InputError("LDA: the speakers do not differ in any direction: the samples are all the same.")
        solver = "svd" if self.shrinkage is None else "eigen"
        try:
            found = LinearDiscriminantAnalysis(solver=solver, shrinkage=self.shrinkage, n_components=size).fit(X, codes)
        except np.linalg.LinAlgError:
            raise InputError(
                "LDA: the samples do not vary enough within speakers; raise shrinkage, or use PCA before."
            ) from None
        self.offset_ = X.mean(axis=0)
        self.matrix_ = np.ascontiguousarray(found.scalings_[:, :size])
        if self.matrix_.shape[1] < size:
            warn(f"LDA found only {self.matrix_.shape[1]} directions that separate speakers, not {size}.")
        return self


class LengthNorm(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Scale every sample to the same length; a sample of length zero stays zero.

    Parameters
    ----------
    scale : {"unit", "dimension"}
        Length 1, or the square root of the dimension (unit variance per dimension on average).
    """

    def __init__(self, scale: str = "unit") -> None:
        self.scale = scale

    def fit(self, X: Any, y: Any = None) -> Self:
        """Nothing to learn; checks X (n, d)."""
        check_choice("scale", self.scale, ("unit", "dimension"))
        validate_data(self, X, dtype=np.float64)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_features_in_")

    def transform(self, X: Any) -> Array:
        """Scale X (n, d)."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        largest = np.abs(X).max(axis=1, keepdims=True)
        shrunk = X / np.where(largest > 0, largest, 1.0)
        lengths = np.linalg.norm(shrunk, axis=1, keepdims=True)
        target = 1.0 if self.scale == "unit" else np.sqrt(X.shape[1])
        scaled: Array = shrunk * (target / np.where(lengths > 0, lengths, 1.0))
        return scaled

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Names of the output dimensions: class name and number."""
        check_is_fitted(self)
        return np.array([f"lengthnorm{i}" for i in range(self.n_features_in_)], dtype=object)
