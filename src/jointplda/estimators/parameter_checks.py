"""Checks of the parameters and settings of estimators."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from jointplda._typing import Array
from jointplda._validation import check_number
from jointplda.errors import InputError
from jointplda.linalg import cholesky, symmetric
from jointplda.model.fitted import FittedModel, Trace
from jointplda.model.interaction import with_cell, with_proportional_cell
from jointplda.model.kappa import MOST
from jointplda.model.parameters import CONDITION, SAMPLE, SPEAKER, Factor


def canonical(W: Array) -> Array:
    """The loading of the same W W' with orthogonal columns, the longest first, whose largest entries are positive."""
    left, values, _ = np.linalg.svd(W, full_matrices=False)
    W = left * values
    signs = np.sign(W[np.argmax(np.abs(W), axis=0), np.arange(W.shape[1])])
    return np.ascontiguousarray(W * np.where(signs == 0, 1.0, signs))


def generator(random_state: Any) -> np.random.Generator:
    """A generator from a seed, a generator, or scikit-learn's RandomState."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31, size=4))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        problem = f"expected an integer, a Generator or a RandomState: {error}."
        raise InputError(problem, parameter="random_state") from None


def check_callback(callback: Any) -> None:
    """Raise unless the callback is None or can be called."""
    if callback is not None and not callable(callback):
        raise InputError(f"expected a function of one argument, got {callback!r:.60}.", parameter="callback")


def per_condition(name: str, setting: Any, conditions: int, least: float, most: float) -> tuple[float, ...]:
    """A number for each condition, from a setting that is one number for all of them or a list."""
    values = np.asarray(setting, dtype=object)
    if values.ndim == 0:
        return (check_number(name, values.item(), least, most),) * conditions
    if values.ndim > 1 or len(values) != conditions:
        problem = f"expected one number, or a list with one for each condition (there are {conditions})"
        raise InputError(f"{problem}, got {setting!r:.60}.", parameter=name)
    return tuple(check_number(name, value, least, most) for value in values.tolist())


def checked_model(
    mean: Any, V: Any, U: Any, D: Any, channel_ranks: Sequence[int] | None, *, channels_shared: bool
) -> FittedModel:
    """A fitted model from parameters; raise unless they are finite and their shapes agree."""
    mean, V, D = _finite(mean, "mean"), _finite(V, "V"), _finite(D, "D")
    U = np.zeros((mean.size, 0)) if U is None else _finite(U, "U")
    ranks = _checked_ranks(mean, V, U, D, channel_ranks)
    D = np.diag(D) if D.ndim == 1 else D
    try:
        cholesky(symmetric(D))
    except np.linalg.LinAlgError:
        raise InputError("expected a positive definite precision matrix.", parameter="D") from None
    if not np.allclose(D, D.T, rtol=1e-6, atol=1e-9 * float(np.abs(D).max())):
        raise InputError("expected a symmetric precision matrix.", parameter="D")
    ends = np.cumsum([0, *ranks])
    kind = CONDITION if channels_shared else SAMPLE
    conditions = (Factor(f"condition {k + 1}", U[:, a:b].copy(), kind) for k, (a, b) in enumerate(pairwise(ends)))
    factors = (Factor("speaker", V.copy(), SPEAKER), *conditions)
    return FittedModel(mean.copy(), factors, symmetric(D), None, channels_shared, Trace(np.zeros(0), False))


def checked_interaction(fitted: FittedModel, interaction: Any) -> FittedModel:
    """The same model with an interaction: kappa, or a loading G (d, r)."""
    if np.any(interaction) and not fitted.conditions_used and np.ndim(interaction) == 0:
        problem = f"got {interaction!r:.20}, but without channels (U) there are no cells to share it."
        raise InputError(problem, parameter="interaction")
    if np.ndim(interaction) == 0:
        kappa = check_number("interaction", interaction, 0.0, MOST)
        return replace(fitted, factors=with_proportional_cell(fitted.parameters, kappa).factors)
    G = _finite(interaction, "interaction")
    if G.ndim != 2 or len(G) != len(fitted.mean):
        problem = f"expected kappa, or G of shape ({len(fitted.mean)}, r), got shape {G.shape}."
        raise InputError(problem, parameter="interaction")
    return replace(fitted, factors=with_cell(fitted.parameters, G.copy()).factors) if G.shape[1] else fitted


def _finite(values: Any, name: str) -> Array:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"expected an array of numbers, got {type(values).__name__}.", parameter=name) from None
    if not np.isfinite(array).all():
        raise InputError("expected finite numbers, got NaN or infinity.", parameter=name)
    return array


def _checked_ranks(mean: Array, V: Array, U: Array, D: Array, channel_ranks: Any) -> tuple[int, ...]:
    """Ranks of the conditions; raise unless all shapes agree."""
    d = mean.size
    if mean.ndim != 1 or V.ndim != 2 or len(V) != d or U.ndim != 2 or len(U) != d or D.shape not in ((d,), (d, d)):
        shapes = f"{mean.shape}, {V.shape}, {U.shape} and {D.shape}"
        raise InputError(f"Expected mean (d,), V (d, Ry), U (d, Rx) and D (d, d) or (d,), got shapes {shapes}.")
    if V.shape[1] < 1:
        raise InputError("expected at least one column.", parameter="V")
    if channel_ranks is None:
        return (U.shape[1],) if U.shape[1] else ()
    ranks = np.atleast_1d(np.asarray(channel_ranks))
    if ranks.ndim != 1 or ranks.dtype.kind not in "iu" or ranks.sum() != U.shape[1] or (ranks < 0).any():
        problem = f"expected ranks that add up to {U.shape[1]}, the columns of U, got {channel_ranks!r:.60}."
        raise InputError(problem, parameter="channel_ranks")
    return tuple(int(rank) for rank in ranks)
