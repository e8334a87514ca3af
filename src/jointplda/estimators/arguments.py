"""Arguments of scoring methods as users give them, turned into arrays."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from jointplda.data import embeddings
from jointplda.data.labels import MISSING, Columns, conditions, encode
from jointplda.errors import InputError
from jointplda.learn.parameters import Parameters
from jointplda.learn.training import Training
from jointplda.linalg import Array, IntArray
from jointplda.score.enrolment import Enrolment
from jointplda.score.pairs import PairModel, Side
from jointplda.score.seen import Seen
from jointplda.settings import check_number


class Arguments:
    """What a fitted model makes of samples, labels and priors."""

    mean_: Array
    V_: Array
    U_: Array
    D_: Array
    channel_ranks_: tuple[int, ...]
    seen_: Training | None
    training_: dict[str, Any]

    @property
    def parameters_(self) -> Parameters:
        """The fitted parameters."""
        raise NotImplementedError

    def _check_samples(self, X: Any, reset: bool = False) -> Any:
        """Samples checked as scikit-learn expects it."""
        raise NotImplementedError

    def _samples(self, X: Any, what: str) -> Array:
        matrix = embeddings.as_matrix(X, what=what)
        d = len(self.parameters_.mean)
        if matrix.shape[1] != d:
            raise InputError(f"{what}: expected samples of dimension {d}, got {matrix.shape[1]}.")
        embeddings.check_numbers(matrix)
        return np.asarray(matrix, dtype=np.float64)

    def _shareable(self) -> tuple[Parameters, tuple[int, ...]]:
        """Parameters without conditions of rank 0, and the factors that two samples can share."""
        active, kept = self.parameters_.active()
        return active, tuple(range(1, len(kept) + 1)) if self._channels_are_shared() else ()

    def _channels_are_shared(self) -> bool:
        raise NotImplementedError

    def _kept(self) -> list[int]:
        return [k for k, rank in enumerate(self.channel_ranks_) if rank] if self._channels_are_shared() else []

    def _pair_model(self) -> PairModel:
        """Hypotheses of pairs, made once for given parameters."""
        key = (self.mean_, self.V_, self.U_, self.D_)
        kept = self.__dict__.get("_pairs")
        if kept is None or any(old is not new for old, new in zip(kept[0], key, strict=True)):
            kept = self.__dict__["_pairs"] = (key, PairModel.of(*self._shareable()))
        model: PairModel = kept[1]
        return model

    def _side(self, X: Any, what: str, dtype: Any, other: Any) -> Side:
        if isinstance(X, Side):
            if len(X.model.mean) != len(self.parameters_.mean) or X.model.conditions != len(self._shareable()[1]):
                raise InputError(f"{what}: was prepared by another model.")
            return X
        if dtype is None and isinstance(other, Side):
            dtype = other.table.dtype
        return self._pair_model().side(self._samples(X, what), score_dtype(dtype, X, other))

    def _priors(self, same_channel: Any) -> Array:
        """P(same channel) as (conditions of rank above 0, 2)."""
        K = len(self.channel_ranks_)
        try:
            given = np.asarray(same_channel, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError("same_channel: expected a number, a pair, or a pair per condition.") from None
        if given.shape not in ((), (2,), (K, 2)):
            raise InputError(
                f"same_channel: expected a number, a pair (same speaker, different speakers), or {K} pairs, one per "
                f"condition, got shape {given.shape}."
            )
        if not ((given >= 0.0) & (given <= 1.0)).all():
            raise InputError(f"same_channel: expected probabilities from 0 to 1, got {same_channel!r:.60}.")
        return np.broadcast_to(given, (K, 2))[self._kept()]

    def _columns(self, channels: Any, n: int, what: str) -> Columns:
        expected = [f"channel{i}" for i in range(len(self.channel_ranks_))]
        if hasattr(self, "training_"):
            expected = self.training_["conditions"]
        if not self._channels_are_shared():
            raise InputError(f"{what}: this model knows no channels that samples could share; leave it out.")
        columns = conditions(channels).ordered(tuple(expected))
        for column in columns.values:
            check_length(what, encode(column, what=what)[0], range(n))
        return Columns(tuple(columns.names[k] for k in self._kept()), tuple(columns.values[k] for k in self._kept()))

    def _channel_codes(self, channels: Any, n: int, what: str) -> tuple[IntArray, tuple[tuple[Hashable, ...], ...]]:
        """Codes (n, conditions) and labels of given channels; -1 where there is none."""
        if channels is None:
            return np.full((n, len(self._kept())), MISSING, dtype=np.int64), tuple(() for _ in self._kept())
        found = [encode(column, what=what) for column in self._columns(channels, n, what).values]
        codes = np.stack([codes for codes, _ in found], axis=1) if found else np.zeros((n, 0), dtype=np.int64)
        return codes, tuple(tuple(labels) for _, labels in found)

    def _labels_like(
        self, channels: Any, labels: tuple[tuple[Hashable, ...], ...], n: int, what: str
    ) -> tuple[IntArray, tuple[tuple[Hashable, ...], ...]]:
        """Codes of channels as positions in given labels, -1 where there is none; new labels are added behind."""
        if channels is None:
            return np.full((n, len(labels)), MISSING, dtype=np.int64), labels
        codes, names = self._channel_codes(channels, n, what)
        result, all_labels = np.full_like(codes, MISSING), []
        for k, own in enumerate(names):
            index = {label: i for i, label in enumerate(labels[k])}
            table = np.array([index.setdefault(label, len(index)) for label in own] + [MISSING], dtype=np.int64)
            result[:, k] = table[codes[:, k]]
            all_labels.append(tuple(index))
        return result, tuple(all_labels)

    def _pair_codes(
        self, enroll_channels: Any, test_channels: Any, n: int, m: int
    ) -> tuple[IntArray | None, IntArray | None]:
        if enroll_channels is None and test_channels is None:
            return None, None
        first, labels = self._channel_codes(enroll_channels, n, "enroll_channels")
        if test_channels is None:
            return first, np.full((m, first.shape[1]), MISSING, dtype=np.int64)
        return first, self._labels_like(test_channels, labels, m, "test_channels")[0]

    def _set_codes(
        self, sides: list[list[Array]], channels_a: Any, channels_b: Any, seen: Seen | None
    ) -> list[list[IntArray]] | None:
        """Codes of the channels of every set, numbered alike on both sides."""
        if channels_a is None and channels_b is None:
            return None
        if (
            channels_a is None
            or channels_b is None
            or len(channels_a) != len(sides[0])
            or len(channels_b) != len(sides[1])
        ):
            raise InputError("channels_a, channels_b: expected labels for every set on both sides, or for none.")
        labels = tuple(() for _ in self._kept()) if seen is None else seen.labels
        result = []
        for sets, channels in zip(sides, (channels_a, channels_b), strict=True):
            mine = []
            for phi, one in zip(sets, channels, strict=True):
                codes, labels = self._labels_like(one, labels, len(phi), "channels of a set")
                mine.append(codes)
            result.append(mine)
        return result

    def _training_or_missing(self) -> Training:
        """What training has seen; an AttributeError (as scikit-learn expects) where there is nothing."""
        check_is_fitted(self)
        if self.seen_ is None:
            raise AttributeError("this model does not know its training speakers")
        return self.seen_

    def _seen(self) -> Seen:
        check_is_fitted(self)
        training = self.seen_
        if training is None:
            raise InputError(
                "This model does not know its training channels and speakers: it was made from parameters, or training "
                "had too many of them to keep."
            )
        parameters, shareable = self._shareable()
        return Seen(parameters, shareable, training)

    def _seen_or_none(self) -> Seen | None:
        return None if getattr(self, "seen_", None) is None else self._seen()

    def _any_seen(self, *channels: Any) -> bool:
        """Whether any given label is one of training's."""
        if getattr(self, "seen_", None) is None:
            return False
        for one in channels:
            if one is not None:
                _, names = self._channel_codes(one, len(conditions(one).values[0]), "channels")
                seen = self._seen()
                for k, labels in zip(seen.conditions, names, strict=True):
                    if set(labels) & set(seen.training.channels[k - 1]):
                        return True
        return False

    def _weights(self, channel_weights: Any, factors: Sequence[int]) -> list[Array]:
        """Probabilities of the training channels and of a new one, for each condition."""
        seen = self._seen()
        many = isinstance(channel_weights, (list, tuple))
        given = channel_weights if many else [channel_weights] * len(factors)
        if len(given) != len(factors):
            raise InputError(f"channel_weights: expected {len(factors)}, one per condition, got {len(given)}.")
        result = []
        for k, one in zip(factors, given, strict=True):
            labels, counts = seen.training.channels[k - 1], seen.training.channel_counts[k - 1]
            if isinstance(one, str) and one == "estimated":
                # One more channel is as probable as an average one: Laplace's rule over channels.
                weights = np.append(counts, counts.mean() if len(counts) else 1.0)
            elif isinstance(one, Mapping):
                unknown = [label for label in one if label is not None and label not in labels]
                if unknown:
                    raise InputError(f"channel_weights: {unknown[:3]} are not channels of training.")
                weights = np.array([float(one.get(label, 0.0)) for label in (*labels, None)])
            else:
                raise InputError('channel_weights: expected "estimated" or a mapping from channels to probabilities.')
            if not np.isfinite(weights).all() or (weights < 0).any() or weights.sum() <= 0:
                raise InputError("channel_weights: expected finite weights of at least 0, not all 0.")
            result.append(weights / weights.sum())
        return result


