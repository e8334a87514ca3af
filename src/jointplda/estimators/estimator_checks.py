"""Checks of what estimators are given: parameters, samples and callbacks; and fits that fail without a trace."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from jointplda import sample_matrix
from jointplda._typing import Array
from jointplda._validation import check_number
from jointplda.errors import InputError, InputTypeError
from jointplda.linalg import cholesky, spans, symmetric
from jointplda.model.fitted import FittedModel, Trace
from jointplda.model.interaction.cell_factor import with_cell, with_proportional_cell
from jointplda.model.parameters import CONDITION, SPEAKER, Factor
from jointplda.model.setting_checks import all_per_condition
from jointplda.model.settings import MOST_KAPPA, ModelSettings


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


def checked_model(mean: Any, V: Any, U: Any, D: Any, channel_ranks: Sequence[int] | None) -> FittedModel:
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
    conditions = (Factor(f"condition {k + 1}", U[:, span].copy(), CONDITION) for k, span in enumerate(spans(ranks)))
    factors = (Factor("speaker", V.copy(), SPEAKER), *conditions)
    noise = "diagonal" if np.array_equal(D, np.diag(np.diagonal(D))) else "full"
    values = all_per_condition(ModelSettings(), len(ranks))
    settings = ModelSettings(speaker_rank=V.shape[1], channel_rank=ranks, noise=noise, **values)
    return FittedModel(mean.copy(), factors, symmetric(D), None, settings, Trace(np.zeros(0), False))


def checked_interaction(fitted: FittedModel, interaction: Any) -> FittedModel:
    """The same model with an interaction: kappa, or a loading G (d, r)."""
    if np.any(interaction) and not fitted.conditions_used and np.ndim(interaction) == 0:
        problem = f"got {interaction!r:.20}, but without channels (U) there are no cells to share it."
        raise InputError(problem, parameter="interaction")
    if np.ndim(interaction) == 0:
        kappa = check_number("interaction", interaction, 0.0, MOST_KAPPA)
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


def checked_samples(estimator: Any, X: Any) -> Any:
    """X as an array of the right dimension; NaN and infinity are found when it is read."""
    return _validated(estimator, X, reset=False, ensure_min_samples=1)


def checked_training(estimator: Any, X: Any, y: Any) -> Any:
    """The same for ``fit``, which takes the number and names of features from X, and needs speakers y."""
    matrix = _validated(estimator, X, reset=True, ensure_min_samples=2)
    if y is None:
        name = type(estimator).__name__
        raise InputError(f"{name} requires y to be passed, but the target y is None; give the speakers.")
    return matrix


def _validated(estimator: Any, X: Any, **rules: Any) -> Any:
    sample_matrix.check_not_masked(X)
    try:
        return validate_data(estimator, X, dtype="numeric", ensure_all_finite=False, **rules)
    except ValueError as error:
        raise InputError(str(error), parameter="X") from None
    except TypeError as error:
        raise InputTypeError(str(error), parameter="X") from None


@contextmanager
def unchanged_by_errors(estimator: Any) -> Iterator[None]:
    """Restore the estimator if the block raises, so that a failed fit changes nothing."""
    before = dict(estimator.__dict__)
    try:
        yield
    except BaseException:
        estimator.__dict__.clear()
        estimator.__dict__.update(before)
        raise
