"""Samples and speakers as scikit-learn's estimators take them, checked."""

from typing import Any

from sklearn.utils.validation import validate_data

from jointplda import sample_matrix
from jointplda.errors import InputError, InputTypeError


def checked_samples(estimator: Any, X: Any, *, reset: bool = False) -> Any:
    """X as an array of the right dimension; NaN and infinity are found when it is read.

    ``reset`` is for ``fit``: the number and names of features are those of X from now on.
    """
    sample_matrix.check_not_masked(X)
    least = 2 if reset else 1
    try:
        return validate_data(
            estimator, X, dtype="numeric", reset=reset, ensure_all_finite=False, ensure_min_samples=least
        )
    except ValueError as error:
        raise InputError(str(error), parameter="X") from None
    except TypeError as error:
        raise InputTypeError(str(error), parameter="X") from None


def require_speakers(estimator: Any, y: Any) -> None:
    """Raise unless speakers were given."""
    if y is None:
        raise InputError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None; "
            "give every sample's speaker."
        )
