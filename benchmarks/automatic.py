"""How long choosing settings and calibrating takes, in plain fits of the same samples, on one thread."""

import sys
import warnings
from functools import partial

import numpy as np
from benchmarks.timing import report, seconds, summary
from threadpoolctl import threadpool_limits

from jointplda import JointPLDA, JointPLDACV

SPEAKERS, CHANNELS, EACH, DIMENSION = 100, 10, 4, 100


def samples(channels_each, rng):
    """Embeddings of speakers heard in so many channels, a few samples in each."""
    V, U = rng.normal(size=(DIMENSION, 30)), rng.normal(size=(DIMENSION, CHANNELS - 1))
    world = JointPLDA.from_parameters(np.zeros(DIMENSION), V, U, np.eye(DIMENSION) / 30)
    heard = [rng.permutation(CHANNELS)[:channels_each] for _ in range(SPEAKERS)]
    channels = np.repeat(np.concatenate(heard), EACH)
    speakers = np.repeat(np.arange(SPEAKERS), EACH * channels_each)
    return world.sample(speakers, channels=channels, random_state=rng), speakers, channels


def main():
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    with threadpool_limits(1):
        for channels_each in (1, 2, CHANNELS):
            X, speakers, channels = samples(channels_each, rng)
            fits = [partial(model.fit, X, speakers, channels=channels) for model in (JointPLDA(), JointPLDACV())]
            times = seconds(*fits, rounds=3)
            text = f"JointPLDACV over JointPLDA, speakers in {channels_each} of {CHANNELS} channels"
            report(text, times[1] / times[0], 100)
    return summary()


if __name__ == "__main__":
    sys.exit(main())
