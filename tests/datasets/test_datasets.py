"""The bundled data: what they are, and that their card tells the truth."""

import hashlib
import re
import subprocess
import sys
from dataclasses import FrozenInstanceError, fields
from importlib.resources import files

import numpy as np
import pytest

from jointplda.datasets import Voices, load_voices
from jointplda.metrics import eer

FOLDER = files("jointplda.datasets")
CARD = (FOLDER / "voices.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def voices():
    return load_voices()


def levels(part, column):
    """How many levels of a column each voice is heard in."""
    values = getattr(part, column)
    return np.array([len(np.unique(values[part.voice == voice])) for voice in np.unique(part.voice)])


def test_every_field_has_one_row_per_sample(voices):
    assert voices.X.shape == (len(voices), 256)
    assert voices.X.dtype == np.float32
    for field in fields(Voices)[1:]:
        values = getattr(voices, field.name)
        assert values.shape == (len(voices),)
        assert values.dtype.kind == "U"
        assert np.all(values != "")
    assert len(np.unique(voices.ids)) == len(voices)


def test_embeddings_are_finite_non_negative_distinct_and_of_unit_length(voices):
    assert np.all(np.isfinite(voices.X))
    assert np.all(voices.X >= 0)
    assert len(np.unique(voices.X, axis=0)) == len(voices)
    np.testing.assert_allclose(np.linalg.norm(voices.X, axis=1), 1, rtol=1e-6)


def test_splits_share_no_voice(voices):
    train, test = voices.train(), voices.test()
    assert len(train) + len(test) == len(voices)
    assert set(train.split) == {"train"}
    assert set(test.split) == {"test"}
    assert not set(train.voice) & set(test.voice)
    assert not {name.rsplit("-", 1)[0] for name in train.voice} & {name.rsplit("-", 1)[0] for name in test.voice}


def test_no_two_voices_are_one(voices):
    """Cosines of a voice with itself and with another, in one transmission, are told apart in two of three trials."""
    for part in (voices.train(), voices.test()):
        names = np.unique(part.voice)
        worst = 0.0
        for i, a in enumerate(names):
            for b in names[i + 1 :]:
                scores, target = [], []
                for sent in np.intersect1d(part.transmission[part.voice == a], part.transmission[part.voice == b]):
                    rows = np.flatnonzero(np.isin(part.voice, [a, b]) & (part.transmission == sent))
                    first, second = np.triu_indices(len(rows), 1)
                    scores.append((part.X[rows] @ part.X[rows].T)[first, second])
                    target.append(part.voice[rows][first] == part.voice[rows][second])
                if scores:
                    worst = max(worst, eer(np.concatenate(scores), np.concatenate(target)))
        assert 0.1 < worst < 1 / 3


def test_training_voices_are_in_one_or_two_transmissions_and_test_voices_in_many(voices):
    train, test = voices.train(), voices.test()
    assert set(levels(train, "transmission")) == {1, 2}
    assert np.mean(levels(train, "transmission") == 1) > 0.7
    assert set(levels(train, "language")) == {1, 2}
    assert levels(test, "transmission").min() >= 4
    assert levels(test, "language").min() >= 3
    assert set(train.transmission) == set(test.transmission)
    assert set(train.language) == set(test.language)
    assert min(np.unique(train.voice, return_counts=True)[1]) >= 8


def test_subsets_keep_rows_together(voices):
    row = {name: i for i, name in enumerate(voices.ids)}
    for part in (voices.train(), voices.test()):
        rows = [row[name] for name in part.ids]
        for field in fields(Voices):
            np.testing.assert_array_equal(getattr(part, field.name), getattr(voices, field.name)[rows])


def test_voices_are_frozen_and_say_what_they_are(voices):
    with pytest.raises(FrozenInstanceError):
        voices.X = None
    assert repr(voices) == f"<Voices: {len(voices)} samples of {len(np.unique(voices.voice))} voices>"


def test_the_file_is_small_and_needs_no_pickle():
    assert sum(len((FOLDER / name).read_bytes()) for name in ("voices.npz", "voices.md")) <= 3_000_000
    with (FOLDER / "voices.npz").open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
        assert set(stored.files) == {"embeddings", "ids", "voice", "language", "transmission", "split"}
        assert not any(stored[name].dtype.hasobject for name in stored.files)


def test_the_card_states_the_true_counts(voices):
    rows = re.findall(r"^\| (train|test|all) \|(.*)\|$", CARD, flags=re.MULTILINE)
    stated = {split: tuple(int(cell.replace(",", "")) for cell in cells.split("|")) for split, cells in rows}
    parts = {"train": voices.train(), "test": voices.test(), "all": voices}
    columns = ("voice", "language", "transmission")
    assert stated == {
        split: (len(part), *(len(np.unique(getattr(part, column))) for column in columns))
        for split, part in parts.items()
    }
    for transmission in np.unique(voices.transmission):
        (cells,) = re.findall(rf"^\| `{transmission}` \|[^|]*\| ([\d,]+) \| ([\d,]+) \|$", CARD, flags=re.MULTILINE)
        counts = tuple(int(np.sum(part.transmission == transmission)) for part in (voices.train(), voices.test()))
        assert tuple(int(cell.replace(",", "")) for cell in cells) == counts


def test_the_card_states_the_checksum():
    assert hashlib.sha256((FOLDER / "voices.npz").read_bytes()).hexdigest() in CARD


def test_loading_imports_nothing_heavy():
    code = (
        "import sys; from jointplda.datasets import load_voices; load_voices(); "
        "print([m for m in ('scipy', 'sklearn') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
