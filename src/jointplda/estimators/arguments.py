"""Arguments of scoring methods as users give them, turned into arrays."""

from collections.abc import Hashable, Iterable, Mapping
from hashlib import blake2b
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from jointplda import sample_matrix
from jointplda._typing import AnyArray, Array, IntArray
from jointplda._validation import check_number
from jointplda.errors import InputError, warn
from jointplda.labels import MISSING, ConditionColumns, conditions, encode
from jointplda.model.parameters import Parameters
from jointplda.model.training_posterior import TrainingPosterior
from jointplda.scoring.enrollment import Enrollment
from jointplda.scoring.known_channels import KnownChannels
from jointplda.scoring.pairs import PairModel, PreparedSide

FLOAT32_ERROR = 2e-3


class Arguments:
    """What a fitted model makes of samples, labels and priors."""

    mean_: Array
    V_: Array
    U_: Array
    D_: Array
    channel_ranks_: tuple[int, ...]
    seen_: TrainingPosterior | None
    training_: dict[str, Any]

    @property
    def parameters_(self) -> Parameters:
        """The fitted parameters."""
        raise NotImplementedError

    def _check_samples(self, X: Any, reset: bool = False) -> Any:
        """Samples checked as scikit-learn expects it."""
        raise NotImplementedError

    def _samples(self, X: Any, what: str) -> Array:
        """Samples of the right dimension, without NaN or infinity, as float64."""
        return np.asarray(self._numbers(X, what), dtype=np.float64)

    def _numbers(self, X: Any, what: str) -> AnyArray:
        """The same in the type they have."""
        check_is_fitted(self)
        matrix = sample_matrix.as_matrix(X, what=what)
        d = len(self.mean_)
        if matrix.shape[1] != d:
            raise InputError(f"{what}: expected samples of dimension {d}, got {matrix.shape[1]}.")
        sample_matrix.check_numbers(matrix)
        return matrix

    def _shareable(self) -> tuple[Parameters, tuple[int, ...]]:
        """Parameters without conditions of rank 0, and the factors that two samples can share."""
        active, kept = self.parameters_.active()
        return active, tuple(range(1, len(kept) + 1)) if self._channels_are_shared() else ()

    def _channels_are_shared(self) -> bool:
        raise NotImplementedError

    def _kept(self) -> list[int]:
        return [k for k, rank in enumerate(self.channel_ranks_) if rank] if self._channels_are_shared() else []

    def _fingerprint(self) -> str:
        """A digest of the parameters: what was prepared with others must not be scored with these."""
        check_is_fitted(self)
        digest = blake2b(repr(self.channel_ranks_).encode(), digest_size=16)
        for array in (self.mean_, self.V_, self.U_, self.D_):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def _pair_model(self) -> PairModel:
        """Hypotheses of pairs, made once for given parameters."""
        key = self._fingerprint()
        kept = self.__dict__.get("_pairs")
        if kept is None or kept[0] != key:
            kept = self.__dict__["_pairs"] = (key, PairModel.of(*self._shareable(), key))
        model: PairModel = kept[1]
        return model

    def _side(self, X: Any, what: str, dtype: Any, other: Any) -> PreparedSide:
        if isinstance(X, PreparedSide):
            if X.model.fingerprint != self._fingerprint():
                raise InputError(f"{what}: was prepared by another model, or before this one was fitted again.")
            kind = X.table.dtype if dtype is None else score_dtype(dtype)
            return X if X.table.dtype == kind else PreparedSide(X.model, X.table.astype(kind))
        if dtype is None and isinstance(other, PreparedSide):
            dtype = other.table.dtype
        return self._pair_model().side(self._numbers(X, what), score_dtype(dtype, X, other))

    def _sides(self, enroll: Any, test: Any, dtype: Any) -> tuple[PreparedSide, PreparedSide]:
        """Both sides as one type; float64 where float32 was not asked for and would lose too much."""
        left = self._side(enroll, "enroll", dtype, test)
        right = self._side(test, "test", left.table.dtype, enroll)
        if left.table.dtype == np.float32 and max(left.rounding, right.rounding) > FLOAT32_ERROR:
            if dtype is None and not isinstance(enroll, PreparedSide) and not isinstance(test, PreparedSide):
                return self._sides(enroll, test, np.float64)
            warn(
                f"float32 scores may be off by about {max(left.rounding, right.rounding):.1g} nats: the noise is small "
                "beside the rest. Use dtype=float64."
            )
        return left, right

    def _priors(self, same_channel: Any) -> Array:
        """P(same channel) as (conditions of rank above 0, 2)."""
        check_is_fitted(self)
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

    def _condition_names(self, like: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """Names of all conditions: those of training, else those of ``like``, else none of their own."""
        if hasattr(self, "training_"):
            return tuple(self.training_["conditions"])
        return tuple(f"channel{i}" for i in range(len(self.channel_ranks_))) if like is None else like

    def _columns(self, channels: Any, n: int, what: str, like: tuple[str, ...] | None) -> ConditionColumns:
        """Columns of the conditions of rank above 0, in the order of training (or of ``like``, the other side)."""
        if not self._channels_are_shared():
            raise InputError(f"{what}: this model knows no channels that samples could share; leave it out.")
        columns = conditions(channels).ordered(self._condition_names(like))
        for column in columns.values:
            check_length(what, encode(column, what=what)[0], range(n))
        return ConditionColumns(
            tuple(columns.names[k] for k in self._kept()), tuple(columns.values[k] for k in self._kept())
        )

    def _channel_codes(
        self, channels: Any, n: int, what: str, like: tuple[str, ...] | None = None
    ) -> tuple[IntArray, tuple[tuple[Hashable, ...], ...]]:
        """Codes (n, conditions) and labels of given channels; -1 where there is none."""
        if channels is None:
            return np.full((n, len(self._kept())), MISSING, dtype=np.int64), tuple(() for _ in self._kept())
        found = [encode(column, what=what) for column in self._columns(channels, n, what, like).values]
        codes = np.stack([codes for codes, _ in found], axis=1) if found else np.zeros((n, 0), dtype=np.int64)
        return codes, tuple(tuple(labels) for _, labels in found)

    def _labels_like(
        self,
        channels: Any,
        labels: tuple[tuple[Hashable, ...], ...],
        n: int,
        what: str,
        like: tuple[str, ...] | None = None,
    ) -> tuple[IntArray, tuple[tuple[Hashable, ...], ...]]:
        """Codes of channels as positions in given labels, -1 where there is none; new labels are added behind."""
        if channels is None:
            return np.full((n, len(labels)), MISSING, dtype=np.int64), labels
        codes, names = self._channel_codes(channels, n, what, like)
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
        return first, self._labels_like(test_channels, labels, m, "test_channels", names_of(enroll_channels))[0]

    def _set_codes(
        self, sides: list[list[Array]], channels_a: Any, channels_b: Any, seen: KnownChannels | None
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
                codes, labels = self._labels_like(one, labels, len(phi), "channels of a set", names_of(channels_a[0]))
                mine.append(codes)
            result.append(mine)
        return result

    def _training_or_missing(self) -> TrainingPosterior:
        """What training has seen; an AttributeError (as scikit-learn expects) where there is nothing."""
        check_is_fitted(self)
        if self.seen_ is None:
            raise AttributeError("this model does not know its training speakers")
        return self.seen_

    def _seen(self) -> KnownChannels:
        check_is_fitted(self)
        training = self.seen_
        if training is None:
            raise InputError(
                "This model does not know its training channels and speakers: it was made from parameters, or training "
                "had too many of them to keep."
            )
        parameters, shareable = self._shareable()
        return KnownChannels(parameters, shareable, training)

    def _seen_or_none(self) -> KnownChannels | None:
        return None if getattr(self, "seen_", None) is None else self._seen()

    def _any_seen(self, *channels: Any) -> bool:
        """Whether any given label is one of training's."""
        seen = self._seen_or_none()
        if seen is None:
            return False
        found = False
        for one in channels:
            if one is not None:
                _, names = self._channel_codes(one, len(conditions(one).values[0]), "channels")
                for trained, labels in zip(seen.labels, names, strict=True):
                    common = set(labels) & set(trained)
                    found = found or bool(common)
                    if not common and {str(label) for label in labels} & {str(label) for label in trained}:
                        warn(
                            f"No label of these channels is one of training's, though some look alike: "
                            f"{labels[0]!r} is not {trained[0]!r}. Are they of another type?"
                        )
        return found

    def _condition(self, condition: Any) -> int:
        """Position of a condition among those of rank above 0."""
        most = len(self.channel_ranks_) - 1
        if not self._kept():
            raise InputError("This model has no channels that samples could share.")
        k = int(check_number("condition", condition, 0, most, whole=True))
        if k not in self._kept():
            raise InputError(f"condition: {k} has rank 0, so nothing is known of its channels.")
        return self._kept().index(k)

    def _weights(self, channel_weights: Any) -> list[Array]:
        """Probabilities of the training channels and of a new one, for each condition of rank above 0."""
        seen, K = self._seen(), len(self.channel_ranks_)
        many = isinstance(channel_weights, (list, tuple))
        if many and len(channel_weights) != K:
            raise InputError(f"channel_weights: expected {K}, one per condition, got {len(channel_weights)}.")
        given = [channel_weights[k] if many else channel_weights for k in self._kept()]
        return [
            _normalised(one, seen.training.channels[k - 1], seen.training.channel_counts[k - 1])
            for k, one in zip(seen.conditions, given, strict=True)
        ]


def _normalised(weights: Any, labels: tuple[Hashable, ...], counts: Array) -> Array:
    """Weights of the training channels and, last, of a new one, adding up to 1."""
    if isinstance(weights, str) and weights == "estimated":
        # One more channel is as probable as an average one.
        values = np.append(counts, counts.mean() if len(counts) else 1.0)
    elif isinstance(weights, Mapping):
        unknown = [label for label in weights if label is not None and label not in labels]
        if unknown:
            raise InputError(f"channel_weights: {unknown[:3]} are not channels of training.")
        try:
            values = np.array([float(weights.get(label, 0.0)) for label in (*labels, None)])
        except (TypeError, ValueError):
            raise InputError("channel_weights: expected numbers.") from None
    else:
        raise InputError('channel_weights: expected "estimated" or a mapping from channels to probabilities.')
    if not np.isfinite(values).all() or (values < 0).any() or values.sum() <= 0:
        raise InputError("channel_weights: expected finite weights of at least 0, not all 0.")
    result: Array = values / values.sum()
    return result


def names_of(channels: Any) -> tuple[str, ...] | None:
    """Names of the conditions that channels were given with."""
    return None if channels is None else conditions(channels).names


def score_dtype(dtype: Any, *sides: Any) -> Any:
    """The type of scores: as asked, or float32 if all sides are."""
    if dtype is None:
        kinds = [
            side.table.dtype if isinstance(side, PreparedSide) else getattr(side, "dtype", np.float64) for side in sides
        ]
        return np.float32 if all(kind == np.float32 for kind in kinds) else np.float64
    if np.dtype(dtype) not in (np.float32, np.float64):
        raise InputError(f"dtype: expected float32 or float64, got {dtype!r}.")
    return np.dtype(dtype)


def beam_width(beam: Any) -> int | None:
    """A whole number of partitions, or None for all of them while they are few."""
    return None if beam is None else int(check_number("beam", beam, 1, whole=True))


def check_length(what: str, codes: Any, samples: Any) -> None:
    """One label per sample."""
    if len(codes) != len(samples):
        raise InputError(f"{what}: expected {len(samples)} labels, one per sample, got {len(codes)}.")


def checked_pairs(pairs: Any, n: int, m: int) -> IntArray:
    """Trials as (n, 2) rows within range."""
    rows = np.asarray(pairs)
    if rows.size == 0:
        return np.zeros((0, 2), dtype=np.int64)
    if rows.ndim != 2 or rows.shape[1] != 2 or rows.dtype.kind not in "iu":
        raise InputError(f"pairs: expected integers of shape (trials, 2), got {rows.dtype} of shape {rows.shape}.")
    rows = rows.astype(np.int64, copy=False)
    bad = np.flatnonzero((rows < 0).any(axis=1) | (rows[:, 0] >= n) | (rows[:, 1] >= m))
    if len(bad):
        raise InputError(
            f"pairs: row {bad[0]} is {rows[bad[0]].tolist()}, out of range for {n} enrollment and {m} test rows."
        )
    return rows


def checked_sets(sets: Any, what: str) -> list[Any]:
    """Sets as a list."""
    if isinstance(sets, np.ndarray) and sets.ndim != 3:
        raise InputError(f"{what}: expected a list of (n, d) arrays, one per set, got an array of shape {sets.shape}.")
    if not isinstance(sets, Iterable):
        raise InputError(f"{what}: expected a list of (n, d) arrays, one per set, got {type(sets).__name__}.")
    found = list(sets)
    if not found:
        raise InputError(f"{what}: expected at least one set of samples.")
    return found


def chosen_models(enrollment: Enrollment, models: Any) -> Any:
    """Positions of the asked models."""
    if models is None:
        return slice(None)
    if isinstance(models, str) or not isinstance(models, Iterable):
        raise InputError(f"models: expected a list of labels, got {models!r:.60}.")
    index = {label: i for i, label in enumerate(enrollment.models)}
    models = list(models)
    unknown = [label for label in models if label not in index]
    if unknown:
        raise InputError(f"models: {len(unknown)} of them were not enrolled, such as {unknown[:3]}.")
    return [index[label] for label in models]
