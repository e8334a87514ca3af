"""A model with given parameters, and samples to score with it."""

import numpy as np

from jointplda import JointPLDA
from worlds.designs import draw_parameters


def make(ranks, seed=0, d=5):
    p = draw_parameters(np.random.default_rng([seed, *ranks]), d, ranks)
    U = np.concatenate([np.zeros((d, 0)), *p.loadings[1:]], axis=1)
    model = JointPLDA.from_parameters(p.mean, p.loadings[0], U, np.linalg.inv(p.noise), channel_ranks=ranks[1:])
    return model, p


def sides(seed=1, n=5, m=4, d=5):
    rng = np.random.default_rng(seed)
    return 2.0 * rng.normal(size=(n, d)), 2.0 * rng.normal(size=(m, d))
