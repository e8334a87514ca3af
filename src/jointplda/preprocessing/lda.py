"""Linear discriminant analysis."""

from typing import Any, Self

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.utils.validation import validate_data

from jointplda._validation import check_number
from jointplda.errors import InputError, warn
from jointplda.labels import MISSING, encode
from jointplda.preprocessing.affine_transform import Affine


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

    def fit(self, X: Any, y: Any = None) -> Self:
        """Compute the directions for X (n, d) of speakers y (n,), any hashables."""
        X = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        if y is None:
            raise InputError("LDA requires y to be passed, but the target y is None; give the speakers.")
        codes, levels = encode(y, what="y")
        if len(codes) != len(X) or (codes == MISSING).any():
            raise InputError(f"LDA: expected {len(X)} speaker labels, none of them missing, got {len(codes)}.")
        limit = min(len(levels) - 1, X.shape[1])
        if limit < 1 or len(levels) >= len(X):
            raise InputError(f"LDA: expected 2 or more speakers with several samples each, got {len(levels)}.")
        size = limit
        if self.n_components is not None:
            size = int(check_number("n_components", self.n_components, 1, limit, whole=True))
        if not np.ptp(X, axis=0).any():
            raise InputError("LDA: the samples are all the same, so the speakers do not differ in any direction.")
        solver = "svd" if self.shrinkage is None else "eigen"
        try:
            lda = LinearDiscriminantAnalysis(solver=solver, shrinkage=self.shrinkage, n_components=size).fit(X, codes)
        except np.linalg.LinAlgError:
            problem = "LDA: the samples do not vary enough within speakers; raise shrinkage, or use PCA before."
            raise InputError(problem) from None
        self.offset_ = X.mean(axis=0)
        self.matrix_ = np.ascontiguousarray(lda.scalings_[:, :size])
        if self.matrix_.shape[1] < size:
            warn(f"LDA found only {self.matrix_.shape[1]} directions that separate speakers, not {size}.")
        return self
