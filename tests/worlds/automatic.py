"""Simulated speakers for tests of automatic settings."""

import warnings

import numpy as np

from jointplda.selection.design import ChannelTest
from worlds.designs import draw_parameters, world

ALONE = ChannelTest("channel", 30, 5, 4.0, 0.002)
NO_EFFECT = ChannelTest("channel", 30, 5, 1.1, 0.3)
FIXED = {"max_iter": 25, "tol": 1e-3}
RECORDS = ("best_params_", "candidates_", "design_", "held_out_cllr_", "calibration_")


def quietly(model, X, s, c=None):
    """The model fitted, whatever it warns of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, s, **({} if c is None else {"channels": c}))


def small_world(seed=0, channels_per_speaker=None):
    """24 speakers in 4 channels: samples, speakers, channels."""
    return world(np.random.default_rng(seed), 4, (2, 1), 24, 4, 192, channels_per_speaker)[:3]


def named_world(seed=0):
    """The same with labels of text, every speaker in several channels."""
    X, s, c = small_world(seed)
    return X, np.array([f"s{one}" for one in s]), np.array(["en", "fr", "de", "es"])[c]


def far_channels():
    """40 speakers in one of 5 channels each, the channels far apart."""
    X, s, c, _ = world(np.random.default_rng(3), 5, (3, 1), 40, 5, 320, 1)
    return X + 4.0 * np.random.default_rng(9).normal(size=(5, 5))[c], s, c


def few_speakers():
    """20 speakers in one of 5 channels each, more dimensions than these can show: the model is overconfident."""
    return world(np.random.default_rng(3), 20, (3, 1), 20, 5, 160, 1)[:3]


def training_and_new_speakers(seed, effect, crossed, n_speakers=60):
    """Samples of training speakers, in all of 6 channels or in one each, and of 40 others in all of them."""
    rng = np.random.default_rng(seed)
    truth = draw_parameters(rng, 8, (4, 2))
    offsets = effect * rng.normal(size=(6, 2)) @ truth.loadings[1].T

    def samples(number, in_all):
        s, c = np.repeat(np.arange(number), 6), np.tile(np.arange(6), number)
        c = c if in_all else s % 6
        X = truth.mean + rng.multivariate_normal(np.zeros(8), 0.5 * truth.noise, len(s)) + offsets[c]
        return X + (rng.normal(size=(number, 4)) @ truth.loadings[0].T)[s], s, c

    return samples(n_speakers, crossed), samples(40, True)
