"""Scored trials as arrays: checks, and labels in order of score."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jointplda.errors import InputError, InputTypeError

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Codes = NDArray[np.int64]

PIECE = 1 << 14
_LEAST_NORMAL = float(np.finfo(np.float64).tiny)
_BELOW_SIGN = np.int64(2**63 - 1)


def as_scores(scores: ArrayLike, what: str = "scores") -> Floats:
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


def as_trials(scores: ArrayLike, target: ArrayLike) -> tuple[Floats, Mask]:
    """Scores and a mask of targets, of equal length, with both classes present."""
    values = as_scores(scores)
    mask = as_mask(target, len(values))
    targets = int(np.count_nonzero(mask))
    if targets == 0 or targets == len(mask):
        missing = "targets" if targets == 0 else "non-targets"
        raise InputError(f"both targets and non-targets are needed; {len(mask):,} trials hold no {missing}.")
    return values, mask


def as_mask(target: ArrayLike, length: int) -> Mask:
    """Truth of trials: True or 1 for targets, False or 0 for non-targets."""
    array = np.asarray(target)
    if array.shape != (length,):
        raise InputError(f"target should have one value for each of the {length:,} scores, got shape {array.shape}.")
    if array.dtype != np.bool_:
        if array.dtype.kind not in "iuf" or not np.isin(array, (0, 1)).all():
            raise InputError("target should be True or 1 for targets and False or 0 for non-targets.")
        array = array.astype(np.bool_)
    return array


def as_weights(weights: ArrayLike, target: Mask) -> Floats:
    """Weights of trials: finite, not negative, and not all zero in either class."""
    values: NDArray[Any] = np.asarray(weights, dtype=np.float64)
    if values.shape != target.shape:
        raise InputError(f"weights should have one value for each of the {len(target):,} scores, got {values.shape}.")
    if not np.isfinite(values).all() or (values < 0).any():
        raise InputError("weights should be finite and not negative.")
    if not values[target].any() or not values[~target].any():
        raise InputError("weights should leave some targets and some non-targets.")
    return values


def labels_in_order(scores: Floats, target: Mask) -> Mask:
    """Labels by ascending score, targets first among equal scores, from one sort of integers.

    A float64 read as an integer keeps its order once the bits below the sign of negative ones are flipped. Scaled by
    a power of two to below 2 in size it leaves the top bit free: shifted by one, less one for a target, it carries its
    label in the last, and targets come first among equals.
    """
    finite = scores
    low, high = float(scores.min()), float(scores.max())
    if np.isinf(low) or np.isinf(high):
        inside = scores[np.isfinite(scores)]
        edge = 2.0 * float(np.abs(inside).max(initial=1.0))
        finite = np.clip(scores, -edge, edge)
        low, high = -edge, edge
    scale = 0.5 ** max(float(np.frexp(max(-low, high))[1]) - 1.0, 0.0)
    if np.isinf(high) or (scale < 1e-10 and _underflows(finite, scale)):
        order = np.lexsort((~target, scores))
        return target[order]
    keys = np.empty(len(finite), dtype=np.int64)
    scaled, signs = np.empty(PIECE), np.empty(PIECE, dtype=np.int64)
    for start in range(0, len(finite), PIECE):
        piece = slice(start, min(start + PIECE, len(finite)))
        size = piece.stop - start
        values, below = scaled[:size], signs[:size]
        np.multiply(finite[piece], scale, out=values)
        values += 0.0  # -0.0 becomes 0.0
        bits = values.view(np.int64)
        np.right_shift(bits, 63, out=below)
        below &= _BELOW_SIGN
        bits ^= below
        bits <<= 1
        np.subtract(bits, target[piece], out=keys[piece])
    keys.sort()
    labels = np.empty(len(keys), dtype=np.bool_)
    for start in range(0, len(keys), PIECE):
        piece = slice(start, start + PIECE)
        np.bitwise_and(keys[piece], 1, out=labels[piece].view(np.int8), casting="unsafe")
    return labels


def _underflows(scores: Floats, scale: float) -> bool:
    """Whether scaling would leave too few digits of the scores nearest to zero."""
    sizes = np.abs(scores[scores != 0])
    return bool(sizes.min(initial=np.inf) * scale < _LEAST_NORMAL)


def spread_ranks(n: int, from_low: float, from_high: float) -> Codes:
    """Ranks that grow geometrically from the lowest and from the highest, meeting in the middle."""
    low = np.unique(np.floor(from_low ** np.arange(np.log(n) / np.log(from_low) + 1)).astype(np.int64)) - 1
    high = n - np.unique(np.floor(from_high ** np.arange(np.log(n) / np.log(from_high) + 1)).astype(np.int64))
    chosen = np.concatenate((low[low <= n // 2], high[high >= n // 2]))
    return np.unique(np.clip(chosen, 0, n - 1))
