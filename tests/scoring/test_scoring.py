"""Likelihood ratios against one dense Gaussian over all samples of a trial (1e-8), and the paper's own formulas."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from jointplda import PLDA, JointPLDA
from oracles import paper
from oracles.dense import DenseModel
from worlds.designs import draw_parameters
from worlds.trials import make, sides

RANKS = [(3, 2), (2, 3), (2, 2, 1), (2, 1, 1, 1)]


def log_p(p, X, speakers, *channels):
    """Dense log-likelihood of samples with given labels; None is alone."""
    return DenseModel(p.mean, p.loadings, p.noise, [list(speakers), *(list(c) for c in channels)]).log_likelihood(X)


def brute_pair(p, e, t, priors, known=None):
    """Sum over patterns of shared conditions; ``known`` gives 0, 1 or None for each condition."""
    K, X, values = len(p.loadings) - 1, np.stack([e, t]), []
    for same, speakers in ((0, "aa"), (1, "ab")):
        terms = []
        for pattern in product((0, 1), repeat=K):
            prior = 1.0
            for k in range(K):
                q = priors[k][same] if known is None or known[k] is None else known[k]
                prior *= q if pattern[k] else 1.0 - q
            if prior > 0:
                terms.append(np.log(prior) + log_p(p, X, speakers, *("cc" if shared else "cd" for shared in pattern)))
        values.append(np.logaddexp.reduce(terms))
    return values[0] - values[1]


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("pair", [(0.5, 0.5), (0.9, 0.2), (0.0, 0.0), (1.0, 1.0), (0.0, 1.0), (1.0, 0.3)])
def test_pairs(ranks, pair):
    model, p = make(ranks)
    E, T = sides()
    expected = [[brute_pair(p, e, t, [pair] * (len(ranks) - 1)) for t in T] for e in E]
    found = model.score_matrix(E, T, same_channel=pair)
    assert found == pytest.approx(np.array(expected), rel=1e-8, abs=1e-8)
    rows = np.array([(i, j) for i in range(len(E)) for j in range(len(T))][::-1])
    trials = model.score_trials(E, T, rows, same_channel=pair)
    assert trials == pytest.approx(found[rows[:, 0], rows[:, 1]], rel=1e-9, abs=1e-9)


def test_a_prior_per_condition():
    model, p = make((2, 2, 1))
    E, T = sides()
    priors = [(0.9, 0.1), (0.3, 0.6)]
    expected = [[brute_pair(p, e, t, priors) for t in T] for e in E]
    assert model.score_matrix(E, T, same_channel=priors) == pytest.approx(np.array(expected), abs=1e-8)


@pytest.mark.parametrize("ranks", [(3, 2), (2, 2), (2, 3)])
def test_the_papers_q_terms(ranks):
    model, p = make(ranks)
    E, T = sides()
    V, U = p.loadings
    D = np.linalg.inv(p.noise)
    found = model.score_matrix(E, T, same_channel=(0.7, 0.2))
    expected = [[paper.score_single(e - p.mean, t - p.mean, V, U, D, 0.7, 0.2) for t in T] for e in E]
    assert found == pytest.approx(np.array(expected), abs=1e-9)


def test_limits_and_symmetry():
    model, p = make((3, 2))
    E, T = sides()
    V, U = p.loadings
    plain = PLDA.from_parameters(p.mean, V, None, np.linalg.inv(U @ U.T + p.noise))
    assert model.score_matrix(E, T, same_channel=0) == pytest.approx(plain.score_matrix(E, T), abs=1e-9)
    original = PLDA.from_parameters(p.mean, V, U, np.linalg.inv(p.noise))
    assert original.score_matrix(E, T) == pytest.approx(plain.score_matrix(E, T), abs=1e-9)
    B, total = V @ V.T, p.total_covariance
    joint = multivariate_normal(np.tile(p.mean, 2), np.block([[total, B], [B, total]]))
    apart = multivariate_normal(np.tile(p.mean, 2), np.kron(np.eye(2), total))
    assert plain.score_matrix(E[:1], T[:1])[0, 0] == pytest.approx(
        joint.logpdf(np.r_[E[0], T[0]]) - apart.logpdf(np.r_[E[0], T[0]]), abs=1e-9
    )
    assert model.score_matrix(E, T, (0.7, 0.2)) == pytest.approx(model.score_matrix(T, E, (0.7, 0.2)).T, abs=1e-10)
    assert np.array_equal(model.score_matrix(E, T, 0.3), model.score_matrix(E, T, (0.3, 0.3)))


@pytest.mark.parametrize("ranks", RANKS)
def test_known_labels(ranks):
    model, p = make(ranks)
    E, T = sides()
    K, rng = len(ranks) - 1, np.random.default_rng(3)
    first, second = rng.integers(-1, 2, (5, K)), rng.integers(-1, 2, (4, K))
    names = np.array(["x", "y", None], dtype=object)

    def known(i, j):
        return [None if first[i, k] < 0 or second[j, k] < 0 else int(first[i, k] == second[j, k]) for k in range(K)]

    expected = np.array(
        [[brute_pair(p, E[i], T[j], [(0.8, 0.3)] * K, known(i, j)) for j in range(4)] for i in range(5)]
    )
    given = {"same_channel": (0.8, 0.3), "enroll_channels": names[first], "test_channels": names[second]}
    found = model.score_matrix(E, T, **given)
    assert found == pytest.approx(expected, abs=1e-8)
    rows = np.array([[4, 3], [0, 0], [2, 1]])
    assert model.score_trials(E, T, rows, **given) == pytest.approx(found[rows[:, 0], rows[:, 1]], abs=1e-9)
    one_side = model.score_matrix(E, T, (0.8, 0.3), enroll_channels=names[first])
    assert one_side == pytest.approx(model.score_matrix(E, T, (0.8, 0.3)), abs=1e-9)


def enrollment_labels(K, n=9, seed=4):
    rng = np.random.default_rng(seed)
    names = np.array(["x", "y", "z", None], dtype=object)
    return ["a", "a", "a", "b", "b", "b", "c", "d", "d"], names[rng.integers(-1, 3, (n, K))]


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("with_test_channels", [False, True])
def test_enrollment_with_known_channels(ranks, with_test_channels):
    model, p = make(ranks)
    X, T = sides(n=9)
    K = len(ranks) - 1
    models, channels = enrollment_labels(K)
    test_channels = np.array(["x", "y", "new", None], dtype=object)[np.random.default_rng(5).integers(0, 4, (4, K))]
    enrollment = model.enroll(X, models, channels=channels)
    assert enrollment.models == ("a", "b", "c", "d")
    found = model.score_enrollment(enrollment, T, test_channels=test_channels if with_test_channels else None)
    for i, name in enumerate("abcd"):
        rows = [k for k, m in enumerate(models) if m == name]
        for j in range(4):
            samples = np.vstack([X[rows], T[[j]]])
            own = test_channels[j] if with_test_channels else [None] * K
            columns = [[*channels[rows, k], own[k]] for k in range(K)]
            same = log_p(p, samples, ["s"] * len(samples), *columns)
            other = log_p(p, samples, ["s"] * len(rows) + ["t"], *columns)
            assert found[i, j] == pytest.approx(same - other, abs=1e-8)


def test_the_papers_last_section():
    model, p = make((3, 2))
    X, T = sides(n=6)
    channels = np.array([0, 0, 1, 2, 2, 2])
    found = model.score_enrollment(model.enroll(X, ["m"] * 6, channels=channels), T)
    D = np.linalg.inv(p.noise)
    expected = [paper.score_unseen(X - p.mean, channels, t - p.mean, *p.loadings, D) for t in T]
    assert found[0] == pytest.approx(np.array(expected), abs=1e-9)
    sets = model.score_sets([X], [T[[j]] for j in range(4)], channels_a=[channels], channels_b=[["new"]] * 4)
    assert sets == pytest.approx(found, abs=1e-9)


def test_models_with_the_same_counts_share_their_matrices():
    model, _ = make((3, 2))
    rng = np.random.default_rng(6)
    X = rng.normal(size=(50, 5))
    models = np.repeat(np.arange(10), 5)
    channels = np.concatenate(
        [rng.permutation(["a", "a", "b", "b", "c"] if m % 2 else ["d", "e", "e", "e", "f"]) for m in range(10)]
    )
    enrollment = model.enroll(X, models, channels=channels)
    assert sorted(len(group.models) for group in enrollment.groups) == [5, 5]


def partitions(n):
    if n == 0:
        yield []
        return
    for one in partitions(n - 1):
        for c in range(max(one, default=-1) + 2):
            yield [*one, c]


def restaurant(codes, probabilities):
    """Log prior of a partition, sample by sample, each with its own P(same channel)."""
    total, counts = 0.0, {}
    for i, (c, p) in enumerate(zip(codes, probabilities)):
        if i:
            a = (1 - p) / p
            total += np.log(counts.get(c, a) / (i + a))
        counts[c] = counts.get(c, 0) + 1
    return total


def brute_sets(p, A, B, p_same, p_different):
    X, K = np.vstack([A, B]), len(p.loadings) - 1
    top, bottom = [], []
    for choice in product(list(partitions(len(X))), repeat=K):
        same = sum(restaurant(c, [p_same] * len(X)) for c in choice)
        other = sum(restaurant(c, [p_same] * len(A) + [p_different] * len(B)) for c in choice)
        top.append(same + log_p(p, X, ["s"] * len(X), *choice))
        bottom.append(other + log_p(p, X, ["s"] * len(A) + ["t"] * len(B), *choice))
    return np.logaddexp.reduce(top) - np.logaddexp.reduce(bottom)


@pytest.mark.parametrize("ranks, sizes", [((2, 2), (1, 2, 4)), ((2, 1, 1), (1, 2))])
def test_enrollment_with_unknown_channels(ranks, sizes):
    model, p = make(ranks, d=3)
    X, T = sides(n=sum(sizes), m=3, d=3)
    models = np.repeat(["a", "b", "c"][: len(sizes)], sizes)
    found = model.score_enrollment(model.enroll(X, models), T, same_channel=(0.7, 0.2))
    for i, name in enumerate("abc"[: len(sizes)]):
        for j in range(3):
            expected = brute_sets(p, X[models == name], T[[j]], 0.7, 0.2)
            assert found[i, j] == pytest.approx(expected, abs=1e-8)
    singles = model.score_enrollment(model.enroll(X, np.arange(len(X))), T, same_channel=(0.7, 0.2))
    assert singles == pytest.approx(model.score_matrix(X, T, (0.7, 0.2)), abs=1e-9)


@pytest.mark.parametrize("p_same", [0.0, 1.0])
def test_certain_channels_with_several_samples(p_same):
    model, _ = make((2, 2), d=3)
    X, T = sides(n=4, m=3, d=3)
    found = model.score_enrollment(model.enroll(X, ["m"] * 4), T, same_channel=p_same)
    labels = ["x"] * 4 if p_same else list("wxyz")
    own = ["x"] * 3 if p_same else None
    expected = model.score_enrollment(model.enroll(X, ["m"] * 4, channels=labels), T, test_channels=own)
    assert found == pytest.approx(expected, abs=1e-9)


def test_sets_with_unknown_channels():
    model, p = make((2, 2), d=3)
    X, T = sides(n=4, m=3, d=3)
    found = model.score_sets([X[:2], X[2:3]], [T[:2], T[2:]], same_channel=(0.7, 0.2))
    for i, A in enumerate((X[:2], X[2:3])):
        for j, B in enumerate((T[:2], T[2:])):
            assert found[i, j] == pytest.approx(brute_sets(p, A, B, 0.7, 0.2), abs=1e-8)
    listed = model.score_sets([X[:2], X[2:3]], [T[:2], T[2:]], same_channel=(0.7, 0.2), pairs=[[1, 0], [0, 1]])
    assert listed == pytest.approx([found[1, 0], found[0, 1]])
    there, back = model.score_sets([X], [T], same_channel=0.4), model.score_sets([T], [X], same_channel=0.4)
    assert there == pytest.approx(back.T, abs=1e-9)


def test_sets_with_known_channels():
    model, p = make((2, 2, 1))
    X, T = sides()
    a, b = np.array([["x", "r"], ["y", "r"]], dtype=object), np.array([["x", None], ["z", "r"]], dtype=object)
    found = model.score_sets([X[:2]], [T[:2]], channels_a=[a], channels_b=[b])[0, 0]
    columns = [[*a[:, k], *b[:, k]] for k in range(2)]
    samples = np.vstack([X[:2], T[:2]])
    assert found == pytest.approx(log_p(p, samples, "ssss", *columns) - log_p(p, samples, "sstt", *columns), abs=1e-8)
    plain = PLDA.from_parameters(p.mean, p.loadings[0], None, np.eye(5))
    assert plain.score_sets([X[:1]], [T[:1]])[0] == pytest.approx(plain.score_matrix(X[:1], T[:1])[0], abs=1e-9)


def test_a_beam_comes_close_and_its_error_is_known():
    """Seven samples: 877 partitions; what a narrower beam loses shrinks with its width."""
    model, _ = make((2, 2), d=4)
    rng = np.random.default_rng(8)
    X = np.concatenate([model.sample(["s"] * 7, channels=list("aaabbcc"), random_state=rng) for _ in range(5)])
    T = model.sample(list("stuvw"), channels=list("abcde"), random_state=rng)
    enrollment = model.enroll(X, np.repeat(np.arange(5), 7))
    exact = model.score_enrollment(enrollment, T)
    errors = [np.abs(model.score_enrollment(enrollment, T, beam=beam) - exact).max() for beam in (3, 30, 300)]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.02


def test_many_samples_fall_back_on_a_beam():
    model, _ = make((2, 2), d=4)
    rng = np.random.default_rng(9)
    X = model.sample(["s"] * 12, channels=["a"] * 6 + ["b"] * 6, random_state=rng)
    same, other = (model.sample([s], channels=["c"], random_state=rng) for s in "st")
    scores = [
        model.score_enrollment(model.enroll(X, ["m"] * 12), np.vstack([same, other]), beam=beam) for beam in (40, 200)
    ]
    assert scores[0] == pytest.approx(scores[1], abs=0.1)


def test_float32_is_close():
    rng = np.random.default_rng(10)
    p = draw_parameters(rng, 64, (30, 8))
    model = JointPLDA.from_parameters(p.mean, *p.loadings, np.linalg.inv(p.noise))
    speakers, channels = rng.integers(0, 40, 300), rng.integers(0, 5, 300)
    X = model.sample(speakers, channels=channels, random_state=rng)
    exact = model.score_matrix(X[:150], X[150:])
    close = model.score_matrix(X[:150].astype(np.float32), X[150:].astype(np.float32))
    assert close.dtype == np.float32
    near = np.abs(exact) <= 100
    assert near.sum() > 500
    assert np.abs(close - exact)[near].max() < 1e-3
    enrollment = model.enroll(X[:150], speakers[:150], channels=channels[:150])
    a, b = (model.score_enrollment(enrollment, X[150:], dtype=dtype) for dtype in (np.float32, np.float64))
    assert np.abs(a - b)[np.abs(b) <= 100].max() < 1e-3


def test_averaging_is_not_what_enrollment_does():
    model, _ = make((3, 2))
    X, T = sides()
    by_the_book = model.score_enrollment(model.enroll(X, ["m"] * 5), T)
    average = model.score_matrix(X.mean(axis=0, keepdims=True), T)
    assert np.abs(by_the_book - average).max() > 0.5


def test_large_samples_and_three_conditions_do_not_overflow():
    model, p = make((2, 1, 1, 1))
    E, T = (30.0 * side for side in sides())
    expected = [[brute_pair(p, e, t, [(0.9, 0.2)] * 3) for t in T] for e in E]
    found = model.score_matrix(E, T, same_channel=(0.9, 0.2))
    assert found == pytest.approx(np.array(expected), rel=1e-9, abs=1e-6)


def test_a_mean_far_away_does_not_matter():
    model, p = make((3, 2))
    E, T = sides()
    far = JointPLDA.from_parameters(p.mean + 1e4, *p.loadings, np.linalg.inv(p.noise))
    expected = model.score_matrix(E, T)
    assert far.score_matrix(E + 1e4, T + 1e4, dtype=np.float32) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("ranks, n", [((2, 2), 5), ((2, 1, 1), 3)])
def test_a_beam_as_wide_as_all_partitions_is_exact(ranks, n):
    model, _ = make(ranks, d=3)
    X, T = sides(n=n, m=3, d=3)
    enrollment = model.enroll(X, ["m"] * n)
    exact = model.score_enrollment(enrollment, T, same_channel=(0.7, 0.2))
    partitions_in_all = len(list(partitions(n))) ** (len(ranks) - 1)
    for beam, close in ((partitions_in_all - 1, 0.05), (partitions_in_all // 2, 0.2)):
        found = model.score_enrollment(enrollment, T, same_channel=(0.7, 0.2), beam=beam)
        assert found == pytest.approx(exact, abs=close)
        assert not np.array_equal(found, exact)
        pair = model.score_sets([X[:2]], [X[2:]], same_channel=(0.7, 0.2), beam=beam)
        assert pair == pytest.approx(model.score_sets([X[:2]], [X[2:]], same_channel=(0.7, 0.2)), abs=close)
