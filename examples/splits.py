"""Splits of samples into training and test speakers, for the recipes and the benchmarks."""

import numpy as np

from jointplda.evaluation.protocol import LabelledSamples


def split_by_speaker(
    samples: LabelledSamples,
    seed: int,
    *,
    channels_per_speaker: int | None = None,
    speakers: int | None = None,
    new_channels: bool = False,
    train_share: float = 0.65,
    test_per_cell: int = 2,
) -> tuple[LabelledSamples, LabelledSamples]:
    """Training and test samples of different speakers, to see the cost of training speakers in few channels.

    Parameters
    ----------
    samples : LabelledSamples
        The channels of the first condition count.
    seed : int
    channels_per_speaker : int, optional
        Number of channels that each training speaker keeps, drawn at random. The default is all.
    speakers : int, optional
        Number of training speakers to keep, drawn at random. The default is all.
    new_channels : bool
        Whether the test has channels that training has not: half of them, drawn at random, are for training alone, and
        the other half for the test.
    train_share : float
        Share of the speakers to train on.
    test_per_cell : int
        Number of test samples kept of each speaker in each channel.

    Returns
    -------
    train, test : LabelledSamples
    """
    rng = np.random.default_rng(seed)
    order, channel = rng.permutation(np.unique(samples.speakers)), samples.channels.values[0]
    levels = tested = np.unique(channel)
    learned, others = np.split(order, [int(train_share * len(order))])
    train = np.isin(samples.speakers, learned)
    if new_channels:
        levels, tested = np.split(rng.permutation(levels), [len(levels) // 2])
        train &= np.isin(channel, levels)
    if channels_per_speaker is not None:
        kept = {name: set(rng.permutation(levels)[:channels_per_speaker].tolist()) for name in learned.tolist()}
        pairs = zip(samples.speakers.tolist(), channel.tolist(), strict=True)
        train &= np.array([s in kept and c in kept[s] for s, c in pairs])
    test = np.zeros(len(channel), dtype=bool)
    for name in others:
        for level in tested:
            rows = np.flatnonzero((samples.speakers == name) & (channel == level))
            test[rng.permutation(rows)[:test_per_cell]] = True
    if speakers is not None:
        drawn = np.random.default_rng(seed).permutation(np.unique(samples.speakers[train]))[:speakers]
        train &= np.isin(samples.speakers, drawn)
    return samples.take(train), samples.take(test)
