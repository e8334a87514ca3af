"""Files that cannot be read say so, with their name and line; writers that fail leave nothing behind."""

import gzip
import io
import struct
from pathlib import Path

import h5py
import numpy as np
import pytest

from jointplda import FileError, InputError, JointPLDAError, formats
from jointplda.embedding_table import EmbeddingTable
from jointplda.trial_list import ScoreTable, Trials

TRIALS = Trials(
    np.array(["m", "n"]), np.array(["x", "y"]), np.array([0, 0, 1]), np.array([0, 1, 0]), np.array([1, 0, 1], np.int8)
)
SCORES = ScoreTable(TRIALS, np.array([0.5, -0.5, 1.0]))
TABLE = EmbeddingTable(np.array(["a", "b"]), {"speaker": np.array(["s", "t"])}, X=np.eye(2, 3))
PLDA = formats.KaldiPlda(np.zeros(3), np.eye(3), np.ones(3))


def matrix_scores(path):
    path.with_suffix(".rows").write_text("m\nn\n")
    path.with_suffix(".columns").write_text("x\ny\n")
    return formats.read_scores(path)


def matrix_embeddings(path):
    (Path(path).parent / "l.tsv").write_text("id\na\nb\n")
    return formats.read_embeddings(path, Path(path).parent / "l.tsv")


def archive(table, path):
    formats.write_embeddings(table, path.with_suffix(".ark"), "kaldi")
    path.write_bytes(path.with_suffix(".ark").read_bytes())


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def text(content):
    return lambda path: path.write_text(content)


TEXT_READERS = {
    "trials": (formats.read_trials, text("a x target\nb y nontarget\n")),
    "scores": (formats.read_scores, text("a x 1\nb y 2\n")),
    "labels": (formats.read_labels, text("id,speaker\na,s\nb,t\n")),
    "utt2spk": (formats.read_labels, text("a s\nb t\n")),
    "enrollment": (formats.read_enrollment, text("m a b\nn c\n")),
    "scp": (formats.read_embeddings, text("a x.ark:2\n")),
    "text ark": (formats.read_embeddings, text("a  [ 1 2 ]\nb  [ 3 4 ]\n")),
    "text plda": (formats.read_kaldi_plda, text("<Plda>  [ 0 0 ]\n [\n  1 0 \n  0 1 ]\n [ 1 1 ]\n</Plda> ")),
}
BINARY_READERS = {
    "npz": (formats.read_embeddings, lambda path: formats.write_embeddings(TABLE, path, "npz")),
    "hdf5": (formats.read_embeddings, lambda path: formats.write_embeddings(TABLE, path, "hdf5")),
    "parquet": (formats.read_embeddings, lambda path: formats.write_embeddings(TABLE, path, "parquet")),
    "npy": (matrix_embeddings, lambda path: path.write_bytes(npy(TABLE.X))),
    "ark": (formats.read_embeddings, lambda path: archive(TABLE, path)),
    "label parquet": (formats.read_labels, lambda path: formats.write_embeddings(TABLE, path, "parquet")),
    "key": (formats.read_trials, lambda path: formats.write_trials(TRIALS, path, "bosaris")),
    "score matrix": (formats.read_scores, lambda path: formats.write_scores(SCORES, path, "bosaris")),
    "score npy": (matrix_scores, lambda path: path.write_bytes(npy(np.eye(2)))),
    "plda": (formats.read_kaldi_plda, lambda path: formats.write_kaldi_plda(PLDA, path)),
    "pyannote": (formats.read_pyannote_plda, lambda path: formats.write_pyannote_plda(PLDA, path)),
}
READERS = {**TEXT_READERS, **BINARY_READERS}


def refused(read, path, *parts):
    with pytest.raises(JointPLDAError) as caught:
        read(path)
    for part in (path.name, *parts):
        assert part in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("kind", READERS)
