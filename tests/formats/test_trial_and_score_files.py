"""Lists of trials, scores and enrollments: each convention from literal text, and there and back."""

import time

import h5py
import numpy as np
import pytest

from jointplda import FileError, InputError
from jointplda.errors import Remedy
from jointplda.formats import (
    match_ids,
    read_enrollment,
    read_scores,
    read_trials,
    write_enrollment,
    write_scores,
    write_trials,
)
from jointplda.trial_list import ScoreTable, Trials

PAIRS = [("a", "x", 1), ("a", "y", 0), ("b", "x", 0)]


def listed(trials):
    labels = [None] * len(trials) if trials.target is None else trials.target.tolist()
    return list(zip(trials.models[trials.enroll].tolist(), trials.samples[trials.test].tolist(), labels))


def made(pairs=PAIRS, columns=None):
    models, enroll = np.unique([p[0] for p in pairs], return_inverse=True)
    samples, test = np.unique([p[1] for p in pairs], return_inverse=True)
    target = None if pairs[0][2] is None else np.array([p[2] for p in pairs], dtype=np.int8)
    return Trials(models, samples, enroll, test, target, columns or {})


TEXTS = {
    "kaldi": "a x target\na y nontarget\nb x nontarget\n",
    "kaldi, no last line end": "a x target\na y nontarget\nb x nontarget",
    "kaldi, tabs and blanks": "a\tx  target \n\n a y\tnontarget\nb x nontarget\n\n",
    "old line ends": "a x target\ra y nontarget\rb x nontarget\r",
    "byte order mark": "\ufeffa x target\na y nontarget\nb x nontarget\n",
    "voxceleb": "1 a x\n0 a y\n0 b x\n",
    "label last": "a x 1\na y 0\nb x 0\n",
    "dca": "a x tgt\na y imp\nb x imp\n",
    "case": "a x Target\na y NONTARGET\nb x Non-Target\n",
    "nist": "modelid\tsegmentid\tside\ttargettype\na\tx\ta\ttarget\na\ty\ta\tnontarget\nb\tx\ta\tnontarget\n",
    "csv": "label,test,model_id\ntrue,x,a\nfalse,y,a\nFALSE,x,b\n",
    "quotes": 'Model ID,Segment,Targetness\n"a","x",tar\na,y,non\n"b",x,impostor\n',
    "header of words": "enroll test label\na x 1\na y 0\nb x 0\n",
}


@pytest.mark.parametrize("kind", TEXTS)
def test_each_convention_of_trials(tmp_path, kind):
    path = tmp_path / "list"
    path.write_bytes(TEXTS[kind].encode())
    assert listed(read_trials(path)) == PAIRS


def test_trials_without_labels_and_with_missing_ones(tmp_path):
    path = tmp_path / "t"
    path.write_text("a x\nb y\n")
    assert read_trials(path).target is None
    path.write_text("modelid\tsegmentid\ttargettype\na\tx\ttarget\nb\ty\t\n")
    assert read_trials(path).target.tolist() == [1, -1]


def test_names_are_kept_once_in_order_of_appearance(tmp_path):
    path = tmp_path / "t"
    path.write_text("b y\na y\nb x\n")
    trials = read_trials(path)
    assert (trials.models.tolist(), trials.samples.tolist()) == (["b", "a"], ["y", "x"])
    assert (trials.enroll.tolist(), trials.test.tolist()) == ([0, 1, 0], [0, 0, 1])


@pytest.mark.parametrize(
    "text, expected",
    [
        ("1 0 target\n0 1 nontarget\n", [("1", "0", 1), ("0", "1", 0)]),
        ("1 0 1\n0 1 2\n", [("0", "1", 1), ("1", "2", 0)]),
        ("2 a 1\n3 a 0\n", [("2", "a", 1), ("3", "a", 0)]),
    ],
)
def test_the_label_is_first_only_if_it_cannot_be_last(tmp_path, text, expected):
    (tmp_path / "t").write_text(text)
    assert listed(read_trials(tmp_path / "t")) == expected


def test_lists_whose_label_may_be_first_or_last_are_refused(tmp_path):
    path = tmp_path / "t"
    path.write_text("1 a b\n2 a c\n")
    with pytest.raises(FileError, match=r"t, line 1: expected a label .* got 'b'"):
        read_trials(path)
    path.write_text("1 0 1\n0 1 0\n")
    with pytest.raises(FileError, match="every line starts and ends with 0 or 1"):
        read_trials(path)


