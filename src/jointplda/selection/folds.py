"""Folds of speakers for cross-validation."""

import numbers
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jointplda import sample_matrix
from jointplda._typing import AnyArray, Array, IntArray
from jointplda._validation import check_number
from jointplda.errors import Advice, InputError
from jointplda.labels import MISSING
from jointplda.linalg import sums_by_level
from jointplda.model.fit import FitMemory, fit
from jointplda.model.fitted import FittedModel
from jointplda.model.settings import ModelSettings
from jointplda.model.statistics import Statistics, encode_all
from jointplda.preprocessing.front_ends import FrontEnd, applied
from jointplda.selection.fold_trials import Pairs, all_pairs, trial_rows

ONE_FIT = Advice("Choose the settings yourself.", "train --no-auto trains without a search.")


@dataclass(frozen=True)
class Recipe:
    """How embeddings become a fitted model: by the steps of a front end, and by a model with these settings."""

    front_end: FrontEnd
    settings: ModelSettings


@dataclass(frozen=True)
class Split:
    """Rows of the samples, of which a fold trains on some and keeps a limited number of others for trials.

    Attributes
    ----------
    training : (n,) int
    held_out : (m,) int
    codes : (m, 1 + conditions)
        Speakers and channels of the samples held out.
    pairs : Pairs
        All pairs of them.
    """

    training: IntArray
    held_out: IntArray
    codes: IntArray
    pairs: Pairs


@dataclass(frozen=True)
class Fold:
    """What a front end, fitted to the training samples of a split alone, makes of it.

    Attributes
    ----------
    steps : tuple of transformers
        The front end.
    training : Statistics
        Statistics of the training samples.
    X : (m, d)
        Samples held out.
    memory : FitMemory
        What fits to the training samples share.
    """

    steps: tuple[Any, ...]
    training: Statistics
    X: Array
    memory: FitMemory

    def fitted(self, settings: ModelSettings) -> FittedModel:
        """The model of these settings, fitted to the training samples."""
        return fit(self.training, settings, memory=self.memory)


@dataclass(frozen=True)
class Whole:
    """What a front end, fitted to all samples, makes of them: its fitted steps, and statistics."""

    steps: tuple[Any, ...]
    statistics: Statistics


@dataclass(frozen=True)
class Folds:
    """Samples with encoded labels (see ``encode_all``), and how they are divided; front ends are fitted once."""

    matrix: AnyArray
    codes: IntArray
    labels: tuple[tuple[Hashable, ...], ...]
    conditions: tuple[str, ...]
    splits: tuple[Split, ...]
    made: dict[tuple[str, int], Fold] = field(default_factory=dict)
    wholes: dict[str, Whole] = field(default_factory=dict)

    @property
    def speakers(self) -> int:
        """Number of speakers who are held out in some fold."""
        return len(np.unique(np.concatenate([split.codes[:, 0] for split in self.splits])))

    def whole(self, front_end: FrontEnd) -> Whole:
        """The front end fitted to all samples."""
        if front_end.name not in self.wholes:
            self.wholes[front_end.name] = Whole(*self._prepared(front_end, None))
        return self.wholes[front_end.name]

    def fold(self, front_end: FrontEnd, i: int) -> Fold:
        """The front end fitted to the training samples of a split."""
        key, split = (front_end.name, i), self.splits[i]
        if key not in self.made:
            steps, training = self._prepared(front_end, split.training)
            X = np.asarray(applied(steps, self.matrix[split.held_out]), dtype=np.float64)
            self.made[key] = Fold(steps, training, X, FitMemory())
        return self.made[key]

    def stretched(self, fold: Fold, i: int, factor: float) -> Array:
        """Samples held out, each ``factor`` times as far from the mean of its speaker, after the front end: (m, d).

        They make trials like those of the fold, but harder.
        """
        if factor == 1.0:
            return fold.X
        split = self.splits[i]
        X, (_, own) = (
            np.asarray(self.matrix[split.held_out], np.float64),
            np.unique(split.codes[:, 0], return_inverse=True),
        )
        means = (sums_by_level(own, X, int(own.max()) + 1) / np.bincount(own)[:, None])[own]
        return np.asarray(applied(fold.steps, means + factor * (X - means)), dtype=np.float64)

    def _prepared(self, front_end: FrontEnd, rows: IntArray | None) -> tuple[tuple[Any, ...], Statistics]:
        """The steps fitted to these rows (None: all), and the statistics of what they make of them."""
        cells, matrix, codes = bool(self.conditions), self.matrix, self.codes
        if not front_end.steps:
            return (), Statistics.from_codes(matrix, codes, self.labels, self.conditions, rows=rows, cells=cells)
        matrix, codes = (matrix, codes) if rows is None else (matrix[rows], codes[rows])
        steps, X = front_end.fitted(matrix, codes[:, 0])
        everything = np.arange(len(X))
        return steps, Statistics.from_codes(X, codes, self.labels, self.conditions, rows=everything, cells=cells)


