"""Using the command line: existing files, keys, conversions, messages."""

import json
import os
import subprocess
import sys
from importlib.metadata import version

import numpy as np
from numpy.testing import assert_allclose

from jointplda import PLDA, Pipeline
from jointplda.commands import console
from jointplda.formats import read_scores
from worlds.command_line import run, score_arguments, train_arguments


def test_nothing_is_overwritten(files, tmp_path):
    folder, *_ = files
    (tmp_path / "m").write_text("mine")
    done = run("train", *train_arguments(folder, "tsv"), "--out", tmp_path / "m", code=1)
    assert "--force" in done.stderr
    assert (tmp_path / "m").read_text() == "mine"
    run("train", *train_arguments(folder, "tsv"), "--out", tmp_path / "m", "--force", "--max-iter", 2)
    assert (tmp_path / "m").read_bytes()[8:9] == b"{"
    assert "does not exist" in run("info", tmp_path / "absent", code=2).stderr


def test_nothing_beside_is_overwritten_either(files, tmp_path):
    folder, *_ = files
    source = folder / "kaldi-test"
    for ending, target in ((".tsv", "e.npy"), (".ark", "e.scp"), (".utt2lang", "e.scp")):
        (tmp_path / f"e{ending}").write_text("mine")
        assert f"e{ending}: exists already" in run("convert", "embeddings", source, tmp_path / target, code=1).stderr
        assert os.listdir(tmp_path) == [f"e{ending}"]
        (tmp_path / f"e{ending}").unlink()
    (tmp_path / "s.rows").write_text("mine")
    scoring = ["score", folder / "api.safetensors", *score_arguments(folder, "tsv"), "--all"]
    assert "s.rows" in run(*scoring, "--out", tmp_path / "s.npy", code=1).stderr
    run(*scoring, "--out", tmp_path / "s.npy", "--force")
    assert (tmp_path / "s.rows").read_text() != "mine"


def test_keys_that_do_not_fit(tmp_path):
    (tmp_path / "s").write_text("a b 1.0\nc d -1.0\na d inf\nc b -inf\n")
    (tmp_path / "one").write_text("a b target\nc d target\na d target\nc b target\n")
    done = run("evaluate", tmp_path / "s", "--key", tmp_path / "one", code=1).stderr
    assert f"{tmp_path / 'one'}: there are no non-targets among 4 scored trials" in done
    (tmp_path / "more").write_text("a b target\nc d nontarget\na d nontarget\nc b target\nx y target\n")
    done = run("evaluate", tmp_path / "s", "--key", tmp_path / "more", code=1).stderr
    assert "1 of 5 trials of the key have no score: 'x y'" in done
    kept = json.loads(run("evaluate", tmp_path / "s", "--key", tmp_path / "more", "--allow-missing", "--json").stdout)
    assert kept["parts"]["pooled"]["targets"] == 2
    assert kept["parts"]["pooled"]["Cllr"] == "inf"
    (tmp_path / "foreign").write_text("p q target\nr s nontarget\n")
    assert (
        "no trial of the key has a score"
        in run("evaluate", tmp_path / "s", "--key", tmp_path / "foreign", code=1).stderr
    )
    (tmp_path / "nan").write_text("a b nan\n")
    assert "line 1" in run("evaluate", tmp_path / "nan", "--key", tmp_path / "more", code=1).stderr


def test_repeated_trials_and_full_matrices(files, tmp_path):
    folder, *_ = files
    lines = (folder / "trials").read_text().splitlines(keepends=True)
    (tmp_path / "trials").write_text("".join(lines + lines[:5]))
    model, arguments = folder / "api.safetensors", score_arguments(folder, "tsv")
    run("score", model, *arguments, "--trials", tmp_path / "trials", "--out", tmp_path / "s")
    done = run("evaluate", tmp_path / "s", "--key", tmp_path / "trials", "--draws", 0, "--json")
    part = json.loads(done.stdout)["parts"]["pooled"]
    assert part["targets"] + part["nontargets"] == len(lines)
    assert "5 repeated trials of the key" in done.stderr
    run("score", model, *arguments, "--all", "--out", tmp_path / "all.npy")
    again = run("evaluate", tmp_path / "all.npy", "--key", folder / "trials", "--allow-missing", "--draws", 0, "--json")
    assert_allclose(json.loads(again.stdout)["parts"]["pooled"]["EER"], part["EER"], rtol=1e-9)


def test_labels_from_an_embeddings_file_and_unseen_channels(files, tmp_path):
    folder, _, test, *_ = files
    np.savez(tmp_path / "t.npz", embeddings=test.X, ids=test.ids, language=test.language, voice=test.speaker)
    base = ["score", folder / "api.safetensors", "--enroll", tmp_path / "t.npz", "--trials", folder / "trials"]
    done = run(*base, "--channel", "voice", "--out", tmp_path / "s").stderr
    assert "was in training" in done
    result = run("evaluate", tmp_path / "s", "--key", folder / "trials", "--labels", tmp_path / "t.npz", "--channel",
                 "language", "--speaker", "voice", "--draws", 10, "--json")  # fmt: skip
    assert json.loads(result.stdout)["speakers"] == 14