def test_what_every_reader_refuses(tmp_path, kind):
    read, write = READERS[kind]
    path = tmp_path / "the_file"
    refused(read, path, "no such file")
    path.write_bytes(b"")
    refused(read, path, "the file is empty")
    path.unlink()
    path.mkdir()
    refused(read, path, "folder")
    path.rmdir()
    path.write_bytes(b"\xff\xfe\0\1" * 50)
    refused(read, path)
    path.write_bytes(gzip.compress(b"a x target\n" * 500)[:-20])
    refused(read, path)
    if kind != "scp":
        write(path)
        read(path)


@pytest.mark.parametrize("kind", BINARY_READERS)
@pytest.mark.parametrize("share", [0.1, 0.45, 0.9, 0.999])
def test_binary_files_cut_short(tmp_path, kind, share):
    read, write = BINARY_READERS[kind]
    path = tmp_path / "the_file"
    write(path)
    data = path.read_bytes()
    path.write_bytes(data[: min(int(len(data) * share), len(data) - 1)])
    if kind == "plda" and share > 0.99:
        path.write_bytes(data[:-2])
    refused(read, path)


@pytest.mark.parametrize("kind", TEXT_READERS)
def test_text_of_every_reader_may_have_mixed_line_ends_and_be_gzipped(tmp_path, kind):
    read, write = TEXT_READERS[kind]
    path = tmp_path / ("the_file.scp" if kind == "scp" else "the_file")
    write(path)
    if kind == "scp":
        (tmp_path / "x.ark").write_bytes(b"a \0BFV \4" + struct.pack("<iff", 2, 1.0, 2.0))
    plain = path.read_bytes()
    expected = repr(read(path))
    for data in (gzip.compress(plain), plain.replace(b"\n", b"\r\n", 1)):
        path.write_bytes(data)
        assert repr(read(path)) == expected
    (tmp_path / "named.gz").write_bytes(plain)
    assert repr(read(tmp_path / "named.gz")).replace("named.gz", "the_file") == expected


@pytest.mark.parametrize("kind", ["trials", "scores", "labels", "utt2spk", "enrollment"])
def test_text_that_is_not_utf8_is_named_with_its_line(tmp_path, kind):
    read, _ = TEXT_READERS[kind]
    path = tmp_path / "the_file"
    two = b"a 1\n\nM\xfcller 2\n"
    content = {"labels": b"id,speaker\na,s\nM\xfcller,t\n", "utt2spk": two}
    path.write_bytes(content.get(kind, b"a x 1\n\nM\xfcller y 0\n"))
    refused(read, path, "line 3", "UTF-8")


def test_gz_names_that_lie(tmp_path):
    path = tmp_path / "t.gz"
    path.write_bytes(b"\0\1\2 a b\n")
    refused(formats.read_trials, path, "binary", "not gzip")
    path.write_bytes(gzip.compress(b"a x target\n")[:-8] + b"12345678")
    refused(formats.read_trials, path, "damaged gzip")


