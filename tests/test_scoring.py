"""Likelihood ratios against one dense Gaussian over all samples of a trial (1e-8), and the paper's own formulas."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import paper
from designs import draw_parameters
from jointplda import PLDA, JointPLDA
from oracle import DenseModel

RANKS = [(3, 2), (2, 3), (2, 2, 1), (2, 1, 1, 1)]


def make(ranks, seed=0, d=5):
    p = draw_parameters(np.random.default_rng([seed, *ranks]), d, ranks)
    U = np.concatenate([np.zeros((d, 0)), *p.loadings[1:]], axis=1)
    model = JointPLDA.from_parameters(p.mean, p.loadings[0], U, np.linalg.inv(p.noise), channel_ranks=ranks[1:])
    return model, p


def sides(seed=1, n=5, m=4, d=5):
    rng = np.random.default_rng(seed)
    return 2.0 * rng.normal(size=(n, d)), 2.0 * rng.normal(size=(m, d))


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


def enrolment_labels(K, n=9, seed=4):
    rng = np.random.default_rng(seed)
    names = np.array(["x", "y", "z", None], dtype=object)
    return ["a", "a", "a", "b", "b", "b", "c", "d", "d"], names[rng.integers(-1, 3, (n, K))]


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("with_test_channels", [False, True])
def test_enrolment_with_known_channels(ranks, with_test_channels):
    model, p = make(ranks)
    X, T = sides(n=9)
    K = len(ranks) - 1
    models, channels = enrolment_labels(K)
    test_channels = np.array(["x", "y", "new", None], dtype=object)[np.random.default_rng(5).integers(0, 4, (4, K))]
    enrolment = model.enroll(X, models, channels=channels)
    assert enrolment.models == ("a", "b", "c", "d")
    found = model.score_enrolment(enrolment, T, test_channels=test_channels if with_test_channels else None)
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
    found = model.score_enrolment(model.enroll(X, ["m"] * 6, channels=channels), T)
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
    enrolment = model.enroll(X, models, channels=channels)
    assert sorted(len(group.models) for group in enrolment.groups) == [5, 5]


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
def test_enrolment_with_unknown_channels(ranks, sizes):
    model, p = make(ranks, d=3)
    X, T = sides(n=sum(sizes), m=3, d=3)
    models = np.repeat(["a", "b", "c"][: len(sizes)], sizes)
    found = model.score_enrolment(model.enroll(X, models), T, same_channel=(0.7, 0.2))
    for i, name in enumerate("abc"[: len(sizes)]):
        for j in range(3):
            expected = brute_sets(p, X[models == name], T[[j]], 0.7, 0.2)
            assert found[i, j] == pytest.approx(expected, abs=1e-8)
    singles = model.score_enrolment(model.enroll(X, np.arange(len(X))), T, same_channel=(0.7, 0.2))
    assert singles == pytest.approx(model.score_matrix(X, T, (0.7, 0.2)), abs=1e-9)


@pytest.mark.parametrize("p_same", [0.0, 1.0])
def test_certain_channels_with_several_samples(p_same):
    model, _ = make((2, 2), d=3)
    X, T = sides(n=4, m=3, d=3)
    found = model.score_enrolment(model.enroll(X, ["m"] * 4), T, same_channel=p_same)
    labels = ["x"] * 4 if p_same else list("wxyz")
    own = ["x"] * 3 if p_same else None
    expected = model.score_enrolment(model.enroll(X, ["m"] * 4, channels=labels), T, test_channels=own)
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
    enrolment = model.enroll(X, np.repeat(np.arange(5), 7))
    exact = model.score_enrolment(enrolment, T)
    errors = [np.abs(model.score_enrolment(enrolment, T, beam=beam) - exact).max() for beam in (3, 30, 300)]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.02


def test_many_samples_fall_back_on_a_beam():
    model, _ = make((2, 2), d=4)
    rng = np.random.default_rng(9)
    X = model.sample(["s"] * 12, channels=["a"] * 6 + ["b"] * 6, random_state=rng)
    same, other = (model.sample([s], channels=["c"], random_state=rng) for s in "st")
    scores = [
        model.score_enrolment(model.enroll(X, ["m"] * 12), np.vstack([same, other]), beam=beam) for beam in (40, 200)
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
    enrolment = model.enroll(X[:150], speakers[:150], channels=channels[:150])
    a, b = (model.score_enrolment(enrolment, X[150:], dtype=dtype) for dtype in (np.float32, np.float64))
    assert np.abs(a - b)[np.abs(b) <= 100].max() < 1e-3


def test_sides_files_blocks_and_threads(tmp_path, monkeypatch):
    from jointplda.score import blocks

    model, _ = make((3, 2))
    E, T = sides(n=37, m=23)
    expected = model.score_matrix(E, T)
    monkeypatch.setattr(blocks, "ROWS", 4)
    monkeypatch.setattr(blocks, "COLUMNS", 5)
    for threads in (1, 3):
        assert model.score_matrix(E, T, threads=threads) == pytest.approx(expected, abs=1e-12)
    side = model.prepare(E)
    assert model.score_matrix(side, T) == pytest.approx(expected, abs=1e-12)
    assert model.score_matrix(T, side) == pytest.approx(expected.T, abs=1e-12)
    assert model.score_trials(side, side, [[0, 1], [5, 5]]) == pytest.approx(
        model.score_matrix(E, E)[[0, 5], [1, 5]], abs=1e-12
    )
    stored = model.score_matrix(E, T, out=tmp_path / "scores.npy", dtype=np.float32)
    assert isinstance(stored, np.memmap)
    assert stored.dtype == np.float32
    assert np.load(tmp_path / "scores.npy") == pytest.approx(expected, abs=1e-4)
    assert [path.name for path in tmp_path.iterdir()] == ["scores.npy"]


def test_progress_and_interrupts(monkeypatch):
    from jointplda.score import blocks

    model, _ = make((3, 2))
    E, T = sides(n=40, m=3)
    monkeypatch.setattr(blocks, "ROWS", 4)
    seen = []
    model.score_matrix(E, T, callback=lambda done, total: seen.append((done, total)), threads=2)
    assert seen[-1] == (40, 40)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    begun = []

    def stop(done, total):
        begun.append(done)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.score_matrix(E, T, callback=stop, threads=2)
    assert len(begun) < 10


def test_an_interrupted_file_is_not_left(tmp_path, monkeypatch):
    from jointplda.score.pairs import PairScorer

    model, _ = make((3, 2))
    E, T = sides()

    def stop(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(PairScorer, "fill", stop)
    with pytest.raises(KeyboardInterrupt):
        model.score_matrix(E, T, out=tmp_path / "scores.npy")
    assert list(tmp_path.iterdir()) == []


def test_averaging_is_not_what_enrolment_does():
    model, _ = make((3, 2))
    X, T = sides()
    by_the_book = model.score_enrolment(model.enroll(X, ["m"] * 5), T)
    average = model.score_matrix(X.mean(axis=0, keepdims=True), T)
    assert np.abs(by_the_book - average).max() > 0.5


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda m, E, T: m.score_matrix(E[:, :4], T), "enroll: expected samples of dimension 5, got 4"),
        (lambda m, E, T: m.score_matrix(E, T[0]), r"test: expected shape \(samples, dimensions\)"),
        (lambda m, E, T: m.score_matrix(E, T[:0]), "test: expected at least one sample"),
        (lambda m, E, T: m.score_matrix(E * np.nan, T), "NaN or infinity in row"),
        (lambda m, E, T: m.score_matrix(E, T, 1.5), "same_channel: expected probabilities from 0 to 1"),
        (lambda m, E, T: m.score_matrix(E, T, -0.1), "same_channel: expected probabilities"),
        (lambda m, E, T: m.score_matrix(E, T, np.nan), "same_channel: expected probabilities"),
        (lambda m, E, T: m.score_matrix(E, T, "half"), "same_channel: expected a number"),
        (lambda m, E, T: m.score_matrix(E, T, [(0.5, 0.5)] * 3), r"1 pairs, one per condition, got shape \(3, 2\)"),
        (lambda m, E, T: m.score_matrix(E, T, (0.1, 0.2, 0.3)), "same_channel: expected a number, a pair"),
        (lambda m, E, T: m.score_matrix(E, T, dtype=int), "dtype: expected float32 or float64"),
        (lambda m, E, T: m.score_matrix(E, T, enroll_channels=["a"]), "enroll_channels: expected 5 labels"),
        (lambda m, E, T: m.score_matrix(E, T, enroll_channels=np.zeros((5, 2))), r"expected 1 nuisance condition"),
        (lambda m, E, T: m.score_matrix(E, T, channel_weights="estimated"), "does not know its training channels"),
        (lambda m, E, T: m.score_matrix(E, T, out="/nowhere/s.npy"), "does not exist; create it first"),
        (lambda m, E, T: m.score_trials(E, T, [[0, 4]]), r"row 0 is \[0, 4\], out of range for 5 enrolment and 4"),
        (lambda m, E, T: m.score_trials(E, T, [[0, -1]]), "out of range"),
        (lambda m, E, T: m.score_trials(E, T, [[0.5, 1]]), "pairs: expected integers"),
        (lambda m, E, T: m.score_trials(E, T, [0, 1]), r"shape \(trials, 2\)"),
        (lambda m, E, T: m.enroll(E, ["a"]), "models: expected 5 labels"),
        (lambda m, E, T: m.enroll(E, ["a", None, "b", "b", "b"]), r"no model given for row\(s\) \[1\]"),
        (lambda m, E, T: m.score_enrolment(E, T), "expected what enroll"),
        (
            lambda m, E, T: m.score_enrolment(m.enroll(E, list("aabbc")), T, models=["a", "q"]),
            r"1 of them were not enrolled, such as \['q'\]",
        ),
        (
            lambda m, E, T: m.score_enrolment(m.enroll(E, list("aabbc")), T, test_channels=["x"] * 4),
            "the enrolment was made without channels",
        ),
        (lambda m, E, T: m.score_enrolment(m.enroll(E, list("aabbc")), T, beam=0), "beam must be a whole number"),
        (lambda m, E, T: m.score_sets(E, [T]), "sets_a: expected a list"),
        (lambda m, E, T: m.score_sets([], [T]), "sets_a: expected at least one set"),
        (lambda m, E, T: m.score_sets([E], [T], channels_a=[["x"] * 5]), "for every set on both sides, or for none"),
        (lambda m, E, T: m.predict(E), "does not know its training"),
        (lambda m, E, T: m.channel_posterior(E), "does not know its training"),
        (lambda m, E, T: make((3, 2))[0].score_matrix(make((2, 2, 1))[0].prepare(E), T), "prepared by another model"),
    ],
)
def test_bad_input(call, message):
    model, _ = make((3, 2))
    E, T = sides()
    with pytest.raises(ValueError, match=message):
        call(model, E, T)


def test_models_can_be_chosen():
    model, _ = make((3, 2))
    E, T = sides()
    enrolment = model.enroll(E, list("aabbc"))
    everything = model.score_enrolment(enrolment, T)
    assert np.array_equal(model.score_enrolment(enrolment, T, models=["c", "a"]), everything[[2, 0]])
    assert len(enrolment) == 3


def test_what_another_model_prepared_is_refused():
    model, p = make((3, 2))
    other, _ = make((3, 2), seed=7)
    E, T = sides()
    with pytest.raises(ValueError, match="prepared by another model, or before this one was fitted again"):
        model.score_matrix(other.prepare(E), T)
    with pytest.raises(ValueError, match="made by another model"):
        model.score_enrolment(other.enroll(E, list("aabbc")), T)
    same = JointPLDA.from_parameters(p.mean, *p.loadings, np.linalg.inv(p.noise))
    assert np.array_equal(model.score_matrix(same.prepare(E), T), model.score_matrix(E, T))


def test_scores_follow_the_parameters():
    model, _ = make((3, 2))
    E, T = sides()
    before = model.score_matrix(E, T)
    model.V_ *= 2.0
    fresh = JointPLDA.from_parameters(model.mean_, model.V_, model.U_, model.D_)
    assert model.score_matrix(E, T) == pytest.approx(fresh.score_matrix(E, T), abs=1e-12)
    assert np.abs(model.score_matrix(E, T) - before).max() > 0.1


def test_types_of_sides_and_scores():
    model, _ = make((3, 2))
    E, T = sides()
    side = model.prepare(E, dtype=np.float32)
    assert side.table.dtype == np.float32
    assert model.score_matrix(side, T).dtype == np.float32
    assert model.score_matrix(T, side).dtype == np.float32
    assert model.score_matrix(model.prepare(E), T, dtype="f4").dtype == np.float32
    assert model.score_matrix(model.prepare(E), side).dtype == np.float64
    assert model.score_trials(E, T, []).shape == (0,)


def test_float32_that_would_lose_too_much_is_not_used_unasked():
    rng = np.random.default_rng(11)
    model = JointPLDA.from_parameters(np.zeros(6), rng.normal(size=(6, 6)), rng.normal(size=(6, 1)), np.eye(6) * 1e7)
    X = model.sample([0, 0, 1, 1], channels=[0, 1, 0, 1], random_state=0)
    exact = model.score_matrix(X, X)
    assert model.score_matrix(X.astype(np.float32), X.astype(np.float32)).dtype == np.float64
    with pytest.warns(Warning, match="float32 scores may be off"):
        model.score_matrix(X, X, dtype=np.float32)
    assert np.isfinite(exact).all()


def test_sides_are_matched_by_name_without_training():
    import pandas as pd

    model, _ = make((2, 2, 1))
    E, T = sides()
    first = pd.DataFrame({"language": list("xxyyx"), "room": list("rsrsr")})
    second = pd.DataFrame({"language": list("xyxy"), "room": list("rrss")})
    found = model.score_matrix(E, T, enroll_channels=first, test_channels=second[["room", "language"]])
    assert found == pytest.approx(model.score_matrix(E, T, enroll_channels=first, test_channels=second))
    enrolment = model.enroll(E, list("aabbc"), channels=first)
    a, b = (model.score_enrolment(enrolment, T, test_channels=c) for c in (second, second[["room", "language"]]))
    assert np.array_equal(a, b)


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2"])
def test_bad_threads_destroy_nothing(threads, tmp_path):
    model, _ = make((3, 2))
    E, T = sides()
    model.score_matrix(E, T, out=tmp_path / "good.npy")
    before = (tmp_path / "good.npy").read_bytes()
    with pytest.raises(ValueError, match="threads must be a whole number"):
        model.score_matrix(E, T, out=tmp_path / "good.npy", threads=threads)
    assert (tmp_path / "good.npy").read_bytes() == before
    (tmp_path / "plain").write_text("")
    assert (tmp_path / "good.npy").stat().st_mode == (tmp_path / "plain").stat().st_mode
    with pytest.raises(ValueError, match="got a folder"):
        model.score_matrix(E, T, out=tmp_path)


def test_more_odd_arguments():
    model, _ = make((3, 2))
    E, T = sides()
    for call, message in [
        (lambda: model.score_sets((x for x in ()), [T]), "at least one set"),
        (lambda: model.score_sets(3, [T]), "got int"),
        (lambda: model.score_enrolment(model.enroll(E, list("aabbc")), T, models=1), "expected a list of labels"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
    from sklearn.exceptions import NotFittedError

    for name in ("score_matrix", "score_sets"):
        with pytest.raises(NotFittedError):
            getattr(JointPLDA(), name)(E, T)
    generated = model.score_sets((one for one in (E[:2], E[2:])), [T])
    assert generated.shape == (2, 1)


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


def test_many_pieces(monkeypatch):
    from jointplda.estimators import scoring
    from jointplda.score import against, pairs

    model, _ = make((2, 2), d=3)
    E, T = sides(n=12, m=7, d=3)
    rows = np.array([(i, j) for i in range(12) for j in range(7)])
    labels = list("xyzxyzxyzxyz")

    def everything():
        return [
            model.score_trials(E, T, rows),
            model.score_matrix(E, T),
            model.score_enrolment(model.enroll(E, np.arange(12), channels=labels), T, test_channels=list("xyzxyzq")),
            model.score_enrolment(model.enroll(E, np.arange(12) // 3), T),
        ]

    expected = everything()
    monkeypatch.setattr(scoring, "TRIALS", 5)
    monkeypatch.setattr(pairs, "PIECE", 5)
    monkeypatch.setattr(against, "ROWS", 2)
    monkeypatch.setattr(against, "NUMBERS", 1)
    for a, b in zip(everything(), expected):
        assert a == pytest.approx(b, abs=1e-10)


@pytest.mark.parametrize("ranks, n", [((2, 2), 5), ((2, 1, 1), 3)])
def test_a_beam_as_wide_as_all_partitions_is_exact(ranks, n):
    model, _ = make(ranks, d=3)
    X, T = sides(n=n, m=3, d=3)
    enrolment = model.enroll(X, ["m"] * n)
    exact = model.score_enrolment(enrolment, T, same_channel=(0.7, 0.2))
    partitions_in_all = len(list(partitions(n))) ** (len(ranks) - 1)
    for beam, close in ((partitions_in_all - 1, 0.05), (partitions_in_all // 2, 0.2)):
        found = model.score_enrolment(enrolment, T, same_channel=(0.7, 0.2), beam=beam)
        assert found == pytest.approx(exact, abs=close)
        assert not np.array_equal(found, exact)
        pair = model.score_sets([X[:2]], [X[2:]], same_channel=(0.7, 0.2), beam=beam)
        assert pair == pytest.approx(model.score_sets([X[:2]], [X[2:]], same_channel=(0.7, 0.2)), abs=close)


def test_models_of_very_different_sizes():
    model, _ = make((3, 2))
    rng = np.random.default_rng(12)
    X = rng.normal(size=(1200, 5))
    models = np.where(np.arange(1200) < 700, "large", [f"m{i}" for i in range(1200)])
    enrolment = model.enroll(X, models, channels=rng.integers(0, 3, 1200))
    assert len(enrolment) == 501
    assert len(enrolment.groups) == 2
    found = model.score_enrolment(enrolment, X[:2])
    alone = model.score_enrolment(model.enroll(X[900:901], ["m900"], channels=["c"]), X[:2])
    assert found[enrolment.models.index("m900")] == pytest.approx(alone[0], abs=1e-9)
