"""Folds of speakers: what each model is trained on, and whom it is tried on."""

import numbers
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from jointplda import sample_matrix
from jointplda._typing import AnyArray, Array, IntArray
from jointplda._validation import check_number
from jointplda.errors import InputError
from jointplda.labels import MISSING
from jointplda.model.statistics import Statistics, encode_all
from jointplda.selection.fold_trials import Pairs, all_pairs, some_rows


@dataclass(frozen=True)
class Fold:
    """Statistics of all other speakers, and samples of the speakers held out.

    Attributes
    ----------
    training : Statistics
        Of the speakers of all other folds: the sum of their statistics.
    X : (n, d)
        Samples held out.
    codes : (n, 1 + conditions)
        Their speakers and channels.
    pairs : Pairs
        All pairs of them.
    channel_labels : tuple of tuples
        Labels that the codes of each condition stand for.
    """

    training: Statistics
    X: Array
    codes: IntArray
    pairs: Pairs
    channel_labels: tuple[tuple[Hashable, ...], ...]


@dataclass(frozen=True)
class Folds:
    """Everything cross-validation needs: statistics of all samples, and the folds."""

    statistics: Statistics
    folds: tuple[Fold, ...]

    @property
    def speakers(self) -> int:
        """Speakers held out, of all folds."""
        return sum(len(np.unique(fold.codes[:, 0])) for fold in self.folds)


def make_folds(X: Any, y: Any, channels: Any, cv: Any, rng: np.random.Generator) -> Folds:
    """Divide the speakers among folds, each summed once; labels are encoded once for all.

    Parameters
    ----------
    cv : int, scikit-learn splitter, or iterable of (train, test) rows
        A number of folds, among which the speakers are divided at random; or splits of the rows in which no speaker
        is in both parts, such as those of ``GroupKFold``, whose groups are the speakers.
    """
    matrix = sample_matrix.as_matrix(X)
    codes, labels, conditions = encode_all(y, channels, len(matrix))
    encoded = _Encoded(matrix, codes, labels, conditions)
    if isinstance(cv, numbers.Integral | str) or not (hasattr(cv, "split") or isinstance(cv, Iterable)):
        return _random_folds(encoded, int(check_number("cv", cv, 2, whole=True)), rng)
    splits = cv.split(matrix, codes[:, 0], groups=codes[:, 0]) if hasattr(cv, "split") else cv
    folds = [_given_fold(encoded, split, rng) for split in splits]
    if len(folds) < 2:
        raise InputError(f"expected two splits or more, got {len(folds)}.", parameter="cv")
    return Folds(encoded.statistics(None), tuple(folds))


@dataclass(frozen=True)
class _Encoded:
    """Samples with encoded labels."""

    matrix: AnyArray
    codes: IntArray
    labels: tuple[tuple[Hashable, ...], ...]
    conditions: tuple[str, ...]

    def statistics(self, rows: IntArray | None) -> Statistics:
        """Sums of some rows, or of all. A weight of one each makes the same product whether or not it is needed."""
        weights = None if rows is None else np.ones(len(rows))
        return Statistics.from_codes(self.matrix, self.codes, self.labels, self.conditions, rows=rows, weights=weights)

    def fold(self, training: Statistics, rows: IntArray, rng: np.random.Generator) -> Fold:
        """A fold that is tried on a bounded number of the given rows."""
        rows = rows[some_rows(self.codes[rows], rng)]
        held_out = np.asarray(self.matrix[rows], dtype=np.float64)
        codes = self.codes[rows]
        return Fold(training, held_out, codes, all_pairs(codes), tuple(self.labels[1:]))


def _random_folds(encoded: _Encoded, number: int, rng: np.random.Generator) -> Folds:
    """Statistics add up, so those of a fold's training speakers are sums of the others' and samples are read once."""
    codes = encoded.codes
    speakers = int(codes[:, 0].max()) + 1
    several = np.bincount(codes[:, 0]) > 1
    number = min(number, speakers // 2, int(np.count_nonzero(several)))
    if number < 2:
        advice = "Choose the settings yourself." if several.any() else "No model can be trained on one sample of each."
        raise InputError(
            f"Expected at least 4 speakers, and 2 with several samples each, to choose settings by holding speakers "
            f"out; got {speakers} speaker(s), {np.count_nonzero(several)} with several samples. {advice}"
        )
    fold_of = np.empty(speakers, dtype=np.int64)
    # Every fold gets its share of speakers, and of those that can make target trials.
    members = np.concatenate([rng.permutation(np.flatnonzero(group)) for group in (several, ~several)])
    fold_of[members] = np.arange(speakers) % number
    which = fold_of[codes[:, 0]]
    rows = [np.flatnonzero(which == i) for i in range(number)]
    parts = [encoded.statistics(rows[i]) for i in range(number)]
    folds = [
        encoded.fold(Statistics.sum(part for j, part in enumerate(parts) if j != i), rows[i], rng)
        for i in range(number)
    ]
    return Folds(Statistics.sum(parts), tuple(folds))


def _given_fold(encoded: _Encoded, split: Any, rng: np.random.Generator) -> Fold:
    """A fold from rows of training and rows to hold out."""
    try:
        train, test = (np.asarray(rows, dtype=np.int64) for rows in split)
    except (TypeError, ValueError):
        raise InputError(
            "expected a number of folds, a scikit-learn splitter, or pairs of row numbers (train, test).",
            parameter="cv",
        ) from None
    both = np.intersect1d(encoded.codes[train, 0], encoded.codes[test, 0])
    if len(both):
        speaker = encoded.labels[0][int(both[0])]
        raise InputError(
            f"expected splits in which no speaker is on both sides, got {len(both)} such speaker(s), for example "
            f"{speaker!r:.60}. Use GroupKFold, or a number of folds.",
            parameter="cv",
        )
    counts = np.bincount(encoded.codes[test, 0]) if len(test) else np.zeros(1, dtype=np.int64)
    if np.count_nonzero(counts) < 2 or counts.max() < 2:
        raise InputError(
            "expected two or more speakers in every held-out part, one of them with two or more samples.",
            parameter="cv",
        )
    return encoded.fold(encoded.statistics(train), test, rng)


def moved_samples(fold: Fold, condition: int, distance: float, rng: np.random.Generator) -> Array:
    """Held-out samples (n, d) as they might be in another channel of training, of one of the conditions.

    A sample m of channel a becomes m + distance (mean of b - mean of a), for a random other channel b; the means are
    those of the training speakers. A channel that none of them was heard in counts as the mean of all.
    """
    offsets, heard = _channel_offsets(fold.training, 1 + condition, fold.channel_labels[condition])
    moved = fold.X.copy()
    for i, own in enumerate(fold.codes[:, 1 + condition]):
        others = heard[heard != own]
        if len(others):
            here = offsets[own] if own != MISSING else 0.0
            moved[i] += distance * (offsets[rng.choice(others)] - here)
    return moved


def _channel_offsets(training: Statistics, k: int, labels: tuple[Hashable, ...]) -> tuple[Array, IntArray]:
    """Mean of each channel less the mean of all, (channels, d), and the channels that were heard."""
    place = {label: i for i, label in enumerate(labels)}
    where = np.array([place[label] for label in training.labels[k]], dtype=np.int64)
    sums, counts = np.zeros((len(labels), training.n_features)), np.zeros(len(labels))
    sums[where], counts[where] = training.level_sums(k), training.level_counts(k)
    heard = np.flatnonzero(counts)
    offsets = np.zeros_like(sums)
    offsets[heard] = sums[heard] / counts[heard, None] + training.shift - training.mean
    return offsets, heard
