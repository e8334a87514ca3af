"""Error rates at every threshold, or at as many thresholds as a drawing needs."""

import numpy as np
from numpy.typing import ArrayLike

from jointplda._typing import Array
from jointplda.metrics._sorting import spread_ranks
from jointplda.metrics.sorted_trials import SortedTrials


def roc_for_drawing(trials: SortedTrials) -> tuple[Array, Array, Array]:
    """Error rates at as many thresholds as a drawing needs.

    Parameters
    ----------
    trials : SortedTrials
        Thresholds are scores of targets and of non-targets whose ranks, counted from either end, grow by 2 %.

    Returns
    -------
    thresholds, p_miss, p_fa : ndarray, shape (k,)
        As in ``roc``, at fewer thresholds; the first accepts all trials and the last rejects all.
    """
    chosen = [each[spread_ranks(len(each), 1.02, 1.02)] for each in (trials.targets, trials.nontargets)]
    thresholds = np.append(np.unique(np.concatenate(chosen)), np.inf)
    p_miss, p_fa = trials.rates(thresholds)
    p_miss[-1], p_fa[-1] = 1.0, 0.0
    return thresholds, p_miss, p_fa


def roc(scores: ArrayLike, target: ArrayLike) -> tuple[Array, Array, Array]:
    """Error rates at every threshold between distinct ``scores`` (n,), of which ``target`` (n,) says what they are.

    Returns
    -------
    thresholds : ndarray, shape (k + 1,)
        The distinct scores, ascending, and +inf beyond them: accept if s >= t.
    p_miss, p_fa : ndarray, shape (k + 1,)
        Share of targets below, and of non-targets at or above each threshold.
    """
    trials = SortedTrials.of(scores, target)
    ordered, labels = trials.scores, trials.target
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    below = np.concatenate(([0], np.cumsum(labels)))[np.append(starts, len(labels))]
    position = np.append(starts, len(labels))
    targets = below[-1]
    p_miss, p_fa = below / targets, 1.0 - (position - below) / (len(labels) - targets)
    return np.append(ordered[starts], np.inf), p_miss, p_fa