def make_folds(X: Any, y: Any, channels: Any, cv: Any, rng: np.random.Generator) -> Folds:
    """Divide the speakers among folds; ``cv`` is as in ``JointPLDACV``."""
    matrix = sample_matrix.as_matrix(X)
    codes, labels, conditions = encode_all(y, channels, len(matrix))
    if isinstance(cv, numbers.Integral | str) or not (hasattr(cv, "split") or isinstance(cv, Iterable)):
        splits = _random_splits(codes, int(check_number("cv", cv, 2, whole=True)), rng)
    else:
        rows = cv.split(matrix, codes[:, 0], groups=codes[:, 0]) if hasattr(cv, "split") else cv
        splits = [_split_of_rows(codes, labels[0], split, rng) for split in rows]
        if len(splits) < 2:
            raise InputError(f"expected two splits or more, got {len(splits)}.", parameter="cv")
    return Folds(matrix, codes, labels, conditions, tuple(splits))


def _split(codes: IntArray, training: IntArray, rows: IntArray, rng: np.random.Generator) -> Split:
    """A split that holds out these rows, of which it keeps a limited number."""
    rows = rows[trial_rows(codes[rows], rng)]
    return Split(training, rows, codes[rows], all_pairs(codes[rows]))


def _random_splits(codes: IntArray, number: int, rng: np.random.Generator) -> list[Split]:
    """Splits of random speakers."""
    speakers = int(codes[:, 0].max()) + 1
    several = np.bincount(codes[:, 0]) > 1
    number = min(number, speakers // 2, int(np.count_nonzero(several)))
    if number < 2:
        problem = (
            f"Expected at least 4 speakers, 2 of them with several samples, to choose settings on held-out speakers; "
            f"got {speakers} speaker(s), {np.count_nonzero(several)} with several samples."
        )
        if speakers < 2 or not several.any():
            raise InputError(f"{problem} No model can be trained on one speaker, or on one sample of each.")
        raise InputError(problem, remedy=ONE_FIT)
    fold_of = np.empty(speakers, dtype=np.int64)
    # Every fold gets its share of the speakers with several samples, which make target trials.
    members = np.concatenate([rng.permutation(np.flatnonzero(group)) for group in (several, ~several)])
    fold_of[members] = np.arange(speakers) % number
    which = fold_of[codes[:, 0]]
    return [_split(codes, np.flatnonzero(which != i), np.flatnonzero(which == i), rng) for i in range(number)]


def _split_of_rows(codes: IntArray, speakers: tuple[Hashable, ...], split: Any, rng: np.random.Generator) -> Split:
    """A split from the rows to train on and the rows to hold out."""
    try:
        train, test = (np.asarray(rows).astype(np.int64, casting="safe") for rows in split)
    except (TypeError, ValueError):
        problem = "expected a number of folds, a scikit-learn splitter, or pairs of row numbers (train, test)."
        raise InputError(problem, parameter="cv") from None
    both = np.intersect1d(codes[train, 0], codes[test, 0])
    if len(both):
        example = f"{len(both)} speaker(s) on both sides, such as {speakers[int(both[0])]!r:.60}"
        raise InputError(f"a split has {example}. Use GroupKFold, or a number of folds.", parameter="cv")
    counts = np.bincount(codes[test, 0]) if len(test) else np.zeros(1, dtype=np.int64)
    if np.count_nonzero(counts) < 2 or counts.max() < 2:
        problem = "expected two or more held-out speakers in every split, one of them with two or more samples."
        raise InputError(problem, parameter="cv")
    return _split(codes, train, test, rng)


def other_channels(folds: Folds, i: int, condition: int, rng: np.random.Generator) -> IntArray:
    """For each held-out sample of a split another channel of training, drawn at random; -1 where there is none."""
    split = folds.splits[i]
    heard = np.unique(folds.codes[split.training, 1 + condition])
    heard = heard[heard != MISSING]
    drawn = np.full(len(split.codes), MISSING)
    for row, own in enumerate(split.codes[:, 1 + condition]):
        others = heard[heard != own]
        if len(others):
            drawn[row] = rng.choice(others)
    return drawn


def moved_samples(
    folds: Folds, fold: Fold, i: int, condition: int, to: IntArray, distance: float, X: Array | None = None
) -> Array:
    """Held-out samples X (m, d), of a fold if not given, moved to other channels of a condition.

    A sample m of channel a becomes m + distance (mean of b - mean of a) for the channel b in ``to``. The means are
    those of the training speakers; a channel that none of them was heard in has the mean of all.
    """
    offsets = _channel_offsets(fold.training, 1 + condition, folds.labels[1 + condition])
    own, moves = folds.splits[i].codes[:, 1 + condition], to != MISSING
    here = np.where((own != MISSING)[:, None], offsets[own], 0.0)
    result: Array = (fold.X if X is None else X) + np.where(moves[:, None], distance * (offsets[to] - here), 0.0)
    return result


def _channel_offsets(training: Statistics, k: int, labels: tuple[Hashable, ...]) -> Array:
    """Mean of each channel minus the mean of all, (channels, d); 0 for channels that do not occur in training."""
    place = {label: i for i, label in enumerate(labels)}
    where = np.array([place[label] for label in training.labels[k]], dtype=np.int64)
    offsets = np.zeros((len(labels), training.n_features))
    offsets[where] = training.level_sums(k) / training.level_counts(k)[:, None] + training.shift - training.mean
    return offsets
