"""Mistakes on the command line: one clear message each, which names options that exist."""

import os
import re
import sys

import click
import pytest

from jointplda.commands.messages import OPTIONS_OF, error_text
from jointplda.errors import Advice, InputError, Remedy, warn
from worlds.command_line import all_commands, options_of, run

LABELLED = ["train.npy", "--labels", "train.tsv", "--speaker", "speaker", "--channel", "language", "--out", "m"]
SCORE = ["score", "api.safetensors", "--enroll", "test.npy", "--labels", "test.tsv", "--out", "s"]

MISTAKES = [
    (["train", "train.npy", "--out", "m"], 2, "Missing option '--speaker'"),
    (["train", "bare.npy", "--speaker", "speaker", "--out", "m"], 1, "--labels: bare.npy is a matrix"),
    (["train", "train.npy", "--labels", "train.tsv", "--speaker", "talker", "--out", "m"], 1, "--speaker talker: nei"),
    (["train", "train.npy", "--labels", "train.tsv", "--speaker", "speaker", "--out", "no/m"], 1, "does not exist"),
    (["train", "train.npy", "--labels", "train.tsv", "--speaker", "speaker"], 2, "'--out' (or --plan"),
    (["train", "train.npy", "--labels", "test.tsv", "--speaker", "speaker", "--out", "m"], 1, "160"),
    (["train", "train.npy", "--labels", "train.tsv", "--speaker", "some", "--out", "m"], 1, "--allow-missing leaves"),
    (["train", *LABELLED, "--pca", "13"], 1, "--pca: expected a whole number from 1 to 12"),
    (["train", *LABELLED, "--pca", "13", "--plan"], 1, "--pca: expected a whole number from 1 to 12"),
    (["train", *LABELLED, "--center", "--lda", "40"], 1, "--lda: expected a whole number from 1 to 12"),
    (["train", *LABELLED, "--speaker-rank", "13"], 1, "--speaker-rank: expected a whole number from 1 to 12"),
    (["train", *LABELLED, "--channel-rank", "13"], 1, "--channel-rank: expected a whole number from 0 to 12"),
    (["train", *LABELLED, "--channel-prior", "1e10"], 1, "--channel-prior: expected a number from 0 to"),
    (["train", *LABELLED[:3], "--speaker", "ids", "--no-auto", "--out", "m"], 1, "one sample each"),
    (["tune", *LABELLED[:3], "--speaker", "ids"], 1, "4 speakers"),
    ([*SCORE], 2, "use either --trials or --all"),
    ([*SCORE, "--trials", "partly"], 1, "--allow-missing leaves their trials out."),
    ([*SCORE, "--trials", "absent"], 1, "check that both name the same"),
    (["score", "train.tsv", "--enroll", "test.npy", "--all", "--out", "s"], 1, "not a safetensors"),
    (["score", "api.safetensors", "--enroll", "train.npy", "--labels", "train.tsv", "--trials", "trials", "--out", "s"],
     1, "check that both name the same"),
    ([*SCORE, "--all", "--channel", "language", "--channel", "speaker"], 1, "expected 1 nuisance condition"),
    (["calibrate", "train", "unlabelled", "--out", "c"], 1, "which trials are targets. Use --key."),
    ([*SCORE, "--trials", "trials", "--models", "spk2utt"], 1, "--allow-missing leaves them out"),
    (["evaluate", "trials"], 1, "line 1"),
    (["evaluate", "scores", "--key", "absent"], 1, "no trial of the key has a score"),
    (["evaluate", "scores", "--key", "trials"], 1, "--allow-missing leaves them out."),
    (["evaluate", "scores", "--key", "half", "--channel", "language", "--labels", "test.tsv", "--channel", "speaker"],
     2, "one --channel; use --by"),
    (["info", "train.tsv"], 1, "not a safetensors"),
    (["convert", "scores", "trials", "s"], 1, "line 1"),
    (["convert", "trials", "trials", "s", "--to", "word"], 2, "voxceleb"),
    (["convert", "model", "api.safetensors", "k.plda"], 1, "--absorb-channel "),
    (["convert", "embeddings", "test.npy", "e.word"], 1, "end it in one of .npz"),
    (["compare", "train.npy", "--labels", "train.tsv", "--speaker", "speaker"], 2, "Missing option '--channel'"),
    (["compare", *LABELLED[:-2], "--system", "cosin"], 1, "--system: expected 'cosine'"),
    (["compare", *LABELLED[:-2], "--test-share", "0.01"], 1, "--test-share: "),
    (["calibrate", "train", "trials", "--out", "c"], 1, "line 1"),
    (["calibrate", "train", "scores", "--key", "trials", "--out", "c"], 1, "--allow-missing leaves them out."),
]  # fmt: skip


