"""Every writer gives back what it was given, or refuses it: ids and labels drawn from text that is hard to hold."""

import tempfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jointplda import JointPLDAError
from jointplda.embedding_table import EmbeddingTable
from jointplda.formats import (
    KaldiPlda,
    read_embeddings,
    read_enrollment,
    read_kaldi_plda,
    read_labels,
    read_pyannote_plda,
    read_scores,
    read_trials,
    write_embeddings,
    write_enrollment,
    write_kaldi_plda,
    write_pyannote_plda,
    write_scores,
    write_trials,
)
from jointplda.trial_list import ScoreTable, Trials

HARD = [
    "", "ann", "ann ", " ann", "a b", "a\tb", "a\nb", "a\n\nb", "a\rb", "\n", "1", "0", "-1", "1.5", "nan", "target",
    "nontarget", "true", "tgt", "modelid", "segmentid", "model,id", "modelid,x", "llr", "speaker", "utt", "utt,x", "id",
    "ids", "name", "test", "enroll", "label", "key", "score", "side", '"', '"a', 'a"b', "'", ",", "a,b", "#", "#a", "|",
    "\\", "\u00a0", "a\u00a0", "a\u00a0b", "a\u00a0[", "\u2028", "a\u2028b", "a\x85b", "\x0b", "a\x0cb", "\x1cb",
    "\x1a", "é", "e\u0301", "\u0301", "\ufeff", "\ufeffa", "a\ufeff", "\ud800", "a\udc80", "\U0001f3a4", "\x00b",
    "a\x00b", "[", "]", "a|", "PAR1", "PAR12", "PK\x03\x04", "a:1", "a/b", "/a", ".", "..", "a.npy", "x", "X",
    "data", "embeddings", "spk", "utt2spk", "<", "Target Type",
]  # fmt: skip
PLAIN = st.text("abcdé-_01", min_size=1, max_size=3)
TEXTS = st.one_of(PLAIN, PLAIN, PLAIN, st.sampled_from(HARD), st.sampled_from(HARD), st.text(max_size=4))
KINDS = {
    "trials": ["kaldi", "voxceleb", "nist", "dca", "bosaris"],
    "scores": ["kaldi", "wespeaker", "nist", "bosaris", "npy", "zarr"],
    "embeddings": ["npz", "npy", "hdf5", "parquet", "kaldi"],
}
SORTED = ("bosaris", "npy", "zarr")
LABELS = np.array([1, 0], np.int8)


def strings(values):
    """An array of text, without the NULs at the end of a text, which NumPy drops."""
    return np.array([value.rstrip("\0") for value in values], dtype=np.str_)


@st.composite
def trial_lists(draw, full=False):
    """Trials, with and without labels and a further column; all pairs of the names, or some of them."""
    models = strings(draw(st.lists(TEXTS, min_size=1, max_size=4)))
    samples = strings(draw(st.lists(TEXTS, min_size=1, max_size=4)))
    everything = [(i, j) for i in range(len(models)) for j in range(len(samples))]
    some = st.lists(st.sampled_from(everything), min_size=1, max_size=6)
    pairs = np.array(everything if full else draw(some))
    labels = draw(st.none() | st.lists(st.sampled_from([0, 1]), min_size=len(pairs), max_size=len(pairs)))
    if labels is not None and draw(st.integers(0, 4)) == 0:
        labels[0] = -1
    columns = {}
    if draw(st.booleans()):
        name = draw(st.one_of(st.sampled_from(["side", "gender"]), TEXTS))
        columns[name] = strings(draw(st.lists(TEXTS, min_size=len(pairs), max_size=len(pairs))))
    target = None if labels is None else np.array(labels, np.int8)
    return Trials(models, samples, pairs[:, 0], pairs[:, 1], target, columns)


@st.composite
def score_tables(draw):
    trials = draw(trial_lists(full=draw(st.booleans())))
    numbers = st.floats(allow_nan=False)
    return ScoreTable(trials, np.array(draw(st.lists(numbers, min_size=len(trials), max_size=len(trials)))))


