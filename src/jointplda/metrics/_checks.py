"""Scored trials as arrays: checks, and labels in order of score."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jointplda._typing import Array, BoolArray
from jointplda.errors import InputError, InputTypeError


def as_scores(scores: ArrayLike, what: str = "scores") -> Array:
    """One-dimensional float64 scores without NaN; infinities may stay."""
    array = np.asarray(scores)
    if array.dtype.kind not in "fiu":
        raise InputTypeError(f"{what} should be numbers, got dtype {array.dtype}.")
    if array.ndim != 1:
        raise InputError(f"{what} should have one dimension, got shape {array.shape}.")
    values = np.ascontiguousarray(array, dtype=np.float64)
    if np.isnan(values.min(initial=0.0)):
        bad = int(np.flatnonzero(np.isnan(values))[0])
        raise InputError(f"{what} should not hold NaN; the first is at position {bad}. Leave such trials out.")
    return values


def as_trials(scores: ArrayLike, target: ArrayLike) -> tuple[Array, BoolArray]:
    """Scores and a mask of targets, of equal length, with both classes present."""
    values = as_scores(scores)
    mask = as_mask(target, len(values))
    targets = int(np.count_nonzero(mask))
    if targets == 0 or targets == len(mask):
        missing = "targets" if targets == 0 else "non-targets"
        raise InputError(f"both targets and non-targets are needed; {len(mask):,} trials hold no {missing}.")
    return values, mask


def as_mask(target: ArrayLike, length: int) -> BoolArray:
    """Truth of trials: True or 1 for targets, False or 0 for non-targets."""
    array = np.asarray(target)
    if array.shape != (length,):
        raise InputError(f"target should have one value for each of the {length:,} scores, got shape {array.shape}.")
    if array.dtype != np.bool_:
        if array.dtype.kind not in "iuf" or not np.isin(array, (0, 1)).all():
            raise InputError("target should be True or 1 for targets and False or 0 for non-targets.")
        array = array.astype(np.bool_)
    return array


def as_weights(weights: ArrayLike, target: BoolArray) -> Array:
    """Weights of trials: finite, not negative, and not all zero in either class."""
    values: NDArray[Any] = np.asarray(weights, dtype=np.float64)
    if values.shape != target.shape:
        raise InputError(f"weights should have one value for each of the {len(target):,} scores, got {values.shape}.")
    if not np.isfinite(values).all() or (values < 0).any():
        raise InputError("weights should be finite and not negative.")
    if not values[target].any() or not values[~target].any():
        raise InputError("weights should leave some targets and some non-targets.")
    return values
