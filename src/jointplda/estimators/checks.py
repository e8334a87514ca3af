"""Settings and parameters as users give them, checked, each with one clear error; and what to warn of after a fit."""

from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from jointplda._typing import Array
from jointplda._validation import check_number
from jointplda.errors import InputError, warn
from jointplda.model.fit import FitResult


def canonical(W: Array) -> Array:
    """The same W W' with orthogonal columns, longest first, the largest entry of each positive."""
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
        raise InputError(f"random_state: expected an integer, a Generator or a RandomState: {error}.") from None


def finite(values: Any, name: str) -> Array:
    """The values as a float64 array without NaN or infinity."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name}: expected an array of numbers, got {type(values).__name__}.") from None
    if not np.isfinite(array).all():
        raise InputError(f"{name}: expected finite numbers, got NaN or infinity.")
    return array


def per_condition(name: str, given: Any, conditions: int, least: float, most: float) -> tuple[float, ...]:
    """A setting given as one number for all conditions, or as one for each."""
    values = np.asarray(given, dtype=object)
    if values.ndim == 0:
        return (check_number(name, values.item(), least, most),) * conditions
    if values.ndim > 1 or len(values) != conditions:
        raise InputError(
            f"{name}: expected one number, or a list with one for each condition (there are {conditions}), "
            f"got {given!r:.60}."
        )
    return tuple(check_number(name, value, least, most) for value in values.tolist())


def check_parameter_shapes(mean: Array, V: Array, U: Array, D: Array, channel_ranks: Any) -> tuple[int, ...]:
    """Ranks of the conditions, if all shapes belong together."""
    d = mean.size
    if mean.ndim != 1 or V.ndim != 2 or len(V) != d or U.ndim != 2 or len(U) != d or D.shape not in ((d,), (d, d)):
        raise InputError(
            "Expected mean (d,), V (d, Ry), U (d, Rx) and D (d, d) or (d,), got shapes "
            f"{mean.shape}, {V.shape}, {U.shape} and {D.shape}."
        )
    if V.shape[1] < 1:
        raise InputError("V: expected at least one column.")
    if channel_ranks is None:
        return (U.shape[1],) if U.shape[1] else ()
    given = np.atleast_1d(np.asarray(channel_ranks))
    if given.ndim != 1 or given.dtype.kind not in "iu" or given.sum() != U.shape[1] or (given < 0).any():
        raise InputError(
            f"channel_ranks: expected ranks that add up to {U.shape[1]}, the columns of U, got {channel_ranks!r:.60}."
        )
    return tuple(int(rank) for rank in given)


def warn_of_end(result: FitResult, tol: float) -> None:
    """Say how EM ended, if not by converging."""
    n_iter = len(result.fit.log_likelihoods)
    if result.interrupted:
        warn(f"EM was interrupted after {n_iter} iteration(s); the model so far is kept.", ConvergenceWarning)
    elif result.fit.stuck:
        warn(
            f"EM stopped after {n_iter} iteration(s): the next one would have lost likelihood to rounding. "
            "Raise noise_floor, set noise_prior > 0, or reduce the dimension (PCA).",
            ConvergenceWarning,
        )
    elif not result.fit.converged:
        trace = (result.fit.start, *result.fit.log_likelihoods)
        warn(
            f"EM did not converge in {n_iter} iterations: the last one still gained "
            f"{trace[-1] - trace[-2]:.2g} nats per sample (tol={tol:g}). Raise max_iter or tol; "
            "with warm_start=True another fit goes on from here.",
            ConvergenceWarning,
        )


def warn_of_width(channels: int, columns: int) -> None:
    """Say that the channels of training were too many to remember because a prior made U wide."""
    warn(
        f"{channels} training channels with U of {columns} columns, as channel_prior makes it, are too many to "
        "remember: their labels are scored like those of new channels, and predict and channel_posterior have nothing "
        "to go by. If you need these, set channel_prior=0, or use fewer dimensions (PCA)."
    )
