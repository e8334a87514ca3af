"""Parts of a trial list: the four cells of targets and non-targets by shared channel, and the steps of a ROC."""

import numpy as np
from numpy.typing import ArrayLike

from jointplda._typing import BoolArray
from jointplda.errors import InputError
from jointplda.metrics._checks import as_mask

CELL_PARTS = ("same / same", "cross / same", "same / cross", "cross / cross")
"""Channel of targets / channel of non-targets: whether both sides of a trial share it."""


def cell_parts(target: ArrayLike, same_channel: ArrayLike) -> dict[str, BoolArray]:
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
