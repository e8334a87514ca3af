"""Every file that a command is given is read once, however many sides, blocks or score files there are."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from jointplda import Pipeline, formats
from jointplda.formats import read_scores
from jointplda.storage import records
from worlds.command_line import run, score_arguments
from worlds.small_blocks import blocks_of

READERS = ("read_embeddings", "read_labels", "read_label_table", "read_scores", "read_trials", "read_enrollment")
USERS = ("compare_run", "data_input", "evaluate_run", "score_run")


@pytest.fixture
def reads(monkeypatch):
    """How often each file is read, by its name; embeddings that a reader reads for itself do not count."""
    count = Counter()

    def counted(original):
        def read(path, *rest, **more):
            count[Path(path).name] += 1
            return original(path, *rest, **more)

        return read

    monkeypatch.setattr(records, "read_tensors", counted(records.read_tensors))
    for name in READERS:
        original = getattr(formats, name)
        for module in ("formats", *(f"commands.{module}" for module in USERS)):
            monkeypatch.setattr(f"jointplda.{module}.{name}", counted(original), raising=False)
    return count


@pytest.fixture
def folder(files, tmp_path):
    """Embeddings of two sides, a file of languages, models of two samples each, and three score files."""
    source, _, test, *_ = files
    for name, rows in (("a", slice(0, 60)), ("b", slice(60, None))):
        np.savez(tmp_path / f"{name}.npz", embeddings=test.X[rows], ids=test.ids[rows])
    for name, values in (("utt2language", test.language), ("utt2spk", test.speaker)):
        (tmp_path / name).write_text("".join(f"{i} {v}\n" for i, v in zip(test.ids, values)))
    (tmp_path / "models").write_text("".join(f"m{k} {test.ids[2 * k]} {test.ids[2 * k + 1]}\n" for k in range(5)))
    lines = (source / "trials").read_text().splitlines()
    for name in ("s1", "s2", "s3"):
        (tmp_path / name).write_text("".join(f"{' '.join(line.split()[:2])} {k % 7}\n" for k, line in enumerate(lines)))
    np.savez(tmp_path / "labels.npz", embeddings=test.X, ids=test.ids, language=test.language)
    return tmp_path


@pytest.mark.parametrize("models", [False, True])
def test_score_reads_the_channels_once(models, reads, files, folder, monkeypatch):
    blocks_of(monkeypatch, 7)
    more = ["--models", folder / "models"] if models else []
    run("score", files[0] / "api.safetensors", "--enroll", folder / "a.npz", "--test", folder / "b.npz", *more,
        "--all", "--channel", folder / "utt2language", "--out", folder / "s")  # fmt: skip
    expected = {"api.safetensors": 1, "a.npz": 1, "b.npz": 1, "utt2language": 1, **({"models": 1} if models else {})}
    assert reads == expected


def test_evaluate_reads_labels_once_for_all_scores(reads, files, folder):
    run("evaluate", folder / "s1", folder / "s2", folder / "s3", "--key", files[0] / "trials", "--labels",
        folder / "labels.npz", "--speaker", folder / "utt2spk", "--channel", folder / "utt2language", "--by",
        folder / "utt2language", "--draws", 0)  # fmt: skip
    once = ("s1", "s2", "s3", "trials", "labels.npz", "utt2spk")
    assert reads == {**dict.fromkeys(once, 1), "utt2language": 2}  # once for each of two options


def test_info_reads_the_model_once(reads, files):
    run("info", files[0] / "api.safetensors")
    assert reads == {"api.safetensors": 1}


def test_compare_reads_the_speakers_once_for_both_sides(reads, files, folder):
    _, train, *_ = files
    np.savez(folder / "train.npz", embeddings=train.X, ids=train.ids)
    for name, values in (("utt2language", train.language), ("utt2spk", train.speaker)):
        with (folder / name).open("a") as file:
            file.writelines(f"{i} {v}\n" for i, v in zip(train.ids, values))
    run("compare", folder / "train.npz", "--test", folder / "a.npz", "--speaker", folder / "utt2spk", "--channel",
        folder / "utt2language", "--system", "cosine", "--draws", 0)  # fmt: skip
    assert reads == {"train.npz": 1, "a.npz": 1, "utt2spk": 1, "utt2language": 1}


@pytest.mark.parametrize("ending", [".npy", ".txt"])
@pytest.mark.parametrize("models", [False, True])
def test_all_pairs_are_a_matrix_of_the_library(models, ending, files, folder, monkeypatch):
    monkeypatch.setattr(Pipeline, "score_trials", lambda *_, **__: pytest.fail("scored as trials"))
    source, _, test, _, model = files
    more = ["--models", folder / "models"] if models else []
    run("score", source / "api.safetensors", *score_arguments(source, "tsv"), *more, "--all", "--channel", "language",
        "--out", folder / f"all{ending}")  # fmt: skip
    names = [f"m{k}" for k in range(5)] if models else test.ids.tolist()
    if models:
        enrollment = model.enroll(test.X[:10], np.repeat(names, 2), test.language[:10])
        expected = model.score_enrollment(enrollment, test.X, test_channels=test.language)
    else:
        expected = model.score_matrix(test.X, test.X, enroll_channels=test.language, test_channels=test.language)
    found = read_scores(folder / f"all{ending}")
    assert found.trials.models.tolist() == names
    place = {sample: k for k, sample in enumerate(test.ids.tolist())}
    columns = np.array([place[sample] for sample in found.trials.samples.tolist()])
    matrix = np.full(expected.shape, np.nan)
    matrix[found.trials.enroll, columns[found.trials.test]] = found.values
    left_out = np.zeros(expected.shape, dtype=bool)
    if ending == ".txt":
        rows = np.arange(10) // 2 if models else np.arange(len(names))
        left_out[rows, np.arange(len(rows))] = True
    assert (np.isnan(matrix) == left_out).all()
    assert_allclose(matrix[~left_out], expected[~left_out], rtol=1e-9, atol=1e-9)
