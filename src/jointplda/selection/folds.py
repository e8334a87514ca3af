"""Folds of speakers: what each model is trained on, and whom it is tried on."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from jointplda import sample_matrix
from jointplda._typing import Array, IntArray
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


def make_folds(X: Any, y: Any, channels: Any, number: int, rng: np.random.Generator) -> Folds:
    """Divide the speakers at random among so many folds, each summed once.

    Statistics add up, so those of a fold's training speakers are sums of the others' and the samples are read once.
    """
    matrix = sample_matrix.as_matrix(X)
    codes, labels, _ = encode_all(y, channels, len(matrix))
    speakers = int(codes[:, 0].max()) + 1
    several = np.bincount(codes[:, 0]) > 1
    number = min(number, speakers // 2, int(np.count_nonzero(several)))
    if number < 2:
        raise InputError(
            f"Expected at least 4 speakers, and 2 with several samples each, to choose settings by holding speakers "
            f"out; got {speakers} speaker(s), {np.count_nonzero(several)} with several samples. Use JointPLDA with "
            "settings of your own."
        )
    fold_of = np.empty(speakers, dtype=np.int64)
    # Every fold gets its share of speakers, and of those that can make target trials.
    members = np.concatenate([rng.permutation(np.flatnonzero(group)) for group in (several, ~several)])
    fold_of[members] = np.arange(speakers) % number
    which = fold_of[codes[:, 0]]
    parts = [Statistics.from_samples(matrix, y, channels, sample_weight=which == i) for i in range(number)]
    folds = []
    for i in range(number):
        rows = np.flatnonzero(which == i)
        rows = rows[some_rows(codes[rows], rng)]
        others = Statistics.sum(part for j, part in enumerate(parts) if j != i)
        held_out = np.asarray(matrix[rows], dtype=np.float64)
        folds.append(Fold(others, held_out, codes[rows], all_pairs(codes[rows]), tuple(labels[1:])))
    return Folds(Statistics.sum(parts), tuple(folds))


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
    for part in training.parts.values():
        if k in part.levels:
            sums[where[part.levels[k].index]] += part.levels[k].sums
            counts[where[part.levels[k].index]] += part.levels[k].counts
    heard = np.flatnonzero(counts)
    offsets = np.zeros_like(sums)
    offsets[heard] = sums[heard] / counts[heard, None] + training.shift - training.mean
    return offsets, heard
