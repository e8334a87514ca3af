"""Folds of speakers for cross-validation."""

import numbers
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jointplda import sample_matrix
from jointplda._typing import AnyArray, Array, IntArray
from jointplda._validation import check_number
from jointplda.errors import InputError
from jointplda.labels import MISSING
from jointplda.model.fit import FitMemory, fit
from jointplda.model.fitted import FittedModel
from jointplda.model.settings import ModelSettings
from jointplda.model.statistics import Statistics, encode_all
from jointplda.selection.fold_trials import Pairs, all_pairs, trial_rows


@dataclass(frozen=True)
class Recipe:
    """How embeddings become a fitted model.

    Attributes
    ----------
    settings : ModelSettings
        Of the model.
    front_end : tuple of transformers
        Unfitted steps that come before the model.
    """

    settings: ModelSettings
    front_end: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Fold:
    """Statistics of the speakers to train on, and samples of the speakers held out.

    Attributes
    ----------
    training : Statistics
        Statistics of the speakers of all other folds.
    X : (n, d)
        Held-out samples.
    codes : (n, 1 + conditions)
        Their speakers and channels.
    pairs : Pairs
        All pairs of them.
    channel_labels : tuple of tuples
        Labels of the codes of each condition.
    memory : FitMemory
        What fits to the training speakers share.
    """

    training: Statistics
    X: Array
    codes: IntArray
    pairs: Pairs
    channel_labels: tuple[tuple[Hashable, ...], ...]
    memory: FitMemory = field(default_factory=FitMemory)

    def fitted(self, recipe: Recipe) -> FittedModel:
        """The model of a recipe, fitted to the training speakers."""
        return fit(self.training, recipe.settings, memory=self.memory)


@dataclass(frozen=True)
class Folds:
    """The statistics of all samples, and the folds."""

    statistics: Statistics
    folds: tuple[Fold, ...]

    @property
    def speakers(self) -> int:
        """Number of speakers who are held out in some fold."""
        return len(np.unique(np.concatenate([fold.codes[:, 0] for fold in self.folds])))


def make_folds(X: Any, y: Any, channels: Any, cv: Any, rng: np.random.Generator) -> Folds:
    """Divide the speakers among folds; ``cv`` is as in ``JointPLDACV``."""
    matrix = sample_matrix.as_matrix(X)
    codes, labels, conditions = encode_all(y, channels, len(matrix))
    encoded = _Encoded(matrix, codes, labels, conditions)
    if isinstance(cv, numbers.Integral | str) or not (hasattr(cv, "split") or isinstance(cv, Iterable)):
        return _random_folds(encoded, int(check_number("cv", cv, 2, whole=True)), rng)
    splits = cv.split(matrix, codes[:, 0], groups=codes[:, 0]) if hasattr(cv, "split") else cv
    folds = [_fold_of_split(encoded, split, rng) for split in splits]
    if len(folds) < 2:
        raise InputError(f"expected two splits or more, got {len(folds)}.", parameter="cv")
    return Folds(encoded.statistics(None), tuple(folds))


@dataclass(frozen=True)
class _Encoded:
    """Samples with encoded labels; see ``encode_all``."""

    matrix: AnyArray
    codes: IntArray
    labels: tuple[tuple[Hashable, ...], ...]
    conditions: tuple[str, ...]

    def statistics(self, rows: IntArray | None) -> Statistics:
        """Statistics of these rows, or of all. Weights of 1 keep the rounding that folds have always had."""
        weights, cells = None if rows is None else np.ones(len(rows)), bool(self.conditions)
        encoded = self.matrix, self.codes, self.labels, self.conditions
        return Statistics.from_codes(*encoded, rows=rows, weights=weights, cells=cells)

    def fold(self, training: Statistics, rows: IntArray, rng: np.random.Generator) -> Fold:
        """A fold that holds out these rows, of which it keeps a limited number."""
        rows = rows[trial_rows(self.codes[rows], rng)]
        X, codes = np.asarray(self.matrix[rows], dtype=np.float64), self.codes[rows]
        return Fold(training, X, codes, all_pairs(codes), tuple(self.labels[1:]))


def _random_folds(encoded: _Encoded, number: int, rng: np.random.Generator) -> Folds:
    """Folds of random speakers; the training statistics of each are sums of the others', so samples are read once."""
    codes = encoded.codes
    speakers = int(codes[:, 0].max()) + 1
    several = np.bincount(codes[:, 0]) > 1
    number = min(number, speakers // 2, int(np.count_nonzero(several)))
    if number < 2:
        advice = "Choose the settings yourself." if several.any() else "No model can be trained on one sample of each."
        raise InputError(
            f"Expected at least 4 speakers, 2 of them with several samples, to choose settings on held-out speakers; "
            f"got {speakers} speaker(s), {np.count_nonzero(several)} with several samples. {advice}"
        )
    fold_of = np.empty(speakers, dtype=np.int64)
    # Every fold gets its share of the speakers with several samples, which make target trials.
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


def _fold_of_split(encoded: _Encoded, split: Any, rng: np.random.Generator) -> Fold:
    """A fold from the rows to train on and the rows to hold out."""
    try:
        train, test = (np.asarray(rows).astype(np.int64, casting="safe") for rows in split)
    except (TypeError, ValueError):
        problem = "expected a number of folds, a scikit-learn splitter, or pairs of row numbers (train, test)."
        raise InputError(problem, parameter="cv") from None
    both = np.intersect1d(encoded.codes[train, 0], encoded.codes[test, 0])
    if len(both):
        example = f"{len(both)} speaker(s) on both sides, such as {encoded.labels[0][int(both[0])]!r:.60}"
        raise InputError(f"a split has {example}. Use GroupKFold, or a number of folds.", parameter="cv")
    counts = np.bincount(encoded.codes[test, 0]) if len(test) else np.zeros(1, dtype=np.int64)
    if np.count_nonzero(counts) < 2 or counts.max() < 2:
        problem = "expected two or more held-out speakers in every split, one of them with two or more samples."
        raise InputError(problem, parameter="cv")
    return encoded.fold(encoded.statistics(train), test, rng)


def moved_samples(fold: Fold, condition: int, distance: float, rng: np.random.Generator) -> Array:
    """Held-out samples (n, d) moved to another channel of a condition.

    A sample m of channel a becomes m + distance (mean of b - mean of a), for a random other channel b. The means are
    those of the training speakers; a channel that none of them was heard in has the mean of all.
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
    """Mean of each channel minus the mean of all, (channels, d), and the channels that occur in training."""
    place = {label: i for i, label in enumerate(labels)}
    where = np.array([place[label] for label in training.labels[k]], dtype=np.int64)
    sums, counts = np.zeros((len(labels), training.n_features)), np.zeros(len(labels))
    sums[where], counts[where] = training.level_sums(k), training.level_counts(k)
    heard = np.flatnonzero(counts)
    offsets = np.zeros_like(sums)
    offsets[heard] = sums[heard] / counts[heard, None] + training.shift - training.mean
    return offsets, heard
