"""Trials of labelled samples: all pairs, with weights that balance same- and cross-channel trials."""

from dataclasses import dataclass

import numpy as np

from jointplda._typing import Array, BoolArray, IntArray
from jointplda.labels import MISSING

MOST_SAMPLES, LEAST_PER_SPEAKER = 400, 8


@dataclass(frozen=True)
class Pairs:
    """All pairs of samples.

    Attributes
    ----------
    rows : (n, 2) int
        The rows of both samples.
    target : (n,) bool
        Whether both have the same speaker.
    same_channel : (n,) bool
        Whether both are known to share the channels of all conditions.
    """

    rows: IntArray
    target: BoolArray
    same_channel: BoolArray


def all_pairs(codes: IntArray) -> Pairs:
    """All pairs, each once, of samples with codes (n, 1 + conditions) of their speakers and channels."""
    first, second = np.triu_indices(len(codes), 1)
    a, b = codes[first], codes[second]
    agree = a == b
    known = agree[:, 1:] & (a[:, 1:] != MISSING)
    shared = known.all(axis=1) if codes.shape[1] > 1 else np.zeros(len(first), dtype=bool)
    return Pairs(np.stack([first, second], axis=1), agree[:, 0], shared)


def type_weights(target: BoolArray, same_channel: BoolArray) -> Array:
    """Weights (n,) that give same- and cross-channel trials equal weight within targets and within non-targets.

    They correspond to ``same_channel=0.5`` of scoring: how often channels were shared in training does not say how
    often they will be.
    """
    weights = np.zeros(len(target))
    for one_class in (target, ~target):
        types = [members for members in (one_class & same_channel, one_class & ~same_channel) if members.any()]
        for members in types:
            weights[members] = 1.0 / (np.count_nonzero(members) * len(types))
    return weights


def trial_rows(codes: IntArray, rng: np.random.Generator, most: int = MOST_SAMPLES) -> IntArray:
    """Rows of at most ``most`` samples for trials: of speakers drawn at random, a few samples from all their channels.

    Speakers who were heard in several channels come first, since they make the cross-channel target trials. Speakers
    with one sample make no target trials, and come last.
    """
    speakers, counts = np.unique(codes[:, 0], return_counts=True)
    cells = np.bincount(np.searchsorted(speakers, np.unique(codes, axis=0)[:, 0]), minlength=len(speakers))
    drawn = rng.permutation(len(speakers))
    turn = np.where(counts == 1, 2, np.where(cells > 1, 0, 1))
    speakers = speakers[drawn[np.argsort(turn[drawn], kind="stable")]]
    per_speaker = max(LEAST_PER_SPEAKER, most // max(len(speakers), 1))
    order = rng.permutation(len(codes))
    order = order[np.argsort(codes[order, 0], kind="stable")]
    ends = np.searchsorted(codes[order, 0], [speakers, speakers + 1])
    chosen: list[IntArray] = []
    taken = 0
    for start, stop in ends.T:
        rows = order[start:stop]
        if len(rows) > per_speaker:
            rows = rows[np.argsort(_turns(codes[rows, 1:]), kind="stable")][:per_speaker]
        if taken + len(rows) > most and chosen:
            break
        chosen.append(rows)
        taken += len(rows)
    return np.sort(np.concatenate(chosen))


def _turns(channels: IntArray) -> IntArray:
    """Number of samples with the same channels before each sample, (n,)."""
    _, index = np.unique(channels, axis=0, return_inverse=True)
    index = index.reshape(-1)
    order = np.argsort(index, kind="stable")
    turns = np.empty(len(index), dtype=np.int64)
    turns[order] = np.arange(len(index)) - np.searchsorted(index[order], index[order])
    return turns
