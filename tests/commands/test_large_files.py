"""Training on files that are read in passes, on several files, and on statistics."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from jointplda import JointPLDACV, Pipeline, Statistics
from jointplda._disk_rows import DiskRows
from jointplda.commands import progress_display, streamed_input, train_run
from jointplda.commands.messages import Messages
from jointplda.estimators.statistics_file import read_statistics, write_statistics
from jointplda.formats import read_embeddings, write_embeddings
from jointplda.progress import Progress
from worlds.command_line import run, train_arguments

PLAIN = ["--no-auto", "--center", "--length-norm", "--pca", 6, "--max-iter", 5, "--interaction", "0.3"]


def scores(path, X):
    return Pipeline.load(path).score_matrix(X[:10], X[10:20], dtype=np.float64)


@pytest.fixture
def in_passes(monkeypatch):
    """Whatever the file, training reads it in passes."""
    monkeypatch.setattr(train_run, "memory_in_one_piece", lambda *args, **kwargs: np.inf)


@pytest.fixture
def halves(files, tmp_path):
    """The training samples in two files with labels of their own."""
    folder, *_ = files
    table = read_embeddings(folder / "train.npy", folder / "train.tsv")
    for name, rows in (("a.npz", slice(None, None, 2)), ("b.npz", slice(1, None, 2))):
        write_embeddings(table.take(np.arange(len(table.ids))[rows]), tmp_path / name)
    return tmp_path / "a.npz", tmp_path / "b.npz"


LABELS = ["--speaker", "speaker", "--channel", "language"]


@pytest.mark.parametrize("settings", [PLAIN, []])
def test_passes_give_the_model_of_a_whole_file(settings, files, tmp_path, monkeypatch):
    folder, train, *_ = files
    arguments = ["train", *train_arguments(folder, "tsv"), *settings]
    run(*arguments, "--out", tmp_path / "whole")
    monkeypatch.setattr(train_run, "memory_in_one_piece", lambda *args, **kwargs: np.inf)
    said = run(*arguments, "--memory", "1GB", "--out", tmp_path / "passes").stderr
    assert "in passes, within 1 GB" in said
    assert f"{len(train.ids):,} samples of" in said
    assert_allclose(scores(tmp_path / "passes", train.X), scores(tmp_path / "whole", train.X), rtol=1e-7, atol=1e-7)
    assert isinstance(Pipeline.load(tmp_path / "passes")[-1], JointPLDACV) == (not settings)


def test_several_files_are_one(files, halves, tmp_path, in_passes):
    folder, train, *_ = files
    run("train", *train_arguments(folder, "tsv"), *PLAIN, "--out", tmp_path / "whole")
    run("train", *halves, *LABELS, *PLAIN, "--out", tmp_path / "both")
    assert_allclose(scores(tmp_path / "both", train.X), scores(tmp_path / "whole", train.X), rtol=1e-7, atol=1e-7)


def test_several_files_in_memory(files, halves, tmp_path):
    folder, train, *_ = files
    run("train", *train_arguments(folder, "tsv"), *PLAIN, "--out", tmp_path / "whole")
    run("train", *halves, *LABELS, *PLAIN, "--out", tmp_path / "both")
    assert_allclose(scores(tmp_path / "both", train.X), scores(tmp_path / "whole", train.X), rtol=1e-7, atol=1e-7)
    assert "ids should be unique" in run("train", halves[0], halves[0], *LABELS, "--out", tmp_path / "m", code=1).stderr


def test_files_of_other_dimensions_are_refused(halves, tmp_path):
    table = read_embeddings(halves[0])
    write_embeddings(table.with_embeddings(table.X[:, :5]), tmp_path / "c.npz")
    error = run("train", *halves, tmp_path / "c.npz", *LABELS, "--out", tmp_path / "m", code=1).stderr
    assert "c.npz: has 5 dimensions" in error
    assert not (tmp_path / "m").exists()


def test_statistics_train_as_their_samples_do(files, halves, tmp_path):
    folder, train, *_ = files
    base = ["--no-auto", "--max-iter", 5, "--interaction", "0.3"]
    run("train", *train_arguments(folder, "tsv"), *base, "--center", "--length-norm", "--out", tmp_path / "whole")
    for path in halves:
        run("statistics", path, *LABELS, "--front-end", tmp_path / "whole", "--out", path.with_suffix(".sums"))
    parts = [path.with_suffix(".sums") for path in halves]
    run("train", *parts, *base, "--out", tmp_path / "m")
    assert_allclose(scores(tmp_path / "m", train.X), scores(tmp_path / "whole", train.X), rtol=1e-7, atol=1e-7)
    told = json.loads(run("statistics", *parts, "--out", tmp_path / "sum", "--json").stdout)
    assert (told["samples"], told["front end"]) == (len(train.ids), ["Center", "LengthNorm"])
    run("train", tmp_path / "sum", *base, "--channel", "language", "--out", tmp_path / "again")
    assert_allclose(scores(tmp_path / "again", train.X), scores(tmp_path / "whole", train.X), rtol=1e-7, atol=1e-7)
    assert Statistics.load(tmp_path / "sum").n_samples == len(train.ids)


def test_wrong_uses_of_statistics(files, halves, tmp_path):
    run("statistics", halves[0], *LABELS, "--out", tmp_path / "a")
    run("statistics", halves[1], "--speaker", "speaker", "--out", tmp_path / "b")
    for arguments, message in (
        (["train", tmp_path / "a"], "holds statistics, whose samples cannot be held out"),
        (["train", tmp_path / "a", "--no-auto", "--pca", 3], "cannot be held out, preprocessed"),
        (["train", tmp_path / "a", halves[1], "--no-auto", *LABELS], "other files do not"),
        (["train", tmp_path / "a", "--no-auto", *LABELS], "leave it out"),
        (["train", halves[0]], "Missing option '--speaker'"),
        (["statistics", tmp_path / "a", "--channel", "language"], "DATA holds statistics"),
    ):
        assert message in run(*arguments, "--out", tmp_path / "m", code=2).stderr
    error = run("train", tmp_path / "a", tmp_path / "b", "--no-auto", "--out", tmp_path / "m", code=1).stderr
    assert "b: holds sums of 12 dimensions and no condition" in error
    error = run("train", tmp_path / "a", "--no-auto", "--channel", "room", "--out", tmp_path / "m", code=1).stderr
    assert "no such condition (they have: language)" in error


def test_large_statistics_stay_in_their_files(tmp_path, monkeypatch):
    monkeypatch.setattr("jointplda.storage.tensors.NUMBERS_AT_ONCE", 10)
    rng = np.random.default_rng(0)
    X, s, c = rng.normal(size=(300, 4)), rng.integers(0, 40, 300), rng.integers(0, 3, 300)
    whole = Statistics.from_samples(X, s, c, cells=True)
    parts = []
    for i, rows in enumerate((slice(0, 120), slice(120, 300))):
        parts.append(tmp_path / f"{i}")
        write_statistics(parts[-1], Statistics.from_samples(X[rows], s[rows], c[rows], cells=True))
    one = Statistics.load(parts[0], rows_in_file=True)
    assert isinstance(one.parts[True,].cells.sums, DiskRows)
    again = tmp_path / "copy"
    one.save(again)
    assert np.array_equal(Statistics.load(again).level_sums(0), Statistics.load(parts[0]).level_sums(0))
    found, steps = read_statistics(parts, room=1e3)
    assert steps == []
    assert isinstance(found.parts[True,].cells.sums, DiskRows)
    assert_allclose(found.covariance, whole.covariance, rtol=1e-10, atol=1e-12)
    place = {label: i for i, label in enumerate(found.labels[0])}
    order = [place[label] for label in whole.labels[0]]
    assert_allclose(found.level_sums(0)[order] + np.outer(whole.level_counts(0), found.shift - whole.shift),
                    whole.level_sums(0), rtol=1e-10, atol=1e-10)  # fmt: skip
    found.save(tmp_path / "sum")
    stored = Statistics.load(tmp_path / "sum")
    assert np.array_equal(stored.level_sums(0), found.level_sums(0))
    assert np.array_equal(np.asarray(found.parts[True,].cells.sums), stored.parts[True,].cells.sums)


def test_samples_whose_front_ends_differ_do_not_add_up(files, halves, tmp_path):
    for i, path in enumerate(halves):
        run("train", path, *LABELS, "--no-auto", "--center", "--max-iter", 2, "--out", tmp_path / f"m{i}")
        run("statistics", path, *LABELS, "--front-end", tmp_path / f"m{i}", "--out", tmp_path / f"s{i}")
    error = run("train", tmp_path / "s0", tmp_path / "s1", "--no-auto", "--out", tmp_path / "m", code=1).stderr
    assert "another front end" in error


@pytest.mark.parametrize("size, code", [("1GB", 0), ("1500 MB", 0), ("0.5gib", 0), ("lots", 2), ("-1GB", 2)])
def test_sizes(size, code, files, tmp_path):
    folder, *_ = files
    arguments = ["train", *train_arguments(folder, "tsv"), "--no-auto", "--max-iter", 2, "--out", tmp_path / "m"]
    error = run(*arguments, "--memory", size, code=code).stderr
    assert ("expected a size such as 2GB" in error) == bool(code)


def test_what_lacks_a_label_is_said_once(files, tmp_path, in_passes, monkeypatch):
    folder, train, *_ = files
    monkeypatch.setattr("jointplda.formats.embedding_stream._CHUNK_BYTES", 1000)
    (tmp_path / "utt2lang").write_text("".join(f"{i} {c}\n" for i, c in zip(train.ids[30:], train.language[30:])))
    arguments = ["train", folder / "train.npy", "--labels", folder / "train.tsv", "--speaker", "speaker"]
    said = run(*arguments, "--channel", tmp_path / "utt2lang", "--no-auto", "--max-iter", 2, "--out", tmp_path / "m")
    assert said.stderr.count("30 samples have no lang") == 1


def test_a_plan_reads_no_embeddings(files, tmp_path, monkeypatch):
    folder, *_ = files
    monkeypatch.setattr(streamed_input.FileSource, "chunks", None)
    arguments = ["train", *train_arguments(folder, "tsv"), "--plan"]
    told = json.loads(run(*arguments, "--json").stdout)
    assert (told["dimensions"], told["in_passes"]) == (12, False)
    monkeypatch.setattr(train_run, "memory_in_one_piece", lambda *args, **kwargs: np.inf)
    assert "in passes, within --memory" in run(*arguments).stdout


def test_too_little_memory_is_said_in_sizes(halves, tmp_path):
    error = run("train", *halves, *LABELS, "--memory", "2", "--out", tmp_path / "m", code=1).stderr
    assert "--memory: expected at least 100 MB, got 2 bytes" in error


def test_ids_of_several_files_are_compared_in_passes(halves, tmp_path, in_passes):
    write_embeddings(read_embeddings(halves[0]).take(np.arange(5)), tmp_path / "c.npz")
    for command in (["train", *PLAIN], ["statistics"]):
        arguments = [*halves, tmp_path / "c.npz", *LABELS, "--out", tmp_path / "m"]
        error = run(*command, *arguments, code=1).stderr
        assert "c.npz: ids should be unique" in error
        assert "(5 in all)" in error


@pytest.mark.parametrize("memory", [[], ["--memory", "100MB"]])
def test_files_without_ids_may_be_several(memory, files, halves, tmp_path, request):
    if memory:
        request.getfixturevalue("in_passes")
    for k, path in enumerate(halves):
        with np.load(path) as archive:
            arrays = {name: archive[name] for name in archive.files if name != "ids"}
        np.savez(tmp_path / f"without{k}.npz", **arrays)
    without = [tmp_path / f"without{k}.npz" for k in range(2)]
    run("train", *halves, *LABELS, *PLAIN, "--out", tmp_path / "with")
    run("train", *without, *LABELS, *PLAIN, *memory, "--out", tmp_path / "m")
    train = read_embeddings(halves[0])
    assert_allclose(scores(tmp_path / "m", train.X), scores(tmp_path / "with", train.X), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("passes", [False, True])
def test_errors_of_labels_name_their_file(passes, halves, tmp_path, request):
    if passes:
        request.getfixturevalue("in_passes")
    with np.load(halves[1]) as archive:
        arrays = dict(archive)
    speakers = np.where(np.arange(len(arrays["ids"])) < 3, "", arrays["speaker"])
    np.savez(tmp_path / "nameless.npz", **{**arrays, "speaker": speakers})
    np.savez(tmp_path / "narrow.npz", **{name: array for name, array in arrays.items() if name != "language"})
    for name, problem in (("nameless.npz", "3 of"), ("narrow.npz", "--channel language: neither")):
        error = run("train", halves[0], tmp_path / name, *LABELS, *PLAIN, "--out", tmp_path / "m", code=1).stderr
        assert f"{name}: {problem}" in error


def test_advice_for_statistics_fits_the_options(halves, tmp_path):
    run("statistics", *halves, *LABELS, "--out", tmp_path / "sums")
    error = run("train", tmp_path / "sums", "--no-auto", "--lda", 3, "--out", tmp_path / "m", code=2).stderr
    assert "Leave out preprocessing" in error
    assert "--no-auto" not in error


def test_the_rate_counts_from_the_first_chunk_on(monkeypatch):
    clock = iter([0.0, 100.0, 102.0])
    monkeypatch.setattr(progress_display, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    said = []
    monkeypatch.setattr(Messages, "info", lambda self, text: said.append(text))
    lines = progress_display._Lines(Messages(), "samples")
    lines(Progress("census", 1000, 4000))
    lines(Progress("census", 2000, 4000))
    assert said == ["census: 2,000 of 4,000 samples, 500/s, 4.0 s left"]


def test_a_bar_on_a_terminal_has_no_rate_at_first(monkeypatch, capsys):
    monkeypatch.setattr(Messages, "shows_progress", True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    with progress_display.pass_progress(Messages()) as shown:
        shown(Progress("census", 1000, 3000))
        shown(Progress("census", 2000, 3000))
    assert "2,000 samples" in capsys.readouterr().err