@pytest.fixture
def folder(files, tmp_path, monkeypatch):
    """The files of the world, and some that do not fit them."""
    source, train, *_ = files
    for path in source.iterdir():
        if path.is_file():
            os.link(path, tmp_path / path.name)
    lines = (source / "trials").read_text().splitlines(keepends=True)
    (tmp_path / "scores").write_text("".join(f"{' '.join(line.split()[:2])} 1.0\n" for line in lines[:9]))
    (tmp_path / "half").write_text("".join(lines[:9]))
    (tmp_path / "unlabelled").write_text("a b 1.0\nc d 2.0\n")
    (tmp_path / "absent").write_text("x y target\ny z nontarget\n")
    (tmp_path / "partly").write_text(f"{lines[0]}x y target\n")
    (tmp_path / "some").write_text("".join(f"{i} s{k % 5}\n" for k, i in enumerate(train.ids[:20])))
    (tmp_path / "ids").write_text("".join(f"{i} {i}\n" for i in train.ids))
    (tmp_path / "spk2utt").write_text("m nobody\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("arguments", "code", "message"), MISTAKES, ids=lambda each: str(each)[:70])
def test_one_clear_error_that_names_options(arguments, code, message, folder):
    before = sorted(os.listdir(folder))
    result = run(*arguments, code=code)
    assert message in result.stderr
    assert "Traceback" not in result.output
    assert result.stdout == ""
    assert sorted(os.listdir(folder)) == before
    path = arguments[:2] if arguments[0] == "calibrate" else arguments[:1]
    known = {*options_of(*path), "--help"}
    assert [name for name in re.findall(r"(?<![\w-])--[a-z-]+\w", result.stderr) if name not in known] == []
    last = result.stderr.strip().splitlines()[-1]
    assert not re.search(r"\b[a-z]+_[a-z]+\b(?!\.)|=True", last), last


def test_every_option_named_for_a_parameter_exists():
    known = {name for path, _ in all_commands() for name in options_of(*path)}
    assert [name for names in OPTIONS_OF.values() for name in names if name not in known] == []


def text(error, *words):
    """The text of an error in a command that runs with the given words."""
    command = dict(all_commands())[(words[0],)]
    with command.make_context(words[0], [sys.executable if word is None else word for word in words[1:]]) as context:
        return error_text(error, context)


def test_parts_of_an_error_become_options():
    train = ("train", None, "--speaker", "s", "--channel", "c", "--out", "m")
    remedy = Remedy("allow_missing", True, "leaves them out")
    assert text(InputError("bad.", parameter="y"), *train) == "--speaker: bad."
    assert text(InputError("bad.", parameter="channel_rank", remedy=remedy), *train) == (
        "--channel-rank: bad. --allow-missing leaves them out."
    )
    assert text(InputError("bad.", parameter="X", remedy=Remedy("shift", 1, "helps")), *train) == "bad."
    assert text(InputError("bad.", remedy=Remedy("noise_prior", 1, "helps")), *train) == "bad. --noise-prior 1 helps."
    spoken = Advice("Use x=1.", "Use --channel.")
    assert str(InputError("bad.", parameter="y", remedy=spoken)) == "y: bad. Use x=1."
    assert text(InputError("bad.", parameter="y", remedy=spoken), *train) == "--speaker: bad. Use --channel."
    assert text(InputError("bad.", remedy=Advice("Use x=1.", "Use --absent.")), *train) == "bad."
    assert text(InputError("bad.", remedy=Advice("Use x=1.", "")), *train) == "bad."
    both = InputError("bad.", parameter="n_components")
    assert text(both, *train, "--lda", "3") == "--lda: bad."
    assert text(both, *train) == "--pca or --lda: bad."
    assert text(both, *train, "--lda", "3", "--pca", "3") == "--pca or --lda: bad."
    kind = InputError("bad.", parameter="kind")
    assert text(kind, "convert", "scores", None, "t") == "--to: bad."
    assert text(kind, "score", None, "--enroll", sys.executable, "--out", "s") == "--format: bad."


def test_warnings_name_options_too(monkeypatch, tmp_path):
    from jointplda.calibration import pav

    original = pav.fit_pav

    def fit_pav(*arguments):
        warn("odd.", parameter="prior", remedy=Remedy("allow_missing", True, "helps"))
        return original(*arguments)

    monkeypatch.setattr("jointplda.commands.calibrate_run.fit_pav", fit_pav)
    (tmp_path / "s").write_text("a b 1 target\na c 0 target\nb c 0.5 nontarget\na d -1 nontarget\n")
    words = ["calibrate", "train", tmp_path / "s", "--method", "pav", "--out", tmp_path / "c"]
    assert run(*words).stderr == "warning: --prior: odd. --allow-missing helps.\n"
    assert run(*words, "--force", "--quiet").stderr == ""


def test_a_fit_that_did_not_converge_is_no_lesson_in_python(files):
    folder, *_ = files
    done = run("compare", folder / "train.npy", "--labels", folder / "train.tsv", "--speaker", "speaker", "--channel",
               "language", "--system", "Joint PLDA", "--max-iter", 2, "--draws", 0).stderr  # fmt: skip
    assert done.endswith("nats per sample (the limit is 1e-05). Raise --max-iter or --tol.\n")
    assert not re.search(r"[a-z]_[a-z]|=", done)


def test_the_reader_never_calls_a_command_with_a_word_of_python():
    for _, command in all_commands():
        for parameter in command.params:
            assert not re.search(r"\b(None|True|kwargs)\b|[a-z]_[a-z]", getattr(parameter, "help", "") or "")
            assert isinstance(parameter, click.Parameter)
