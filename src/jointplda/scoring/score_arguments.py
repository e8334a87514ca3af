"""Arguments of scoring methods, checked: channels and their priors as codes and probabilities; trials, sets, models."""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np

from jointplda._typing import Array, IntArray
from jointplda._validation import check_number
from jointplda.errors import InputError, warn
from jointplda.labels import MISSING, ConditionColumns, are_placeholders, conditions, encode
from jointplda.model.fitted import FittedModel
from jointplda.model.training_posterior import TrainingPosterior
from jointplda.scoring.enrollment import Enrollment
from jointplda.scoring.pairs import PreparedSide

Labels = tuple[tuple[Hashable, ...], ...]


class ChannelArguments:
    """Turns channel labels into codes, and priors of channels into probabilities, for a fitted model.

    Codes are (n, conditions) int64, for the conditions of rank above 0 only; a missing label is -1 (``MISSING``).
    """

    def __init__(self, fitted: FittedModel) -> None:
        self.fitted, self.kept, self.n_conditions = fitted, fitted.conditions_used, len(fitted.channel_ranks)

    def priors(self, same_channel: Any) -> Array:
        """P(same channel | same speaker), P(same channel | different speakers): (conditions of rank above 0, 2)."""
        K = self.n_conditions
        try:
            priors = np.asarray(same_channel, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError("expected a number, a pair, or a pair per condition.", parameter="same_channel") from None
        if priors.shape not in ((), (2,), (K, 2)):
            problem = f"expected a number, a pair (same speaker, different speakers), or {K} pairs, one per condition"
            raise InputError(f"{problem}, got shape {priors.shape}.", parameter="same_channel")
        if not ((priors >= 0.0) & (priors <= 1.0)).all():
            raise InputError(f"expected probabilities from 0 to 1, got {same_channel!r:.60}.", parameter="same_channel")
        return np.broadcast_to(priors, (K, 2))[list(self.kept)]

    def ordered(self, channels: Any, like: tuple[str, ...] | None = None) -> ConditionColumns:
        """Columns of all conditions in the order of training; if that has no names, of ``like``, the other side."""
        names = self.fitted.conditions or tuple(f"channel{i}" for i in range(self.n_conditions))
        if like is not None and are_placeholders(names):
            names = like
        return conditions(channels).ordered(names)

    def codes(
        self, channels: Any, labels: Labels, n: int, parameter: str, like: tuple[str, ...] | None = None
    ) -> tuple[IntArray, Labels]:
        """Codes of n samples as positions in ``labels``, to which new labels are appended.

        Parameters
        ----------
        channels : as in ``fit``, or None
            Without channels all codes are ``MISSING``.
        labels : tuple of tuples
            Labels of each condition that have codes already.
        n : int
            Number of samples.
        parameter : str
            The argument that holds the channels, for messages.
        like : tuple of str, optional
            Names of the conditions of the other side.
        """
        codes, longer = np.full((n, len(labels)), MISSING, dtype=np.int64), list(labels)
        if channels is None:
            return codes, labels
        if not self.fitted.channels_shared:
            raise InputError("samples share no channels in this model; leave them out.", parameter=parameter)
        for condition, column in enumerate(self.ordered(channels, like).values):
            positions, own = encode(column, what=parameter)
            check_length(parameter, positions, n)
            if condition in self.kept:
                k = self.kept.index(condition)
                index = {label: i for i, label in enumerate(labels[k])}
                table = np.array([index.setdefault(label, len(index)) for label in own] + [MISSING], dtype=np.int64)
                codes[:, k], longer[k] = table[positions], tuple(index)
        return codes, tuple(longer)

    def set_codes(
        self, sides: list[list[Array]], channels: tuple[Any, Any], labels: Labels
    ) -> list[list[IntArray]] | None:
        """Codes of every set as positions in ``labels`` and new labels; None if no channel is known."""
        if all(of_side is None for of_side in channels):
            if self.kept:
                return None
            channels = [None] * len(sides[0]), [None] * len(sides[1])
        for sets, of_side in zip(sides, channels, strict=True):
            if of_side is None or len(of_side) != len(sets):
                raise InputError("channels_a, channels_b: expected labels for every set on both sides, or for none.")
        result: list[list[IntArray]] = [[], []]
        like = names_of(channels[0][0])
        for side, sets, of_side in zip(result, sides, channels, strict=True):
            for samples, of_set in zip(sets, of_side, strict=True):
                codes, labels = self.codes(of_set, labels, len(samples), "channels of a set", like)
                side.append(codes)
        return result

    def are_of_training(self, codes: IntArray, labels: Labels, trained: Labels) -> bool:
        """Whether any of these codes is among the ``trained``; warns of labels that are equal but for their type."""
        found = False
        for column, known, of_condition in zip(codes.T, trained, labels, strict=True):
            own = [of_condition[code] for code in np.unique(column[column != MISSING])]
            here = bool(set(own) & set(known))
            if not here and {str(label) for label in own} & {str(label) for label in known}:
                warn(
                    f"None of these channels is a channel of training, though their texts are alike: {own[0]!r} is not "
                    f"{known[0]!r}. Are they of another type?"
                )
            found = found or here
        return found

    def position(self, condition: Any) -> int:
        """Position of a condition among those of rank above 0."""
        if not self.kept:
            raise InputError("Samples share no channels in this model.")
        k = int(check_number("condition", condition, 0, self.n_conditions - 1, whole=True))
        if k not in self.kept:
            raise InputError(f"{k} has rank 0, so the model has no channels of it.", parameter="condition")
        return self.kept.index(k)

    def weights(self, channel_weights: Any, training: TrainingPosterior) -> list[Array]:
        """Probabilities of the training channels and of a new one (last), for each condition of rank above 0."""
        per_condition = [channel_weights] * self.n_conditions
        if isinstance(channel_weights, list | tuple):
            per_condition = list(channel_weights)
        if len(per_condition) != self.n_conditions:
            problem = f"expected {self.n_conditions}, one per condition, got {len(per_condition)}."
            raise InputError(problem, parameter="channel_weights")
        kept = [per_condition[k] for k in self.kept]
        return [
            _normalised(weights, labels, counts)
            for weights, labels, counts in zip(kept, training.channels, training.channel_counts, strict=False)
        ]


def _normalised(weights: Any, labels: tuple[Hashable, ...], counts: Array) -> Array:
    """Weights of the training channels and of a new one (last), which add up to 1."""
    if isinstance(weights, str) and weights == "estimated":
        # A new channel is as probable as an average one.
        values = np.append(counts, counts.mean() if len(counts) else 1.0)
    elif isinstance(weights, Mapping):
        unknown = [label for label in weights if label is not None and label not in labels]
        if unknown:
            raise InputError(f"{unknown[:3]} are not channels of training.", parameter="channel_weights")
        try:
            values = np.array([float(weights.get(label, 0.0)) for label in (*labels, None)])
        except (TypeError, ValueError):
            raise InputError("expected numbers.", parameter="channel_weights") from None
    else:
        problem = 'expected "estimated" or a mapping from channels to probabilities.'
        raise InputError(problem, parameter="channel_weights")
    if not np.isfinite(values).all() or (values < 0).any() or values.sum() <= 0:
        raise InputError("expected finite weights of at least 0, not all 0.", parameter="channel_weights")
    result: Array = values / values.sum()
    return result


def names_of(channels: Any) -> tuple[str, ...] | None:
    """Names of the conditions of channels, if there are channels."""
    return None if channels is None else conditions(channels).names


def check_length(parameter: str, codes: Any, n: int) -> None:
    """Raise unless there is one label per sample."""
    if len(codes) != n:
        raise InputError(f"expected {n} labels, one per sample, got {len(codes)}.", parameter=parameter)


def score_dtype(dtype: Any, *sides: Any) -> Any:
    """The type of scores: ``dtype``, or that of the first prepared side, or float32 if all sides are float32."""
    if dtype is None:
        prepared = [side.table.dtype for side in sides if isinstance(side, PreparedSide)]
        single = all(getattr(side, "dtype", np.float64) == np.float32 for side in sides)
        return prepared[0] if prepared else np.float32 if single else np.float64
    if np.dtype(dtype) not in (np.float32, np.float64):
        raise InputError(f"expected float32 or float64, got {dtype!r}.", parameter="dtype")
    return np.dtype(dtype)


def beam_width(beam: Any) -> int | None:
    """The number of partitions to keep, or None for the default."""
    return None if beam is None else int(check_number("beam", beam, 1, whole=True))


def checked_pairs(pairs: Any, n: int, m: int) -> IntArray:
    """Trials as integers (trials, 2); raise unless they are rows of the two sides."""
    rows = np.asarray(pairs)
    if rows.size == 0:
        return np.zeros((0, 2), dtype=np.int64)
    if rows.ndim != 2 or rows.shape[1] != 2 or rows.dtype.kind not in "iu":
        problem = f"expected integers of shape (trials, 2), got {rows.dtype} of shape {rows.shape}."
        raise InputError(problem, parameter="pairs")
    rows = rows.astype(np.int64, copy=False)
    bad = np.flatnonzero((rows < 0).any(axis=1) | (rows[:, 0] >= n) | (rows[:, 1] >= m))
    if len(bad):
        problem = f"row {bad[0]} is {rows[bad[0]].tolist()}, out of range for {n} enrollment and {m} test rows."
        raise InputError(problem, parameter="pairs")
    return rows


def checked_sets(sets: Any, parameter: str) -> list[Any]:
    """Sets of samples as a list; raise unless there is one or more."""
    if isinstance(sets, np.ndarray) and sets.ndim != 3:
        got = f"an array of shape {sets.shape}"
    elif not isinstance(sets, Iterable):
        got = type(sets).__name__
    else:
        listed = list(sets)
        if listed:
            return listed
        raise InputError("expected at least one set of samples.", parameter=parameter)
    raise InputError(f"expected a list of (n, d) arrays, one per set, got {got}.", parameter=parameter)


def chosen_models(enrollment: Enrollment, models: Any) -> Any:
    """Positions of these models in an enrollment; None is all of them."""
    if models is None:
        return slice(None)
    if isinstance(models, str) or not isinstance(models, Iterable):
        raise InputError(f"expected a list of labels, got {models!r:.60}.", parameter="models")
    index = {label: i for i, label in enumerate(enrollment.models)}
    models = list(models)
    unknown = [label for label in models if label not in index]
    if unknown:
        raise InputError(f"{len(unknown)} of the models were not enrolled, such as {unknown[:3]}.", parameter="models")
    return [index[label] for label in models]
