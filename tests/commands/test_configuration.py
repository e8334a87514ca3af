"""Options from a TOML file with a table per command."""

import json

import pytest

from worlds.command_line import run, train_arguments


def test_a_table_gives_defaults_and_the_command_line_overrides_them(files, tmp_path):
    folder, *_ = files
    (tmp_path / "c.toml").write_text(
        f'[train]\nspeaker = "speaker"\nlabels = "{folder / "train.tsv"}"\nchannel = ["language"]\nmax-iter = 7\n'
        f'channel-rank = 2\nout = "{tmp_path / "m"}"\n[evaluate]\nchannel = "language"\n'
    )
    base = ["train", folder / "train.npy", "--config", tmp_path / "c.toml", "--json", "--tol", 0]
    result = json.loads(run(*base).stdout)
    assert (result["iterations"], result["channel_ranks"]) == (7, [2])
    assert json.loads(run(*base, "--max-iter", 4, "--force").stdout)["iterations"] == 4


def test_steps_of_a_table_have_a_fixed_order(files, tmp_path):
    folder, *_ = files
    (tmp_path / "c.toml").write_text("[train]\npca = 5\nlength-norm = true\ncenter = true\n")
    run("train", *train_arguments(folder, "tsv"), "--config", tmp_path / "c.toml", "--max-iter", 2, "--out",
        tmp_path / "n")  # fmt: skip
    steps = json.loads(run("info", tmp_path / "n", "--json").stdout)["preprocessing"]
    assert [step.split("(")[0] for step in steps] == ["Center", "LengthNorm", "PCA"]


def test_tables_of_a_group(tmp_path):
    (tmp_path / "s").write_text("a b 1 target\na c 0 target\nb c 0.5 nontarget\na d -1 nontarget\n")
    (tmp_path / "c.toml").write_text('[calibrate.train]\nmethod = "pav"\n')
    done = run("calibrate", "train", tmp_path / "s", "--config", tmp_path / "c.toml", "--out", tmp_path / "c", "--json")
    assert json.loads(done.stdout)["method"] == "pav"


MISTAKES = {
    "speaker = 'x'": (2, "'speaker' is in no table; options belong below [train]."),
    "[train]\nspeeker = 1": (2, "[train] has no option 'speeker'. (Did you mean one of: 'speaker',"),
    "[train]\nmax_iter = 1": (2, "[train] has no option 'max_iter'. Did you mean 'max-iter'?"),
    "[train]\nconfig = 'x'": (2, "[train] has no option 'config'."),
    "[scroe]\nout = 3": (2, "[scroe] is no command. Did you mean 'score'?"),
    "= 3": (1, "not a TOML file"),
}


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes(text, files, tmp_path):
    folder, *_ = files
    code, message = MISTAKES[text]
    (tmp_path / "c.toml").write_text(text)
    assert message in run("train", folder / "train.npy", "--config", tmp_path / "c.toml", code=code).stderr
