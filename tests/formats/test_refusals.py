"""Writers refuse what a format cannot hold, say why, and name a format that can."""

import numpy as np
import pytest

from jointplda import InputError
from jointplda.embedding_table import EmbeddingTable
from jointplda.formats import write_embeddings, write_enrollment, write_scores, write_trials
from jointplda.trial_list import ScoreTable, Trials


def trials(models, samples, target=(1, 0)):
    rows = np.arange(2)
    return Trials(
        np.array([*models]), np.array([*samples]), rows, rows, None if target is None else np.array(target, np.int8)
    )


def table(ids=("a", "b"), columns=None, value=1.0):
    return EmbeddingTable(np.array(ids), columns or {}, X=np.full((2, 3), value))


A = ("a", "b")
TRIALS = [
    ("nist", trials(("ann", "ann "), A), "'ann ' starts or ends with a space", None),
    ("nist", trials(("ann", "ann\u00a0"), A), "starts or ends with a space", None),
    ("nist", trials(("a\nb", "c"), A), "holds a control character", None),
    ("nist", trials(("\ud800", "c"), A), "lone surrogate", None),
    ("nist", trials(("\ufeffa", "c"), A), "starts with a byte order mark", None),
    ("nist", trials(("", "c"), A), "'' is empty", None),
    ("kaldi", trials(("a b", "c"), A), "'a b' holds a space", "nist"),
    ("kaldi", trials(("modelid", "c"), A), "'modelid a target', which would be read as a header", "nist"),
    ("dca", trials(("speaker", "c"), ("utt", "b")), "would be read as a header", "nist"),
    ("kaldi", trials(A, A, (1, -1)), "some trials have no label", "nist"),
    ("voxceleb", trials(A, ("0", "1")), "would be read as labels", "nist"),
    ("voxceleb", trials(A, ("x", "target")), "would be read as labels", "nist"),
    ("voxceleb", trials(A, A, None), "needs labels", "kaldi"),
    ("bosaris", trials(("a", "a"), ("x", "x"), None), "1 trials repeat a pair, such as 'a' 'x'", "nist"),
    ("bosaris", trials(A, A, (1, -1)), "some trials have no label", "nist"),
    ("kaldi", trials(A, A, (1, 2)), "every trial needs a label 1", None),
    ("kaldi", Trials(np.array(A), np.array(A), np.arange(0), np.arange(0)), "no trials to write", None),
]


@pytest.mark.parametrize("kind, content, message, remedy", TRIALS)
def test_trials(tmp_path, kind, content, message, remedy):
    refused(write_trials, content, tmp_path / "file", kind, message, remedy)


@pytest.mark.parametrize(
    "kind, content, message, remedy",
    [
        ("wespeaker", trials(A, A, None), "needs a label for every trial", "kaldi"),
        ("npy", trials(("a", "a"), ("x", "x"), None), "repeat a pair", "nist"),
        ("npy", trials("abcd", "vwxyz"), "these have none: 'a w', 'a x', 'a y', 'a z', 'b v', ... (18 in all)", None),
        ("bosaris", trials(("a", "a"), ("x", "x"), None), "repeat a pair", "nist"),
        ("kaldi", trials(("llr", "b"), A), "would be read as a header", "nist"),
    ],
)
def test_scores(tmp_path, kind, content, message, remedy):
    refused(write_scores, ScoreTable(content, np.ones(2)), tmp_path / "file", kind, message, remedy)


@pytest.mark.parametrize(
    "kind, content, message, remedy",
    [
        ("kaldi", {"a b": ["x"]}, "'a b' holds a space", "nist"),
        ("kaldi", {"m": ["segmentid"]}, "would be read as a header", "nist"),
        ("nist", {"m": ["x "]}, "starts or ends with a space", None),
        ("nist", {"m": ["x", "x"]}, "should be unique", None),
        ("nist", {"m": []}, "has no samples", None),
        ("nist", {}, "no models to write", None),
    ],
)
def test_enrollments(tmp_path, kind, content, message, remedy):
    refused(write_enrollment, content, tmp_path / "file", kind, message, remedy)


LABELS = np.array(["s", "t"])


@pytest.mark.parametrize(
    "kind, content, message",
    [
        ("npz", table(("a", "a")), "ids should be unique; more than once occur 'a' (1 in all)"),
        ("npz", table(("a", "")), "the id of row 1 is empty"),
        ("npz", table(value=np.nan), "embeddings should be finite"),
        ("npz", table(columns={"x": LABELS, "x.npy": LABELS}), "cannot hold a column named 'x.npy'"),
        ("hdf5", table(columns={"a/b": LABELS}), "cannot hold a column named 'a/b'"),
        ("hdf5", table(("a", "\ud800")), "lone surrogate"),
        ("parquet", table(("a", "\ud800")), "lone surrogate"),
        ("npy", table(columns={"x ": LABELS}), "'x ' starts or ends with a space"),
        ("npy", table(columns={"x": np.array(["s", "t "])}), "'t ' starts or ends with a space"),
        ("kaldi", table(("a b", "c")), "'a b' holds a space"),
        ("kaldi", table(columns={"a.b": LABELS}), "'a.b' holds more than letters"),
        ("kaldi", table(columns={"speaker": LABELS, "spk": LABELS[::-1]}), "columns 'speaker' and 'spk' differ"),
        ("kaldi", table(("utt,x", "b"), {"lang": LABELS}), "'utt,x' would be read as a header"),
        *[(kind, table(columns={name: LABELS}), f"may not be named '{name}'")
          for name in ("ids", "ID", "embedding") for kind in ("npz", "npy", "parquet", "hdf5")],
    ],
)  # fmt: skip
def test_embeddings(tmp_path, kind, content, message):
    refused(write_embeddings, content, tmp_path / "file", kind, message, None)


@pytest.mark.parametrize(
    "write, content, kind, name, message",
    [
        (write_embeddings, table(), None, "e.txt", "not clear from the name"),
        (write_embeddings, table(), "npy", "e.tsv", "end it in .npy"),
        (write_embeddings, table(), "kaldi", "a\tb.scp", "cannot hold this path"),
        (write_scores, ScoreTable(trials(A, ("x", "x"), None), np.ones(2)), "npy", "s.rows", "end it in .npy"),
    ],
)
def test_names_of_files(tmp_path, write, content, kind, name, message):
    refused(write, content, tmp_path / name, kind, message, None)


def refused(write, content, path, kind, message, remedy):
    with pytest.raises(InputError) as caught:
        write(content, path, kind)
    assert message in str(caught.value)
    assert (caught.value.remedy.value if caught.value.remedy else None) == remedy
    assert not list(path.parent.iterdir())
