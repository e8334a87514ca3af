"""The analysis of variance on the command line."""

import json

import numpy as np
import pytest

from jointplda import JointPLDA, Pipeline
from jointplda.commands.variance_run import _meaning
from jointplda.embedding_table import EmbeddingTable
from jointplda.formats import write_embeddings
from jointplda.model.variance_shares import VarianceShares
from worlds.command_line import run


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """40 speakers in all of 8 channels, with an interaction of 0.8 times the noise; one label is missing."""
    rng = np.random.default_rng(0)
    truth = JointPLDA.from_parameters(
        np.zeros(6), rng.normal(size=(6, 3)), rng.normal(size=(6, 2)), np.eye(6), interaction=0.8
    )
    s, c = (grid.ravel() for grid in np.meshgrid(np.arange(40), np.arange(8), indexing="ij"))
    s, c = np.repeat(s, 2), np.repeat(c, 2)
    X = truth.sample(s, channels=c, random_state=1)
    columns = {"speaker": s.astype(str), "room": c.astype(str), "home": (s % 5).astype(str)}
    columns["room"][0] = ""
    path = tmp_path_factory.mktemp("variance") / "data.npz"
    write_embeddings(EmbeddingTable(np.arange(len(s)).astype(str), columns, X=X), path)
    return path


def test_shares_and_kappa(data):
    options = ["variance", data, "--speaker", "speaker", "--channel", "room", "--center"]
    result = json.loads(run(*options, "--json").stdout)
    assert result["samples"] == 639
    assert list(result["shares"]) == ["speaker", "room", "interaction", "noise"]
    assert sum(result["shares"].values()) == pytest.approx(1.0)
    assert result["kappa"] == pytest.approx(0.8, abs=0.15)
    low, high = result["kappa_interval"]
    assert low < result["kappa"] < high
    text = run(*options)
    assert "speaker and channel interact; train takes it into account" in text.stdout
    assert "interaction" in text.stdout
    assert "--interaction" in text.stdout


def test_speakers_in_one_channel_are_said(data):
    done = run("variance", data, "--speaker", "speaker", "--channel", "home", code=1)
    assert "cannot be told apart: expected speakers in two or more channels" in done.stderr


def test_meaning():
    def meaning(low, high):
        interval = np.array([low, high])
        return _meaning(VarianceShares((), interval, interval, 0.0, interval))

    assert meaning(0.0, np.inf).startswith("one speaker or channel decides alone")
    assert meaning(0.0, 0.09).startswith("speaker and channel hardly interact")
    assert meaning(0.0, 0.3).startswith("whether")
    assert meaning(0.05, 0.3).startswith("speaker and channel interact")


def test_a_channel_is_needed(data):
    assert "--channel" in run("variance", data, "--speaker", "speaker", code=2).stderr


def test_train_with_an_interaction(data, tmp_path):
    common = ["--speaker", "speaker", "--channel", "room", "--max-iter", 20, "--speaker-rank", 3, "--channel-rank", 2]
    run("train", data, *common, "--interaction", "proportional", "--out", tmp_path / "m.safetensors")
    assert JointPLDA.load(tmp_path / "m.safetensors").interaction_ == pytest.approx(0.8, abs=0.15)
    run("train", data, *common, "--interaction", "0.3", "--out", tmp_path / "fixed.safetensors")
    assert JointPLDA.load(tmp_path / "fixed.safetensors").interaction_ == 0.3
    assert (
        "not proportional, full, split or a number"
        in run("train", data, *common, "--interaction", "some", "--out", tmp_path / "x", code=2).stderr
    )
    run("train", data, *common[:-4], "--interaction", "0", "--out", tmp_path / "paper.safetensors")
    paper = Pipeline.load(tmp_path / "paper.safetensors")[-1]
    assert {one.candidate.interaction for one in paper.candidates_} == {0.0}
    alone = run("train", data, "--speaker", "speaker", "--interaction", "full", "--out", tmp_path / "x", code=2)
    assert "--interaction needs a --channel" in alone.stderr
