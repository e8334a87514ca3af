"""Channel labels and priors of channels in the arguments of scoring methods, as codes and probabilities."""

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from jointplda._typing import Array, IntArray
from jointplda._validation import check_number
from jointplda.errors import InputError, warn
from jointplda.labels import MISSING, ConditionColumns, are_placeholders, conditions, encode
from jointplda.model.fitted import FittedModel
from jointplda.model.training_posterior import TrainingPosterior

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
        self, channels: Any, n: int, parameter: str, like: tuple[str, ...] | None = None
    ) -> tuple[IntArray, Labels]:
        """Codes of n samples, and the labels of the codes of each condition."""
        if channels is None:
            return np.full((n, len(self.kept)), MISSING, dtype=np.int64), tuple(() for _ in self.kept)
        if not self.fitted.channels_shared:
            raise InputError("samples share no channels in this model; leave them out.", parameter=parameter)
        columns = self.ordered(channels, like).values
        encoded = [encode(column, what=parameter) for column in columns]
        for codes, _ in encoded:
            check_length(parameter, codes, n)
        chosen = [encoded[k] for k in self.kept]
        codes = np.stack([codes for codes, _ in chosen], axis=1) if chosen else np.zeros((n, 0), dtype=np.int64)
        return codes, tuple(tuple(labels) for _, labels in chosen)

    def codes_like(
        self, channels: Any, labels: Labels, n: int, parameter: str, like: tuple[str, ...] | None = None
    ) -> tuple[IntArray, Labels]:
        """Codes as positions in ``labels``, to which new labels are appended."""
        if channels is None:
            return np.full((n, len(labels)), MISSING, dtype=np.int64), labels
        codes, names = self.codes(channels, n, parameter, like)
        result, all_labels = np.full_like(codes, MISSING), []
        for k, own in enumerate(names):
            index = {label: i for i, label in enumerate(labels[k])}
            table = np.array([index.setdefault(label, len(index)) for label in own] + [MISSING], dtype=np.int64)
            result[:, k] = table[codes[:, k]]
            all_labels.append(tuple(index))
        return result, tuple(all_labels)

    def pair_codes(
        self, enroll_channels: Any, test_channels: Any, n: int, m: int
    ) -> tuple[IntArray | None, IntArray | None]:
        """Codes of both sides, in which equal labels have equal codes; None if neither side has labels."""
        if enroll_channels is None and test_channels is None:
            return None, None
        first, labels = self.codes(enroll_channels, n, "enroll_channels")
        if test_channels is None:
            return first, np.full((m, first.shape[1]), MISSING, dtype=np.int64)
        return first, self.codes_like(test_channels, labels, m, "test_channels", names_of(enroll_channels))[0]

    def set_codes(
        self, sides: list[list[Array]], channels_a: Any, channels_b: Any, labels: Labels
    ) -> list[list[IntArray]] | None:
        """Codes of every set as positions in ``labels`` and new labels; None if no set has labels."""
        if channels_a is None and channels_b is None:
            return None
        for sets, channels in zip(sides, (channels_a, channels_b), strict=True):
            if channels is None or len(channels) != len(sets):
                raise InputError("channels_a, channels_b: expected labels for every set on both sides, or for none.")
        result, like = [], names_of(channels_a[0])
        for sets, channels in zip(sides, (channels_a, channels_b), strict=True):
            side = []
            for samples, of_set in zip(sets, channels, strict=True):
                codes, labels = self.codes_like(of_set, labels, len(samples), "channels of a set", like)
                side.append(codes)
            result.append(side)
        return result

    def are_training_channels(self, *channels: Any) -> bool:
        """Whether any of these labels is a channel of training; warns of equal labels of another type."""
        training = self.fitted.training
        if training is None:
            return False
        known = False
        for side in channels:
            if side is not None:
                _, names = self.codes(side, len(conditions(side).values[0]), "channels")
                for trained, labels in zip(training.channels, names, strict=True):
                    known = bool(set(labels) & set(trained)) or known
                    _warn_of_other_types(labels, trained)
        return known

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


def _warn_of_other_types(labels: tuple[Hashable, ...], trained: tuple[Hashable, ...]) -> None:
    if not set(labels) & set(trained) and {str(label) for label in labels} & {str(label) for label in trained}:
        warn(
            f"None of these channels is a channel of training, though their texts are alike: {labels[0]!r} is not "
            f"{trained[0]!r}. Are they of another type?"
        )


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
