"""The ROC convex hull of scored trials, exactly, from one sort.

Pool-adjacent-violators on the labels in order of score gives the hull's segments: block k holds t_k targets and n_k
non-targets, and t_k / (t_k + n_k) rises with k. Equal error rate, minimum costs and minimum Cllr need nothing else.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import isotonic_regression

from jointplda._typing import Array, BoolArray
from jointplda.metrics._checks import as_trials, as_weights

PIECE = 1 << 13
"""Trials at once, so that what is computed of them stays in the cache."""

_LEAST_NORMAL = float(np.finfo(np.float64).tiny)
_BELOW_SIGN = np.int64(2**63 - 1)


@dataclass(frozen=True)
class Hull:
    """Segments of the ROC convex hull, from the lowest scores to the highest.

    Parameters
    ----------
    targets, nontargets : ndarray of float64, shape (k,)
        Weight (number) of targets and of non-targets in each segment.
    """

    targets: Array
    nontargets: Array

    @cached_property
    def p_miss(self) -> Array:
        """Share of targets below each vertex, shape (k + 1,): from accepting all (0) to rejecting all (1)."""
        return _shares(self.targets)

    @cached_property
    def p_fa(self) -> Array:
        """Share of non-targets at or above each vertex, shape (k + 1,): from 1 down to 0."""
        return 1.0 - _shares(self.nontargets)

    @property
    def llr(self) -> Array:
        """Optimal log-likelihood ratio of each segment, log (t_k / T) - log (n_k / N); infinite at pure ends."""
        with np.errstate(divide="ignore"):
            return np.asarray(
                np.log(self.targets / self.targets.sum()) - np.log(self.nontargets / self.nontargets.sum())
            )


def hull(scores: ArrayLike, target: ArrayLike, weights: ArrayLike | None = None) -> Hull:
    """Convex hull of the ROC.

    Parameters
    ----------
    scores : array-like, shape (n,)
        Higher means more likely a target. May be infinite, not NaN.
    target : array-like of bool, shape (n,)
        True for targets. Both classes must occur.
    weights : array-like, shape (n,), optional
        Weight of each trial, not negative; 1 by default.
    """
    values, is_target = as_trials(scores, target)
    if weights is None:
        return hull_of_labels(labels_in_order(values, is_target))
    share, order = as_weights(weights, is_target), np.lexsort((~is_target, values))
    return pool(np.where(is_target, share, 0.0)[order], np.where(is_target, 0.0, share)[order])


def pool(targets: Array, nontargets: Array) -> Hull:
    """Pool counts in ascending order of score until the share of targets rises from block to block.

    Among equal scores targets come first: a falling run, which pooling joins to one block, as it must.
    """
    weight = targets + nontargets
    held = weight > 0
    if not held.all():
        targets, nontargets, weight = targets[held], nontargets[held], weight[held]
    blocks = isotonic_regression(targets / weight, weights=weight).blocks[:-1]
    return Hull(np.add.reduceat(targets, blocks), np.add.reduceat(nontargets, blocks))


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
    smallest = np.abs(finite[finite != 0]).min(initial=np.inf) if scale < 1e-10 else 1.0
    if np.isinf(high) or smallest * scale < _LEAST_NORMAL:  # too few digits would be left
        return target[np.lexsort((~target, scores))]
    keys = np.empty(len(finite), dtype=np.int64)
    for start in range(0, len(finite), PIECE):
        piece = slice(start, start + PIECE)
        bits = (finite[piece] * scale + 0.0).view(np.int64)  # -0.0 becomes 0.0
        bits ^= (bits >> 63) & _BELOW_SIGN
        keys[piece] = (bits << 1) - target[piece]
    keys.sort()
    return (keys.astype(np.uint8) & 1).view(np.bool_)


def hull_of_labels(labels: BoolArray) -> Hull:
    """Hull of labels in ascending order of score.

    The hull of every 64th point is computed first; only words of 64 labels that may reach below it (if all their
    non-targets came first) are examined label by label.
    """
    whole = len(labels) // 64 * 64
    ones = np.bitwise_count(np.packbits(labels[:whole]).view(np.uint64)).astype(np.float64)
    rest = labels[whole:].astype(np.float64)
    counts = np.array([np.concatenate((ones, rest)), np.concatenate((64.0 - ones, 1.0 - rest))])
    closer = _may_reach_below(*counts)
    closer[len(ones) :] = False
    fine = labels[:whole].reshape(-1, 64)[closer[: len(ones)]].ravel().astype(np.float64)
    sizes = np.where(closer, 64, 1)
    merged = np.repeat(counts, sizes, axis=1)
    merged[:, np.repeat(closer, sizes)] = fine, 1.0 - fine
    return pool(*merged)


def _may_reach_below(targets: Array, nontargets: Array) -> BoolArray:
    """Whether a block's corner, non-targets before targets, lies below the convex minorant of all blocks."""
    size = targets + nontargets
    coarse = pool(targets, nontargets)
    index = np.concatenate(([0.0], np.cumsum(size)))
    vertices = np.concatenate(([0.0], np.cumsum(coarse.targets + coarse.nontargets)))
    below = np.interp(index, vertices, np.concatenate(([0.0], np.cumsum(coarse.targets))))
    corner = below[:-1] + np.diff(below) * nontargets / size
    return np.asarray(corner > np.cumsum(targets) - targets - 1e-6)


def _shares(counts: Array) -> Array:
    """Running share of counts, starting at 0 and ending at exactly 1."""
    running = np.concatenate(([0.0], np.cumsum(counts)))
    return np.asarray(running / running[-1])