def score_dtype(dtype: Any, *sides: Any) -> Any:
    """The type of scores: as asked, or float32 if all sides are."""
    if dtype is None:
        kinds = [side.table.dtype if isinstance(side, Side) else getattr(side, "dtype", np.float64) for side in sides]
        return np.float32 if all(kind == np.float32 for kind in kinds) else np.float64
    if np.dtype(dtype) not in (np.float32, np.float64):
        raise InputError(f"dtype: expected float32 or float64, got {dtype!r}.")
    return np.dtype(dtype)


def beam_width(beam: Any) -> int:
    """A whole number of partitions."""
    return int(check_number("beam", beam, 1, whole=True))


def check_length(what: str, codes: Any, samples: Any) -> None:
    """One label per sample."""
    if len(codes) != len(samples):
        raise InputError(f"{what}: expected {len(samples)} labels, one per sample, got {len(codes)}.")


def checked_pairs(pairs: Any, n: int, m: int) -> IntArray:
    """Trials as (n, 2) rows within range."""
    rows = np.asarray(pairs)
    if rows.ndim != 2 or rows.shape[1] != 2 or rows.dtype.kind not in "iu":
        raise InputError(f"pairs: expected integers of shape (trials, 2), got {rows.dtype} of shape {rows.shape}.")
    rows = rows.astype(np.int64, copy=False)
    bad = np.flatnonzero((rows < 0).any(axis=1) | (rows[:, 0] >= n) | (rows[:, 1] >= m))
    if len(bad):
        raise InputError(
            f"pairs: row {bad[0]} is {rows[bad[0]].tolist()}, out of range for {n} enrolment and {m} test rows."
        )
    return rows


def checked_sets(sets: Any, what: str) -> list[Any]:
    """Sets as a list."""
    if isinstance(sets, np.ndarray) and sets.ndim != 3:
        raise InputError(f"{what}: expected a list of (n, d) arrays, one per set, got an array of shape {sets.shape}.")
    if not hasattr(sets, "__len__") or len(sets) == 0:
        raise InputError(f"{what}: expected at least one set of samples.")
    return list(sets)


def chosen_models(enrolment: Enrolment, models: Any) -> Any:
    """Positions of the asked models."""
    if models is None:
        return slice(None)
    index = {label: i for i, label in enumerate(enrolment.models)}
    unknown = [label for label in models if label not in index]
    if unknown:
        raise InputError(f"models: {len(unknown)} of them were not enrolled, such as {unknown[:3]}.")
    return [index[label] for label in models]
