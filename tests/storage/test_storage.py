"""Model files: what is read is what was written, and nothing else is taken for one."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file
from sklearn.decomposition import PCA as SklearnPCA

from jointplda import PLDA, FileError, InputError, JointPLDA, Pipeline, Statistics, make_pipeline
from jointplda.preprocessing import LDA, PCA, Center, LengthNorm
from jointplda.storage import tensors as tensors_module
from worlds.designs import world


@pytest.fixture(scope="module")
def data():
    X, s, c, _ = world(np.random.default_rng(0), 6, (2, 2), 20, 5, 200)
    return X, s, c


@pytest.fixture(scope="module")
def model(data):
    X, s, c = data
    return JointPLDA(speaker_rank=2, channel_rank=2, tol=1e-3, callback=lambda _: None).fit(X, s, channels=c)


def test_round_trip(model, data, tmp_path):
    X, s, c = data
    path = tmp_path / "model.safetensors"
    model.save(path)
    loaded = JointPLDA.load(path)
    for name in ("mean_", "V_", "U_", "D_", "log_likelihoods_", "channel_ranks_", "n_iter_", "converged_", "training_"):
        assert np.array_equal(getattr(loaded, name), getattr(model, name)), name
    assert loaded.get_params() == {**model.get_params(), "callback": None}
    assert loaded.log_likelihood(X, s, channels=c) == model.log_likelihood(X, s, channels=c)
    assert [p.name for p in tmp_path.iterdir()] == ["model.safetensors"]
    loaded.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == path.read_bytes()


def test_metadata_is_one_json_value(model, tmp_path):
    path = tmp_path / "model.safetensors"
    model.save(path)
    with safe_open(path, framework="numpy") as stored:
        assert list(stored.metadata()) == ["jointplda"]
        metadata = json.loads(stored.metadata()["jointplda"])
    assert (metadata["kind"], metadata["version"]) == ("model", 1)
    record = metadata["record"]
    assert record["settings"]["tol"] == 1e-3
    assert record["fitted"]["counts"]["speakers"] == 20
    assert record["versions"]["numpy"] == np.__version__
    assert {"scipy", "jointplda"} <= record["versions"].keys()


def test_fortran_order_is_stored_right(tmp_path):
    """safetensors writes arrays in other orders wrongly; they must be made C-ordered first."""
    V = np.asfortranarray(np.arange(6.0).reshape(3, 2) + 1)
    model = PLDA.from_parameters(np.zeros(3), V, None, np.eye(3))
    model.fitted_ = replace(
        model.fitted_, factors=(replace(model.fitted_.factors[0], loading=np.asfortranarray(model.V_)),)
    )
    assert not model.V_.flags.c_contiguous
    model.save(tmp_path / "m.safetensors")
    assert np.array_equal(PLDA.load(tmp_path / "m.safetensors").V_, V)


def test_what_does_not_read_back_is_not_kept(model, tmp_path, monkeypatch):
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"old")
    monkeypatch.setattr(
        tensors_module, "save_file", lambda tensors, *a, **k: save_file({n: t * 0 for n, t in tensors.items()}, *a, **k)
    )
    with pytest.raises(FileError, match="does not read back"):
        model.save(path)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["model.safetensors"]


def test_a_type_that_does_not_read_back_is_not_kept(model, tmp_path, monkeypatch):
    """The same bytes as another type are other numbers."""

    def changed(tensors, *rest, **more):
        save_file({name: t.view(np.int64) if t.dtype == float else t for name, t in tensors.items()}, *rest, **more)

    monkeypatch.setattr(tensors_module, "save_file", changed)
    with pytest.raises(FileError, match="does not read back"):
        model.save(tmp_path / "model.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_nothing(model, tmp_path, monkeypatch):
    def broken(*args, **kwargs):
        raise OSError("disk full")

    monkeypatch.setattr(tensors_module, "save_file", broken)
    with pytest.raises(OSError, match="disk full"):
        model.save(tmp_path / "model.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_permissions_are_the_usual_ones(model, tmp_path):
    model.save(tmp_path / "m.safetensors")
    (tmp_path / "plain").write_text("")
    assert os.stat(tmp_path / "m.safetensors").st_mode == os.stat(tmp_path / "plain").st_mode


def test_no_folder(model, tmp_path):
    with pytest.raises(FileError, match="does not exist; create it first"):
        model.save(tmp_path / "no" / "model.safetensors")


def test_damaged_and_foreign_files(model, data, tmp_path):
    X, s, c = data
    path = tmp_path / "model.safetensors"
    model.save(path)
    whole = path.read_bytes()
    with pytest.raises(FileError, match="no such file"):
        JointPLDA.load(tmp_path / "nothing")
    for content in (b"", b"hello", whole[:100], whole[:-8], b"\x00" * 50, whole[:8] + b"x" + whole[9:]):
        path.write_bytes(content)
        with pytest.raises(FileError, match="damaged"):
            JointPLDA.load(path)
    save_file({"a": np.zeros(3)}, path)
    with pytest.raises(FileError, match="not one that jointplda wrote"):
        JointPLDA.load(path)
    save_file({"a": np.zeros(3)}, path, metadata={"jointplda": "{"})
    with pytest.raises(FileError, match="not one that jointplda wrote"):
        JointPLDA.load(path)
    Statistics.from_samples(X, s, c).save(path)
    with pytest.raises(FileError, match=r"expected a jointplda model file, got a jointplda statistics file"):
        JointPLDA.load(path)
    model.save(path)
    with pytest.raises(FileError, match="expected a jointplda statistics file"):
        Statistics.load(path)
    with pytest.raises(InputError, match=r"holds a JointPLDA, not a PLDA; use JointPLDA.load"):
        PLDA.load(path)


def change(path, tensors=None, drop=(), record=None, **metadata):
    """Rewrite a model file with other content; ``record`` replaces parts of the record."""
    with safe_open(path, framework="numpy") as stored:
        old = {name: stored.get_tensor(name) for name in stored.keys() if name not in drop}  # noqa: SIM118
        text = json.loads(stored.metadata()["jointplda"]) | metadata
    text["record"] |= record or {}
    save_file(old | (tensors or {}), path, metadata={"jointplda": json.dumps(text)})


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"version": 99}, "reads model files of version 1, and this file has version 99"),
        ({"version": 2}, "this file has version 2"),
        ({"version": None}, "this file has version None"),
        ({"drop": ("model.fitted.factors.0.loading",)}, "content is incomplete or wrong"),
        ({"record": {"fitted": {}}}, "content is incomplete or wrong"),
        ({"record": {"estimator": 3}}, "content is incomplete or wrong .expected str, got int 3"),
        ({"tensors": {"model.fitted.factors.0.loading": np.zeros((5, 2))}}, "do not agree"),
        ({"tensors": {"model.fitted.precision": np.full((6, 6), np.nan)}}, "not all finite"),
    ],
)
def test_changed_files(model, tmp_path, changes, message):
    path = tmp_path / "model.safetensors"
    model.save(path)
    change(path, **changes)
    with pytest.raises(FileError, match=message):
        JointPLDA.load(path)


def test_pipelines(data, tmp_path):
    X, s, c = data
    path = tmp_path / "pipe.safetensors"
    steps = [Center(), LengthNorm(), PCA(5), LDA(4)]
    pipe = make_pipeline(*steps, JointPLDA(speaker_rank=2, channel_rank=2, tol=1e-3)).fit(X, s, channels=c)
    pipe.save(path)
    loaded = Pipeline.load(path)
    assert [name for name, _ in loaded.steps] == [name for name, _ in pipe.steps]
    assert loaded.log_likelihood(X, s, channels=c) == pipe.log_likelihood(X, s, channels=c)
    assert loaded.get_params()["lda__n_components"] == 4
    with pytest.raises(InputError, match=r"pipeline with 4 step\(s\).*Pipeline.load"):
        JointPLDA.load(path)
    # A loaded pipeline can be fitted again.
    assert loaded.fit(X[:100], s[:100], channels=c[:100]).score(X, s, channels=c) != pipe.score(X, s, channels=c)
    # A bare model is a pipeline of one step.
    pipe[-1].save(path)
    assert len(Pipeline.load(path).steps) == 1


def test_pipelines_refuse_what_they_cannot_store(data, tmp_path):
    X, s, c = data
    pipe = make_pipeline(SklearnPCA(3), JointPLDA(speaker_rank=2, channel_rank=2, tol=1e-3)).fit(X, s, channels=c)
    with pytest.raises(FileError, match=r"Step 'pca' \(PCA\) cannot be stored.*jointplda.preprocessing.PCA"):
        pipe.save(tmp_path / "pipe.safetensors")
    with pytest.raises(InputError, match="last step must be a PLDA, JointPLDA or JointPLDACV"):
        make_pipeline(Center(), PCA()).fit(X).save(tmp_path / "pipe.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_files_of_later_releases(data, tmp_path):
    X, s, c = data
    path = tmp_path / "pipe.safetensors"
    make_pipeline(Center(), JointPLDA(speaker_rank=2, channel_rank=2, tol=1e-3)).fit(X, s, channels=c).save(path)
    with safe_open(path, framework="numpy") as stored:
        record = json.loads(stored.metadata()["jointplda"])["record"]
    change(path, record={"steps": [record["steps"][0] | {"transformer": "Warp"}]})
    with pytest.raises(FileError, match="step 'Warp', which this release does not know"):
        Pipeline.load(path)
    change(path, record={"steps": [], "estimator": "DeepPLDA"})
    with pytest.raises(FileError, match="holds a DeepPLDA"):
        Pipeline.load(path)


def test_feature_names_survive(tmp_path, data):
    import pandas as pd

    X, s, c = data
    frame = pd.DataFrame(X, columns=[f"e{i}" for i in range(6)])
    model = JointPLDA(speaker_rank=2, channel_rank=2, tol=1e-3).fit(frame, s, channels=c)
    model.save(tmp_path / "m.safetensors")
    assert JointPLDA.load(tmp_path / "m.safetensors").feature_names_in_.tolist() == list(frame.columns)


def test_folders_links_and_names(model, data, tmp_path):
    X, s, c = data
    for path in (tmp_path, ""):
        with pytest.raises(FileError, match="expected the name of a file to write, got a folder"):
            model.save(path)
    with pytest.raises(FileError, match="expected a file, got a folder"):
        JointPLDA.load(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "real.safetensors")
    model.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert JointPLDA.load(tmp_path / "real.safetensors").n_iter_ == model.n_iter_
    pipe = Pipeline([("middle", Center()), ("backend", JointPLDA(speaker_rank=2, channel_rank=2, tol=1e-3))]).fit(
        X, s, c
    )
    pipe.save(tmp_path / "pipe")
    assert list(Pipeline.load(tmp_path / "pipe").named_steps) == ["middle", "backend"]


def test_a_full_disk_is_a_file_error_and_leaves_nothing(tmp_path, monkeypatch):
    def full(*args, **kwargs):
        raise tensors_module.SafetensorError("No space left on device (os error 28)")

    monkeypatch.setattr(tensors_module, "save_file", full)
    with pytest.raises(FileError, match=r"m: could not be written \(No space left"):
        tensors_module.write_tensors(tmp_path / "m", "kind", {"a": np.zeros(3)}, {})
    assert not list(tmp_path.iterdir())
