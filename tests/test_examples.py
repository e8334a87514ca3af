"""The recipes run on a file of one's own, and say what they found."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from jointplda import JointPLDA

EXAMPLES = Path(__file__).parent.parent / "examples"
SPEAKERS, CHANNELS, EACH, DIMENSION = 30, 5, 3, 8
TABLE = ("EER %", "cross/same %", "Cllr", "minCllr")


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Embeddings of known speakers and channels, every speaker in every channel."""
    rng = np.random.default_rng(0)
    V, U = rng.normal(size=(DIMENSION, 3)), 2 * rng.normal(size=(DIMENSION, 2))
    truth = JointPLDA.from_parameters(np.zeros(DIMENSION), V, U, 4 * np.eye(DIMENSION))
    speaker = np.repeat(np.arange(SPEAKERS), CHANNELS * EACH)
    channel = np.tile(np.repeat(np.arange(CHANNELS), EACH), SPEAKERS)
    path = tmp_path_factory.mktemp("sets") / "own.npz"
    np.savez(path, embeddings=truth.sample(speaker, channels=channel, random_state=0), speaker=speaker, channel=channel)
    return path


def run(script, *given):
    command = [sys.executable, EXAMPLES / script, *map(str, given)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "script, options, lines",
    [
        (
            "recipe_codec.py",
            (),
            ("Warning: No speaker was heard in two channels", "What the warning means", "Joint PLDA, automatic"),
        ),
        (
            "recipe_digits.py",
            ("--few", 8),
            ("rank of U", "standard error", "calibrated=False", "calibrated=True", "8 SPEAKERS, ONE CHANNEL EACH"),
        ),
        ("recipe_voices.py", (), ("one channel", "two channels", "all channels", "trials are the same")),
        ("where_not_to_use.py", ("--splits", 2), ("channel removed", "no test needed", "of 2 splits")),
    ],
)
def test_a_recipe_runs(script, options, lines, file):
    done = run(script, file, "--seed", 1, *options)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    text = " ".join(done.stdout.split())
    assert [line for line in (*TABLE, *lines) if line not in text] == []


def test_a_file_without_channels_is_refused(tmp_path):
    np.savez(tmp_path / "bare.npz", embeddings=np.zeros((2, 2)), speaker=np.arange(2))
    done = run("recipe_codec.py", tmp_path / "bare.npz")
    assert done.returncode == 1
    assert "no array channel" in done.stderr
    assert "Traceback" not in done.stderr
