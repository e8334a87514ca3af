"""Who is trained on and who is tested: held-out speakers, and the trials among their samples."""

from dataclasses import dataclass
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jointplda._identifiers import some
from jointplda._typing import Names
from jointplda.errors import InputError
from jointplda.evaluation.evaluate import TrialSides
from jointplda.evaluation.systems import TestSet, TrainingSet, all_pairs
from jointplda.formats import match_ids, read_trials

MOST_PAIRS = 50_000_000


@dataclass(frozen=True)
class Samples:
    """Embeddings with their labels.

    Parameters
    ----------
    ids : ndarray of str, shape (n,)
    X : ndarray, shape (n, d)
    speakers : ndarray of str, shape (n,)
    channels : ndarray of str, shape (n, conditions)
    """

    ids: Names
    X: NDArray[Any]
    speakers: Names
    channels: NDArray[Any]

    def take(self, rows: NDArray[Any]) -> "Samples":
        """Some of the samples, by rows or by a mask."""
        return Samples(self.ids[rows], self.X[rows], self.speakers[rows], self.channels[rows])


class Experiment(NamedTuple):
    """A training set, the trials to score, what is known of their sides, and which are targets."""

    train: TrainingSet
    test: TestSet
    sides: TrialSides
    target: NDArray[np.bool_]


def held_out(speakers: Names, share: float, seed: int) -> NDArray[np.bool_]:
    """Mask (n,) of the samples of speakers to hold out, drawn by the seed."""
    names = np.unique(speakers)
    count = round(share * len(names))
    if count < 2 or len(names) - count < 2:
        raise InputError(
            f"{len(names)} speakers are too few to hold out a share of {share:g}: two are needed on either side."
        )
    chosen = np.random.default_rng(seed).permutation(names)[:count]
    return np.isin(speakers, chosen)


def split_by_speaker(
    samples: Samples,
    seed: int,
    *,
    channels_per_speaker: int | None = None,
    speakers: int | None = None,
    train_share: float = 0.65,
    test_per_cell: int = 2,
) -> tuple[Samples, Samples]:
    """Training and test samples of different speakers, to see what training speakers in few channels cost.

    Parameters
    ----------
    samples : Samples
        With channels of one condition (the first column counts).
    seed : int
    channels_per_speaker : int, optional
        Training speakers keep so many channels, drawn at random for each; default: all.
    speakers : int, optional
        Keep so many training speakers, drawn at random; default: all.
    train_share : float
        Share of the speakers to train on.
    test_per_cell : int
        Test samples kept of each speaker in each channel.
    """
    rng = np.random.default_rng(seed)
    order, channel = rng.permutation(np.unique(samples.speakers)), samples.channels[:, 0]
    levels = np.unique(channel)
    learned, others = np.split(order, [int(train_share * len(order))])
    train = np.isin(samples.speakers, learned)
    if channels_per_speaker is not None:
        kept = {name: set(rng.permutation(levels)[:channels_per_speaker].tolist()) for name in learned.tolist()}
        pairs = zip(samples.speakers.tolist(), channel.tolist(), strict=True)
        train &= np.array([s in kept and c in kept[s] for s, c in pairs])
    test = np.zeros(len(channel), dtype=bool)
    for name in others:
        for level in levels:
            rows = np.flatnonzero((samples.speakers == name) & (channel == level))
            test[rng.permutation(rows)[:test_per_cell]] = True
    if speakers is not None:
        drawn = np.random.default_rng(seed).permutation(np.unique(samples.speakers[train]))[:speakers]
        train &= np.isin(samples.speakers, drawn)
    return samples.take(train), samples.take(test)


def trials_of(
    train: Samples,
    test: Samples,
    conditions: list[str],
    trials: str | PathLike[str] | None = None,
    *,
    allow_missing: bool = False,
) -> Experiment:
    """Training on some samples, trials among others.

    Parameters
    ----------
    train, test : Samples
        Of different speakers.
    conditions : list of str
        Names of the channels' columns; the first makes the cells.
    trials : path, optional
        A trial list with labels; default: every pair of test samples once.
    allow_missing : bool
        Leave out trials whose ids are not among the test samples.
    """
    shared = sorted(set(train.speakers.tolist()) & set(test.speakers.tolist()))
    if shared:
        raise InputError(
            f"speakers of training and test should differ; these are in both: {some(shared)}. Results on speakers that "
            "a model has seen say nothing about others."
        )
    if trials is None:
        if len(test.ids) ** 2 // 2 > MOST_PAIRS:
            raise InputError(f"{len(test.ids):,} test samples make too many pairs; give a trial list.")
        pairs = all_pairs(len(test.ids))
        target = test.speakers[pairs[:, 0]] == test.speakers[pairs[:, 1]]
    else:
        pairs, target = _listed(test, trials, allow_missing)
    codes = np.unique(test.speakers, return_inverse=True)[1]
    channel = np.unique(test.channels[:, 0], return_inverse=True)[1]
    known = test.channels[:, 0] != ""
    same = (channel[pairs[:, 0]] == channel[pairs[:, 1]]).astype(np.int8)
    same[~(known[pairs[:, 0]] & known[pairs[:, 1]])] = -1
    training = TrainingSet(train.X, train.speakers, train.channels, conditions)
    testing = TestSet(test.X, test.X, pairs, test.channels, test.channels)
    return Experiment(training, testing, TrialSides(codes[pairs[:, 0]], codes[pairs[:, 1]], same), target)


def _listed(
    test: Samples, trials: str | PathLike[str], allow_missing: bool
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Rows and truth of listed trials."""
    listed = read_trials(trials)
    left = match_ids(listed.models, test.ids, "enrollment ids", str(trials), allow_missing)[listed.enroll]
    right = match_ids(listed.samples, test.ids, "test ids", str(trials), allow_missing)[listed.test]
    kept = (left >= 0) & (right >= 0)
    pairs = np.stack((left[kept], right[kept]), axis=1)
    truth = test.speakers[pairs[:, 0]] == test.speakers[pairs[:, 1]]
    if listed.target is None:
        return pairs, truth
    stated = listed.target[kept]
    wrong = np.flatnonzero((stated >= 0) & ((stated == 1) != truth))
    if len(wrong):
        first = f"{test.ids[pairs[wrong[0], 0]]} {test.ids[pairs[wrong[0], 1]]}"
        raise InputError(f"{trials}: {len(wrong):,} trials say otherwise than the speaker labels, such as {first!r}.")
    return pairs, truth