LINES = [
    (formats.read_trials, "a x target\nb y\n", 2, "expected 3 columns, as in the first line, got 2"),
    (formats.read_trials, "a x target\nb c y target\n", 2, "Names that hold spaces need"),
    (formats.read_trials, "a x target\n\nb y maybe\n", 3, "got 'maybe'"),
    (formats.read_trials, "a\n", 1, "expected 'enroll test [target|nontarget]'"),
    (formats.read_trials, "a,x,target\n", 1, "needs a header"),
    (formats.read_trials, "modelid\ttargettype\na\ttarget\n", 1, "expected a column of segments"),
    (formats.read_trials, "segmentid\ttargettype\na\ttarget\n", 1, "expected a column of models"),
    (formats.read_trials, "modelid\tsegmentid\ttargettype\na\tx\ttarget\nb\ty\n", 3, "expected 3 columns"),
    (formats.read_trials, "modelid\tsegmentid\ttargettype\na\tx\tperhaps\n", 2, "got 'perhaps'"),
    (formats.read_trials, "modelid\tsegmentid\na\tx\n\t\ty\n", 3, "expected 2 columns"),
    (formats.read_trials, "modelid\tsegmentid\na\tx\n\ty\n", 3, "the name of the model is missing"),
    (formats.read_trials, "modelid\tsegmentid\tside\tside\na\tx\ta\ta\n", 1, "'side' twice"),
    (formats.read_trials, 'modelid,segmentid\na,"x\nb,y\n', 3, "cannot be split into cells"),
    (formats.read_scores, "a x 1\nb y\n", 2, "expected 3 columns"),
    (formats.read_scores, "a x\n", 1, "expected 'enroll test score [label]'"),
    (formats.read_scores, "a x 1\nb y z\n", 2, "expected a score, got 'z'"),
    (formats.read_scores, "a x 1 target\nb y 2 maybe\n", 2, "got 'maybe'"),
    (formats.read_scores, "modelid\tsegmentid\tside\na\tx\ta\n", 1, "expected a column LLR or score"),
    (formats.read_scores, "modelid\tsegmentid\tLLR\na\tx\t1\nb\ty\tNaN\n", 3, "the score is NaN"),
    (formats.read_scores, "modelid\tsegmentid\tLLR\na\tx\t1\nb\ty\t\n", 3, "expected a score, got ''"),
    (formats.read_labels, "id,speaker\na,s\na,t\n", 3, "the id 'a' occurs a second time, after line 2"),
    (formats.read_labels, "id,speaker\na,s\n,t\n", 3, "expected an id in the column 'id', got nothing"),
    (formats.read_labels, "id,speaker\na,s\nb\n", 3, "expected 2 columns"),
    (formats.read_labels, "id,lang,lang\na,s,t\n", 1, "'lang' twice"),
    (formats.read_labels, "a s\nb\n", 2, "expected 'id value', got 'b'"),
    (formats.read_labels, "a s\na t\n", 2, "the id 'a' occurs a second time"),
    (formats.read_enrollment, "m a\nn\n", 2, "expected 'model sample [sample ...]', got 'n' alone"),
    (formats.read_enrollment, "m a b\nm a\n", 2, "the sample 'a' is listed twice for 'm'"),
    (formats.read_enrollment, "modelid,segmentid\nm,a\nn,\n", 3, "one of them is empty"),
    (formats.read_enrollment, "modelid\tside\nm\ta\n", 1, "expected a column of segments"),
    (formats.read_embeddings, "a x.ark:2\n\nb\n", 3, "expected 'key archive.ark:offset', got 'b'"),
    (formats.read_embeddings, "a  [ 1 2 ]\na  [ 3 4 ]\n", None, "ids should be unique; more than once occur 'a'"),
    (formats.read_embeddings, "id,speaker\na,s\n", None, "A table of labels goes with embeddings"),
]


@pytest.mark.parametrize("read, content, line, message", LINES)
def test_lines_that_cannot_be_read(tmp_path, read, content, line, message):
    path = tmp_path / "list.txt"
    path.write_text(content, newline="")
    refused(read, path, message, *([f"line {line}:"] if line else []))


@pytest.mark.parametrize("content", ["\n\n \n", "\ufeff"])
@pytest.mark.parametrize(
    "read",
    [formats.read_trials, formats.read_scores, formats.read_labels, formats.read_enrollment, formats.read_embeddings],
)
def test_blank_files(tmp_path, read, content):
    (tmp_path / "blank").write_text(content, encoding="utf-8")
    refused(read, tmp_path / "blank", "nothing but blank lines")


@pytest.mark.parametrize(
    "read, header",
    [
        (formats.read_trials, "modelid,segmentid"),
        (formats.read_scores, "modelid,segmentid,LLR"),
        (formats.read_labels, "id,a"),
    ],
)
def test_headers_alone(tmp_path, read, header):
    (tmp_path / "head").write_text(header + "\n")
    refused(read, tmp_path / "head", "nothing follows the header")


