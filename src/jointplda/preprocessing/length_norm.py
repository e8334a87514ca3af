"""Length normalisation."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from jointplda._typing import Array
from jointplda._validation import check_choice


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
        """Check X (n, d); there is nothing to learn."""
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
        """Names of the output dimensions: the class name and a number."""
        check_is_fitted(self)
        return np.array([f"lengthnorm{i}" for i in range(self.n_features_in_)], dtype=object)
