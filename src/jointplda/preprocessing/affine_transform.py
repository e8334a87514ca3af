"""Affine transformers, x -> (x - offset) A: the base of all preprocessing but ``LengthNorm``."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from jointplda._typing import Array


class Affine(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """x -> (x - offset_) matrix_, of shapes (d,) and (d, k); where ``matrix_`` is None it is the identity."""

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
        """Names of the output dimensions: the class name and a number."""
        check_is_fitted(self)
        name = type(self).__name__.lower()
        return np.array([f"{name}{i}" for i in range(self._n_features_out)], dtype=object)
