"""Blocks of scores on the workers of a cluster: they are those of one process, whatever happens to the workers."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from jointplda import FileError, InputError, JointPLDA, make_pipeline
from jointplda.cluster import file_shards, score_on_cluster
from jointplda.formats import read_embeddings, read_scores
from jointplda.preprocessing import LengthNorm
from jointplda.score_stores.block_writing import finished_blocks, opened_scores
from worlds.shards import samples, written
from worlds.small_blocks import blocks_of

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A model file, the embeddings, and the files of two sides."""
    folder = tmp_path_factory.mktemp("sides")
    X, s, c = samples()
    model = make_pipeline(LengthNorm(), JointPLDA(max_iter=5, tol=1.0)).fit(X, s, channels=c)
    model.save(folder / "model.safetensors")
    paths = written(folder, X, s, c)
    return folder / "model.safetensors", model, paths


def matrix(path):
    return np.asarray(opened_scores(path)[...])


def test_blocks_are_those_of_one_process(cluster, world, tmp_path, monkeypatch):
    path, model, paths = world
    blocks_of(monkeypatch, 70)
    enroll, test = file_shards(paths[:2], rows=100), file_shards(paths[1:])
    said = []
    score_on_cluster(tmp_path / "a.zarr", path, enroll, test, cluster, callback=said.append)
    score_on_cluster(tmp_path / "b.zarr", path, enroll, test, None)
    found = matrix(tmp_path / "a.zarr")
    assert found.tobytes() == matrix(tmp_path / "b.zarr").tobytes()
    E, T = (np.concatenate([read_embeddings(each).X for each in side]) for side in (paths[:2], paths[1:]))
    assert_allclose(found, model.score_matrix(E, T), rtol=1e-9, atol=1e-9)
    assert [one.done for one in said] == list(range(1, said[0].total + 1))
    assert {one.detail[:15] for one in said} == {"tcp://127.0.0.1"}
    scores = read_scores(tmp_path / "a.zarr")
    assert scores.trials.models[:2].tolist() == ["0-0", "0-1"]
    assert scores.trials.samples[-1] == "3-719"
    assert not list(tmp_path.glob("*.unfinished"))


def test_known_channels_and_settings(cluster, world, tmp_path, monkeypatch):
    path, model, paths = world
    blocks_of(monkeypatch, 100)
    side = file_shards(paths[:1], channels=["language"], rows=150)
    score_on_cluster(tmp_path / "a.zarr", path, side, None, cluster, same_channel=0.3)
    table = read_embeddings(paths[0])
    channels = table.columns["language"]
    expected = model.score_matrix(table.X, table.X, 0.3, enroll_channels=channels, test_channels=channels)
    assert_allclose(matrix(tmp_path / "a.zarr"), expected, rtol=1e-9, atol=1e-9)


def test_a_killed_worker_changes_nothing(cluster, world, tmp_path, monkeypatch, capfd):
    path, _, paths = world
    blocks_of(monkeypatch, 40)
    side = file_shards(paths[:2])
    score_on_cluster(tmp_path / "b.zarr", path, side, None, None)
    with distributed.Client(cluster, set_as_default=False) as client:
        processes, killed = client.run(os.getpid), []
    capfd.readouterr()

    def kill(progress):
        if not killed:
            killed.append(processes[progress.detail])
            os.kill(killed[0], signal.SIGKILL)

    score_on_cluster(tmp_path / "a.zarr", path, side, None, cluster, callback=kill)
    assert killed
    assert matrix(tmp_path / "a.zarr").tobytes() == matrix(tmp_path / "b.zarr").tobytes()
    assert capfd.readouterr().err == ""


def test_an_interrupted_matrix_goes_on(cluster, world, tmp_path, monkeypatch):
    path, _, paths = world
    blocks_of(monkeypatch, 40)
    side, out = file_shards(paths[:2]), tmp_path / "a.zarr"

    def stop(progress):
        if progress.done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        score_on_cluster(out, path, side, None, cluster, callback=stop)
    assert finished_blocks(out) >= 3
    assert not out.exists()
    with pytest.raises(FileError, match=r"holds \d+ of the 81 blocks.*resume=True"):
        score_on_cluster(out, path, side, None, cluster)
    with pytest.raises(FileError, match="was begun with something else: same_channel differs"):
        score_on_cluster(out, path, side, None, cluster, resume=True, same_channel=0.1)
    said = []
    score_on_cluster(out, path, side, None, cluster, resume=True, callback=said.append)
    assert said[0].done > 3
    assert said[-1].done == said[-1].total == 81
    score_on_cluster(tmp_path / "b.zarr", path, side, None, None)
    assert matrix(out).tobytes() == matrix(tmp_path / "b.zarr").tobytes()


def test_what_is_wrong_is_one_error(cluster, world, tmp_path, monkeypatch, capfd):
    path, *_ = world
    blocks_of(monkeypatch, 70)
    X, s, c = samples()
    own = written(tmp_path, X, s, c)
    side = file_shards(own, rows=100)
    with pytest.raises(FileError, match=r"none.safetensors: cannot be read"):
        score_on_cluster(tmp_path / "a.zarr", tmp_path / "none.safetensors", side, None, cluster)
    narrow = written(tmp_path_of(tmp_path, "narrow"), X[:, :5], s, c)
    with pytest.raises(InputError, match=r"trained on 8 dimensions, and shard 0 \(.*\) has 5"):
        score_on_cluster(tmp_path / "a.zarr", path, file_shards(narrow), None, cluster)
    with pytest.raises(InputError, match=r"one dimension, got 8 in shard 0 .* and 5 in shard 8"):
        score_on_cluster(tmp_path / "a.zarr", path, side, file_shards(narrow), cluster)

    capfd.readouterr()

    def damage(progress):
        own[1].write_bytes(b"PAR1 of another world" * 100)

    with pytest.raises(FileError, match=r"part 1.parquet.*found by the worker tcp://127"):
        score_on_cluster(tmp_path / "a.zarr", path, side, None, cluster, callback=damage)
    assert not (tmp_path / "a.zarr").exists()
    assert capfd.readouterr().err == ""


def tmp_path_of(folder, name):
    (folder / name).mkdir()
    return folder / name


@pytest.mark.slow
def test_the_demo_runs():
    script = Path(__file__).parents[2] / "examples" / "cluster_demo.py"
    sizes = ["--speakers", "60", "--shards", "3", "--test", "300"]
    done = subprocess.run([sys.executable, script, *sizes], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for line in ("1,200 samples of 60 speakers in 3 files", "tcp://127.0.0.1", "90,000 scores of both are the same"):
        assert line in done.stdout
    assert "Error" not in done.stderr
