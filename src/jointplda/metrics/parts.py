"""Parts of a trial list: the four cells of targets and non-targets by shared channel, and the steps of a ROC."""

import numpy as np
from numpy.typing import ArrayLike

from jointplda.errors import InputError
from jointplda.metrics.trials import Floats, Mask, as_mask, as_trials, spread_ranks

CELL_PARTS = ("same / same", "cross / same", "same / cross", "cross / cross")
"""Channel of targets / channel of non-targets: whether both sides of a trial share it."""


def cell_parts(target: ArrayLike, same_channel: ArrayLike) -> dict[str, Mask]:
    """Trials of each combination of cells.

    Parameters
    ----------
    target : array-like of bool, shape (n,)
    same_channel : array-like of bool, shape (n,)
        Whether both sides of the trial share their channel.

    Returns
    -------
    dict of str to ndarray of bool, shape (n,)
        By the names in ``CELL_PARTS``. "cross / same" is the hard one: targets across channels against non-targets
        within one, where a system that mistakes the channel for the identity fails.
    """
    same = np.asarray(same_channel)
    if same.ndim != 1:
        raise InputError(f"same_channel should have one dimension, got shape {same.shape}.")
    is_target, shared = as_mask(target, len(same)), as_mask(same, len(same))
    wanted = {"same": shared, "cross": ~shared}
    return {
        name: np.where(is_target, wanted[name.split(" / ")[0]], wanted[name.split(" / ")[1]]) for name in CELL_PARTS
    }


def roc_at(scores: ArrayLike, target: ArrayLike, ratio: float = 1.02) -> tuple[Floats, Floats, Floats]:
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


def roc(scores: ArrayLike, target: ArrayLike) -> tuple[Floats, Floats, Floats]:
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
