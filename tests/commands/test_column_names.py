"""Conditions are named by whole columns or by files, and no two may share a name."""

import json

import numpy as np
import pytest

from jointplda.embedding_table import EmbeddingTable
from jointplda.formats import write_embeddings
from worlds.command_line import run

TRAIN = ["--no-auto", "--speaker-rank", "3", "--channel-rank", "1", "--max-iter", "3", "--quiet"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Speakers heard through two microphones each, by the labels "mic.a" and "mic.b"."""
    path = tmp_path_factory.mktemp("columns")
    rng = np.random.default_rng(4)
    speaker, a, b = np.repeat(np.arange(20), 6), rng.integers(0, 3, 120), rng.integers(0, 4, 120)
    X = rng.normal(size=(20, 6))[speaker] * 2 + rng.normal(size=(3, 6))[a] + rng.normal(size=(4, 6))[b]
    X += rng.normal(size=X.shape)
    ids = np.array([f"u{i}" for i in range(120)])
    columns = {"speaker": speaker.astype(str), "mic.a": a.astype(str), "mic.b": b.astype(str)}
    write_embeddings(EmbeddingTable(ids, columns, X=X), path / "data.npz")
    for name in ("utt2mic", "dev.utt2mic", "mic.txt"):
        (path / name).write_text("".join(f"{i} {c}\n" for i, c in zip(ids, a)))
    (path / "trials").write_text("".join(f"u{i} u{i + 7}\n" for i in range(100)))
    return path


def trained(folder, *channels, name="m.safetensors", code=0):
    options = [each for channel in channels for each in ("--channel", channel)]
    return run(
        "train", folder / "data.npz", "--speaker", "speaker", *options, *TRAIN, "--out", folder / name, "--force",
        code=code,
    )  # fmt: skip


def scored(folder, *channels):
    options = [each for channel in channels for each in ("--channel", channel)]
    out = folder / "scores"
    run("score", folder / "m.safetensors", "--enroll", folder / "data.npz", "--trials", folder / "trials", *options,
        "--out", out, "--force", "--quiet")  # fmt: skip
    return [float(line.split()[2]) for line in out.read_text().splitlines()]


def test_columns_keep_their_whole_names_in_any_order(folder):
    trained(folder, "mic.a", "mic.b")
    conditions = json.loads(run("info", folder / "m.safetensors", "--json").stdout)
    assert "mic.a" in json.dumps(conditions)
    assert "mic.b" in json.dumps(conditions)
    assert scored(folder, "mic.a", "mic.b") == scored(folder, "mic.b", "mic.a")


@pytest.mark.parametrize("pair", [("mic.a", "mic.a"), ("utt2mic", "dev.utt2mic"), ("utt2mic", "mic.txt")])
def test_two_conditions_of_one_name_are_refused(folder, pair):
    given = [folder / each if (folder / each).is_file() else each for each in pair]
    result = trained(folder, *given, name="twice.safetensors", code=1)
    assert f"--channel {given[0]} and --channel {given[1]}" in result.output.replace("\n", " ")
    assert not (folder / "twice.safetensors").exists()


def test_a_column_is_not_taken_for_a_file_of_its_name(folder, monkeypatch):
    monkeypatch.chdir(folder)
    trained(folder, "mic.a", "mic.b")
    expected = scored(folder, "mic.a", "mic.b")
    ids = np.load(folder / "data.npz")["ids"]
    try:
        for name in ("mic.a", "mic.b"):
            (folder / name).write_text("".join(f"{sample} {i % 3}\n" for i, sample in enumerate(ids)))
        assert scored(folder, "mic.a", "mic.b") == expected
    finally:
        (folder / "mic.a").unlink()
        (folder / "mic.b").unlink()


def test_a_condition_of_another_name_is_named(folder):
    trained(folder, "mic.a", name="one.safetensors")
    score = ["score", folder / "one.safetensors", "--enroll", folder / "data.npz", "--trials", folder / "trials"]
    done = run(*score, "--channel", folder / "utt2mic", "--out", folder / "none", code=1)
    assert done.stderr.endswith(
        "--channel: expected the condition(s) (mic.a), got (mic). "
        'The model knows the condition "mic.a"; name the file utt2mic.a, or give it in --labels.\n'
    )
