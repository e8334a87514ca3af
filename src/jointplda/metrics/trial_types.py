"""Types of trials: targets and non-targets by whether both sides of a trial share their channel."""

import numpy as np
from numpy.typing import ArrayLike

from jointplda._typing import BoolArray
from jointplda.errors import InputError
from jointplda.metrics._checks import as_mask

SAME, CROSS = "same", "cross"

TRIAL_TYPES = {f"{where} {truth}": (where, truth) for truth in ("target", "non-target") for where in (SAME, CROSS)}
"""The four types of trials by name: whether both sides share their channel, and the truth."""

TYPE_PAIRS = {f"{first} / {second}": (first, second) for second in (SAME, CROSS) for first in (SAME, CROSS)}
"""Pairs of a type of targets and a type of non-targets by name: the channels of targets, and those of non-targets."""

CROSS_SAME = f"{CROSS} / {SAME}"
"""Targets across channels against non-targets within one: a system that mistakes the channel for the speaker fails."""


def type_pairs(target: ArrayLike, same_channel: ArrayLike) -> dict[str, BoolArray]:
    """Trials of each pair of a type of targets and a type of non-targets.

    Parameters
    ----------
    target : array-like of bool, shape (n,)
        Whether both sides of the trial are of one speaker.
    same_channel : array-like of bool, shape (n,)
        Whether both sides of the trial share their channel.

    Returns
    -------
    dict of str to ndarray of bool, shape (n,)
        By the names in ``TYPE_PAIRS``, channel of targets / channel of non-targets. "cross / same" is the hard one.
    """
    same = np.asarray(same_channel)
    if same.ndim != 1:
        raise InputError(f"expected one dimension, got shape {same.shape}.", parameter="same_channel")
    is_target, shared = as_mask(target, len(same)), as_mask(same, len(same))
    members = {SAME: shared, CROSS: ~shared}
    return {name: np.where(is_target, members[a], members[b]) for name, (a, b) in TYPE_PAIRS.items()}