def test_arrays_that_do_not_fit(tmp_path):
    path = tmp_path / "e.npz"
    cases = [
        ({"ids": ["a", "b"]}, "expected an array 'embeddings'"),
        ({"data": np.ones(3)}, "expected an array 'embeddings'"),
        ({"data": np.ones((2, 3)), "ids": ["a"]}, "data has 2 rows and ids 1 ids"),
        ({"data": np.ones((2, 3)), "ids": ["a", "b", "c"]}, "may be transposed"),
        ({"data": np.ones((2, 3)), "ids": ["a", "a"]}, "'a'"),
        ({"data": np.ones((2, 3)), "ids": ["a", ""]}, "the id of row 1 is empty"),
        ({"data": np.ones((0, 3))}, "data is empty"),
        ({"data": np.ones((2, 3)), "ids": np.array(["a", "b"], dtype=object)}, "the array 'ids' holds Python objects"),
    ]
    for arrays, message in cases:
        np.savez(path, **arrays)
        refused(formats.read_embeddings, path, message)
    np.save(tmp_path / "e.npy", np.ones(3))
    refused(matrix_embeddings, tmp_path / "e.npy", "should have the shape (n, d), got (3,)")


def test_keys_and_score_matrices_that_do_not_fit(tmp_path):
    path = tmp_path / "k.h5"
    names = {"modelset": np.array([b"m", b"n"]), "segset": np.array([b"x", b"y", b"z"])}
    ones, zeros = np.ones((2, 3)), np.zeros((2, 3))
    cases = [
        (formats.read_trials, {"segset": names["segset"], "trial_mask": ones}, "expected one of modelset"),
        (formats.read_trials, names, "expected trial_mask"),
        (formats.read_trials, {**names, "trial_mask": np.ones((2, 2))}, "(2, 3) (models, segments), got (2, 2)"),
        (formats.read_trials, {**names, "trial_mask": zeros}, "marks no trial"),
        (formats.read_trials, {**names, "trial_mask": np.full((2, 3), b"1")}, "should hold whole numbers"),
        (formats.read_trials, {**names, "tar_mask": ones, "non_mask": ones}, "as target and as non-target"),
        (formats.read_trials, {**names, "modelset": np.array([b"m", b"m"]), "trial_mask": ones}, "'m' (1 in all)"),
        (formats.read_trials, {**names, "modelset": np.array([b"m", b"\xff"]), "trial_mask": ones}, "UTF-8"),
        (formats.read_scores, {**names, "scores": ones * np.nan}, "the score of the pair 'm' 'x' is NaN (6 such"),
        (formats.read_scores, {**names, "scores": ones, "score_mask": zeros}, "marks no score"),
        (formats.read_scores, {**names, "scores": np.full((2, 3), b"1")}, "scores should hold numbers"),
        (formats.read_scores, {**names, "scores": np.ones(6)}, "got (6,)"),
    ]
    for read, arrays, message in cases:
        with h5py.File(path, "w") as stored:
            for name, values in arrays.items():
                stored[name] = values
        refused(read, path, message)


def test_files_of_other_kinds_are_recognised(tmp_path):
    path = tmp_path / "m.safetensors"
    path.write_bytes((12).to_bytes(8, "little") + b'{"a": "bcd"}')
    refused(formats.read_embeddings, path, "got a safetensors file")
    path.write_bytes(b"\x80\x04\x95.")
    refused(formats.read_embeddings, path, "got a pickle")


