"""Checks of scored trials as arrays."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jointplda._typing import Array, BoolArray
from jointplda.errors import InputError, InputTypeError


def as_scores(scores: ArrayLike) -> Array:
    """Scores as float64, shape (n,). They may be infinite, not NaN."""
    array = np.asarray(scores)
    if array.dtype.kind not in "fiu":
        raise InputTypeError(f"expected numbers, got dtype {array.dtype}.", parameter="scores")
    if array.ndim != 1:
        raise InputError(f"expected one dimension, got shape {array.shape}.", parameter="scores")
    values = np.ascontiguousarray(array, dtype=np.float64)
    if np.isnan(values.min(initial=0.0)):
        bad = int(np.flatnonzero(np.isnan(values))[0])
        raise InputError(f"NaN at position {bad}; leave such trials out.", parameter="scores")
    return values


def as_trials(scores: ArrayLike, target: ArrayLike) -> tuple[Array, BoolArray]:
    """Scores and a mask of targets, of equal length, with both classes present."""
    values = as_scores(scores)
    mask = as_mask(target, len(values))
    targets = int(np.count_nonzero(mask))
    if targets == 0 or targets == len(mask):
        missing = "targets" if targets == 0 else "non-targets"
        raise InputError(f"both classes are needed; {len(mask):,} trials hold no {missing}.", parameter="target")
    return values, mask


def as_mask(target: ArrayLike, length: int) -> BoolArray:
    """Truth of trials: True or 1 for targets, False or 0 for non-targets."""
    array = np.asarray(target)
    if array.shape != (length,):
        raise InputError(f"expected one value for each of {length:,} scores, got {array.shape}.", parameter="target")
    if array.dtype != np.bool_:
        if array.dtype.kind not in "iuf" or not np.isin(array, (0, 1)).all():
            raise InputError("expected True or 1 for targets and False or 0 for non-targets.", parameter="target")
        array = array.astype(np.bool_)
    return array


def as_weights(weights: ArrayLike, target: BoolArray) -> Array:
    """Weights of trials: finite, not negative, and not all zero in either class."""
    values: NDArray[Any] = np.asarray(weights, dtype=np.float64)
    if values.shape != target.shape:
        raise InputError(
            f"expected one value for each of {target.size:,} scores, got {values.shape}.", parameter="weights"
        )
    if not np.isfinite(values).all() or (values < 0).any():
        raise InputError("expected finite numbers that are not negative.", parameter="weights")
    if not values[target].any() or not values[~target].any():
        raise InputError("expected some targets and some non-targets with weight.", parameter="weights")
    return values