def test_narrow_terminals_lose_columns_not_names(monkeypatch):
    monkeypatch.setattr(console, "width", lambda: 30)
    header, rows = console.without_columns(["trials", "EER", "minDCF"], [["cross / same", "1.00 %", "0.1"]], ["minDCF"])
    assert header == ["trials", "EER"]
    assert rows == [["cross / same", "1.00 %"]]


def test_convert(files, tmp_path):
    folder, *_ = files
    run("convert", "embeddings", folder / "kaldi-test", tmp_path / "e.npz")
    run("convert", "embeddings", tmp_path / "e.npz", tmp_path / "e.h5")
    run("convert", "embeddings", tmp_path / "e.h5", tmp_path / "e.parquet")
    run("convert", "embeddings", tmp_path / "e.h5", tmp_path / "n.npy")
    said = run("convert", "embeddings", tmp_path / "e.h5", tmp_path / "n.npy", "--force").stderr
    assert f"written to {tmp_path / 'n.npy'}, {tmp_path / 'n.tsv'}" in said
    run("convert", "trials", folder / "trials", tmp_path / "t.h5", "--to", "bosaris")
    run("convert", "trials", tmp_path / "t.h5", tmp_path / "t.tsv", "--to", "nist")
    run("score", folder / "api.safetensors", "--enroll", tmp_path / "e.parquet", "--trials", tmp_path / "t.tsv",
        "--out", tmp_path / "one")  # fmt: skip
    run("score", folder / "api.safetensors", *score_arguments(folder, "kaldi"), "--trials", folder / "trials", "--out",
        tmp_path / "two")  # fmt: skip
    one, two = read_scores(tmp_path / "one"), read_scores(tmp_path / "two")
    assert_allclose(np.sort(one.values), np.sort(two.values), rtol=1e-6)


def test_foreign_models(files, tmp_path):
    folder, _, test, *_ = files
    run("train", *train_arguments(folder, "tsv")[:-2], "--no-auto", "--center", "--max-iter", 20, "--out",
        tmp_path / "m")  # fmt: skip
    done = run("convert", "model", tmp_path / "m", tmp_path / "plda", "--to", "kaldi")
    assert "12 dimensions without its preprocessing (Center), which embeddings need first, written to" in done.stderr
    run("convert", "model", tmp_path / "plda", tmp_path / "plda.npz")
    run("convert", "model", tmp_path / "plda.npz", tmp_path / "back.safetensors")
    base = [*score_arguments(folder, "tsv"), "--all"]
    run("score", tmp_path / "back.safetensors", *base, "--out", tmp_path / "b.npy")
    pipe = Pipeline.load(tmp_path / "m")
    centred = pipe[0].transform(test.X)
    expected = pipe[-1].score_matrix(centred, centred)
    back = PLDA.load(tmp_path / "back.safetensors").score_matrix(centred, centred)
    assert_allclose(back, expected, rtol=1e-5, atol=1e-5)
    done = run("convert", "model", folder / "api.safetensors", tmp_path / "k.plda", code=1).stderr
    assert "--absorb-channel" in done
    assert "--to" in run("convert", "model", tmp_path / "plda", tmp_path / "k", code=2).stderr
    run("convert", "model", folder / "api.safetensors", tmp_path / "k.plda", "--absorb-channel")


def test_installed_command_and_debug(tmp_path):
    (tmp_path / "x").write_text("")
    command = [sys.executable, "-m", "jointplda", "info", str(tmp_path / "x")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    done = subprocess.run([*command, "--debug"], capture_output=True, text=True, check=False)
    assert "Traceback" in done.stderr


def test_quiet_and_verbose(files, tmp_path):
    folder, *_ = files
    arguments = ["train", *train_arguments(folder, "tsv"), "--no-auto", "--max-iter", 3, "--force", "--out",
                 tmp_path / "m"]  # fmt: skip
    assert run(*arguments, "--quiet").stderr == ""
    assert "iteration 2" in run(*arguments, "-v").stderr
    assert "without converging" in run(*arguments).stderr


def test_info_says_what_wrote_a_model(files):
    folder = files[0]
    written = json.loads(run("info", folder / "api.safetensors", "--json").stdout)["written with"]
    assert written["jointplda"] == version("jointplda")
    assert set(written) == {"jointplda", "numpy", "scipy", "scikit-learn"}


def test_suffixes_are_read_without_case(files, tmp_path):
    folder = files[0]
    (tmp_path / "b.tsv").write_text("precious")
    run("convert", "embeddings", folder / "test.npy", tmp_path / "b.NPY", "--labels", folder / "test.tsv", code=1)
    assert (tmp_path / "b.tsv").read_text() == "precious"
    run("score", folder / "api.safetensors", "--enroll", folder / "test.npy", "--labels", folder / "test.tsv", "--all",
        "--out", tmp_path / "s.NPY")  # fmt: skip
    assert np.load(tmp_path / "s.NPY").ndim == 2