@st.composite
def embedding_tables(draw):
    ids = strings(draw(st.lists(TEXTS, min_size=1, max_size=4, unique=True)))
    n, d = len(ids), draw(st.integers(1, 3))
    width = draw(st.sampled_from([32, 64]))
    numbers = st.lists(st.floats(allow_nan=False, allow_infinity=False, width=width), min_size=n * d, max_size=n * d)
    X = np.array(draw(numbers), np.float32 if width == 32 else np.float64).reshape(n, d)
    labels = st.lists(TEXTS, min_size=n, max_size=n).map(strings)
    return EmbeddingTable(ids, draw(st.dictionaries(TEXTS, labels, max_size=2)), X=X)


@contextmanager
def written(write, content, kind, name="file"):
    """The path of what was written in a folder of its own, or None if the writer refused and left nothing behind."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            write(content, Path(folder) / name, kind)
        except JointPLDAError:
            assert not list(Path(folder).iterdir())
            yield None
        else:
            yield Path(folder) / name


def rows(trials):
    labels = [None] * len(trials) if trials.target is None else trials.target.tolist()
    return list(zip(trials.models[trials.enroll].tolist(), trials.samples[trials.test].tolist(), labels))


def in_order(kind, values):
    return sorted(values, key=repr) if kind in SORTED else values


def texts(columns):
    return {name: values.tolist() for name, values in columns.items()}


def trials_come_back(kind, trials):
    with written(write_trials, trials, kind) as path:
        if path is None:
            return
        again = read_trials(path)
    assert in_order(kind, rows(again)) == in_order(kind, rows(trials))
    if kind == "nist":
        assert texts(again.columns) == texts(trials.columns)


def scores_come_back(kind, table):
    with written(write_scores, table, kind) as path:
        if path is None:
            return
        again = read_scores(path)
    expected = list(zip(rows(table.trials), table.values.tolist()))
    found = list(zip(rows(again.trials), again.values.tolist()))
    if kind != "wespeaker":
        expected = [((model, sample, None), score) for (model, sample, _), score in expected]
    assert in_order(kind, found) == in_order(kind, expected)
    if kind == "nist" and "side" in table.trials.columns:
        assert again.trials.columns["side"].tolist() == table.trials.columns["side"].tolist()


def enrollments_come_back(kind, enrollment):
    with written(write_enrollment, enrollment, kind) as path:
        assert path is None or read_enrollment(path) == enrollment


def embeddings_come_back(kind, table):
    with written(write_embeddings, table, kind, "file.scp" if kind == "kaldi" else "file") as path:
        if path is None:
            return
        again = read_embeddings(path)
        columns = again.columns if kind != "kaldi" else from_utt2(path, table)
        if kind == "kaldi":
            assert read_embeddings(path.with_suffix(".ark")).ids.tolist() == table.ids.tolist()
    assert again.ids.tolist() == table.ids.tolist()
    assert again.X.dtype == table.X.dtype
    np.testing.assert_array_equal(again.X, table.X)
    assert texts(columns) == texts(table.columns)


def from_utt2(path, table):
    """The label columns beside a Kaldi script, and those that have no file because they have no label."""
    columns = {}
    for file in path.parent.glob("file.utt2*"):
        labels = read_labels(file)
        at = labels.rows(table.ids)
        columns |= {name: np.where(at < 0, "", values[at]) for name, values in labels.columns.items()}
    empty = {name: values for name, values in table.columns.items() if not np.any(values != "")}
    return {name: values for name, values in (columns | empty).items() if name in table.columns}


@pytest.mark.parametrize("kind", KINDS["trials"])
@given(trials=trial_lists())
def test_trials(kind, trials):
    trials_come_back(kind, trials)


@pytest.mark.parametrize("kind", KINDS["scores"])
@given(table=score_tables())
def test_scores(kind, table):
    scores_come_back(kind, table)


@pytest.mark.parametrize("kind", ["kaldi", "nist"])
@given(enrollment=st.dictionaries(TEXTS, st.lists(TEXTS, min_size=1, max_size=3), max_size=3))
def test_enrollments(kind, enrollment):
    enrollments_come_back(kind, enrollment)


@pytest.mark.parametrize("kind", KINDS["embeddings"])
@given(table=embedding_tables())
def test_embeddings_and_labels(kind, table):
    embeddings_come_back(kind, table)


def trials_with(text, targets):
    """Trials in which a text is the first model, the first or only sample, a further column or one of its values."""
    a, one = np.array(["a", "b"]), np.array([0, 1])
    hard, first = strings([text, "z"]), np.array([0, 0])
    for target in targets:
        yield Trials(hard, a, one, one, target)
        yield Trials(a, hard, one, one, target)
        yield Trials(a, hard[:1], one, first, target)
        yield Trials(a, a, one, one, target, {text: a})
        yield Trials(a, a, one, one, target, {"side": hard})
    yield Trials(strings([text, text]), a, one, first, targets[-1])
    yield Trials(a, a, np.array([0, 0]), np.array([0, 0]), np.array([1, 1], np.int8))


@pytest.mark.parametrize("kind", KINDS["trials"])
def test_every_hard_text_in_trials(kind):
    for text in HARD:
        for trials in trials_with(text, (None, LABELS)):
            trials_come_back(kind, trials)


@pytest.mark.parametrize("kind", KINDS["scores"])
def test_every_hard_text_in_scores(kind):
    for text in HARD:
        for trials in trials_with(text, (LABELS,)):
            scores_come_back(kind, ScoreTable(trials, np.array([0.5, -np.inf])))
        full = np.indices((2, 2)).reshape(2, -1)
        for names in (strings([text, "z"]), np.array(["a", "b"])), (np.array(["a", "b"]), strings([text, "z"])):
            scores_come_back(kind, ScoreTable(Trials(*names, *full), np.arange(4.0)))


@pytest.mark.parametrize("kind", ["kaldi", "nist"])
def test_every_hard_text_in_enrollments(kind):
    for text in HARD:
        for enrollment in ({text: ["a"]}, {"m": [text]}, {"m": ["a", text]}, {"m": [text, text]}, {"speaker": [text]}):
            enrollments_come_back(kind, enrollment)


@pytest.mark.parametrize("kind", KINDS["embeddings"])
def test_every_hard_text_in_embeddings(kind):
    a, X = np.array(["a", "b"]), np.eye(2)
    for text in HARD:
        hard = strings([text, "z"])
        for ids, columns in (
            (hard, {}), (hard, {"c": a}), (a, {"a": a, text: a}), (a, {"c": hard}), (a, {text: hard}),
            (a, {"speaker": a, text: hard}),
        ):  # fmt: skip
            embeddings_come_back(kind, EmbeddingTable(ids, columns, X=X))


def kaldi_text(plda):
    """What Kaldi writes with --binary=false."""
    rows = "".join("\n  " + " ".join(map(repr, row)) for row in plda.transform.tolist())
    mean, psi = (" ".join(map(repr, values.tolist())) for values in (plda.mean, plda.psi))
    return f"<Plda>  [ {mean} ]\n [{rows} ]\n [ {psi} ]\n</Plda> "


@pytest.mark.parametrize("kind", ["binary", "text", "pyannote"])
@given(numbers=st.integers(1, 3).flatmap(lambda d: st.lists(
    st.floats(allow_nan=False, allow_infinity=False), min_size=d * (d + 2), max_size=d * (d + 2)
)))  # fmt: skip
def test_foreign_models(kind, numbers):
    d = {3: 1, 8: 2, 15: 3}[len(numbers)]
    plda = KaldiPlda(np.array(numbers[:d]), np.array(numbers[2 * d :]).reshape(d, d).T, np.abs(numbers[d : 2 * d]))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plda"
        if kind == "pyannote":
            write_pyannote_plda(plda, path)
            again = read_pyannote_plda(path)
        else:
            write_kaldi_plda(plda, path) if kind == "binary" else path.write_text(kaldi_text(plda))
            again = read_kaldi_plda(path)
    for name in ("mean", "transform", "psi"):
        np.testing.assert_array_equal(getattr(again, name), getattr(plda, name))


PLAIN_TRIALS = Trials(
    np.array(["a", "b"]), np.array(["x", "y"]), np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]),
    np.array([1, 0, 0, 1], np.int8),
)  # fmt: skip


@pytest.mark.parametrize("what, kind", [(what, kind) for what, kinds in KINDS.items() for kind in kinds])
def test_plain_ids_are_never_refused(tmp_path, what, kind):
    if what == "trials":
        write_trials(PLAIN_TRIALS, tmp_path / "w", kind)
    elif what == "scores":
        write_scores(ScoreTable(PLAIN_TRIALS, np.arange(4.0)), tmp_path / "w", kind)
    else:
        write_embeddings(EmbeddingTable(np.array(["a", "b"]), {"lang": np.array(["x", ""])}, X=np.eye(2)),
                         tmp_path / "w", kind)  # fmt: skip
