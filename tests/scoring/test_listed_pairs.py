"""Listed trials that are computed as pieces of the matrix of their samples."""

import numpy as np
import pytest

from jointplda import JointPLDA
from jointplda.scoring import listed_pairs, scorer
from jointplda.scoring.listed_pairs import ListedPairs


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("way", ["unknown", "known", "trained"])
def test_dense_lists_have_the_scores_of_sparse_ones(way, threads, monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 5)), np.repeat(np.arange(30), 3)
    channels = np.tile(list("abcab"), 18)
    model = JointPLDA(speaker_rank=2, channel_rank=1, max_iter=2).fit(X, y, channels=channels)
    given = {} if way == "unknown" else {"enroll_channels": channels, "test_channels": channels}
    given["use_training"] = way == "trained"
    pairs = rng.integers(0, 90, size=(700, 2)) // 3 * 3 + 1  # a third of the samples, and pairs that repeat
    monkeypatch.setattr(listed_pairs, "ROWS", 4)
    monkeypatch.setattr(listed_pairs, "COLUMNS", 7)
    ways = []
    monkeypatch.setattr(ListedPairs, "fill", _counted(ListedPairs.fill, ways))
    dense = model.score_trials(X, X, pairs, threads=threads, **given)
    monkeypatch.setattr(scorer, "DENSE", 1e9)
    sparse = model.score_trials(X, X, pairs, threads=threads, **given)
    assert ways == [1]
    np.testing.assert_allclose(dense, sparse, rtol=1e-11, atol=1e-11)


def _counted(call, ways):
    def counted(*arguments):
        ways.append(1)
        return call(*arguments)

    return counted


def test_pieces_without_pairs_are_not_computed():
    n = 5000
    pairs = np.stack([np.arange(n), np.arange(n)], axis=1) * 2  # a diagonal
    seen = []

    def fill(rows, columns, out):
        seen.append(out.size)
        out[...] = rows[:, None] * 1e5 + columns

    listed, out = ListedPairs.of(pairs), np.empty(n)
    assert listed.share == 1 / n
    listed.fill(fill, out, 1)
    np.testing.assert_array_equal(out, pairs[:, 0] * 1e5 + pairs[:, 1])
    assert sum(seen) < n * n / 2
    assert max(seen) <= 256 * 2048


def test_no_pairs():
    model = JointPLDA.from_parameters(np.zeros(2), np.eye(2)[:, :1], None, np.eye(2))
    assert model.score_trials(np.ones((3, 2)), np.ones((3, 2)), []).shape == (0,)
