"""Corners of the engine that ordinary designs do not reach."""

from dataclasses import replace

import numpy as np
import pytest

from jointplda import PLDA, JointPLDA, Statistics, make_pipeline, sample_matrix
from jointplda.model.coupled import dense
from jointplda.model.em import run_em
from jointplda.model.estep import e_step
from jointplda.model.layout import lay_out
from jointplda.model.mstep import NoiseModel, Prior, m_step
from jointplda.model.posterior import posterior
from jointplda.preprocessing import Center
from oracles.dense import DenseModel
from worlds.designs import channels_of, draw, draw_parameters, relative, start_at_random, statistics_of, world


def assert_exact(columns, ranks, orders, seed=0):
    rng = np.random.default_rng(seed)
    p = draw_parameters(rng, 3, ranks)
    X = rng.normal(size=(len(columns[0]), 3))
    dense = DenseModel(p.mean, p.loadings, p.noise, columns)
    R, _ = dense.moments(X)
    for order in orders:
        moments, value = e_step(lay_out(statistics_of(X, columns), ranks, order), p)
        assert value == pytest.approx(dense.log_likelihood(X), rel=1e-11)
        assert relative(moments.R, R) < 1e-11


def test_components_that_differ_only_in_what_their_counts_are_of():
    """Two samples of one speaker in a channel, or two unlabelled ones beside: the same numbers, other meanings."""
    speakers = list("aabbbbbqq")
    channels = ["x", "x", "y", "y", None, None, None, "z", "z"]
    assert_exact([speakers, channels], (2, 2), [0])


def test_components_that_differ_only_in_how_their_levels_are_linked():
    """K3,3 and the prism have the same sizes and degrees; one speaker for each edge."""
    bipartite = [(i, j) for i in range(3) for j in range(3, 6)]
    prism = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (0, 3), (1, 4), (2, 5)]
    speakers, channels = [], []
    for graph, edges in enumerate((bipartite, prism)):
        for e, ends in enumerate(edges):
            for end in ends:
                speakers.append(f"{graph}-{e}")
                channels.append(f"{graph}-{end}")
    assert_exact([speakers, channels], (1, 1), [0])


def test_components_of_the_same_size_with_other_factors():
    """One component has two languages and one room, the other one language and two rooms."""
    speakers = list("aaabbb")
    languages = ["l1", "l2", "l1", "m1", "m1", "m1"]
    rooms = ["r1", "r1", "r1", "q1", "q2", "q1"]
    assert_exact([speakers, languages, rooms], (1, 1, 1), [0, 1, 2])


def test_relabelled_components_are_one_class():
    orders = [(2, 1, 3), (3, 1, 2), (1, 2, 3), (2, 3, 1), (1, 3, 2), (3, 2, 1)]
    speakers, sessions = [], []
    for s, counts in enumerate(orders):
        for session, n in enumerate(counts):
            speakers += [s] * n
            sessions += [f"{s}-{session}"] * n
    X = np.random.default_rng(0).normal(size=(len(speakers), 3))
    crossing = lay_out(statistics_of(X, [speakers, sessions]), (2, 2), 0)
    assert [batch.multiplicity.tolist() for batch in crossing.solver.batches] == [[6]]


@pytest.mark.parametrize("name", ["two conditions, some missing", "joint, Rx < Ry"])
def test_real_weights_split_samples(name):
    X, columns, p = draw(name, seed=21)
    u = np.random.default_rng(0).uniform(0.1, 0.9, len(X))
    channels = channels_of(columns)
    twice = Statistics.from_samples(
        np.vstack([X, X]), columns[0] * 2, np.vstack([channels, channels]), sample_weight=np.r_[u, 1 - u]
    )
    values = [e_step(lay_out(s, p.ranks), p)[1] for s in (twice, statistics_of(X, columns))]
    assert values[0] == pytest.approx(values[1], rel=1e-11)
    assert twice.n_samples == pytest.approx(len(X))


