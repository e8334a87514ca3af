"""Centring."""

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import validate_data

from jointplda.preprocessing.affine_transform import Affine


class Center(Affine):
    """Subtract the mean of the training samples."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Compute the mean of X (n, d)."""
        X = validate_data(self, X, dtype=np.float64)
        self.offset_ = X.mean(axis=0)
        self.matrix_ = None
        return self
