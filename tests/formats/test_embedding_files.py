"""Embeddings and labels: each convention from literal content, joined, and there and back."""

import struct
import subprocess
import sys

import h5py
import kaldiio
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jointplda import FileError, InputError
from jointplda.embedding_table import EmbeddingTable, LabelTable
from jointplda.formats import read_embeddings, read_labels, write_embeddings

X = np.array([[1.5, -2.0, 0.25], [3.0, 4.0, 5.0]], dtype=np.float32)
IDS = np.array(["utt-å", "utt-b"])


def columns_of(table):
    return {name: values.tolist() for name, values in table.columns.items()}


def by_hand(letter, code, values):
    return b"\0B" + letter + b"V \4" + struct.pack("<i", len(values)) + struct.pack(f"<{len(values)}{code}", *values)


def kaldi_folder(folder, letter=b"F", code="f"):
    records = [name.encode() + b" " + by_hand(letter, code, x) for name, x in zip(IDS, X.tolist())]
    (folder / "xvector.ark").write_bytes(b"".join(records))
    offsets = [len(IDS[0].encode()) + 1, len(records[0]) + len(IDS[1].encode()) + 1]
    lines = [f"{name} {folder}/xvector.ark:{offset}\n" for name, offset in zip(IDS, offsets)]
    (folder / "xvector.scp").write_text("".join(lines), encoding="utf-8")
    return folder / "xvector.scp"


def is_expected(table, ids=IDS, values=X):
    assert table.ids.tolist() == list(ids)
    np.testing.assert_array_equal(table.X, values)
    return True


@pytest.mark.parametrize("letter, code, dtype", [(b"F", "f", np.float32), (b"D", "d", np.float64)])
def test_kaldi_written_by_hand(tmp_path, letter, code, dtype):
    script = kaldi_folder(tmp_path, letter, code)
    for path in (script, script.with_suffix(".ark")):
        table = read_embeddings(path)
        assert is_expected(table)
        assert table.X.dtype == dtype


def test_kaldi_text_archive(tmp_path):
    first = "utt-å  [ 1.5 -2 0.25 ]\n"
    (tmp_path / "a").write_text(f"{first}utt-b  [ 3 4e0 5 ]\n", encoding="utf-8")
    assert is_expected(read_embeddings(tmp_path / "a"))
    (tmp_path / "a.scp").write_text(f"x {tmp_path}/a:7\ny {tmp_path}/a:{len(first.encode()) + 6}\n")
    assert is_expected(read_embeddings(tmp_path / "a.scp"), ["x", "y"])


def test_kaldi_as_kaldiio_writes_and_reads_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kaldiio.save_ark("k.ark", dict(zip(IDS.tolist(), X)), scp="k.scp")
    assert is_expected(read_embeddings("k.scp"))
    kaldiio.save_ark("t.ark", dict(zip(IDS.tolist(), X)), text=True)
    assert is_expected(read_embeddings("t.ark"))
    write_embeddings(EmbeddingTable(IDS, X=X), "w.scp")
    found = kaldiio.load_scp("w.scp")
    assert list(found) == IDS.tolist()
    np.testing.assert_array_equal([found[name] for name in IDS], X)


