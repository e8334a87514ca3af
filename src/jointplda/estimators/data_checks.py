"""Checks of samples and speakers by the rules of scikit-learn."""

from typing import Any

from sklearn.utils.validation import validate_data

from jointplda import sample_matrix
from jointplda.errors import InputError, InputTypeError


def checked_samples(estimator: Any, X: Any, *, reset: bool = False) -> Any:
    """X as an array of the right dimension; NaN and infinity are found when it is read.

    ``reset`` is for ``fit``, which takes the number and names of features from X.
    """
    sample_matrix.check_not_masked(X)
    rules = {"dtype": "numeric", "ensure_all_finite": False, "ensure_min_samples": 2 if reset else 1}
    try:
        return validate_data(estimator, X, reset=reset, **rules)
    except ValueError as error:
        raise InputError(str(error), parameter="X") from None
    except TypeError as error:
        raise InputTypeError(str(error), parameter="X") from None


def require_speakers(estimator: Any, y: Any) -> None:
    """Raise if there are no speakers."""
    if y is None:
        name = type(estimator).__name__
        raise InputError(f"{name} requires y to be passed, but the target y is None; give the speakers.")
