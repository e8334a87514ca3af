"""Matrices of scores on disk: the numbers of those in memory, and what an interrupted run leaves and goes on with."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import warnings
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from jointplda import PLDA, FileError, InputError, JointPLDA, Pipeline
from jointplda.calibration import AffineCalibration
from jointplda.formats import read_scores
from jointplda.preprocessing import Center
from jointplda.score_stores import block_writing, score_blocks, stores
from jointplda.score_stores.block_writing import write_blocks
from jointplda.score_stores.journal import Journal
from jointplda.score_stores.origin import digest
from jointplda.score_stores.score_blocks import Grid, ScoreBlocks
from jointplda.score_stores.stores import MatrixNames, store_in
from worlds.command_line import run, score_arguments
from worlds.files_on_disk import as_rows
from worlds.small_blocks import blocks_of

KINDS = {"npy": 23, "h5": 23, "zarr": 20}  # and the number of blocks of 23 x 17 scores, of 5 x 5 or of whole rows
NONE = np.zeros((0, 2), dtype=np.int64)


def made(d=6, dtype=np.float32, seed=0):
    """A model and two sides of samples."""
    rng = np.random.default_rng(seed)
    V, U = rng.normal(size=(d, 3)), rng.normal(size=(d, 2))
    model = JointPLDA.from_parameters(rng.normal(size=d), V, U, np.eye(d))
    return model, rng.normal(size=(23, d)).astype(dtype), rng.normal(size=(17, d)).astype(dtype)


def stop_after(calls):
    """A callback that interrupts after so many blocks."""
    seen = []

    def callback(progress):
        seen.append(progress.done)
        if len(seen) == calls:
            raise KeyboardInterrupt

    return callback


def bytes_of(path):
    """All bytes of a file, or of all files below a folder."""
    path = Path(path)
    if path.is_file():
        return path.read_bytes()
    return {str(each.relative_to(path)): each.read_bytes() for each in path.rglob("*") if each.is_file()}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_numbers_are_those_in_memory(kind, dtype, tmp_path, monkeypatch):
    model, E, T = made(dtype=dtype)
    expected = model.score_matrix(E, T)
    whole = model.score_matrix(E, T, out=tmp_path / f"whole.{kind}")
    assert whole.dtype == dtype
    np.testing.assert_array_equal(whole[...], expected)
    blocks_of(monkeypatch, 5)
    seen = []
    parts = model.score_matrix(E, T, out=tmp_path / f"parts.{kind}", callback=lambda p: seen.append((p.done, p.total)))
    np.testing.assert_allclose(parts[...], expected, rtol=1e-5 if dtype == np.float32 else 1e-12)
    assert seen == [(k, KINDS[kind]) for k in range(1, KINDS[kind] + 1)]
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"parts.{kind}", f"whole.{kind}"]


@pytest.mark.parametrize("kind", ["npy", "h5"])
def test_wide_matrices_are_divided_both_ways(kind, tmp_path, monkeypatch):
    model, E, T = made(dtype=np.float64)
    blocks_of(monkeypatch, 5)
    monkeypatch.setattr(score_blocks, "ROWS", 3)
    monkeypatch.setattr(score_blocks, "COLUMNS", 4)
    assert Grid.of((23, 17), whole_rows=True).block == (6, 8)
    stored = model.score_matrix(E, T, out=tmp_path / f"s.{kind}")
    np.testing.assert_allclose(stored[...], model.score_matrix(E, T), rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupted_matrix_goes_on(kind, tmp_path, monkeypatch):
    blocks_of(monkeypatch, 5)
    model, E, T = made()
    model.score_matrix(E, T, out=tmp_path / f"a.{kind}")
    out = tmp_path / f"b.{kind}"
    with pytest.raises(KeyboardInterrupt):
        model.score_matrix(E, T, out=out, callback=stop_after(7))
    assert not out.exists()
    finished = Journal.beside(out).finished()
    assert 5 <= len(finished) <= 7
    with pytest.raises(
        FileError, match=rf"holds {len(finished)} of the {KINDS[kind]} blocks .* resume=True goes on with it"
    ):
        model.score_matrix(E, T, out=out)
    computed = []
    model.score_matrix(E, T, out=out, resume=True, callback=lambda p: computed.append(p.done))
    assert computed == list(range(len(finished) + 1, KINDS[kind] + 1))
    assert not Journal.beside(out).folder.exists()
    assert bytes_of(out) == bytes_of(tmp_path / f"a.{kind}")


KILLED = """
    import os, signal, sys
    from jointplda.commands import main
    from jointplda.score_stores import score_blocks, stores
    score_blocks.BLOCK, score_blocks.ROWS, score_blocks.COLUMNS = 5, 1, 1
    for store in (stores.FlatStore, stores.ZarrStore):
        def write(self, number, block, before=store.write):
            before(self, number, block)
            if number == 8:  # its bytes are written, and it is not marked
                os.kill(os.getpid(), signal.SIGKILL)
        store.write = write
    main(sys.argv[1:])
