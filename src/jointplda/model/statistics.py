"""Sufficient statistics: the samples are read once, and EM never sees them again."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import add
from os import PathLike
from typing import Any

import numpy as np

from jointplda import sample_matrix
from jointplda._pairwise import merged_pairwise
from jointplda._typing import AnyArray, Array, BoolArray, IntArray
from jointplda.errors import Advice, InputError
from jointplda.labels import MISSING, ConditionColumns, conditions, encode, match_conditions
from jointplda.model.row_sums import pattern_sums, patterns
from jointplda.model.sums import PatternSums
from jointplda.storage.records import read_record, write_record

Pattern = tuple[bool, ...]


@dataclass(frozen=True)
class Statistics:
    """All that training needs to know of a set of labelled embeddings.

    A factor is the speaker or a nuisance condition, and a level is one of its values. The statistics hold the number
    and the sum of the samples of each level; the number of samples that carry each pair of levels; and N, sum m and
    S = sum m m'. Statistics of disjoint sets of samples add up: ``a + b``, in any order and with any labels.

    Samples are summed around ``shift``, a fixed vector near the mean, because S - W T would cancel badly otherwise.
    Statistics with other shifts are moved exactly when they are added.

    Attributes
    ----------
    labels : tuple of tuples
        Labels of the speakers, then of the channels of each condition.
    conditions : tuple of str
        Names of the nuisance conditions.
    shift : (d,)
    parts : mapping
        ``PatternSums`` by missing-label pattern: for each condition, whether these samples have a label of it. A
        sample without a label has a level of its own, which needs no entry in any table.

    Examples
    --------
    >>> import numpy as np
    >>> X, speakers = np.eye(4), ["ann", "ann", "bob", "bob"]
    >>> a = Statistics.from_samples(X[:2], speakers[:2], channels=["en", "fr"])
    >>> b = Statistics.from_samples(X[2:], speakers[2:], channels=["fr", None])
    >>> (a + b).n_samples, (a + b).n_speakers, (a + b).n_channels
    (4.0, 2, (2,))
    """

    labels: tuple[tuple[Hashable, ...], ...]
    conditions: tuple[str, ...]
    shift: Array
    parts: Mapping[Pattern, PatternSums]

    @classmethod
    def from_samples(
        cls,
        X: Any,
        y: Any,
        channels: Any = None,
        *,
        sample_weight: Any = None,
        shift: Any = None,
        cells: bool = False,
        double: bool = False,
    ) -> "Statistics":
        """Sum samples by label.

        Parameters
        ----------
        X : (n, d) array
            Embeddings; they are read in chunks, so a memmap is never loaded whole.
        y, channels
            As in ``JointPLDA.fit``.
        sample_weight : (n,) array, optional
            A sample of weight w counts as w samples.
        shift : (d,) array, optional
            Default: the mean of the first chunk.
        cells : bool
            Whether to sum by cell too, which a fit with an interaction needs.
        double : bool
            Whether S is always summed in double precision. Without this, from 100,000 float32 samples on it is summed
            in single precision within a chunk, in half the time, and is right to about 1e-7.
        """
        matrix = sample_matrix.as_matrix(X)
        codes, labels, names = encode_all(y, channels, len(matrix))
        weights = _checked_weights(sample_weight, len(matrix))
        rows = None
        if weights is not None and not weights.all():
            rows = np.flatnonzero(weights)
            weights = weights[rows]
        given = {"rows": rows, "weights": weights, "shift": shift, "cells": cells, "double": double}
        return cls.from_codes(matrix, codes, labels, names, **given)

    @classmethod
    def from_codes(
        cls,
        matrix: AnyArray,
        codes: IntArray,
        labels: tuple[tuple[Hashable, ...], ...],
        conditions: tuple[str, ...],
        *,
        rows: IntArray | None = None,
        weights: Array | None = None,
        shift: Any = None,
        cells: bool = False,
        double: bool = False,
    ) -> "Statistics":
        """Sum samples (n, d) whose labels ``encode_all`` has encoded.

        ``codes`` (n, 1 + conditions) are the speaker and the channels of each sample as positions in ``labels``, those
        of each factor; -1 where a channel is missing. Of the samples only ``rows`` (k,) are used, and the levels that
        they carry, with these ``weights`` (k,). The rest is as in ``from_samples``.
        """
        if rows is not None:
            codes, labels = _used_levels(codes[rows], labels)
        if shift is None:
            shift = next(sample_matrix.chunks(matrix, rows))[1].mean(axis=0)
        shift = np.asarray(shift, dtype=np.float64)
        if shift.shape != (matrix.shape[1],) or not np.isfinite(shift).all():
            problem = f"expected finite numbers of shape ({matrix.shape[1]},), got shape {shift.shape}."
            raise InputError(problem, parameter="shift")
        parts = {}
        for key, members in patterns(codes[:, 1:]):
            if len(members) == len(codes):
                parts[key] = pattern_sums(matrix, rows, codes, weights, shift, cells=cells, double=double)
                continue
            part_rows = members if rows is None else rows[members]
            part_weights = None if weights is None else weights[members]
            parts[key] = pattern_sums(
                matrix, part_rows, codes[members], part_weights, shift, cells=cells, double=double
            )
        return cls(labels, conditions, shift, parts)

    @classmethod
    def from_chunks(cls, chunks: Iterable[Sequence[Any]], *, cells: bool = False) -> "Statistics":
        """Sum an iterable of chunks ``(X, y)`` or ``(X, y, channels)``; only one chunk is in memory at a time.

        ``cells`` is as in ``from_samples``.
        """
        return cls.sum(cls.from_samples(*_checked_chunk(chunk), cells=cells) for chunk in chunks)

    @classmethod
    def sum(cls, statistics: Iterable["Statistics"]) -> "Statistics":
        """Add many statistics as a pairwise tree, which needs fewer merges than adding them one after the other."""
        total = merged_pairwise(statistics, add)
        if total is None:
            raise InputError("Expected at least one chunk of samples, got none.")
        return total

    def __add__(self, other: "Statistics") -> "Statistics":
        if not isinstance(other, Statistics):
            return NotImplemented
        if len(self.shift) != len(other.shift):
            raise InputError(f"Cannot add statistics of dimension {len(self.shift)} and {len(other.shift)}.")
        other = other.with_conditions(match_conditions(self.conditions, other.conditions))
        found = [_joined_labels(*both) for both in zip(self.labels, self._positions, other.labels, strict=True)]
        parts = dict(self.parts)
        for pattern, part in other.parts.items():
            moved = part.moved(other.shift - self.shift).relabelled(lambda k: found[k].renamed)
            parts[pattern] = parts[pattern] + moved if pattern in parts else moved
        result = Statistics(tuple(one.labels for one in found), self.conditions, self.shift, parts)
        result.__dict__["_positions"] = tuple(one.positions for one in found)
        return result

    def __radd__(self, other: object) -> "Statistics":
        return self if other == 0 else NotImplemented

    @cached_property
    def _positions(self) -> tuple[dict[Hashable, int], ...]:
        """Position of every label of each factor, and perhaps of labels that sums with these statistics added later."""
        return tuple({label: i for i, label in enumerate(levels)} for levels in self.labels)

    @property
    def n_samples(self) -> float:
        """Number (or total weight) of samples."""
        return float(sum(part.count for part in self.parts.values()))

    @property
    def n_features(self) -> int:
        """Dimension d of the embeddings."""
        return len(self.shift)

    @property
    def n_speakers(self) -> int:
        """Number of speakers."""
        return len(self.labels[0])

    @property
    def n_channels(self) -> tuple[int, ...]:
        """Number of labelled channels of each condition."""
        return tuple(len(labels) for labels in self.labels[1:])

    def level_counts(self, k: int) -> Array:
        """Number (or weight) of the samples of each level of factor k, (levels,)."""
        counts = np.zeros(len(self.labels[k]))
        for part in self.parts.values():
            if k in part.levels:
                counts[part.levels[k].index] += part.levels[k].counts
        return counts

    def level_sums(self, k: int) -> Array:
        """Sum of (m - shift) over the samples of each level of factor k, (levels, d)."""
        sums = np.zeros((len(self.labels[k]), self.n_features))
        for part in self.parts.values():
            if k in part.levels:
                sums[part.levels[k].index] += part.levels[k].sums
        return sums

    @property
    def mean(self) -> Array:
        """Mean of the samples, (d,)."""
        total = np.sum([part.total for part in self.parts.values()], axis=0)
        result: Array = self.shift + total / self.n_samples
        return result

    @property
    def covariance(self) -> Array:
        """Covariance of the samples around their mean, (d, d)."""
        scatter = np.sum([part.scatter for part in self.parts.values()], axis=0)
        away = self.mean - self.shift
        result: Array = scatter / self.n_samples - np.outer(away, away)
        return result

    @property
    def constant(self) -> BoolArray:
        """Whether each dimension is the same in all samples, up to rounding, (d,)."""
        result: BoolArray = np.diagonal(self.covariance) <= (1e-12 * self.mean) ** 2
        return result

    @property
    def scales(self) -> Array:
        """Variance of each dimension, (d,); a constant dimension gets the average of the others, or 1."""
        variances, constant = np.diagonal(self.covariance), self.constant
        usual = 1.0 if constant.all() else float(variances[~constant].mean())
        return np.where(constant, usual, variances)

    def without_channels(self) -> "Statistics":
        """Statistics of the same samples without any condition."""
        return self.with_conditions(())

    def with_conditions(self, kept: Sequence[int]) -> "Statistics":
        """Statistics of the same samples with only these conditions (positions in ``conditions``)."""
        if list(kept) == list(range(len(self.conditions))):
            return self
        factors = {0: 0} | {1 + k: 1 + i for i, k in enumerate(kept)}
        labels = (self.labels[0], *(self.labels[1 + k] for k in kept))
        return self._with_conditions(factors, labels, tuple(self.conditions[k] for k in kept))

    def with_used_levels(self) -> "Statistics":
        """Statistics of the same samples without the labels that none of them has."""
        used = [np.flatnonzero(self.level_counts(k)) for k in range(len(self.labels))]
        if all(len(own) == len(labels) for own, labels in zip(used, self.labels, strict=True)):
            return self
        new_index = []
        for own, of in zip(used, self.labels, strict=True):
            new_index.append(np.full(len(of), -1))
            new_index[-1][own] = np.arange(len(own))
        labels = [tuple(of[b] for b in own.tolist()) for of, own in zip(self.labels, used, strict=True)]
        parts = {pattern: part.relabelled(new_index.__getitem__) for pattern, part in self.parts.items()}
        return Statistics(tuple(labels), self.conditions, self.shift, parts)

    def with_channel_per_sample(self) -> "Statistics":
        """Statistics of the same samples, each in a channel of its own (the paper's eq. 1)."""
        return self._with_conditions({0: 0}, (self.labels[0], ()), ("sample",))

    def _with_conditions(
        self, factors: Mapping[int, int], labels: tuple[tuple[Hashable, ...], ...], names: tuple[str, ...]
    ) -> "Statistics":
        parts: dict[Pattern, PatternSums] = {}
        for part in self.parts.values():
            fewer = part.only(factors)
            pattern = tuple(k + 1 in fewer.levels for k in range(len(names)))
            parts[pattern] = parts[pattern] + fewer if pattern in parts else fewer
        return Statistics(labels, names, self.shift, parts)

    def save(self, path: str | PathLike[str]) -> None:
        """Write to a safetensors file; labels must be strings, numbers, booleans or tuples of these."""
        write_record(path, "statistics", self)

    @classmethod
    def load(cls, path: str | PathLike[str], *, rows_in_file: bool = False) -> "Statistics":
        """Read what ``save`` wrote.

        With ``rows_in_file`` large sums of speakers and cells stay in the file, from which a fit reads a block at a
        time; the file must not change meanwhile.
        """
        return read_record(path, "statistics", cls, rows_in_file=rows_in_file)


@dataclass(frozen=True)
class _JoinedLabels:
    """Labels of a sum, their positions, and the position there of every label of the second summand."""

    labels: tuple[Hashable, ...]
    positions: dict[Hashable, int]
    renamed: IntArray


def _joined_labels(
    labels: tuple[Hashable, ...], positions: dict[Hashable, int], others: tuple[Hashable, ...]
) -> _JoinedLabels:
    """Labels, and after them the others that are new.

    The sum takes over ``positions`` and adds to it, so that a long sum does not build it anew with every summand. Where
    another sum has done so before, or does so at the same time in another thread, there are more positions than labels:
    then they are built anew.
    """
    if len(positions) == len(labels):
        renamed = np.fromiter((positions.setdefault(label, len(positions)) for label in others), np.int64, len(others))
        fresh = tuple(others[i] for i in np.flatnonzero(renamed >= len(labels)).tolist())
        if len(positions) == len(labels) + len(fresh):
            return _JoinedLabels(labels + fresh, positions, renamed)
    return _joined_labels(labels, {label: i for i, label in enumerate(labels)}, others)


def encode_all(
    y: Any, channels: Any, n_samples: int
) -> tuple[IntArray, tuple[tuple[Hashable, ...], ...], tuple[str, ...]]:
    """Encode the labels of n samples: codes (n, 1 + conditions), the labels of each factor, names of the conditions."""
    columns = conditions(channels) if channels is not None else ConditionColumns((), ())
    names = columns.names
    codes, labels = [], []
    parameters = ["y", *("channels" for _ in names)]
    for parameter, column in zip(parameters, [y, *columns.values], strict=True):
        if column is None:
            raise InputError("expected one label per sample, got None.", parameter=parameter)
        code, levels = encode(column, what=parameter)
        if len(code) != n_samples:
            hint = Advice("Several conditions are columns: np.column_stack([a, b]).", "")
            problem = f"expected {n_samples} labels, one per row of X, got {len(code)}."
            raise InputError(problem, parameter=parameter, remedy=hint if len(names) == n_samples else None)
        codes.append(code)
        labels.append(tuple(levels))
    if (codes[0] == MISSING).any():
        rows = np.flatnonzero(codes[0] == MISSING)[:5].tolist()
        raise InputError(f"every sample needs a speaker, and row(s) {rows} have none.", parameter="y")
    return np.stack(codes, axis=1), tuple(labels), names


def _checked_chunk(chunk: Any) -> Sequence[Any]:
    if not isinstance(chunk, (tuple, list)) or len(chunk) not in (2, 3):
        raise InputError(f"Expected chunks (X, y) or (X, y, channels), got {type(chunk).__name__}.")
    return chunk


def _checked_weights(sample_weight: Any, n_samples: int) -> Array | None:
    if sample_weight is None:
        return None
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("expected one number per sample.", parameter="sample_weight") from None
    if weights.shape != (n_samples,):
        raise InputError(f"expected shape ({n_samples},), got {weights.shape}.", parameter="sample_weight")
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise InputError("expected finite weights of at least 0, not all 0.", parameter="sample_weight")
    return weights


def _used_levels(
    codes: IntArray, labels: tuple[tuple[Hashable, ...], ...]
) -> tuple[IntArray, tuple[tuple[Hashable, ...], ...]]:
    """Drop the levels that no sample carries."""
    codes, fewer = codes.copy(), []
    for k, levels in enumerate(labels):
        used = np.unique(codes[codes[:, k] != MISSING, k])
        codes[:, k] = np.where(codes[:, k] == MISSING, MISSING, np.searchsorted(used, codes[:, k]))
        fewer.append(tuple(levels[i] for i in used))
    return codes, tuple(fewer)