WRITERS = {
    "npz": ("w.npz", lambda path: formats.write_embeddings(TABLE, path)),
    "hdf5": ("w.h5", lambda path: formats.write_embeddings(TABLE, path)),
    "parquet": ("w.parquet", lambda path: formats.write_embeddings(TABLE, path)),
    "kaldi": ("w.scp", lambda path: formats.write_embeddings(TABLE, path)),
    "npy": ("w.npy", lambda path: formats.write_embeddings(TABLE, path)),
    "trials": ("w", lambda path: formats.write_trials(TRIALS, path, "kaldi")),
    "trials gz": ("w.gz", lambda path: formats.write_trials(TRIALS, path, "nist")),
    "key": ("w.h5", lambda path: formats.write_trials(TRIALS, path)),
    "scores": ("w", lambda path: formats.write_scores(SCORES, path, "kaldi")),
    "nist scores": ("w.tsv", lambda path: formats.write_scores(SCORES, path)),
    "score matrix": ("w.h5", lambda path: formats.write_scores(SCORES, path)),
    "enrollment": ("w", lambda path: formats.write_enrollment({"m": ["a"]}, path)),
    "plda": ("w", lambda path: formats.write_kaldi_plda(PLDA, path)),
    "pyannote": ("w.npz", lambda path: formats.write_pyannote_plda(PLDA, path)),
}


@pytest.mark.parametrize("kind", WRITERS)
def test_writers_that_fail_leave_the_folder_as_it_was(tmp_path, monkeypatch, kind):
    name, write = WRITERS[kind]
    (tmp_path / name).write_text("before")

    def full(*args, **keywords):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("jointplda._atomic.os.replace", full)
    with pytest.raises(FileError, match=f"{name}.*No space left on device|w\\..*No space left on device"):
        write(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "before"


def test_writers_that_fail_midway_leave_nothing(tmp_path, monkeypatch):
    calls = []

    def second_fails(*args):
        calls.append(args)
        if len(calls) % 2 == 0:
            raise OSError(28, "No space left on device")
        return b""

    monkeypatch.setattr("jointplda.formats.kaldi.binary", second_fails)
    with pytest.raises(FileError, match="No space left"):
        formats.write_embeddings(TABLE, tmp_path / "w.scp")
    monkeypatch.setattr("jointplda.formats.npy.write_npy", lambda *args: second_fails() or second_fails())
    with pytest.raises(FileError, match="No space left"):
        formats.write_embeddings(TABLE, tmp_path / "w.npy")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["kaldi", "nist", "bosaris"])
@pytest.mark.parametrize("index", [-1, 2])
def test_trials_that_point_to_no_name_are_not_written(tmp_path, kind, index):
    enroll, test = np.array([0, 1]), np.array([1, index])
    for trials in (
        Trials(TRIALS.models, TRIALS.samples, enroll, test),
        Trials(TRIALS.models, TRIALS.samples, test, enroll),
    ):
        with pytest.raises(InputError, match="should be from 0 to 1, got"):
            formats.write_trials(trials, tmp_path / "w", kind)
    assert not list(tmp_path.iterdir())


def test_new_files_have_the_usual_permissions(tmp_path):
    (tmp_path / "usual").write_text("")
    formats.write_trials(TRIALS, tmp_path / "w")
    assert (tmp_path / "w").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_tables_whose_parts_differ_in_length_are_not_written(tmp_path):
    with pytest.raises(InputError, match="3 ids and embeddings of shape"):
        formats.write_embeddings(EmbeddingTable(np.array(["a", "b", "c"]), X=np.ones((2, 3))), tmp_path / "w.npz")
    with pytest.raises(InputError, match="'speaker' has 1"):
        formats.write_embeddings(EmbeddingTable(TABLE.ids, {"speaker": np.array(["s"])}, X=TABLE.X), tmp_path / "w.scp")
    with pytest.raises(InputError, match="2 scores for 3 trials"):
        formats.write_scores(ScoreTable(TRIALS, np.ones(2)), tmp_path / "w")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", WRITERS)
def test_writers_say_when_there_is_no_such_folder(tmp_path, kind):
    name, write = WRITERS[kind]
    with pytest.raises(FileError, match="does not exist"):
        write(tmp_path / "nowhere" / name)