def test_archives_are_found_from_the_working_folder_and_then_beside_the_script(tmp_path, monkeypatch):
    (tmp_path / "moved").mkdir()
    (tmp_path / "old").mkdir()
    script = kaldi_folder(tmp_path / "moved")
    script.write_text(script.read_text("utf-8").replace(f"{tmp_path}/moved/", "old/"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert is_expected(read_embeddings(script))
    twice = (tmp_path / "moved" / "xvector.ark").read_bytes().replace(struct.pack("<f", 1.5), struct.pack("<f", 9.5))
    (tmp_path / "old" / "xvector.ark").write_bytes(twice)
    assert read_embeddings(script).X[0, 0] == 9.5
    (tmp_path / "moved" / "old").mkdir()
    (tmp_path / "moved" / "xvector.ark").rename(tmp_path / "moved" / "old" / "xvector.ark")
    assert read_embeddings(script).X[0, 0] == 9.5
    (tmp_path / "old" / "xvector.ark").unlink()
    assert read_embeddings(script).X[0, 0] == 1.5
    (tmp_path / "moved" / "old" / "xvector.ark").unlink()
    with pytest.raises(FileError, match=r"xvector\.scp, line 1: the archive old/xvector\.ark is neither"):
        read_embeddings(script)


def test_kaldi_folder_with_labels(tmp_path):
    kaldi_folder(tmp_path)
    (tmp_path / "utt2spk").write_text("utt-å anna\nutt-b bo\nother carl\n", encoding="utf-8")
    (tmp_path / "utt2lang").write_text("utt-b swiss german\n")
    table = read_embeddings(tmp_path)
    assert is_expected(table)
    expected = {"lang": ["", "swiss german"], "spk": ["anna", "bo"], "speaker": ["anna", "bo"]}
    assert columns_of(table) == expected
    (tmp_path / "xvector.scp").rename(tmp_path / "one.scp")
    assert columns_of(read_embeddings(tmp_path)) == expected
    (tmp_path / "two.scp").write_text("a b\n")
    with pytest.raises(FileError, match=r"one single \.scp file, got 'one\.scp', 'two\.scp'"):
        read_embeddings(tmp_path)


@pytest.mark.parametrize("line", ["a echo x |", "a | cat", "a x.ark:5[0:1]"])
def test_scripts_run_nothing(tmp_path, line):
    (tmp_path / "x.scp").write_text(f"{line}\n")
    with pytest.raises(FileError, match=r"x\.scp, line 1: .* is not run"):
        read_embeddings(tmp_path / "x.scp")


def test_kaldi_archives_hold_vectors_of_one_length_and_no_objects(tmp_path):
    path = tmp_path / "x.ark"
    cases = {
        b"a " + by_hand(b"F", "f", [1, 2]) + b"b " + by_hand(b"F", "f", [1]): r"dimension 2, .* that of 'b' has 1",
        b"a \0BFM \4\1\0\0\0\4\2\0\0\0" + struct.pack("<2f", 1, 2): r"'a': expected one vector, got a matrix",
        b"a  [\n 1 2\n 3 4 ]\n": r"'a': expected one vector, got a matrix",
        b"a  [ 1 x ]\n": "'a': expected numbers",
        b"a  [ 1 2\n": r"'a': the file ends before '\]'",
        b"a  [ ]\n": "'a' is empty",
        b"a \0BCM " + bytes(40): "'a': expected a vector",
        b"a \0BFV \4\xff\xff\xff\xff": "damaged",
        b"a \0BDM \4\xff\xff\xff\x7f\4\xff\xff\xff\x7f": "too large to be true",
        b"a " + by_hand(b"F", "f", [1, 2]) + b"b PKL" + bytes(9): "'b': .* sound or a Python object",
    }
    for content, message in cases.items():
        path.write_bytes(content)
        with pytest.raises(FileError, match=rf"x\.ark.*{message}"):
            read_embeddings(path)


def test_npz_and_hdf5_by_their_names(tmp_path):
    for matrix, ids in (("embeddings", "ids"), ("data", "id"), ("X", "names"), ("Embeddings", "utt")):
        labels = {"speaker": np.array(["s", "t"]), "age": np.array([30, 41]), "level": np.array([1.5, np.nan])}
        arrays = {matrix: X, ids: IDS, **labels, "other": np.ones(7)}
        np.savez(tmp_path / "e", **arrays)
        with h5py.File(tmp_path / "e.h5", "w") as stored:
            for name, values in arrays.items():
                stored[name] = np.char.encode(values, "utf-8") if values.dtype.kind == "U" else values
        for path in (tmp_path / "e.npz", tmp_path / "e.h5"):
            table = read_embeddings(path)
            assert is_expected(table)
            assert columns_of(table) == {"speaker": ["s", "t"], "age": ["30", "41"], "level": ["1.5", ""]}


def test_content_decides_and_not_the_name(tmp_path):
    for kind in ("npz", "hdf5", "parquet"):
        write_embeddings(EmbeddingTable(IDS, X=X), tmp_path / "misnamed.csv", kind)
        assert is_expected(read_embeddings(tmp_path / "misnamed.csv"))


def test_ids_default_to_row_numbers_or_those_of_the_labels(tmp_path):
    np.savez(tmp_path / "e", data=X)
    assert is_expected(read_embeddings(tmp_path / "e.npz"), ["0", "1"])
    (tmp_path / "l.tsv").write_text("id\tspeaker\np\ts\nq\tt\n")
    table = read_embeddings(tmp_path / "e.npz", tmp_path / "l.tsv")
    assert is_expected(table, ["p", "q"])
    assert columns_of(table) == {"speaker": ["s", "t"]}


def test_npy_needs_labels_row_by_row(tmp_path):
    np.save(tmp_path / "e", X)
    path, labels = tmp_path / "e.npy", tmp_path / "l.csv"
    with pytest.raises(InputError, match=r"labels: .*e\.npy is a matrix without ids; .* 2 rows"):
        read_embeddings(path)
    labels.write_text("speaker,utt\ns,p\nt,q\n")
    assert is_expected(read_embeddings(path, labels), ["p", "q"])
    labels.write_text("speaker,lang\ns,de\nt,de\n")
    table = read_embeddings(path, labels)
    assert is_expected(table, ["0", "1"])
    assert columns_of(table) == {"speaker": ["s", "t"], "lang": ["de", "de"]}
    labels.write_text("id,speaker\np,s\n")
    with pytest.raises(InputError, match=r"l\.csv: .*each of its 2 rows; they have 1"):
        read_embeddings(path, labels)


def test_labels_are_joined_by_id(tmp_path):
    write_embeddings(EmbeddingTable(IDS, {"speaker": np.array(["old", "old"])}, X=X), tmp_path / "e.npz")
    (tmp_path / "l.csv").write_text("speaker,id,lang\nnew,utt-b,de\nx,elsewhere,fr\n")
    table = read_embeddings(tmp_path / "e.npz", tmp_path / "l.csv")
    assert is_expected(table)
    assert columns_of(table) == {"speaker": ["", "new"], "lang": ["", "de"]}
    with pytest.raises(InputError, match="none of the 2 embeddings has a label here"):
        read_embeddings(tmp_path / "e.npz", LabelTable(np.array(["z"]), {}))


def test_parquet_with_a_list_column_of_any_name(tmp_path):
    for kind in (pa.list_(pa.float32(), 3), pa.list_(pa.float32()), pa.large_list(pa.float32())):
        columns = {"uttid": IDS.tolist(), "wavlm": pa.array(X.tolist(), kind), "lang": ["de", None], "age": [3, 4]}
        pq.write_table(pa.table(columns), tmp_path / "e.parquet")
        table = read_embeddings(tmp_path / "e.parquet")
        assert is_expected(table)
        assert table.X.dtype == np.float32
        assert columns_of(table) == {"lang": ["de", ""], "age": ["3", "4"]}
    pq.write_table(pa.table({"id": ["a", "b"], "x": [[1.0], [1.0, 2.0]]}), tmp_path / "e.parquet")
    with pytest.raises(FileError, match=r"e\.parquet: the lists in 'x' should all have 1 numbers; that in row 1 has 2"):
        read_embeddings(tmp_path / "e.parquet")


@pytest.mark.parametrize(
    "stored, read", [("f2", "f4"), ("f4", "f4"), ("f8", "f8"), ("i4", "f8"), ("u1", "f8"), (">f4", "f4"), (">f8", "f8")]
)
def test_types_of_numbers(tmp_path, stored, read):
    np.savez(tmp_path / "e", data=np.ones((2, 3), stored), ids=IDS)
    assert read_embeddings(tmp_path / "e.npz").X.dtype == np.dtype(read)


@pytest.mark.parametrize("kind", ["U", "c16", "?", "O"])
def test_types_that_are_no_numbers(tmp_path, kind):
    np.savez(tmp_path / "e", data=np.ones((2, 3)).astype(kind), ids=IDS)
    with pytest.raises(FileError, match=r"e\.npz: .*(should hold real numbers|holds Python objects)"):
        read_embeddings(tmp_path / "e.npz")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_embeddings_are_finite(tmp_path, bad):
    values = np.full((3, 2), 1e308)
    values[1, 1] = bad
    np.savez(tmp_path / "e", data=values, ids=["a", "b", "c"])
    with pytest.raises(FileError, match=r"e\.npz: .* that of 'b' in row 1 holds NaN or infinity \(1 such"):
        read_embeddings(tmp_path / "e.npz")
    values[1, 1] = 1e308
    np.savez(tmp_path / "e", data=values, ids=["a", "b", "c"])
    assert len(read_embeddings(tmp_path / "e.npz").X) == 3


def test_kaldi_labels_are_written_one_file_a_column(tmp_path):
    columns = {"speaker": np.array(["anna", "bö"]), "lang": np.array(["de CH", ""]), "note": np.array(["", ""])}
    write_embeddings(EmbeddingTable(IDS, columns, X=X), tmp_path / "e.scp")
    assert (tmp_path / "e.utt2lang").read_text() == "utt-å de CH\n"
    assert (tmp_path / "e.utt2spk").read_text() == "utt-å anna\nutt-b bö\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["e.ark", "e.scp", "e.utt2lang", "e.utt2spk"]


def test_rows_of_a_table_stay_together():
    table = EmbeddingTable(IDS, {"speaker": np.array(["s", "t"])}, X=X).take(np.array([1]))
    assert is_expected(table, ["utt-b"], X[1:])
    assert columns_of(table) == {"speaker": ["t"]}


LABELS = {
    "csv": ("l.csv", "id,speaker,lang\na,s,de\nb,,fr\n", {"speaker": ["s", ""], "lang": ["de", "fr"]}),
    "tsv, id elsewhere": ("l", "lang\tSegmentID\nde\ta\nfr\tb\n", {"lang": ["de", "fr"]}),
    "first column": ("l", "x,speaker\na,s\nb,t\n", {"speaker": ["s", "t"]}),
    "first name wins": ("l", "path,id,speaker\np,a,s\nq,b,t\n", {"path": ["p", "q"], "speaker": ["s", "t"]}),
    "quotes": ("l", 'id,who\na,"Smith, J"\n"b","He said ""hi"""\n', {"who": ["Smith, J", 'He said "hi"']}),
    "quoted line end": ("l", 'id,who\na,"x\ny"\nb,z\n', {"who": ["x\ny", "z"]}),
    "words": ("l", "utt speaker\na s\nb t\n", {"speaker": ["s", "t"]}),
    "one column": ("l", "id\na\nb\n", {}),
    "utt2spk": ("utt2spk", "a s\nb t\n", {"spk": ["s", "t"], "speaker": ["s", "t"]}),
    "utt2spk, tabs": ("utt2spk", "a\ts\nb\tt\n", {"spk": ["s", "t"], "speaker": ["s", "t"]}),
    "utt2lang": ("utt2lang.txt", "a Swiss German, Zurich\nb fr\n", {"lang": ["Swiss German, Zurich", "fr"]}),
    "prefixed": ("dev.utt2chan", "a 1\nb 2\n", {"chan": ["1", "2"]}),
    "unnamed": ("labels", "a s\nb t u\n", {"value": ["s", "t u"]}),
    "spk2utt": ("spk2utt", "s a\nt b\n", {"spk": ["s", "t"], "speaker": ["s", "t"]}),
}


@pytest.mark.parametrize("case", LABELS)
def test_each_convention_of_labels(tmp_path, case):
    name, text, expected = LABELS[case]
    (tmp_path / name).write_text(text, newline="")
    table = read_labels(tmp_path / name)
    assert table.ids.tolist() == ["a", "b"]
    assert columns_of(table) == expected


@pytest.mark.parametrize("first", ["utt", "id", "PAR1"])
def test_first_lines_of_kaldi_files_are_not_taken_for_headers_or_marks(tmp_path, first):
    (tmp_path / "utt2lang").write_text(f"{first} de\nb fr\n")
    table = read_labels(tmp_path / "utt2lang")
    assert table.ids.tolist() == [first, "b"]
    assert columns_of(table) == {"lang": ["de", "fr"]}
    (tmp_path / "utt2lang.csv").write_text("utt,language\na,de\nb,fr\n")
    assert columns_of(read_labels(tmp_path / "utt2lang.csv")) == {"language": ["de", "fr"]}


def test_labels_in_parquet(tmp_path):
    pq.write_table(pa.table({"speaker": ["s", None], "utt": ["a", "b"], "x": [1.5, float("nan")]}), tmp_path / "l")
    table = read_labels(tmp_path / "l")
    assert table.ids.tolist() == ["a", "b"]
    assert columns_of(table) == {"speaker": ["s", ""], "x": ["1.5", ""]}


def test_data_are_not_taken_for_a_header(tmp_path):
    (tmp_path / "l.tsv").write_text("a\ts\nb\ts\n")
    with pytest.raises(FileError, match=r"l\.tsv, line 1: expected a header, but 's' also occurs as a value in line 2"):
        read_labels(tmp_path / "l.tsv")


def test_importing_formats_imports_nothing_heavy():
    heavy = ("h5py", "pyarrow", "kaldiio", "sklearn", "pandas")
    code = f"import sys, jointplda.formats; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("package, kind, extra", [("h5py", "hdf5", "hdf5"), ("pyarrow", "parquet", "parquet")])
def test_a_missing_package_is_named(tmp_path, monkeypatch, package, kind, extra):
    write_embeddings(EmbeddingTable(IDS, X=X), tmp_path / "e", kind)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(FileError, match=rf'e: .* need the package {package}: pip install "jointplda\[{extra}\]"'):
        read_embeddings(tmp_path / "e")
