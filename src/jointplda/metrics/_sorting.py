"""Labels in order of score, from one sort of integers."""

import numpy as np

from jointplda._typing import Array, BoolArray, IntArray

PIECE = 1 << 14

_LEAST_NORMAL = float(np.finfo(np.float64).tiny)
_BELOW_SIGN = np.int64(2**63 - 1)


def labels_in_order(scores: Array, target: BoolArray) -> BoolArray:
    """Labels by ascending score, targets first among equal scores, from one sort of integers.

    Read as integers, float64 numbers keep their order once the bits below the sign of negative numbers are flipped.
    Scores scaled by a power of two to a size below 2 leave the top bit free: shifted by one bit, less 1 for a target,
    the integer carries the label in its last bit, and targets come first among equal scores.
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


def _underflows(scores: Array, scale: float) -> bool:
    """Whether scaling would leave too few digits of the scores nearest to zero."""
    sizes = np.abs(scores[scores != 0])
    return bool(sizes.min(initial=np.inf) * scale < _LEAST_NORMAL)


def spread_ranks(n: int, from_low: float, from_high: float) -> IntArray:
    """Ranks that grow geometrically from the lowest and from the highest, meeting in the middle."""
    low = np.unique(np.floor(from_low ** np.arange(np.log(n) / np.log(from_low) + 1)).astype(np.int64)) - 1
    high = n - np.unique(np.floor(from_high ** np.arange(np.log(n) / np.log(from_high) + 1)).astype(np.int64))
    chosen = np.concatenate((low[low <= n // 2], high[high >= n // 2]))
    return np.unique(np.clip(chosen, 0, n - 1))
