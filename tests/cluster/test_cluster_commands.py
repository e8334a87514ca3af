"""Commands whose files the workers of a cluster read."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from jointplda import Pipeline, Statistics
from jointplda.cluster import file_shards, statistics_on_cluster
from jointplda.commands import cluster_input
from jointplda.score_stores.block_writing import opened_scores
from worlds.command_line import run
from worlds.shards import samples, written

LABELS = ["--speaker", "speaker", "--channel", "language"]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    X, s, c = samples()
    return X, written(tmp_path_factory.mktemp("shards"), X, s, c)


def test_training_and_scoring(cluster, world, tmp_path, monkeypatch):
    """The same model and scores as of one process, and one message that says what the workers do."""
    X, paths = world
    monkeypatch.setattr(cluster_input, "SHARD_BYTES", 4000)
    settings = [*LABELS, "--no-auto", "--center", "--length-norm", "--max-iter", 4, "--interaction", "0.3"]
    said = run("train", *paths, *settings, "--dask", cluster, "--out", tmp_path / "m").stderr
    assert "shard(s)" in said
    assert f"{len(X):,} samples of" in said
    run("train", *paths, *settings, "--out", tmp_path / "alone")
    models = [Pipeline.load(tmp_path / name) for name in ("m", "alone")]
    scores = [model.score_matrix(X[:20], X[20:40], dtype=np.float64) for model in models]
    assert_allclose(scores[0], scores[1], rtol=1e-8, atol=1e-8)
    arguments = ["score", tmp_path / "m", "--enroll", paths[0], "--test", paths[1], "--all"]
    run(*arguments, "--dask", cluster, "--out", tmp_path / "a.zarr")
    run(*arguments, "--out", tmp_path / "b.zarr")
    found = [np.asarray(opened_scores(tmp_path / name)[...]) for name in ("a.zarr", "b.zarr")]
    assert_allclose(found[0], found[1], rtol=1e-10, atol=1e-10)


def test_sums(cluster, world, tmp_path):
    _, paths = world
    run("statistics", *paths, *LABELS, "--dask", cluster, "--out", tmp_path / "sums")
    found = Statistics.load(tmp_path / "sums")
    expected = statistics_on_cluster(file_shards(paths, channels=["language"]), None)
    assert found.n_samples == expected.n_samples
    assert np.array_equal(found.covariance, expected.covariance)


def test_wrong_uses(world, tmp_path):
    _, paths = world
    address = "tcp://127.0.0.1:1"
    out = ["--out", tmp_path / "m"]
    error = run("train", *paths, *LABELS, "--dask", address, "--no-auto", *out, code=1).stderr
    assert "no scheduler of Dask answers there" in error
    assert "leave out --resume" in run("train", *paths, *LABELS, "--dask", address, "--plan", code=2).stderr
    (tmp_path / "utt2spk").write_text("a b\n")
    error = run("train", *paths, "--speaker", tmp_path / "utt2spk", "--dask", address, *out, code=1).stderr
    assert "workers know label columns alone" in error
    run("train", *paths, *LABELS, "--no-auto", "--max-iter", 2, *out)
    arguments = ["score", tmp_path / "m", "--enroll", paths[0], "--all", "--dask", address]
    assert "into a .zarr folder" in run(*arguments, "--out", tmp_path / "s.npy", code=2).stderr
