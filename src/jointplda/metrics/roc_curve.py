"""Error rates at every threshold, or at as many as a drawing needs."""

import numpy as np
from numpy.typing import ArrayLike

from jointplda._typing import Array
from jointplda.metrics._checks import as_trials
from jointplda.metrics._sorting import spread_ranks


def roc_at(scores: ArrayLike, target: ArrayLike, ratio: float = 1.02) -> tuple[Array, Array, Array]:
    """Rates at some thresholds, for drawing: ranks of targets and of non-targets that grow by ``ratio`` from the ends.

    Returns
    -------
    thresholds, p_miss, p_fa : ndarray, shape (k,)
        As ``roc`` has them, at fewer places; the first accepts all and the last rejects all.
    """
    values, mask = as_trials(scores, target)
    targets, nontargets = np.sort(values[mask]), np.sort(values[~mask])
    chosen = [each[spread_ranks(len(each), ratio, ratio)] for each in (targets, nontargets)]
    thresholds = np.append(np.unique(np.concatenate(chosen)), np.inf)
    p_miss = np.searchsorted(targets, thresholds) / len(targets)
    p_fa = 1.0 - np.searchsorted(nontargets, thresholds) / len(nontargets)
    p_miss[-1], p_fa[-1] = 1.0, 0.0
    return thresholds, p_miss, p_fa


def roc(scores: ArrayLike, target: ArrayLike) -> tuple[Array, Array, Array]:
    """Rates at every threshold between distinct scores.

    Parameters
    ----------
    scores : array-like, shape (n,)
    target : array-like of bool, shape (n,)

    Returns
    -------
    thresholds : ndarray, shape (k + 1,)
        The distinct scores, ascending, and +inf beyond them: accept if s >= t.
    p_miss, p_fa : ndarray, shape (k + 1,)
        Share of targets below, and of non-targets at or above each threshold.
    """
    values, mask = as_trials(scores, target)
    order = np.argsort(values)
    ordered, labels = values[order], mask[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    below = np.concatenate(([0], np.cumsum(labels)))[np.append(starts, len(labels))]
    position = np.append(starts, len(labels))
    targets = below[-1]
    p_miss, p_fa = below / targets, 1.0 - (position - below) / (len(labels) - targets)
    return np.append(ordered[starts], np.inf), p_miss, p_fa
