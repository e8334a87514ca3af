"""Who is trained on and who is tested: labelled samples, held-out speakers, and the trials among their samples."""

from dataclasses import dataclass
from os import PathLike
from typing import NamedTuple

import numpy as np

from jointplda._identifiers import listed
from jointplda._typing import AnyArray, BoolArray, IntArray, Names
from jointplda.errors import InputError
from jointplda.evaluation.evaluate import TrialSides
from jointplda.formats import match_ids, read_trials
from jointplda.labels import ConditionColumns

MOST_PAIRS = 50_000_000
NO_CONDITIONS = ConditionColumns((), ())


@dataclass(frozen=True)
class LabelledSamples:
    """Embeddings X (n, d), their ids, and the labels of speaker and channel of each.

    ``channels`` has a column (n,) for each condition, with an empty string where the channel is not known; no columns
    where nothing is known of the channels.
    """

    ids: Names
    X: AnyArray
    speakers: Names
    channels: ConditionColumns = NO_CONDITIONS

    def take(self, rows: AnyArray) -> "LabelledSamples":
        """The samples of the given rows: indexes, or a mask (n,)."""
        columns = tuple(column[rows] for column in self.channels.values)
        channels = ConditionColumns(self.channels.names, columns)
        return LabelledSamples(self.ids[rows], self.X[rows], self.speakers[rows], channels)


class Experiment(NamedTuple):
    """Samples to train on, samples to test with, and the trials among these.

    Attributes
    ----------
    train, test : LabelledSamples
        Samples of different speakers.
    pairs : ndarray of int, shape (trials, 2)
        The two rows of ``test`` that each trial compares.
    sides : TrialSides
        What is known of the two sides of each trial.
    target : ndarray of bool, shape (trials,)
        Whether both sides are of one speaker.
    """

    train: LabelledSamples
    test: LabelledSamples
    pairs: IntArray
    sides: TrialSides
    target: BoolArray


def held_out(speakers: Names, share: float, seed: int) -> BoolArray:
    """Mask (n,) of the samples whose speakers are held out for testing: a share of the speakers, drawn at random."""
    names = np.unique(speakers)
    count = round(share * len(names))
    if count < 2 or len(names) - count < 2:
        raise InputError(
            f"training and testing need two speakers each; a share of {share:g} of {len(names)} speakers cannot be "
            "held out.",
            parameter="test_share",
        )
    chosen = np.random.default_rng(seed).permutation(names)[:count]
    return np.isin(speakers, chosen)


def all_pairs(n: int) -> IntArray:
    """Every pair (i, j) of n samples once, i < j, never a sample with itself."""
    return np.stack(np.triu_indices(n, 1), axis=1).astype(np.int64)


def trials_of(
    train: LabelledSamples,
    test: LabelledSamples,
    trials: str | PathLike[str] | None = None,
    *,
    allow_missing: bool = False,
) -> Experiment:
    """Make an experiment of samples to train on and of trials among test samples.

    ``train`` and ``test`` are of different speakers, with the same conditions, the first of which makes the types of
    trials. Without a trial list every pair of test samples is a trial, once. ``allow_missing`` leaves out listed trials
    whose ids are not among the test samples, instead of raising.
    """
    shared = sorted(set(train.speakers.tolist()) & set(test.speakers.tolist()))
    if shared:
        raise InputError(
            f"the speakers of training and test should differ, but these are in both: {listed(shared)}. Results on "
            "speakers that a model was trained on say nothing about other speakers."
        )
    if trials is None:
        if len(test.ids) ** 2 // 2 > MOST_PAIRS:
            raise InputError(
                f"all pairs of {len(test.ids):,} test samples are too many trials; use a trial list.",
                parameter="trials",
            )
        pairs = all_pairs(len(test.ids))
        target = test.speakers[pairs[:, 0]] == test.speakers[pairs[:, 1]]
    else:
        pairs, target = _listed(test, trials, allow_missing)
    same = None
    if test.channels.values:
        levels, codes = np.unique(test.channels.values[0], return_inverse=True)
        first, second = codes[pairs.T]
        same = np.where((levels[codes] != "")[pairs].all(axis=1), first == second, np.int8(-1))
    first, second = np.unique(test.speakers, return_inverse=True)[1][pairs.T]
    return Experiment(train, test, pairs, TrialSides(first, second, same), target)


def _listed(test: LabelledSamples, trials: str | PathLike[str], allow_missing: bool) -> tuple[IntArray, BoolArray]:
    """Rows and truth of the trials in a list."""
    stated = read_trials(trials)
    left = match_ids(stated.models, test.ids, "enrollment ids", str(trials), allow_missing)[stated.enroll]
    right = match_ids(stated.samples, test.ids, "test ids", str(trials), allow_missing)[stated.test]
    kept = (left >= 0) & (right >= 0)
    pairs = np.stack((left[kept], right[kept]), axis=1)
    truth = test.speakers[pairs[:, 0]] == test.speakers[pairs[:, 1]]
    if stated.target is None:
        return pairs, truth
    label = stated.target[kept]
    wrong = np.flatnonzero((label >= 0) & ((label == 1) != truth))
    if len(wrong):
        first = f"{test.ids[pairs[wrong[0], 0]]} {test.ids[pairs[wrong[0], 1]]}"
        raise InputError(f"{trials}: {len(wrong):,} trials say otherwise than the speaker labels, such as {first!r}.")
    return pairs, truth