def test_further_columns_and_names_with_spaces(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_text("gender\tmodelid\tsegmentid\tside\nf\tAnna Ø\tfile 1\ta\nm\tBo\tfile 2\tb\n")
    trials = read_trials(path)
    assert listed(trials) == [("Anna Ø", "file 1", None), ("Bo", "file 2", None)]
    assert {name: values.tolist() for name, values in trials.columns.items()} == {
        "gender": ["f", "m"],
        "side": ["a", "b"],
    }
    write_trials(trials, tmp_path / "again.tsv")
    again = read_trials(tmp_path / "again.tsv")
    assert listed(again) == listed(trials)
    assert again.columns["gender"].tolist() == ["f", "m"]


def test_non_breaking_space_belongs_to_a_name(tmp_path):
    path = tmp_path / "t"
    path.write_text("a\u00a0b x target\nå\u3000c y nontarget\n", encoding="utf-8")
    assert read_trials(path).models.tolist() == ["a\u00a0b", "å\u3000c"]


def test_repeated_trials_may_agree_but_not_differ(tmp_path):
    path = tmp_path / "t"
    path.write_text("a x target\nb y target\na x target\n")
    assert len(read_trials(path)) == 3
    path.write_text("a x target\nb y target\n\na x nontarget\na x target\n")
    with pytest.raises(FileError, match=r"t, line 4: the pair 'a' 'x' has the label 0, and 1 in line 1"):
        read_trials(path)


def test_contradictions_are_found_in_order_among_many(tmp_path):
    path = tmp_path / "t"
    rows = [f"m{i % 7} s{i % 11} {'target' if i % 77 < 30 else 'nontarget'}\n" for i in range(20_000)]
    path.write_text("".join(rows))
    assert len(read_trials(path)) == 20_000
    rows[15_000] = f"m{15_000 % 7} s{15_000 % 11} {'nontarget' if 15_000 % 77 < 30 else 'target'}\n"
    path.write_text("".join(rows))
    with pytest.raises(FileError, match=rf"t, line 15001: the pair .* in line {15_001 - 77}"):
        read_trials(path)


def test_what_writers_of_trials_write(tmp_path):
    def text(kind, pairs=PAIRS):
        write_trials(made(pairs), tmp_path / "t", kind)
        return (tmp_path / "t").read_text()

    assert text("kaldi") == TEXTS["kaldi"]
    assert text("kaldi", [("a", "x", None)]) == "a x\n"
    assert text("voxceleb") == TEXTS["voxceleb"]
    assert text("dca") == TEXTS["dca"]
    assert text("nist") == "modelid\tsegmentid\ttargettype\na\tx\ttarget\na\ty\tnontarget\nb\tx\tnontarget\n"


def test_kind_follows_from_the_name(tmp_path):
    for name, start in (
        ("t.h5", b"\x89HDF"),
        ("t.tsv", b"modelid"),
        ("t.txt", b"a x target"),
        ("t.tsv.gz", b"\x1f\x8b"),
    ):
        write_trials(made(), tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(start)
    with pytest.raises(InputError, match="kind: expected"):
        write_trials(made(), tmp_path / "t", "csv")


@pytest.mark.parametrize("kind", ["kaldi", "voxceleb", "dca"])
def test_plain_lists_refuse_what_they_cannot_hold(tmp_path, kind):
    for pairs in ([("a b", "x", 1)], [("a", "", 1)], [("a", "x", -1)], [("a\u2028b", "x\n", 1)]):
        with pytest.raises(InputError, match="cannot hold"):
            write_trials(made(pairs), tmp_path / "t", kind)
    with pytest.raises(InputError, match="VoxCeleb list needs labels"):
        write_trials(made([("a", "x", None)]), tmp_path / "t", "voxceleb")
    assert not list(tmp_path.iterdir())


KEY = np.array([[1, -1, 0], [-1, 0, 1]], dtype=np.int8)
KEY_PAIRS = [("m", "p", 1), ("m", "q", 0), ("n", "p", 0), ("n", "r", 1)]


def bosaris(path, models, samples, ids="S", **arrays):
    with h5py.File(path, "w") as stored:
        stored.create_dataset(models, data=np.array(["m", "n"], dtype=object if ids == "O" else ids))
        stored.create_dataset(samples, data=np.array(["p", "q", "r"]).astype("S"))
        for name, values in arrays.items():
            stored.create_dataset(name, data=values)


@pytest.mark.parametrize("ids", ["S", "O"])
@pytest.mark.parametrize(
    "models, samples, arrays",
    [
        ("modelset", "segset", {"trial_mask": KEY}),
        ("modelset", "segset", {"trial_mask": KEY.view(np.uint8)}),
        ("modelset", "segset", {"trial_mask": KEY.astype(float)}),
        ("ID/row_ids", "ID/column_ids", {"trial_mask": KEY}),
        ("ID/row_ids", "ID/column_ids", {"trial_mask": KEY.T}),
        ("ID/row_ids", "ID/column_ids", {"target_mask": KEY > 0, "nontarget_mask": KEY < 0}),
        ("model_names", "test_names", {"tar_mask": KEY > 0, "non_mask": KEY < 0}),
        ("model_names", "test_names", {"tar_mask": (KEY > 0).astype("u1"), "non_mask": (KEY < 0).astype("i1")}),
    ],
)
def test_keys_of_bosaris(tmp_path, ids, models, samples, arrays):
    bosaris(tmp_path / "key", models, samples, ids, **arrays)
    assert listed(read_trials(tmp_path / "key")) == KEY_PAIRS


@pytest.mark.parametrize("kind", ["i1", "u1", "?"])
def test_lists_of_bosaris_have_no_labels(tmp_path, kind):
    bosaris(tmp_path / "ndx", "modelset", "segset", trial_mask=np.abs(KEY).astype(kind))
    assert listed(read_trials(tmp_path / "ndx")) == [(m, s, None) for m, s, _ in KEY_PAIRS]


def test_bosaris_keeps_labels_of_lists_with_targets_only(tmp_path):
    write_trials(made([("a", "x", 1), ("b", "y", 1)]), tmp_path / "t.h5")
    assert listed(read_trials(tmp_path / "t.h5")) == [("a", "x", 1), ("b", "y", 1)]
    write_trials(made([("a", "x", None), ("b", "y", None)]), tmp_path / "t.h5")
    assert read_trials(tmp_path / "t.h5").target is None


SCORES = [("a", "x", 1.5), ("a", "y", -np.inf), ("b", "x", np.inf)]
SCORE_TEXTS = {
    "kaldi": "a x 1.5\na y -inf\nb x inf\n",
    "wespeaker": "a x 1.5 target\na y -Infinity nontarget\nb x Infinity nontarget\n",
    "nist": "modelid\tsegmentid\tside\tLLR\na\tx\ta\t1.5\na\ty\ta\t-inf\nb\tx\ta\tinf\n",
    "csv": "model,segment,score\r\na,x,1.50\r\na,y,-INF\r\nb,x,+inf\r\n",
}


@pytest.mark.parametrize("kind", SCORE_TEXTS)
def test_each_convention_of_scores(tmp_path, kind):
    path = tmp_path / "scores.txt"
    path.write_bytes(SCORE_TEXTS[kind].encode())
    table = read_scores(path)
    found = [(m, s, score) for (m, s, _), score in zip(listed(table.trials), table.values.tolist())]
    assert found == SCORES
    assert (table.trials.target is None) == (kind != "wespeaker")


@pytest.mark.parametrize(
    "models, samples", [("modelset", "segset"), ("ID/row_ids", "ID/column_ids"), ("model_names", "test_names")]
)
def test_scores_of_bosaris(tmp_path, models, samples):
    scores = np.arange(6.0).reshape(2, 3)
    bosaris(tmp_path / "s", models, samples, scores=scores, score_mask=(KEY != 0).astype("u1"))
    table = read_scores(tmp_path / "s")
    assert listed(table.trials) == [(m, s, None) for m, s, _ in KEY_PAIRS]
    assert table.values.tolist() == [0, 1, 3, 5]


def test_score_matrix_there_and_back(tmp_path):
    full = [("a", "x", None), ("a", "y", None), ("b", "x", None), ("b", "y", None)]
    write_scores(ScoreTable(made(full), np.arange(4.0)), tmp_path / "s.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "s.npy"), [[0, 1], [2, 3]])
    assert listed(read_scores(tmp_path / "s.npy").trials) == full  # names from the files beside it
    (tmp_path / "s.rows").unlink()
    with pytest.raises(InputError, match=r"s\.npy: a matrix holds no names"):
        read_scores(tmp_path / "s.npy")
    (tmp_path / "s.rows").write_text("a\nb\nc\n")
    with pytest.raises(FileError, match=r"3 models by 2 samples, got \(2, 2\)"):
        read_scores(tmp_path / "s.npy")
    with pytest.raises(InputError, match="'b y' \\(1 in all\\)"):
        write_scores(ScoreTable(made(full[:3]), np.arange(3.0)), tmp_path / "t.npy")


def test_scores_that_contradict(tmp_path):
    path = tmp_path / "s"
    path.write_text("a x 1\na y 2\na x 3\n")
    with pytest.raises(FileError, match=r"s, line 3: the pair 'a' 'x' has the score 3\.0, and 1\.0 in line 1"):
        read_scores(path)
    path.write_text("a x 1\na x 1.0\n")
    assert len(read_scores(path).values) == 2
    with pytest.raises(InputError, match="1 scores are NaN"):
        write_scores(ScoreTable(made(), np.array([0, np.nan, 1])), tmp_path / "t")


def test_score_files_and_keys_are_not_taken_for_each_other(tmp_path):
    (tmp_path / "s").write_text("a x 1.5\na y 2.5\n")
    with pytest.raises(FileError, match="looks like a file of scores"):
        read_trials(tmp_path / "s")
    bosaris(tmp_path / "key", "modelset", "segset", trial_mask=KEY)
    with pytest.raises(FileError, match="looks like a key"):
        read_scores(tmp_path / "key")


ENROLLMENT = {"m1": ["a", "b"], "m2": ["c"]}


@pytest.mark.parametrize(
    "text",
    [
        "m1 a b\nm2 c\n",
        "m1 a\r\nm1 b\nm2 c",
        "modelid\tsegmentid\tside\nm1\ta\ta\nm1\tb\ta\nm2\tc\tb\n",
        "MODEL_ID,segment\nm1,a\nm1,b\nm2,c\n",
        "modelid segmentid\nm1 a\nm1 b\nm2 c\n",
    ],
)
def test_each_convention_of_enrollment(tmp_path, text):
    (tmp_path / "e").write_text(text, newline="")
    assert read_enrollment(tmp_path / "e") == ENROLLMENT


@pytest.mark.parametrize("name", ["spk2utt", "e.tsv", "e.tsv.gz"])
def test_enrollment_there_and_back(tmp_path, name):
    write_enrollment(ENROLLMENT, tmp_path / name)
    assert read_enrollment(tmp_path / name) == ENROLLMENT
    spaced = {"Anna Ö": ["file 1"]}
    if name == "spk2utt":
        assert (tmp_path / name).read_text() == "m1 a b\nm2 c\n"
        with pytest.raises(InputError, match="'Anna Ö' holds a space"):
            write_enrollment(spaced, tmp_path / name)
    else:
        write_enrollment(spaced, tmp_path / name)
        assert read_enrollment(tmp_path / name) == spaced


def test_ids_that_are_missing_are_listed():
    assert match_ids(["b", "a"], ["a", "b"], "test ids", "t").tolist() == [1, 0]
    wanted = [*"abcd", "x"]
    message = r"t.txt: 4 of 5 enrollment ids are not in the embeddings: 'a', 'b', 'c', \.\.\. allow_missing=True leaves"
    with pytest.raises(InputError, match=message) as caught:
        match_ids(wanted, ["x"], "enrollment ids", "t.txt", False)
    assert caught.value.remedy == Remedy("allow_missing", True, "leaves their trials out")
    assert match_ids(wanted, ["x"], "enrollment ids", "t.txt", True).tolist() == [-1, -1, -1, -1, 0]
    with pytest.raises(InputError, match="There the ids are like 'y'"):
        match_ids(wanted, ["y"], "enrollment ids", "t.txt", True)


@pytest.mark.slow
def test_a_million_trials_take_seconds(tmp_path):
    path = tmp_path / "t"
    with open(path, "w") as stream:
        stream.writelines(f"m{i % 4999} s{i % 20011} {'target' if i % 7 else 'nontarget'}\n" for i in range(1_000_000))
    start = time.perf_counter()
    trials = read_trials(path)
    assert time.perf_counter() - start < 20
    assert (len(trials), len(trials.models), len(trials.samples)) == (1_000_000, 4999, 20011)
