"""Analysis of variance: how much of it is the speaker's, the channel's, of the two together, and noise.

With factors k (the speaker, each condition, and the cell) and traces of covariances b_k and c, the sums of squares

    t_k = sum over the levels of k of |f_b|^2 / n_b,     t = |f|^2 / N,     q = sum over the cells of |m - m_k|^2

have the expectations that ``moment_covariances`` states: q / (N - cells) is c, and the b_k solve linear
equations.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

from jointplda._typing import Array, IntArray
from jointplda.errors import InputError
from jointplda.linalg import sums_by_level
from jointplda.progress import Progress, ProgressCallback

GROUPS = 100


@dataclass(frozen=True)
class VarianceShares:
    """Shares of the total variance, with 90 % intervals.

    Attributes
    ----------
    names : tuple of str
        "speaker", each condition, "interaction", "noise".
    shares : (components,)
        Of their sum; an estimate below 0 counts as 0.
    intervals : (components, 2)
    kappa : float
        Interaction over noise.
    kappa_interval : (2,)
        Up to infinity where one speaker or channel decides alone.
    """

    names: tuple[str, ...]
    shares: Array
    intervals: Array
    kappa: float
    kappa_interval: Array


def variance_shares(
    X: Array, codes: IntArray, conditions: tuple[str, ...], *, callback: ProgressCallback | None = None
) -> VarianceShares:
    """Analysis of variance of labelled samples.

    ``codes`` (n, 1 + conditions) are the speaker and the channels of each sample of ``X`` (n, d), none missing;
    ``callback`` is called with a ``Progress`` after every estimate of the jackknife.

    Intervals come from the jackknife: speakers are left out in turn, then the channels of each condition (in at most
    100 groups), the variances of the factors add up, and the degrees of freedom follow Satterthwaite. Drawing speakers
    and channels with replacement would not do: two copies of a speaker share their cells, so that part of the
    interaction would count as the channel's.
    """
    cells, which = np.unique(codes, axis=0, return_inverse=True)
    which = which.reshape(-1)
    counts = np.bincount(which).astype(np.float64)
    if len(cells) == len(X) or len(cells) < 2:
        raise InputError("expected speakers with two or more samples in a channel, and two or more speakers.")
    X = X - X.mean(axis=0)
    sums = sums_by_level(which, X, len(cells))
    squares = np.bincount(which, np.sum(X**2, axis=1)) - np.sum(sums**2, axis=1) / counts
    if squares.sum() <= 1e-12 * np.sum(X**2):
        raise InputError("expected samples that differ within a speaker and channel; all of them are copies.")
    estimate = _shares_and_kappa(cells, counts, sums, squares)
    if estimate is None:
        heard = np.unique(cells[:, 0], return_counts=True)[1]
        raise InputError(
            "speaker, channel and interaction cannot be told apart: expected speakers in two or more channels, and "
            f"channels with two or more speakers; {np.sum(heard > 1)} of {len(heard)} speakers were "
            "heard in two channels. Training still works, with a belief about the interaction."
        )
    groups = [np.unique(column, return_inverse=True)[1] % GROUPS for column in cells.T]
    total, done = sum(int(group.max()) + 1 for group in groups), 0
    left_out: list[list[Array | None]] = [[] for _ in groups]
    for group, values in zip(groups, left_out, strict=True):
        for g in range(int(group.max()) + 1):
            kept = group != g
            values.append(_shares_and_kappa(cells[kept], counts[kept], sums[kept], squares[kept]))
            done += 1
            if callback is not None:
                callback(Progress("variance", done, total))
    half = _half_width(left_out)
    low, high = np.maximum(estimate - half, 0.0), np.maximum(estimate + half, 0.0)
    estimate = np.maximum(estimate, 0.0)
    intervals = np.column_stack([low, np.append(np.minimum(high[:-1], 1.0), high[-1])])
    names = ("speaker", *conditions, "interaction", "noise")
    return VarianceShares(names, estimate[:-1], intervals[:-1], float(estimate[-1]), intervals[-1])


def _half_width(left_out: Sequence[Sequence[Array | None]], level: float = 0.9) -> Array:
    """Half width of jackknife intervals from the estimates (quantities,) without each group, for every factor.

    Infinite where a group left out leaves nothing to estimate from (None): then one speaker or channel decides alone.
    """
    estimates = [np.array([value for value in values if value is not None]) for values in left_out]
    if any(len(found) < len(values) for found, values in zip(estimates, left_out, strict=True)):
        return np.array(np.inf)
    variances = np.array([(len(v) - 1) * v.var(axis=0) for v in estimates])
    freedom = np.array([len(v) - 1.0 for v in estimates])
    total = variances.sum(axis=0)
    fourth = np.sum(variances**2 / freedom[:, None], axis=0)
    pooled = np.divide(total**2, fourth, out=np.full_like(total, freedom.sum()), where=fourth > 0)
    width: Array = student.ppf((1 + level) / 2, pooled) * np.sqrt(total)
    return width


def _shares_and_kappa(codes: IntArray, counts: Array, sums: Array, squares: Array) -> Array | None:
    """Shares of the factors, of the cell, and of the noise, and last the interaction over the noise, (factors + 3,).

    None where the equations do not determine them. Moments can be negative, and stay so here: what is cut off at 0
    would seem certain to the jackknife.
    """
    if counts.sum() == len(counts):
        return None
    n, K = counts.sum(), codes.shape[1]
    c = squares.sum() / (n - len(counts))
    columns = [np.unique(column, return_inverse=True)[1] for column in codes.T] + [np.arange(len(counts))]
    totals = [np.bincount(column, counts) for column in columns]
    design, values = np.full((K + 2, K + 2), n), np.zeros(K + 2)
    design[:, K + 1] = 1.0
    for k, column in enumerate(columns):
        levels = sums_by_level(column, sums, len(totals[k]))
        values[k] = np.sum(np.sum(levels**2, axis=1) / totals[k]) - len(totals[k]) * c
        design[K + 1, k] = totals[k] @ totals[k] / n
        for j, other in enumerate(columns):
            if j != k:
                pairs, at = np.unique(column * len(totals[j]) + other, return_inverse=True)
                design[k, j] = np.sum(np.bincount(at, counts) ** 2 / totals[k][pairs // len(totals[j])])
    values[K + 1] = np.sum(sums.sum(axis=0) ** 2) / n - c
    scale = np.linalg.norm(design, axis=0)
    if np.linalg.matrix_rank(design / scale, rtol=1e-10) < K + 2:
        return None
    solved = np.linalg.solve(design / scale, values) / scale
    components = np.append(solved[: K + 1], c)
    return np.append(components / np.maximum(components, 0.0).sum(), components[-2] / components[-1])