"""


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_command_goes_on(kind, tmp_path, monkeypatch):
    model, E, T = made()
    model.save(tmp_path / "m")
    for name, X in (("e", E), ("t", T)):
        np.savez(tmp_path / f"{name}.npz", embeddings=X, ids=[f"{name}{i}" for i in range(len(X))])
    monkeypatch.chdir(tmp_path)
    command = ["score", "m", "--enroll", "e.npz", "--test", "t.npz", "--all", "--out", f"s.{kind}"]
    killed = subprocess.run([sys.executable, "-c", textwrap.dedent(KILLED), *command], check=False)
    assert killed.returncode == -signal.SIGKILL
    shutil.copytree(f"s.{kind}.unfinished", "kept")

    blocks_of(monkeypatch, 5)
    written = []
    for store in (stores.FlatStore, stores.ZarrStore):
        write = store.write
        monkeypatch.setattr(store, "write", lambda *call, write=write: (written.append(call[1]), write(*call)))
    refused = run(*command, code=1).stderr
    finished = {int(mark.name) for mark in Path("kept", "finished").iterdir()}
    assert 8 not in finished
    assert set(range(7)) <= finished <= set(range(11))
    assert f"holds {len(finished)} of the {KINDS[kind]} blocks of an unfinished matrix" in refused
    assert refused.endswith("--resume goes on with it.\n")
    assert len(refused.splitlines()) == 1
    run(*command, "--resume")
    assert sorted(written) == sorted(set(range(KINDS[kind])) - finished)
    first, names = bytes_of(f"s.{kind}"), ("s.rows", "s.columns") if kind == "npy" else ()
    assert {path.name for path in Path().iterdir()} == {"m", "e.npz", "t.npz", "kept", f"s.{kind}", *names}
    table = read_scores(f"s.{kind}")
    assert table.trials.models.tolist() == [f"e{i}" for i in range(23)]
    assert table.trials.samples.tolist() == [f"t{i}" for i in range(17)]
    np.testing.assert_allclose(table.values.reshape(23, 17), model.score_matrix(E, T), rtol=1e-5)

    shutil.move("kept", f"s.{kind}.unfinished")
    assert "exists already" in run(*command, "--resume", code=1).stderr
    written.clear()
    run(*command, "--force")  # which begins anew
    assert sorted(written) == list(range(KINDS[kind]))
    assert bytes_of(f"s.{kind}") == first


def test_an_interrupted_command_says_how_to_go_on(tmp_path, monkeypatch):
    model, E, _ = made()
    model.save(tmp_path / "m")
    np.savez(tmp_path / "e.npz", embeddings=E, ids=[f"e{i}" for i in range(len(E))])
    blocks_of(monkeypatch, 5)

    def interrupted(self, number):
        if number == 3:
            raise KeyboardInterrupt
        return slices(self, number)

    slices = Grid.slices
    monkeypatch.setattr(Grid, "slices", interrupted)
    command = ["score", tmp_path / "m", "--enroll", tmp_path / "e.npz", "--all", "--out", tmp_path / "s.npy"]
    said = run(*command, code=1).stderr
    assert said == f"error: interrupted; --resume goes on with the 3 finished blocks of {tmp_path / 's.npy'}.\n"


def changes():
    model, E, T = made()
    other, *_ = made(seed=1)
    one = T.copy()
    one[3, 2] = np.nextafter(one[3, 2], np.float32(9))
    return {
        "the model": lambda **more: other.score_matrix(E, T, **more),
        "the embeddings of the enrollment side": lambda **more: model.score_matrix(E + 1, T, **more),
        "the embeddings of the test side": lambda **more: model.score_matrix(E, one, **more),
        "same_channel": lambda **more: model.score_matrix(E, T, 0.4, **more),
        "the channels of the test side": lambda **more: model.score_matrix(E, T, test_channels=["a"] * len(T), **more),
        "the preprocessing": lambda **more: Pipeline(
            [("center", Center().fit(E)), ("model", model)]
        ).score_matrix(E, T, **more),
        "the calibration of the model": lambda **more: model.with_calibration(AffineCalibration(2.0, 1.0)).score_matrix(
            E, T, **more
        ),
        "type of the scores": lambda **more: model.score_matrix(E, T, dtype=np.float64, **more),
        "shape": lambda **more: model.score_matrix(E, T[:-1], **more),
    }  # fmt: skip


@pytest.mark.parametrize("what", changes())
def test_what_differs_is_said(what, tmp_path, monkeypatch):
    blocks_of(monkeypatch, 5)
    model, E, T = made()
    out = tmp_path / "s.npy"
    with pytest.raises(KeyboardInterrupt):
        model.score_matrix(E, T, out=out, callback=stop_after(4))
    with pytest.raises(FileError, match=f"was begun with something else: .*{what}.*or remove this folder") as caught:
        changes()[what](out=out, resume=True)
    if what not in ("shape",):  # whose embeddings differ too
        assert "differs" in str(caught.value)
    again = model.score_matrix(E.copy(), T.copy(), out=out, resume=True)
    np.testing.assert_allclose(again, model.score_matrix(E, T), rtol=1e-5)


def test_a_saved_model_is_the_same_model(tmp_path, monkeypatch):
    blocks_of(monkeypatch, 5)
    rng = np.random.default_rng(0)
    X, y, channels = rng.normal(size=(90, 4)), np.repeat(np.arange(30), 3), np.tile(list("abc"), 30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = JointPLDA(speaker_rank=2, channel_rank=1, max_iter=3).fit(X, y, channels=channels)
    model.save(tmp_path / "m")
    out = tmp_path / "s.npy"
    with pytest.raises(KeyboardInterrupt):
        model.score_matrix(X, X, out=out, callback=stop_after(4), enroll_channels=channels)
    JointPLDA.load(tmp_path / "m").score_matrix(X, X, out=out, resume=True, enroll_channels=channels)


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_disk_loses_nothing(kind, tmp_path, monkeypatch):
    blocks_of(monkeypatch, 5)
    model, E, T = made()
    real, calls = os.fsync, []

    def full(handle):
        calls.append(handle)
        if armed and len(calls) > 30:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(handle)

    armed = True
    monkeypatch.setattr(os, "fsync", full)
    out = tmp_path / f"s.{kind}"
    with pytest.raises(FileError, match=r"cannot be written \(No space left on device\)\. resume=True goes on with"):
        model.score_matrix(E, T, out=out)
    armed = False
    assert not out.exists()
    done = len(Journal.beside(out).finished())
    assert 0 < done < KINDS[kind]
    computed = []
    stored = model.score_matrix(E, T, out=out, resume=True, callback=computed.append)
    assert len(computed) == KINDS[kind] - done
    np.testing.assert_allclose(stored[...], model.score_matrix(E, T), rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_that_cannot_be_written_is_one_error(kind, tmp_path, monkeypatch):
    model, E, T = made()

    def refused(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refused)
    with pytest.raises(FileError, match=rf"s\.{kind}: cannot be written \(Permission denied\)\.$"):
        model.score_matrix(E, T, out=tmp_path / f"s.{kind}")
    assert list(tmp_path.iterdir()) == []


def test_scores_that_are_not_numbers_are_refused(tmp_path):
    blocks = ScoreBlocks((3, 4), np.float64, lambda rows, columns: np.full((3, 4), np.nan), {})
    with pytest.raises(InputError, match="12 scores of a block are NaN"):
        write_blocks(tmp_path / "s.npy", blocks)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    model, E, T = made()
    (tmp_path / "s.zarr").mkdir()
    (tmp_path / "s.zarr" / "diary").write_text("dear")
    with pytest.raises(FileError, match="holds files that are no Zarr folder, and is left as it is"):
        model.score_matrix(E, T, out=tmp_path / "s.zarr")
    assert (tmp_path / "s.zarr" / "diary").read_text() == "dear"
    (tmp_path / "t.zarr").write_text("a file")
    with pytest.raises(FileError, match="expected the name of a folder to write, got a file"):
        model.score_matrix(E, T, out=tmp_path / "t.zarr")


WRITER = """
    import sys
    from pathlib import Path
    import numpy as np
    from jointplda.score_stores.journal import Journal
    from jointplda.score_stores.score_blocks import Grid
    from jointplda.score_stores.stores import store_in
    folder, mine = Path(sys.argv[1]), int(sys.argv[2])
    grid = Grid((23, 17), (5, 5))
    store, values = store_in(folder, Path("s.zarr"), "zarr", grid, "float32"), np.arange(23.0 * 17).reshape(23, 17)
    for number in range(mine, len(grid), 2):
        store.write(number, values[grid.slices(number)].astype(np.float32))
        Journal(folder).mark(number)
