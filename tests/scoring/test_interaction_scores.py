"""Scores with an interaction of speaker and channel, against one dense Gaussian over all samples of a trial."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from jointplda import JointPLDA
from oracles.dense import DenseModel

D = 3
FORMS = ["proportional", "full"]


def make(form, conditions=1, share=1.0, seed=0):
    """A model, and the loadings and noise that a dense oracle needs of it."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(D, D))
    noise = A @ A.T / D + 0.4 * np.eye(D)
    V, U = rng.normal(size=(D, 2)), [rng.normal(size=(D, 1 + k)) for k in range(conditions)]
    plain = JointPLDA.from_parameters(
        rng.normal(size=D), V, np.concatenate(U, axis=1), np.linalg.inv(noise), [u.shape[1] for u in U]
    )
    G = np.sqrt(0.7) * np.linalg.cholesky(noise) if form == "proportional" else rng.normal(size=(D, 2))
    given = 0.7 if form == "proportional" else G
    ranks = [u.shape[1] for u in U]
    plain = JointPLDA.from_parameters(plain.mean_, V, plain.U_, plain.D_, ranks, interaction=given, cell_share=share)
    shared, rest = np.sqrt(share) * G, noise + (1.0 - share) * G @ G.T
    return plain, (plain.mean_, [V, *U, shared], rest), rng


def log_p(oracle, X, speakers, channels):
    """Log density of samples with given speakers and channels (n, conditions)."""
    mean, loadings, noise = oracle
    columns = [list(speakers), *(list(column) for column in np.transpose(channels))]
    cells = list(zip(*columns))
    return DenseModel(mean, loadings, noise, [*columns, cells]).log_likelihood(X)


def llr(oracle, A, B, ca, cb):
    """Ratio of one speaker and two, all channels known."""
    X, channels = np.concatenate([A, B]), np.concatenate([ca, cb])
    one = log_p(oracle, X, [0] * len(X), channels)
    return one - log_p(oracle, X, [0] * len(A) + [1] * len(B), channels)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("conditions", [1, 2])
@pytest.mark.parametrize("form", FORMS)
def test_pairs_with_known_and_unknown_channels(form, conditions, share):
    model, oracle, rng = make(form, conditions, share)
    E, T = rng.normal(size=(3, D)), rng.normal(size=(4, D))
    ce, ct = rng.integers(0, 2, (3, conditions)), rng.integers(0, 2, (4, conditions))
    known = model.score_matrix(E, T, enroll_channels=ce, test_channels=ct)
    expected = [[llr(oracle, E[[i]], T[[j]], ce[[i]], ct[[j]]) for j in range(4)] for i in range(3)]
    assert known == pytest.approx(np.array(expected), rel=1e-9, abs=1e-9)
    p = (0.3, 0.6)
    averaged = model.score_matrix(E, T, p)
    for i, j in product(range(3), range(4)):
        sums = []
        for speakers, prior in (([0, 0], p[0]), ([0, 1], p[1])):
            total = 0.0
            for pattern in product((0, 1), repeat=conditions):
                chance = np.prod([prior if same else 1.0 - prior for same in pattern])
                channels = [[0] * conditions, [0 if same else 1 for same in pattern]]
                total += chance * np.exp(log_p(oracle, np.stack([E[i], T[j]]), speakers, channels))
            sums.append(np.log(total))
        assert averaged[i, j] == pytest.approx(sums[0] - sums[1], rel=1e-8, abs=1e-8)
    listed = model.score_trials(E, T, [[0, 1], [2, 3]], p)
    assert listed == pytest.approx(averaged[[0, 2], [1, 3]], abs=1e-10)


@pytest.mark.parametrize("share", [0.5, 1.0])
@pytest.mark.parametrize("conditions", [1, 2])
@pytest.mark.parametrize("form", FORMS)
def test_enrollments_and_sets_with_known_channels(form, conditions, share):
    model, oracle, rng = make(form, conditions, share)
    E, T = rng.normal(size=(6, D)), rng.normal(size=(4, D))
    ce, ct = rng.integers(0, 2, (6, conditions)), rng.integers(0, 3, (4, conditions))
    models = np.array(list("aaabbc"))
    scores = model.score_enrollment(model.enroll(E, models, channels=ce), T, test_channels=ct)
    for m, name in enumerate("abc"):
        own = models == name
        for j in range(4):
            expected = llr(oracle, E[own], T[[j]], ce[own], ct[[j]])
            assert scores[m, j] == pytest.approx(expected, rel=1e-8, abs=1e-8)
    new = model.score_enrollment(model.enroll(E, models, channels=ce), T)
    assert new[0, 0] == pytest.approx(llr(oracle, E[:3], T[[0]], ce[:3], np.full((1, conditions), 9)), rel=1e-8)
    sets = model.score_sets([E[:3]], [T[:2], T[2:]], channels_a=[ce[:3]], channels_b=[ct[:2], ct[2:]])
    for k, rows in enumerate((slice(0, 2), slice(2, 4))):
        assert sets[0, k] == pytest.approx(llr(oracle, E[:3], T[rows], ce[:3], ct[rows]), rel=1e-8, abs=1e-8)


def partitions(n):
    """All ways to divide n samples into channels."""
    if n == 0:
        return [[]]
    return [[*rest, c] for rest in partitions(n - 1) for c in range(max(rest, default=-1) + 2)]


def chance(codes, priors):
    """Chinese-restaurant probability of a division, sample i joining with its own prior."""
    value = 1.0
    for i, c in enumerate(codes):
        if i == 0:
            continue
        p, before = priors[i], codes[:i]
        total = i * p + 1.0 - p
        value *= (before.count(c) * p if c in before else 1.0 - p) / total
    return value


@pytest.mark.parametrize("form", FORMS)
def test_enrollments_and_sets_with_unknown_channels(form):
    model, oracle, rng = make(form)
    E, T = rng.normal(size=(2, D)), rng.normal(size=(1, D))
    p, q = 0.4, 0.2
    sums = []
    for speakers, last in (([0, 0, 0], p), ([0, 0, 1], q)):
        total = 0.0
        for codes in partitions(3):
            channels = np.array(codes)[:, None]
            total += chance(codes, [p, p, last]) * np.exp(log_p(oracle, np.concatenate([E, T]), speakers, channels))
        sums.append(np.log(total))
    expected = sums[0] - sums[1]
    enrolled = model.score_enrollment(model.enroll(E, ["a", "a"]), T, same_channel=(p, q))
    assert enrolled[0, 0] == pytest.approx(expected, rel=1e-8)
    assert model.score_sets([E], [T], same_channel=(p, q))[0, 0] == pytest.approx(expected, rel=1e-8)


def test_without_an_interaction_nothing_changes():
    model, _, rng = make("proportional")
    plain = JointPLDA.from_parameters(model.mean_, model.V_, model.U_, model.D_)
    nothing = JointPLDA.from_parameters(model.mean_, model.V_, model.U_, model.D_)
    nothing.fitted_ = replace(nothing.fitted_, settings=replace(nothing.fitted_.settings, cell_share=0.5))
    E = rng.normal(size=(4, D))
    assert np.array_equal(plain.score_matrix(E, E), nothing.score_matrix(E, E))
    assert np.abs(plain.score_matrix(E, E) - model.score_matrix(E, E)).max() > 0.01
