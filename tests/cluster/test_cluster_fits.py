"""Passes on the workers of a cluster: they give what one process gives, whatever happens to the workers."""

import time
import warnings
from dataclasses import fields, is_dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose

from jointplda import (
    PLDA,
    ClusterError,
    FileError,
    InputError,
    JointPLDA,
    JointPLDACV,
    Progress,
    Statistics,
    make_pipeline,
)
from jointplda.cluster import connection, file_shards, fit_on_cluster, statistics_on_cluster
from jointplda.passes import training
from jointplda.passes.sources import ArraySource
from jointplda.preprocessing import LDA, LengthNorm, Whiten
from worlds.shards import Broken, Deadly, Gated, Slow, samples, written

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards")
    X, s, c = samples()
    return X, s, c, file_shards(written(folder, X, s, c), channels=["language"], rows=50)


def same_bits(a, b):
    """Whether two records hold the same, to the bit."""
    if is_dataclass(a):
        return type(a) is type(b) and all(same_bits(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same_bits(a[key], b[key]) for key in a)
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    return a == b


def test_statistics_are_those_of_one_process(cluster, world):
    X, s, c, shards = world
    said = []
    found = statistics_on_cluster(shards, cluster, cells=True, callback=said.append)
    assert same_bits(found, statistics_on_cluster(shards, None, cells=True))
    whole = Statistics.from_samples(X, s, c, cells=True)
    assert (found.n_samples, set(found.labels[0])) == (len(X), set(whole.labels[0]))
    assert_allclose(found.mean, whole.mean, rtol=1e-12)
    assert_allclose(found.covariance, whole.covariance, rtol=1e-12, atol=1e-12)
    order = [found.labels[0].index(label) for label in whole.labels[0]]
    sums = found.level_sums(0) + found.level_counts(0)[:, None] * found.shift
    assert_allclose(sums[order], whole.level_sums(0) + whole.level_counts(0)[:, None] * whole.shift, rtol=1e-12)
    assert [(one.stage, one.done, one.total) for one in said] == [
        ("statistics", k + 1, len(shards)) for k in range(len(shards))
    ]
    assert {one.detail[:15] for one in said} == {"tcp://127.0.0.1"}
    assert isinstance(said[0], Progress)


@pytest.mark.parametrize(
    "model, fit_options",
    [
        (JointPLDA(max_iter=10, interaction="full"), {}),
        (make_pipeline(Whiten(), LengthNorm(), LDA(6, shrinkage=0.1), PLDA(max_iter=10)), {"channels": None}),
    ],
    ids=["model", "pipeline"],
)
def test_fits_are_those_of_one_process(cluster, world, model, fit_options):
    X, s, c, shards = world
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = fit_on_cluster(model, shards, cluster).score_matrix(X[:40], X[40:90])
        alone = fit_on_cluster(model, shards, None).score_matrix(X[:40], X[40:90])
        arguments = {"channels": c, **fit_options}
        whole = model.fit(X, s, **{k: v for k, v in arguments.items() if v is not None})
    assert found.tobytes() == alone.tobytes()
    assert_allclose(found, whole.score_matrix(X[:40], X[40:90]), rtol=1e-7, atol=1e-7)


def test_a_sample_of_speakers_does_not_depend_on_the_workers(cluster, world, monkeypatch):
    X, *_, shards = world
    monkeypatch.setattr(training, "sample_rows", lambda *given: 300)
    found = fit_on_cluster(JointPLDACV(front_end=[LengthNorm()]), shards, cluster)
    alone = fit_on_cluster(JointPLDACV(front_end=[LengthNorm()]), shards, None)
    assert found.held_out_cllr_ == alone.held_out_cllr_
    assert found.held_out_cllr_.speakers < 60
    assert found.score_matrix(X[:40], X[40:90]).tobytes() == alone.score_matrix(X[:40], X[40:90]).tobytes()


def test_killed_workers_change_nothing(cluster, world, tmp_path, capfd):
    *_, shards = world
    capfd.readouterr()
    deadly = [Slow(shard, tmp_path, 0.05) for shard in shards]
    for k in (3, 7):
        (tmp_path / str(k)).mkdir()
        deadly[k] = Deadly(deadly[k], tmp_path / str(k))
    model = JointPLDA(max_iter=3, tol=1.0)
    found = fit_on_cluster(model, deadly, cluster).log_likelihoods_
    assert len(list(tmp_path.glob("*/killed 0"))) == 2
    assert found.tobytes() == fit_on_cluster(model, shards, None).log_likelihoods_.tobytes()
    assert capfd.readouterr().err == ""


def test_a_shard_that_kills_every_worker_is_an_error(cluster, world, tmp_path, capfd):
    *_, shards = world
    capfd.readouterr()
    with pytest.raises(ClusterError, match=r"died again and again, .*(shard \d+ \(|parts to merge).*more memory"):
        statistics_on_cluster([*shards[:3], Deadly(shards[3], tmp_path, times=9), *shards[4:]], cluster)
    assert capfd.readouterr().err == ""


def test_what_is_wrong_with_a_shard_is_one_error_that_names_it(cluster, world, tmp_path, capfd):
    X, s, c, _ = world
    paths = written(tmp_path, X, s, c)
    shards = file_shards(paths, channels=["language"], rows=100)
    capfd.readouterr()

    paths[1].unlink()
    with pytest.raises(FileError, match=r"^shard [23] \(.*part 1.parquet, rows .*\): .*every worker must reach"):
        fit_on_cluster(JointPLDA(), shards, cluster)

    paths[1].write_bytes(b"PAR1 of another world" * 100)
    with pytest.raises(FileError, match=r"^shard [23] \(.*part 1.parquet, rows .*\): .*by the worker tcp://127"):
        fit_on_cluster(JointPLDA(), shards, cluster)

    written(tmp_path, X[:, :5], s, c)
    with pytest.raises(FileError, match=r"^shard \d \(.*part .*dimension 8.*changed after its shards were made"):
        fit_on_cluster(JointPLDA(), shards, cluster)

    written(tmp_path, X, s, c)
    with pytest.raises(InputError, match=r"shard \d .*expected a label column 'room', got .*'speaker'"):
        fit_on_cluster(JointPLDA(), file_shards(paths, channels=["room"]), cluster)

    bad = X.copy()
    bad[400, 2] = np.nan
    with pytest.raises(InputError, match=r"^shard 1 \(ArraySource\): .*NaN or infinity in row\(s\) \[400\]"):
        fit_on_cluster(JointPLDA(), [shards[0], ArraySource(bad, s, c)], cluster)

    with pytest.raises(ClusterError, match=r"shard 1 \(Broken\): MemoryError on the worker tcp:.*no memory left"):
        statistics_on_cluster([shards[0], Broken(shards[1], tmp_path, 0.0)], cluster)
    with pytest.raises(InputError, match=r"one dimension, got 8 in shard 0 .* and 5 in shard 2 \(ArraySource\)"):
        statistics_on_cluster([*shards[:2], ArraySource(X[:, :5], s)], cluster)
    with pytest.raises(InputError, match="one shard or more, got none"):
        statistics_on_cluster([], cluster)
    assert capfd.readouterr().err == ""


def test_an_interrupt_cancels_the_tasks(cluster, world, tmp_path):
    *_, shards = world

    def stop(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        statistics_on_cluster([Gated(shard, tmp_path, 0.0) for shard in shards], cluster, callback=stop)
    time.sleep(0.5)  # for word to reach the workers
    (tmp_path / "open").touch()
    time.sleep(2.0)  # in which they would read all others
    assert 1 <= len(list(tmp_path.glob("read *"))) < len(shards)


def test_a_client_of_the_user_stays_open(cluster, world):
    *_, shards = world
    with distributed.Client(cluster, set_as_default=False) as client:
        assert same_bits(statistics_on_cluster(shards[:3], client), statistics_on_cluster(shards[:3], None))
        assert client.status == "running"


def test_clusters_that_cannot_do_it(cluster, world, monkeypatch):
    *_, shards = world
    monkeypatch.setattr(connection, "CONNECTING", 0.5)
    with pytest.raises(ClusterError, match=r"tcp://127.0.0.1:9: no scheduler of Dask answers"):
        statistics_on_cluster(shards, "tcp://127.0.0.1:9")
    with pytest.raises(ClusterError, match=r"expected the address .* or a distributed.Client, got int"):
        statistics_on_cluster(shards, 8786)
    own = connection.releases()
    with pytest.raises(ClusterError, match=r"worker tcp://a has numpy 1.0 rather than .* same releases everywhere"):
        connection.check_releases(own, {"tcp://a": {**own, "numpy": "1.0"}})
    with pytest.raises(ClusterError, match=r"worker tcp://a cannot import jointplda .*No module"):
        connection.check_releases(own, {"tcp://a": ModuleNotFoundError("No module named 'jointplda'")})
    monkeypatch.setattr(connection, "import_module", lambda name: __import__("there_is_none"))
    with pytest.raises(ClusterError, match=r'needs the package distributed: pip install "jointplda\[dask\]"'):
        statistics_on_cluster(shards, cluster)


def test_a_cluster_without_workers(world, monkeypatch):
    *_, shards = world
    monkeypatch.setattr(connection, "PATIENCE", 0.3)
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0", host="127.0.0.1") as empty,
        pytest.raises(ClusterError, match=r"no worker for 0 s. Start some"),
    ):
        statistics_on_cluster(shards, empty.scheduler_address)


def test_shards_of_files(tmp_path):
    X, s, c = samples()
    s[5] = ""
    paths = written(tmp_path, X, s, c)
    shards = file_shards(paths, channels=["language"], rows=70, allow_missing=True)
    assert [(shard.start, shard.stop) for shard in shards[:4]] == [(0, 70), (70, 140), (140, 180), (0, 70)]
    chunks = [chunk for shard in shards for chunk in shard.chunks()]
    assert np.array_equal(np.concatenate([chunk.X for chunk in chunks]), np.delete(X, 5, axis=0))
    assert np.array_equal(np.concatenate([chunk.channels.values[0] for chunk in chunks]), np.delete(c, 5))
    with pytest.raises(InputError, match=r"part 0.npz: no speaker of '0-5' \(1 in all\).*allow_missing=True leaves"):
        list(file_shards(paths)[0].chunks())
    with pytest.raises(InputError, match="expected a sequence of column names, got the text 'language'"):
        file_shards(paths, channels="language")
    with pytest.raises(FileError, match="no such file"):
        file_shards([tmp_path / "none.npz"])
    table = tmp_path / "labels.tsv"
    table.write_text("id\tspeaker\n" + "".join(f"0-{i}\tx{i % 3}\n" for i in range(180)))
    (chunk,) = file_shards(paths[:1], labels=table)[0].chunks()
    assert chunk.speakers.tolist() == [f"x{i % 3}" for i in range(180)]
