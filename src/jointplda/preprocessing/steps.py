"""The steps of preprocessing, as scikit-learn transformers that model files can hold."""

from collections.abc import Hashable
from typing import Any, Self

import numpy as np
from scipy.linalg import eigh, solve_triangular
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.decomposition import PCA as _SklearnPCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.utils.validation import check_is_fitted, validate_data

from jointplda._typing import Array, IntArray
from jointplda._validation import check_number
from jointplda.errors import InputError, warn
from jointplda.labels import MISSING, encode
from jointplda.linalg import sums_by_level, symmetric
from jointplda.preprocessing.moments import Moments
from jointplda.sample_matrix import check_numbers

SAMPLES_PER_COMPONENT = 2
LEAST_DEVIATION = 1e-4  # of scikit-learn's LDA


class Step(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A transformer of samples; what ``fit`` learns are numbers or arrays whose names end in an underscore."""

    def kept(self, samples: int, dimension: int, speakers: int | None) -> int:
        """Dimension of the result, of so many samples, dimensions and speakers; None if speakers are not known."""
        return dimension

    def learn(self, moments: Moments) -> Self:
        """Learn from moments what ``fit`` learns from samples, up to the signs of directions."""
        self.n_features_in_ = len(moments.mean)
        self._learn(moments)
        return self

    def _learn(self, moments: Moments) -> None:
        """Set what the step learns."""


class Affine(Step):
    """x -> (x - offset_) matrix_, of shapes (d,) and (d, k); where ``matrix_`` is None it is the identity."""

    offset_: Array
    matrix_: Array | None

    def transform(self, X: Any) -> Array:
        """Apply the transform to X (n, d)."""
        check_is_fitted(self)
        X = _samples(self, X, reset=False)
        centred: Array = X - self.offset_
        return centred if self.matrix_ is None else centred @ self.matrix_

    @property
    def _n_features_out(self) -> int:
        return len(self.offset_) if self.matrix_ is None else int(self.matrix_.shape[1])


class Center(Affine):
    """Subtract the mean of the training samples."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Compute the mean of X (n, d)."""
        X = _samples(self, X)
        self.offset_, self.matrix_ = X.mean(axis=0), None
        return self

    def _learn(self, moments: Moments) -> None:
        self.offset_, self.matrix_ = moments.mean, None


class LengthNorm(Step):
    """Scale every sample to length 1; a sample of length zero stays zero."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check X (n, d); there is nothing to learn."""
        _samples(self, X)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_features_in_")

    def transform(self, X: Any) -> Array:
        """Scale X (n, d)."""
        check_is_fitted(self)
        X = _samples(self, X, reset=False)
        largest = np.abs(X).max(axis=1, keepdims=True)
        shrunk = X / np.where(largest > 0, largest, 1.0)
        lengths = np.linalg.norm(shrunk, axis=1, keepdims=True)
        return np.asarray(shrunk * (1.0 / np.where(lengths > 0, lengths, 1.0)))

    @property
    def _n_features_out(self) -> int:
        return int(self.n_features_in_)


class PCA(Affine):
    """Project on the leading principal components.

    Parameters
    ----------
    n_components : int, optional
        Number of components; default: as many as samples and dimensions allow.
    """

    def __init__(self, n_components: int | None = None) -> None:
        self.n_components = n_components

    def kept(self, samples: int, dimension: int, speakers: int | None) -> int:
        """Number of components."""
        return _number(self.n_components, min(samples, dimension))

    def fit(self, X: Any, y: Any = None) -> Self:
        """Compute the components of X (n, d)."""
        X = _samples(self, X, ensure_min_samples=2)
        solver = "covariance_eigh" if X.shape[0] >= X.shape[1] else "full"
        mean = X.mean(axis=0)  # whose square would cancel in the covariance of samples far from zero
        pca = _SklearnPCA(self.kept(len(X), X.shape[1], None), svd_solver=solver).fit(X - mean)
        self.offset_, self.matrix_ = mean, np.ascontiguousarray(pca.components_.T)
        return self

    def _learn(self, moments: Moments) -> None:
        size = self.kept(int(moments.samples), len(moments.mean), None)
        vectors = np.linalg.eigh(symmetric(moments.covariance))[1][:, ::-1][:, :size]
        signs = np.sign(vectors[np.argmax(np.abs(vectors), axis=0), np.arange(size)])
        self.offset_, self.matrix_ = moments.mean, np.ascontiguousarray(vectors * signs)


class Reduce(Affine):
    """PCA if there are enough samples and speakers for it; else only the mean is subtracted.

    A projection estimated from few samples, or from a handful of speakers, drops directions in which other speakers
    differ. The priors of a model deal with these directions better. So components are kept only if there are twice as
    many samples as components.

    Parameters
    ----------
    n_components : int
        Number of components.
    least_speakers : int
        With fewer speakers all dimensions are kept.
    """

    def __init__(self, n_components: int = 150, *, least_speakers: int = 20) -> None:
        self.n_components = n_components
        self.least_speakers = least_speakers

    def kept(self, samples: int, dimension: int, speakers: int | None) -> int:
        """Number of components, or the dimension if it is not reduced."""
        size = int(check_number("n_components", self.n_components, 1, whole=True))
        least = int(check_number("least_speakers", self.least_speakers, 0, whole=True))
        enough = samples >= SAMPLES_PER_COMPONENT * size and (speakers is None or speakers >= least)
        return size if enough and dimension > size else dimension

    def fit(self, X: Any, y: Any = None) -> Self:
        """Compute the components of X (n, d); y (n,) are the speakers, if they are known."""
        X = _samples(self, X, ensure_min_samples=2)
        size = self.kept(len(X), X.shape[1], None if y is None else len(encode(y, what="y")[1]))
        step = PCA(size).fit(X) if size < X.shape[1] else Center().fit(X)
        self.offset_, self.matrix_ = step.offset_, step.matrix_
        return self

    def _learn(self, moments: Moments) -> None:
        d = len(moments.mean)
        size = self.kept(int(moments.samples), d, moments.speakers)
        step = PCA(size).learn(moments) if size < d else Center().learn(moments)
        self.offset_, self.matrix_ = step.offset_, step.matrix_


class Scale(Affine):
    """Subtract the mean, and divide every feature by its largest deviation from it, so that scales do not matter.

    The range says more of a feature than its variance where many of its values are near zero.
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find means and ranges of X (n, d)."""
        X = _samples(self, X)
        self._scale(X.mean(axis=0), X.min(axis=0), X.max(axis=0))
        return self

    def _learn(self, moments: Moments) -> None:
        self._scale(moments.mean, moments.low, moments.high)

    def _scale(self, mean: Array, low: Array, high: Array) -> None:
        largest = np.maximum(high - mean, mean - low)
        constant = largest <= 1e-12 * np.maximum(np.abs(low), np.abs(high))
        self.offset_, self.matrix_ = mean, np.diag(1.0 / np.where(constant, np.inf, largest))


class Whiten(Affine):
    """Whiten the covariance within speakers, W: x -> (x - mean) L, with L L' = (W + s diag W)^-1.

    The scales of the features then do not matter. Length normalisation after it acts on the variation between speakers
    relative to that within.

    Parameters
    ----------
    shrinkage : float
        s: 0 whitens W itself, and a large number only scales every feature.
    """

    def __init__(self, shrinkage: float = 3.0) -> None:
        self.shrinkage = shrinkage

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        """Compute W from X (n, d) of speakers y (n,), any hashables."""
        X = _samples(self, X, ensure_min_samples=2)
        codes, levels = _speakers(self, X, y)
        scale = _deviations(X.std(axis=0), np.abs(X).max(axis=0))
        rest = X - (sums_by_level(codes, X, len(levels)) / np.bincount(codes)[:, None])[codes]
        rest /= scale
        self._whiten(rest.T @ rest / (len(X) - len(levels)), scale, X.mean(axis=0))
        return self

    def _learn(self, moments: Moments) -> None:
        scale = _deviations(np.sqrt(np.maximum(np.diagonal(moments.covariance), 0.0)), moments.extent)
        within = _within(self, moments) / np.outer(scale, scale)
        self._whiten(within * (moments.samples / (moments.samples - moments.speakers)), scale, moments.mean)

    def _whiten(self, W: Array, scale: Array, mean: Array) -> None:
        """Set the transform from the covariance within speakers of features divided by their ``scale``."""
        share = check_number("shrinkage", self.shrinkage, 0.0)
        own = np.diagonal(W).copy()
        own[own <= 1e-12] = 1.0
        try:
            L = np.linalg.cholesky((W + share * np.diag(own)) / np.sqrt(np.outer(own, own)))
        except np.linalg.LinAlgError:
            problem = "Whiten: the samples do not vary enough within speakers; raise shrinkage, or use PCA before."
            raise InputError(problem) from None
        root = solve_triangular(L, np.diag(1.0 / (scale * np.sqrt(own))), lower=True).T
        self.offset_, self.matrix_ = mean, np.ascontiguousarray(root)


def _deviations(scale: Array, extent: Array) -> Array:
    """Standard deviations (d,) of features, infinite for constant ones, of which nothing is then left."""
    return np.where(scale <= 1e-12 * extent, np.inf, scale)


def _within(step: Step, moments: Moments) -> Array:
    """The covariance within speakers; raises if no speaker has several samples."""
    if moments.within is None or moments.samples <= moments.speakers or moments.speakers < 2:
        name = type(step).__name__
        raise InputError(f"{name}: expected two or more speakers, some of them with several samples.")
    return moments.within


class LDA(Affine):
    """Project on the directions that best separate the speakers.

    Parameters
    ----------
    n_components : int, optional
        Number of directions; default: one less than the speakers, at most the dimension.
    shrinkage : float or "auto", optional
        Shrinkage of the covariance as in scikit-learn; "auto" is Ledoit-Wolf.
    """

    def __init__(self, n_components: int | None = None, *, shrinkage: float | str | None = None) -> None:
        self.n_components = n_components
        self.shrinkage = shrinkage

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def kept(self, samples: int, dimension: int, speakers: int | None) -> int:
        """Number of directions."""
        return _number(self.n_components, dimension if speakers is None else min(dimension, speakers - 1))

    def fit(self, X: Any, y: Any = None) -> Self:
        """Compute the directions for X (n, d) of speakers y (n,), any hashables."""
        X = _samples(self, X, ensure_min_samples=2)
        codes, levels = _speakers(self, X, y)
        size = self.kept(len(X), X.shape[1], len(levels))
        if not np.ptp(X, axis=0).any():
            raise InputError("LDA: the samples are all the same, so the speakers do not differ in any direction.")
        solver, mean = "svd" if self.shrinkage is None else "eigen", X.mean(axis=0)
        if solver == "svd":  # of what varies within speakers by more than rounding
            rest = X - (sums_by_level(codes, X, len(levels)) / np.bincount(codes)[:, None])[codes]
            X = np.where(rest.std(axis=0) > 1e-12 * np.abs(X).max(axis=0), X - mean, 0.0)
        lda = LinearDiscriminantAnalysis(solver=solver, shrinkage=self.shrinkage, n_components=size)
        try:
            lda.fit(X, codes)
        except np.linalg.LinAlgError:
            problem = "LDA: the samples do not vary enough within speakers; raise shrinkage, or use PCA before."
            raise InputError(problem) from None
        self.offset_, self.matrix_ = mean, np.ascontiguousarray(lda.scalings_[:, :size])
        self._check_number(size)
        return self

    def _check_number(self, size: int) -> None:
        if self.matrix_ is not None and self.matrix_.shape[1] < size:
            warn(f"LDA found only {self.matrix_.shape[1]} directions that separate speakers, not {size}.")

    def _learn(self, moments: Moments) -> None:
        size = self.kept(int(moments.samples), len(moments.mean), moments.speakers)
        W, total = _within(self, moments), moments.covariance
        if self.shrinkage is None:
            if not (moments.high - moments.low).any():
                raise InputError("LDA: the samples are all the same, so the speakers do not differ in any direction.")
            self.offset_, self.matrix_ = moments.mean, _directions(W, total, moments, size)
            self._check_number(size)
            return
        if isinstance(self.shrinkage, str):
            problem = "LDA: this shrinkage is found from the samples themselves; give a number, or none."
            raise InputError(problem, parameter="shrinkage")
        share = check_number("shrinkage", self.shrinkage, 0.0, 1.0)
        W, total = ((1.0 - share) * C + share * np.trace(C) / len(C) * np.eye(len(C)) for C in (W, total))
        try:
            vectors = eigh(symmetric(total - W), symmetric(W))[1][:, ::-1][:, :size]
        except np.linalg.LinAlgError:
            problem = "LDA: the samples do not vary enough within speakers; raise shrinkage, or use PCA before."
            raise InputError(problem) from None
        self.offset_, self.matrix_ = moments.mean, np.ascontiguousarray(vectors)


def _directions(W: Array, total: Array, moments: Moments, size: int) -> Array:
    """The directions (d, size) that scikit-learn's singular values find, or fewer: those without variance within
    speakers are left out, and the rest are scaled to a variance of 1 there.
    """
    scale = _deviations(np.sqrt(np.maximum(np.diagonal(total), 0.0)), moments.extent)
    own = np.diagonal(W) / scale**2
    scale = np.where(own <= 1e-12, np.inf, scale * np.sqrt(np.maximum(own, 1e-12)))
    values, vectors = np.linalg.eigh(symmetric(W / np.outer(scale, scale)))
    kept = values > LEAST_DEVIATION**2
    root = vectors[:, kept] / np.sqrt(values[kept]) / scale[:, None]
    values, vectors = np.linalg.eigh(symmetric(root.T @ (total - W) @ root))
    kept = values > LEAST_DEVIATION**2 * values.max(initial=0.0)
    return np.ascontiguousarray((root @ vectors[:, kept])[:, ::-1][:, :size])


def _number(n_components: Any, most: int) -> int:
    """The number of components asked for, or ``most``, which it must not exceed."""
    return most if n_components is None else int(check_number("n_components", n_components, 1, most, whole=True))


def _speakers(step: Step, X: Array, y: Any) -> tuple[IntArray, list[Hashable]]:
    """Codes of the speakers y of X (n, d), and their labels; raises unless there are two, some with several samples."""
    name = type(step).__name__
    if y is None:
        raise InputError(f"{name} requires y to be passed, but the target y is None; give the speakers.")
    codes, levels = encode(y, what="y")
    if len(codes) != len(X) or (codes == MISSING).any():
        raise InputError(f"{name}: expected {len(X)} speaker labels, none of them missing, got {len(codes)}.")
    if not 2 <= len(levels) < len(X):
        raise InputError(f"{name}: expected 2 or more speakers with several samples each, got {len(levels)}.")
    return codes, levels


def _samples(step: Step, X: Any, **rules: Any) -> Array:
    """X (n, d) as float64 after scikit-learn's checks, of finite numbers."""
    matrix: Array = validate_data(step, X, dtype=np.float64, ensure_all_finite=False, **rules)
    if not np.isfinite(matrix).all():
        check_numbers(matrix)
    return matrix