"""


def test_many_processes_write_one_zarr_folder(tmp_path):
    grid, folder = Grid((23, 17), (5, 5)), tmp_path / "s.zarr.unfinished"
    folder.mkdir()
    store = store_in(folder, tmp_path / "s.zarr", "zarr", grid, np.float32)
    names = MatrixNames(np.array([f"m{i}" for i in range(23)]), np.array([f"é {i}" for i in range(17)]), NONE)
    store.create(names)
    journal = Journal(folder)
    journal.begin({})
    words = [sys.executable, "-c", textwrap.dedent(WRITER), str(folder)]
    running = [subprocess.Popen([*words, str(k)]) for k in (0, 1)]
    assert [each.wait() for each in running] == [0, 0]
    assert journal.finished() == frozenset(range(len(grid)))
    store.publish(tmp_path / "s.zarr")
    table = read_scores(tmp_path / "s.zarr")
    assert table.values.tolist() == list(range(23 * 17))
    assert table.trials.samples.tolist() == names.samples.tolist()


def test_blocks_cover_a_matrix_once():
    shapes = ((1, 1), (10_000, 4097), (4096, 300), (257, 100_000))
    for shape, whole_rows in product(shapes, (False, True)):
        grid, seen = Grid.of(shape, whole_rows=whole_rows), np.zeros(shape, dtype=np.int8)
        for number in range(len(grid)):
            rows, columns = grid.slices(number)
            seen[rows, columns] += 1
            assert rows.start % 256 == 0
            assert columns.start % 2048 == 0
            assert (rows.stop - rows.start) * (columns.stop - columns.start) <= 4096**2
        assert (seen == 1).all()


def test_hashes_tell_values_apart():
    values = [
        None, 0, 0.0, False, "0", "", (), [["a"], "b"], ["a", ["b"]], ["ab"], ["a", "b"], {"a": 1}, {"a": 2},
        np.zeros(2), np.zeros((2, 1)), np.zeros(2, np.float32), np.zeros(0), np.array(["a", "b"], dtype=object)[:1],
        AffineCalibration(1.0, 0.0), AffineCalibration(1.0, 0.5),
    ]  # fmt: skip
    assert len({digest(value) for value in values}) == len(values)
    assert digest(np.arange(6.0).reshape(2, 3).T) == digest(np.arange(6.0).reshape(2, 3).T.copy())
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})


def test_bosaris_masks_what_is_no_trial(tmp_path, monkeypatch):
    h5py = pytest.importorskip("h5py")
    blocks_of(monkeypatch, 5)
    model, E, _ = made()
    ids = np.array([f"s{i}" for i in range(len(E))])
    own = np.repeat(np.arange(len(E))[:, None], 2, axis=1)
    write_blocks(tmp_path / "s.h5", model.score_blocks(E, E), MatrixNames(ids, ids, own))
    with h5py.File(tmp_path / "s.h5") as stored:
        assert stored["scores"].dtype == np.float32
        np.testing.assert_array_equal(stored["score_mask"][...], 1 - np.eye(len(E), dtype=np.int8))
    table = read_scores(tmp_path / "s.h5")
    assert len(table.values) == len(E) * (len(E) - 1)
    assert not (table.trials.enroll == table.trials.test).any()


@pytest.mark.parametrize("known", [False, True])
def test_enrolled_models_in_blocks(known, tmp_path, monkeypatch):
    model, E, T = made(dtype=np.float64)
    channels, tests = (["a", "b", "a"] * 7 + ["a", "c"], ["a", "z"] * 8 + ["c"]) if known else (None, None)
    enrollment = model.enroll(E, [f"m{i // 3}" for i in range(len(E))], channels)
    expected = model.score_enrollment(enrollment, T, test_channels=tests)
    blocks_of(monkeypatch, 3)
    write_blocks(tmp_path / "s.npy", model.enrollment_blocks(enrollment, T, test_channels=tests))
    np.testing.assert_allclose(np.load(tmp_path / "s.npy"), expected, rtol=1e-10, atol=1e-10)


def test_plda_and_an_odd_kind_of_name(tmp_path, monkeypatch):
    _, E, T = made()
    model = PLDA.from_parameters(np.zeros(6), np.eye(6)[:, :2], None, np.eye(6))
    monkeypatch.chdir(tmp_path)
    stored = model.score_matrix(E, T, out="s.npy")
    np.testing.assert_array_equal(stored, model.score_matrix(E, T))
    assert stores.matrix_kind(Path("S.HDF5")) == "bosaris"


@pytest.mark.parametrize("kind", ["zarr", "h5"])
def test_commands_read_matrices(kind, files, tmp_path, monkeypatch):
    folder, *_ = files
    model, sides = folder / "api.safetensors", score_arguments(folder, "tsv")
    blocks_of(monkeypatch, 50)
    run("score", model, *sides, "--trials", folder / "trials", "--out", tmp_path / "list")
    run("score", model, *sides, "--all", "--out", tmp_path / f"s.{kind}")
    key = ["--key", folder / "trials", "--draws", 0, "--json"]
    expected, found = (
        json.loads(run("evaluate", tmp_path / name, *key, *more).stdout)["parts"]["pooled"]
        for name, more in (("list", []), (f"s.{kind}", ["--allow-missing"]))
    )
    assert found["EER"] == pytest.approx(expected["EER"], rel=1e-9)
    assert found["Cllr"] == pytest.approx(expected["Cllr"], rel=1e-5)
    fits = []
    for name in ("list", f"s.{kind}"):
        words = ["calibrate", "train", tmp_path / name, "--key", folder / "trials", "--out", tmp_path / f"c{name}"]
        fits.append(json.loads(run(*words, "--json", *(["--allow-missing"] if name != "list" else [])).stdout))
    assert fits[1]["scale"] == pytest.approx(fits[0]["scale"], rel=1e-5)
    run("calibrate", "apply", tmp_path / "clist", tmp_path / f"s.{kind}", "--out", tmp_path / "applied.h5")
    run("score", model, *sides, "--all", "--calibration", tmp_path / "clist", "--out", tmp_path / f"c.{kind}")
    a, b = read_scores(tmp_path / "applied.h5"), read_scores(tmp_path / f"c.{kind}")
    np.testing.assert_allclose(a.values, b.values, rtol=1e-5, atol=1e-5)
    run("convert", "scores", tmp_path / f"s.{kind}", tmp_path / "t.tsv")
    assert read_scores(tmp_path / "t.tsv").values.tolist() == read_scores(tmp_path / f"s.{kind}").values.tolist()


@pytest.mark.parametrize("ending", ["", ".tsv", ".gz", ".npy", ".h5", ".zarr"])
@pytest.mark.parametrize("models", [False, True])
def test_every_kind_has_the_same_scores(models, ending, files, tmp_path, monkeypatch):
    folder, _, test, _, _ = files
    (tmp_path / "models").write_text("".join(f"m{k} {test.ids[2 * k]} {test.ids[2 * k + 1]}\n" for k in range(5)))
    words = ["score", folder / "api.safetensors", *score_arguments(folder, "tsv"), "--all", "--channel", "language"]
    words += ["--models", tmp_path / "models"] if models else []
    run(*words, "--out", tmp_path / "whole.npy")
    blocks_of(monkeypatch, 31)
    monkeypatch.setattr(block_writing, "BAND_NUMBERS", 3 * len(test.ids))
    run(*words, "--out", tmp_path / f"parts{ending}")
    found, whole = read_scores(tmp_path / f"parts{ending}"), np.load(tmp_path / "whole.npy")
    names = [f"m{k}" for k in range(5)] if models else test.ids.tolist()
    row, column = ({name: i for i, name in enumerate(each)} for each in (names, test.ids.tolist()))
    places = [(row[a], column[b]) for a, b in as_rows(found.trials)]
    np.testing.assert_allclose(found.values, whole[tuple(np.transpose(places))], rtol=1e-8, atol=1e-8)
    own = 10 if models else len(test.ids)
    assert len(set(places)) == len(places) == whole.size - (0 if ending in (".npy", ".zarr") else own)


def test_labels_are_needed_for_wespeaker(files, tmp_path):
    folder, *_ = files
    words = ["score", folder / "api.safetensors", *score_arguments(folder, "tsv"), "--all", "--out", tmp_path / "s"]
    assert "needs a label for every trial" in run(*words, "--format", "wespeaker", code=1).stderr
    assert "only matrices of --all can be gone on with" in run(*words, "--resume", code=2).stderr
    assert not (tmp_path / "s").exists()