def test_small_pieces_change_nothing(monkeypatch):
    X, columns, p = draw("two conditions, some missing", seed=22)
    whole = posterior(X, columns[0], channels_of(columns), p)
    _, expected = e_step(lay_out(statistics_of(X, columns), p.ranks), p)
    monkeypatch.setattr(dense, "CHUNK_NUMBERS", 3)
    monkeypatch.setattr(sample_matrix, "CHUNK_ROWS", 3)
    pieces = posterior(X, columns[0], channels_of(columns), p)
    moments, value = e_step(lay_out(statistics_of(X, columns), p.ranks), p)
    R, _ = DenseModel(p.mean, p.loadings, p.noise, columns).moments(X)
    assert value == pytest.approx(expected, rel=1e-12)
    assert relative(moments.R, R) < 1e-11
    for a, b in zip(whole.channels, pieces.channels):
        assert a.means == pytest.approx(b.means, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("missing", [(1,), (2,), (1, 2)])
def test_posteriors_where_a_whole_condition_is_missing(missing):
    X, columns, p = draw("two conditions", seed=23)
    columns = [[None] * len(X) if k in missing else column for k, column in enumerate(columns)]
    found = posterior(X, columns[0], channels_of(columns), p)
    dense = DenseModel(p.mean, p.loadings, p.noise, columns)
    z, covariance = dense.posterior(X)
    for k, factor in enumerate([found.speakers, *found.channels]):
        for i in range(len(X)):
            rows, level = dense._rows(k, i), factor.index[i]
            assert factor.means[level] == pytest.approx(z[rows], rel=1e-9, abs=1e-11)
            assert factor.covariances[level] == pytest.approx(covariance[np.ix_(rows, rows)], rel=1e-9, abs=1e-11)


def test_a_diagonal_floor():
    floor = np.array([1.0, 4.0, 0.1])
    C = np.diag([2.0, 3.0, 0.05]) + 0.3
    assert np.array_equal(NoiseModel(True, floor).nearest(C), np.diag([2.3, 4.0, 0.35]))


def test_a_full_floor_is_the_constrained_maximum():
    rng = np.random.default_rng(1)
    floor = np.array([0.5, 1.0, 2.0])
    A = rng.normal(size=(3, 2))
    S = A @ A.T
    C = NoiseModel(False, floor).nearest(S)

    def value(C):
        return -np.linalg.slogdet(C)[1] - np.trace(np.linalg.solve(C, S))

    assert np.linalg.eigvalsh(C - np.diag(floor)).min() > -1e-12
    for _ in range(200):
        step = rng.normal(size=(3, 3)) * 0.1
        other = C + step @ step.T * rng.choice([1.0, 0.01]) + 0.5 * rng.random() * (S - C) * 0.1
        if np.linalg.eigvalsh(other - np.diag(floor)).min() >= 0:
            assert value(other) <= value(C) + 1e-12


def test_one_map_step_equals_the_formulas():
    """Design of the step with a speaker prior, from the moments of the dense model."""
    X, columns, p = draw("joint, full ranks", seed=24)
    prior, d, r = Prior(7.0, 1.5, 4.0, 0.8), 3, 3
    statistics = statistics_of(X, columns)
    crossing = lay_out(statistics, p.ranks)
    moments, _ = e_step(crossing, p)
    stepped, _ = m_step(moments, p, crossing.scatter(), crossing.shift, prior, NoiseModel(False, np.full(d, 1e-12)))
    dense = DenseModel(p.mean, p.loadings, p.noise, columns)
    R, T = dense.moments(X)
    z, covariance = dense.posterior(X)
    V = p.loadings[0]
    rest = np.linalg.solve(R[r:, r:], T[r:] - R[r:, :r] @ V.T).T
    W = np.concatenate([V, rest], axis=1)
    C = X.T @ X - W @ T - (W @ T).T + W @ R @ W.T
    assert relative(stepped.noise, (C + 7.0 * 1.5 * np.eye(d)) / (len(X) + 7.0)) < 1e-9
    second = [sum(np.outer(z[s], z[s]) + covariance[s, s] for s in spans) for spans in dense.spans]
    B = (V @ second[0] @ V.T + 4.0 * 0.8 * np.eye(d)) / (len(dense.spans[0]) + 4.0)
    assert relative(stepped.loadings[0] @ stepped.loadings[0].T, B) < 1e-9
    average = np.mean([z[s] for s in dense.spans[1]], axis=0)
    U = rest[:, :r]
    expected = U @ (second[1] / len(dense.spans[1]) - np.outer(average, average)) @ U.T
    assert relative(stepped.loadings[1] @ stepped.loadings[1].T, expected) < 1e-9
    assert stepped.mean == pytest.approx(rest[:, -1] + U @ average, rel=1e-9)


def test_tolerance_is_per_sample():
    X, s, c, _ = world(np.random.default_rng(7), 5, (2, 1), 60, 8, 1000, 1)
    model = JointPLDA(speaker_rank=2, channel_rank=1, tol=1e-6).fit(X, s, channels=c)
    gains = np.diff(model.log_likelihoods_)
    assert gains[-1] < 1e-6
    assert np.all(gains[:-1] >= 1e-6)
    assert gains[-1] * len(X) > 1e-6


def test_an_iteration_that_would_lose_is_not_taken(monkeypatch):
    from jointplda.model import em

    X, s, c, _ = world(np.random.default_rng(8), 4, (2, 1), 20, 4, 200)
    statistics = Statistics.from_samples(X, s, c)
    noise = NoiseModel(False, np.full(4, 1e-6))
    start = start_at_random(statistics, (2, 1), noise, np.random.default_rng(0))
    real, calls = em.solve, []

    def solve(*args):
        calls.append(1)
        found = real(*args)
        return replace(found, log_likelihoods=found.log_likelihoods - 1000.0 * (len(calls) == 4))

    monkeypatch.setattr(em, "solve", solve)
    fit = run_em(lay_out(statistics, (2, 1)), start, prior=Prior(), noise=noise, max_iter=9, tol=0.0)
    assert len(fit.log_likelihoods) == 2
    assert not fit.converged


@pytest.mark.parametrize("losing", [2, 4])
def test_stopping_before_a_loss_is_a_warning(monkeypatch, losing):
    """The start is the first E step; the first or the third iteration is made to lose."""
    from jointplda.model import em

    X, s, c, _ = world(np.random.default_rng(8), 4, (2, 1), 20, 4, 200)
    real, calls = em.solve, []

    def solve(*args):
        calls.append(1)
        found = real(*args)
        return replace(found, log_likelihoods=found.log_likelihoods - 1000.0 * (len(calls) == losing))

    monkeypatch.setattr(em, "solve", solve)
    with pytest.warns(Warning, match=rf"stopped after {losing - 2} iteration.*lost likelihood to rounding"):
        model = JointPLDA(speaker_rank=2, channel_rank=1, tol=0.0).fit(X, s, channels=c)
    assert model.n_iter_ == losing - 2
    assert not model.converged_


def test_settings_reach_the_fit():
    X, s, c, _ = world(np.random.default_rng(9), 5, (2, 1), 30, 6, 300)
    for model in (
        JointPLDA(speaker_rank=2, channel_rank=1, noise="diagonal", tol=1e-3).fit(X, s, channels=c),
        PLDA(speaker_rank=2, channel_rank=1, tol=1e-3).fit(X, s),
    ):
        assert np.array_equal(model.D_, np.diag(np.diagonal(model.D_)))
    weak, strong = (
        JointPLDA(speaker_rank=None, channel_rank=1, speaker_prior=v, tol=1e-3).fit(X, s, channels=c)
        for v in (0.1, 2.0)
    )
    assert np.ptp(np.log(np.linalg.eigvalsh(weak.V_ @ weak.V_.T))) > np.ptp(
        np.log(np.linalg.eigvalsh(strong.V_ @ strong.V_.T))
    )
    with pytest.warns(Warning, match="floor .0.9 of the total"):
        floored = PLDA(speaker_rank=2, noise_floor=0.9, tol=1e-3).fit(X, s)
    assert np.linalg.eigvalsh(np.linalg.inv(floored.D_) - 0.9 * np.diag(X.var(axis=0))).min() > -1e-6
    channels = np.where(np.arange(len(X)) % 2, None, c.astype(object) % 2)
    assert JointPLDA(speaker_rank=2, tol=1e-2).fit(X, s, channels=channels).channel_ranks_ == (
        1,
    )  # of two named channels
    statistics = Statistics.from_samples(X, s, c)
    assert np.array_equal(PLDA(speaker_rank=2).fit_statistics(statistics).V_, PLDA(speaker_rank=2).fit(X, s).V_)
    model = JointPLDA(speaker_rank=2, channel_rank=1, tol=1e-2).fit(X, s, channels=c)
    assert np.array_equal(*(model.sample(s[:5], c[:5], random_state=np.random.RandomState(4)) for _ in range(2)))


def test_weights_reach_a_pipeline():
    X, s, c, _ = world(np.random.default_rng(10), 4, (2, 1), 20, 4, 200)
    pipe = make_pipeline(Center(), JointPLDA(speaker_rank=2, channel_rank=1, tol=1e-3)).fit(X, s, c)
    w = np.arange(len(X)) % 3
    repeated = pipe.score(np.repeat(X, w, axis=0), np.repeat(s, w), channels=np.repeat(c, w))
    assert pipe.score(X, s, sample_weight=w, channels=c) == pytest.approx(repeated, rel=1e-10)


def test_rows_of_bad_numbers_are_named_in_every_piece(monkeypatch):
    monkeypatch.setattr(sample_matrix, "CHUNK_ROWS", 4)
    X = np.zeros((20, 2))
    X[[9, 17]] = np.nan
    channels = [None if i % 2 else "c" for i in range(20)]
    with pytest.raises(ValueError, match=r"row\(s\) \[9\]"):
        Statistics.from_samples(X, np.arange(20))
    with pytest.raises(ValueError, match=r"row\(s\) \[9\]|\[17\]"):
        Statistics.from_samples(X, np.arange(20), channels, shift=np.zeros(2))


def test_constant_columns_and_scales():
    X = np.random.default_rng(11).normal(size=(50, 3))
    X[:, 1] = 0.1
    statistics = Statistics.from_samples(X, np.arange(50) % 5)
    assert statistics.constant.tolist() == [False, True, False]
    assert statistics.scales[[0, 2]] == pytest.approx(X.var(axis=0)[[0, 2]])
    assert statistics.scales[1] == pytest.approx(X.var(axis=0)[[0, 2]].mean())


def test_what_a_fit_leaves_behind():
    import pandas as pd

    X, s, c, _ = world(np.random.default_rng(12), 5, (2, 1), 20, 4, 200)
    frame = pd.DataFrame(X, columns=list("vwxyz"))
    model = JointPLDA(speaker_rank=2, channel_rank=1, tol=1e-2, warm_start=True).fit(frame, s, channels=c)
    assert model.feature_names_in_.tolist() == list("vwxyz")
    model.fit_statistics(Statistics.from_samples(X[:, :4], s, c))
    assert not hasattr(model, "feature_names_in_")
    assert model.mean_.shape == (4,)
    largest = np.argmax(np.abs(model.V_), axis=0)
    assert np.all(model.V_[largest, np.arange(2)] > 0)
    assert model.training_ == {"samples": 200.0, "speakers": 20, "channels": [4], "conditions": ["channel"]}


def test_conditions_keep_their_names_and_ranks(tmp_path):
    import pandas as pd

    X, s, c, _ = world(np.random.default_rng(13), 4, (2, 1), 20, 4, 200)
    frame = pd.DataFrame({"language": c, "room": (c + s) % 3})
    assert Statistics.from_samples(X, s, frame).with_conditions([1]).conditions == ("room",)
    model = JointPLDA(speaker_rank=2, channel_rank=[2, 1], tol=1e-2).fit(X, s, channels=frame)
    model.save(tmp_path / "m.safetensors")
    loaded = JointPLDA.load(tmp_path / "m.safetensors")
    assert loaded.channel_ranks_ == (2, 1)
    assert loaded.training_["conditions"] == ["language", "room"]
    swapped = frame[["room", "language"]]
    assert loaded.score(X, s, channels=swapped) == pytest.approx(model.score(X, s, channels=frame))


def test_pipelines_skip_what_does_nothing(tmp_path):
    from sklearn.exceptions import NotFittedError

    from jointplda import Pipeline

    X, s, c, _ = world(np.random.default_rng(14), 4, (2, 1), 20, 4, 200)
    pipe = Pipeline([("nothing", "passthrough"), ("model", JointPLDA(speaker_rank=2, channel_rank=1, tol=1e-2))]).fit(
        X, s, c
    )
    pipe.save(tmp_path / "p")
    assert list(Pipeline.load(tmp_path / "p").named_steps) == ["model"]
    with pytest.raises(NotFittedError):
        Pipeline([("center", Center()), ("model", pipe[-1])]).save(tmp_path / "q")
    with pytest.raises(NotFittedError):
        make_pipeline(Center(), JointPLDA()).save(tmp_path / "q")


@pytest.mark.parametrize("ranks", [[-1, 2], [[1]], ["a"], 2.0, [1.0]])
def test_channel_ranks_of_given_parameters(ranks):
    with pytest.raises(ValueError, match=r"channel_ranks: expected ranks that add up to 1"):
        JointPLDA.from_parameters(np.zeros(3), np.ones((3, 1)), np.ones((3, 1)), np.eye(3), channel_ranks=ranks)
