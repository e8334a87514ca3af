"""Help of the commands: one screen, an example, true defaults, suggestions, and nothing heavy imported."""

import inspect
import re
import subprocess
import sys

import click
import pytest

from jointplda import PLDA, JointPLDA, JointPLDACV
from jointplda.calibration import fit_affine
from jointplda.commands.app import COMMANDS, app
from jointplda.commands.training_options import DEFAULTS
from jointplda.evaluation.evaluate import EvaluationSettings
from jointplda.evaluation.systems import ComparedSettings
from jointplda.model.settings import AUTOMATIC
from worlds.command_line import all_commands, run

SCREEN = 40
LEAVES = [path for path, command in all_commands() if not isinstance(command, click.Group)]


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_one_screen_with_an_example(path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "81")
    lines = run(*path, "--help").stdout.splitlines()
    first = lines[: lines.index("Advanced:")] if "Advanced:" in lines else lines
    assert lines[0].startswith(f"Usage: jointplda {' '.join(path)}")
    assert len(first) <= SCREEN
    assert max(map(len, lines)) <= 80
    assert "  Example:" in first
    assert f"    jointplda {' '.join(path)} " in "\n".join(first)


def defaults(function):
    return {name: each.default for name, each in inspect.signature(function).parameters.items()}


def shown(path, name):
    """The default that the help shows."""
    command = dict(all_commands())[path]
    option = next(each for each in command.params if f"--{name}" in each.opts)
    found = re.search(r"\[default: \(?(.*?)\)?[;\]]", option.get_help_record(click.Context(command))[1])
    return found.group(1)


def test_the_defaults_in_the_help_are_those_of_the_library():
    joint, plain, search = defaults(JointPLDA), defaults(PLDA), defaults(JointPLDACV)
    recipe = {**vars(ComparedSettings()), **DEFAULTS}
    for name in ("max_iter", "tol"):
        assert joint[name] == plain[name]
        text = f"{search[name]:g}, or {joint[name]:g} with --no-auto"
        assert shown(("train",), name.replace("_", "-")) == text
    for name in ("noise_prior", "speaker_prior", "channel_prior", "channel_share", "interaction", "cell_share"):
        assert shown(("train",), name.replace("_", "-")) == f"chosen, or {joint[name]:g} with --no-auto"
    assert shown(("train",), "noise-floor") == f"{joint['noise_floor']:g}" == f"{search['noise_floor']:g}"
    assert {name: search[name] for name in AUTOMATIC} == AUTOMATIC
    assert shown(("train",), "noise") == joint["noise"] == search["noise"]
    assert shown(("tune",), "folds") == str(search["cv"])
    same = defaults(JointPLDA.score_trials)["same_channel"]
    assert shown(("score",), "same-channel") == f"{same:g}"
    assert shown(("calibrate", "train"), "prior") == f"{defaults(fit_affine)['prior']:g}"
    for path in (("demo",), ("compare",)):
        for name in ("pca", "noise_prior", "speaker_prior", "max_iter", "tol", "same_channel"):
            assert shown(path, name.replace("_", "-")) == f"{recipe[name]:g}"
    for path in (("demo",), ("compare",), ("evaluate",)):
        assert shown(path, "draws") == str(EvaluationSettings().draws)
        assert shown(path, "prior") == ", ".join(f"{prior:g}" for prior in EvaluationSettings().priors)


def test_suggestions():
    assert "Did you mean 'score'?" in run("scroe", code=2).stderr
    assert "Did you mean 'apply'?" in run("calibrate", "aply", code=2).stderr
    assert "Did you mean '--max-iter'?" in run("train", "x", "--max-itr", code=2).stderr
    assert app.get_command(None, "nothing") is None


def test_help_lists_the_commands_in_order():
    listed = re.findall(r"^  (\w+)  ", run("--help").stdout.split("Commands:")[1], flags=re.MULTILINE)
    assert tuple(listed) == COMMANDS


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom jointplda.commands import main\n"
        "for words in (['--help'], ['train', '--help']):\n"
        "    try:\n        main(words)\n    except SystemExit:\n        pass\n"
        "print([m for m in ('numpy', 'scipy', 'sklearn', 'rich', 'safetensors') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
