"""Embeddings read in chunks: joined they are what was written, and what is wrong is said as of whole files."""

import gzip
import pickle
import struct
import subprocess
import sys

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jointplda import FileError, InputError, embedding_table
from jointplda.embedding_table import EmbeddingTable, LabelTable
from jointplda.formats import embedding_stream, open_embeddings, read_embeddings, read_label_table, write_embeddings

N, D = 11, 3
RNG = np.random.default_rng(7)
X = RNG.normal(size=(N, D)).astype(np.float32)
IDS = np.array([f"utt-å{'x' * (i % 4)}{i}" for i in range(N)])
SPEAKER = np.array(["s" * (i % 3) for i in range(N)])
LANG = np.array(["de", "fr"])[np.arange(N) % 2]
TABLE = EmbeddingTable(IDS, {"speaker": SPEAKER, "lang": LANG}, X=X)


def compressed_npz(path):
    np.savez_compressed(path, X=X, utt=IDS, age=np.arange(N), level=np.where(np.arange(N) % 2, np.nan, 1.5))


def npy(path, array=X):
    np.save(path, array)
    rows = "".join(f"{i}\t{s}\n" for i, s in zip(IDS, SPEAKER))
    path.with_suffix(".tsv").write_text(f"id\tspeaker\n{rows}")


def no_ids(path):
    np.savez(path, data=X.astype(np.float64), speaker=SPEAKER)


def hdf5_of_bytes(path):
    with h5py.File(path, "w") as stored:
        stored.create_dataset("data", data=X.astype(np.float16), chunks=(4, 2), compression="gzip")
        stored["ids"] = [name.encode() for name in IDS]
        stored["lang"] = np.char.encode(LANG)
        stored["age"] = np.arange(N)


def parquet(path):
    """Row groups of 4 rows, lists without a fixed size, missing labels."""
    lang = [None if i % 5 == 0 else name for i, name in enumerate(LANG.tolist())]
    columns = {"utt": IDS.tolist(), "wavlm": pa.array(X.tolist(), pa.list_(pa.float32())), "lang": lang}
    pq.write_table(pa.table(columns), path, row_group_size=4)


def by_hand(path, text=False):
    with open(path, "wb") as stream:
        for i, (name, x) in enumerate(zip(IDS.tolist(), X)):
            values = x.astype(np.float64 if i == 6 else np.float32)
            mark = b"\0BDV \4" if i == 6 else b"\0BFV \4"
            words = " ".join(map(repr, x.tolist())).encode()
            record = b" [ " + words + b" ]\n" if text else mark + struct.pack("<i", D) + values.tobytes()
            stream.write(name.encode() + b" " + record)


def text_archive(path):
    by_hand(path, text=True)
    path.write_bytes(gzip.compress(path.read_bytes()))


def kaldi_folder(path):
    path.mkdir()
    write_embeddings(EmbeddingTable(IDS, X=X), path / "xvector.scp")
    (path / "utt2spk").write_text("".join(f"{i} {s}\n" for i, s in zip(IDS, SPEAKER) if s))
    (path / "utt2lang").write_text(f"{IDS[8]} de\nother fr\n")


KINDS = {
    "npy": ("e.npy", npy),
    "whole numbers": ("e.npy", lambda path: npy(path, np.arange(N * D).reshape(N, D))),
    "Fortran order": ("e.npy", lambda path: npy(path, np.asfortranarray(X))),
    "big endian": ("e.npy", lambda path: npy(path, X.astype(">f8"))),
    "npz": ("e.npz", lambda path: write_embeddings(TABLE, path)),
    "compressed npz": ("e.npz", compressed_npz),
    "Fortran order npz": ("e.npz", lambda path: np.savez(path, lang=LANG, X=np.asfortranarray(X), ids=IDS)),
    "npz without ids": ("e.npz", no_ids),
    "npz of a matrix": ("e.npz", lambda path: np.savez(path, data=X)),
    "hdf5": ("e.h5", lambda path: write_embeddings(TABLE, path)),
    "hdf5 of bytes": ("e.h5", hdf5_of_bytes),
    "parquet": ("e.parquet", lambda path: write_embeddings(TABLE, path)),
    "parquet of lists": ("e.parquet", parquet),
    "ark": ("e.ark", by_hand),
    "text ark": ("e.ark", text_archive),
    "scp": ("e.scp", lambda path: write_embeddings(TABLE, path)),
    "folder": ("data", kaldi_folder),
}


@pytest.fixture(params=KINDS)
def path(request, tmp_path):
    name, write = KINDS[request.param]
    write(tmp_path / name)
    return tmp_path / name


def same(chunks, table):
    """Whether the chunks are the table, and those of rows that are asked for."""
    chunks = list(chunks)
    np.testing.assert_array_equal(np.concatenate([chunk.ids for chunk in chunks]), table.ids)
    assert all(list(chunk.columns) == list(table.columns) for chunk in chunks)
    for name, values in table.columns.items():
        np.testing.assert_array_equal(np.concatenate([chunk.columns[name] for chunk in chunks]), values)
    if all(isinstance(chunk, EmbeddingTable) for chunk in chunks):
        joined = np.concatenate([chunk.X for chunk in chunks])
        np.testing.assert_array_equal(joined, table.X)
        assert joined.dtype == table.X.dtype
    return True


@pytest.mark.parametrize("rows", [1, 3, N, 100, None])
def test_chunks_joined_are_the_file(path, rows):
    table, stream = read_embeddings(path), open_embeddings(path)
    assert stream.n_features == D
    assert stream.n_samples == (None if path.suffix == ".ark" else N)
    assert stream.dtype == next(stream.chunks(1)).X.dtype
    assert stream.dtype == table.X.dtype or path.suffix == ".ark"  # of which one vector is of double precision
    assert same(stream.chunks(rows), table)
    assert same(stream.columns(rows or 2), table)
    sizes = [len(chunk.ids) for chunk in stream.chunks(rows)]
    assert max(sizes) == sizes[0] == min(rows or N, N)
    assert set(sizes[:-1]) <= {rows}


def test_a_whole_file_is_what_was_written(path):
    """The conversions themselves, for what all kinds are read through."""
    table = read_embeddings(path)
    if table.X.dtype == np.float32:
        tolerance = 1e-3 if np.abs(table.X - X).max() > 0 else 0  # float16
        np.testing.assert_allclose(table.X, X, atol=tolerance)
    if "utt" in table.ids[0]:
        np.testing.assert_array_equal(table.ids, IDS)
    if "speaker" in table.columns:
        np.testing.assert_array_equal(table.columns["speaker"], SPEAKER)


@pytest.mark.parametrize("start, stop", [(0, 4), (3, 9), (5, None), (4, 100), (N, None), (N + 5, N + 9), (2, 2)])
def test_ranges_of_rows(path, start, stop):
    table, stream = read_embeddings(path), open_embeddings(path)
    part = table.take(np.arange(N)[start:stop])
    for chunks in (list(stream.chunks(2, start, stop)), list(stream.columns(2, start, stop))):
        assert [len(chunk.ids) for chunk in chunks] == [2] * (len(part.ids) // 2) + [1] * (len(part.ids) % 2)
        for first, chunk in zip(range(0, N, 2), chunks):
            for name in part.columns:
                np.testing.assert_array_equal(chunk.columns[name], part.columns[name][first : first + 2])
            np.testing.assert_array_equal(chunk.ids, part.ids[first : first + 2])
            if isinstance(chunk, EmbeddingTable):
                np.testing.assert_array_equal(chunk.X, part.X[first : first + 2])


def test_passes_are_independent_also_in_other_processes(path):
    stream, table = open_embeddings(path), read_embeddings(path)
    one, two = stream.chunks(2), stream.chunks(2)
    first = next(one)
    again = list(two)
    assert same([first, *one], table)
    assert same(again, table)
    assert same(pickle.loads(pickle.dumps(stream)).chunks(2), table)


def test_labels_by_id_replace_columns(path, tmp_path):
    table = read_embeddings(path)
    (tmp_path / "l.csv").write_text(f"id,speaker,age\nx,nobody,3\n{table.ids[7]},new,5\n")
    if "0" in table.ids:  # Labels of rows without ids go by row.
        refused(path, "have one row for each of its 11 rows; they have 2", tmp_path / "l.csv")
        return
    expected = read_embeddings(path, tmp_path / "l.csv")
    assert expected.columns["speaker"].tolist() == [""] * 7 + ["new"] + [""] * 3
    for labels in (tmp_path / "l.csv", read_label_table(tmp_path / "l.csv")):
        assert same(open_embeddings(path, labels).chunks(3), expected)
        assert same(open_embeddings(path, labels).columns(3), expected)
        for chunk in open_embeddings(path, labels).chunks(2, 0, 4):
            assert chunk.columns["age"].tolist() == ["", ""]


def test_labels_by_row(tmp_path):
    labels = LabelTable(IDS, {"speaker": SPEAKER})
    np.save(tmp_path / "e.npy", X)
    np.savez(tmp_path / "e.npz", X=X, lang=LANG)
    for name, columns in (("e.npy", {}), ("e.npz", {"lang": LANG})):
        expected = EmbeddingTable(IDS, {**columns, "speaker": SPEAKER}, X=X)
        assert same([read_embeddings(tmp_path / name, labels)], expected)
        assert same(open_embeddings(tmp_path / name, labels).chunks(4), expected)


def outcome(run, *arguments):
    with pytest.raises((FileError, InputError)) as caught:
        run(*arguments)
    return type(caught.value), str(caught.value)


def in_chunks(path, labels=None, rows=100):
    return list(open_embeddings(path, labels).chunks(rows))


def refused(path, message, labels=None):
    """The error is that of ``read_embeddings``, and chunks of 2 rows raise it too."""
    kind, text = outcome(read_embeddings, path, labels)
    assert message in text
    assert outcome(in_chunks, path, labels) == (kind, text)
    kind_in_part, text_in_part = outcome(in_chunks, path, labels, 2)
    assert kind_in_part is kind
    assert message in text_in_part


@pytest.mark.parametrize("kind", ["npz", "h5", "parquet"])
def test_what_is_wrong_in_a_later_chunk_is_said(tmp_path, kind):
    def stored(**arrays):
        target = tmp_path / f"e.{kind}"
        if kind == "npz":
            np.savez(target, **arrays)
        elif kind == "h5":
            with h5py.File(target, "w") as file:
                for name, values in arrays.items():
                    file[name] = np.char.encode(values, "utf-8") if values.dtype.kind == "U" else values
        else:
            width = arrays["X"].shape[1]
            lists = pa.FixedSizeListArray.from_arrays(arrays["X"].ravel(), width)
            pq.write_table(pa.table({**{k: v.tolist() for k, v in arrays.items()}, "X": lists}), target)
        return target

    bad = X.copy()
    bad[[7, 9], 1] = np.nan
    refused(stored(X=bad, ids=IDS), f"that of '{IDS[7]}' in row 7 holds NaN or infinity (")
    ids = IDS.copy()
    ids[8] = ""
    refused(stored(X=X, ids=ids), "the id of row 8 is empty")
    ids[8], ids[10], ids[5] = ids[0], ids[0], ids[4]
    refused(stored(X=X, ids=ids), f"ids should be unique; more than once occur '{ids[0]}', '{ids[4]}' (2 in all)")
    with pytest.raises(InputError, match="unique"):
        list(open_embeddings(tmp_path / f"e.{kind}").columns(3))
    if kind != "parquet":
        refused(stored(X=X, ids=IDS[:-1]), "X has 11 rows and ids 10 ids")


def test_repeated_ids_of_kaldi(tmp_path):
    by_hand(tmp_path / "e.ark")
    line = f"a {tmp_path}/e.ark:{len(IDS[0].encode()) + 1}\n"
    (tmp_path / "e.scp").write_text(line * 2)
    refused(tmp_path / "e.scp", "ids should be unique; more than once occur 'a'")


def test_labels_of_other_embeddings_are_refused_after_a_whole_pass(path, tmp_path):
    labels = LabelTable(np.array([f"z{i}" for i in range(N + 1)]), {"age": np.repeat("3", N + 1)})
    kind, text = outcome(read_embeddings, path, labels)
    assert outcome(in_chunks, path, labels, 2) == (kind, text)
    if "none of the 11 embeddings has a label" in text:
        assert list(open_embeddings(path, labels).chunks(2, 0, 4))


@pytest.mark.parametrize("share", [0.3, 0.9, 0.97])
def test_truncated_files_are_refused(path, share):
    file = path if path.is_file() else path / "xvector.ark"
    if path.suffix == ".scp":
        file = path.with_suffix(".ark")
    data = file.read_bytes()
    file.write_bytes(data[: int(len(data) * share)])
    assert outcome(read_embeddings, path) == outcome(in_chunks, path)
    outcome(in_chunks, path, None, 2)
    if path.suffix == ".ark":
        outcome(lambda: list(open_embeddings(path).columns(2)))


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_damaged_members_of_archives_are_refused(tmp_path, write):
    values = RNG.normal(size=(200, 8))
    write(tmp_path / "e.npz", X=values)
    data = bytearray((tmp_path / "e.npz").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "e.npz").write_bytes(data)
    refused(tmp_path / "e.npz", "a damaged NumPy file")


def test_embeddings_by_column_in_a_compressed_archive_are_read_as_a_whole_only(tmp_path):
    np.savez_compressed(tmp_path / "e.npz", X=np.asfortranarray(X), ids=IDS)
    stream = open_embeddings(tmp_path / "e.npz")
    assert same(stream.chunks(N), EmbeddingTable(IDS, X=X))
    for arguments in ((N - 1,), (N, 1), (N, 0, N - 1)):
        with pytest.raises(FileError, match=r"e\.npz: the embeddings are stored column by column"):
            next(stream.chunks(*arguments))
    assert same(stream.columns(2), EmbeddingTable(IDS, X=X))


def test_ids_of_equal_hashes_are_told_apart(tmp_path, monkeypatch):
    np.savez(tmp_path / "e.npz", X=X, ids=IDS)
    monkeypatch.setattr(embedding_stream, "hashes", lambda names: np.zeros(len(names), np.uint64))
    assert same(open_embeddings(tmp_path / "e.npz").chunks(4), EmbeddingTable(IDS, X=X))
    np.savez(tmp_path / "e.npz", X=X, ids=[*IDS[:-1], IDS[0]])
    refused(tmp_path / "e.npz", f"more than once occur '{IDS[0]}' (1 in all)")


def test_labels_are_indexed_once_for_all_chunks(tmp_path, monkeypatch):
    calls = []
    original = embedding_table.index_of
    monkeypatch.setattr(embedding_table, "index_of", lambda names: calls.append(len(names)) or original(names))
    np.savez(tmp_path / "e.npz", X=X, ids=IDS)
    stream = open_embeddings(tmp_path / "e.npz", LabelTable(IDS[:4], {"speaker": SPEAKER[:4]}))
    for _ in range(2):
        assert [len(chunk.ids) for chunk in stream.chunks(3)] == [3, 3, 3, 2]
    assert calls == [4]


def test_labels_are_read_without_the_embeddings(path):
    """Numbers that are not finite are no matter to labels, nor, in formats with a place for each part, is damage."""
    stream = open_embeddings(path)
    expected = [chunk.ids.tolist() for chunk in stream.columns(3)]
    file = path.with_suffix(".ark") if path.suffix == ".scp" else path / "xvector.ark" if path.is_dir() else path
    data = file.read_bytes()
    values = X[5].tobytes()
    if data.count(values) == 1:
        file.write_bytes(data.replace(values, np.full(D, np.nan, np.float32).tobytes()))
        outcome(in_chunks, path)
    assert [chunk.ids.tolist() for chunk in stream.columns(3)] == expected


@pytest.mark.parametrize("arguments", [(0,), (1.5,), (2, -1), (2, 3, 2)])
def test_arguments_are_checked_at_once(tmp_path, arguments):
    npy(tmp_path / "e.npy")
    with pytest.raises(InputError, match="expected a whole number"):
        open_embeddings(tmp_path / "e.npy").chunks(*arguments)


MEMORY = """
import os, resource, sys
from jointplda.formats import open_embeddings
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
for ending in ("npy", "npz", "h5", "parquet"):
    if os.fork():
        os.wait()
        continue
    list(open_embeddings(f"{sys.argv[1]}/small.{ending}").chunks())
    start, count = peak(), 0
    for chunk in open_embeddings(f"{sys.argv[1]}/large.{ending}").chunks():
        count += len(chunk.X)
    print(ending, count, peak() - start)
    sys.exit()
"""


def test_memory_of_a_pass(tmp_path):
    """Of files of 80 MB, each in a process of its own, after what the first file of a kind takes whatever its size."""
    X = RNG.random((20_000, 1024), dtype=np.float32)
    for name, rows in (("small", 10), ("large", len(X))):
        table = EmbeddingTable(np.arange(rows).astype(str), X=X[:rows])
        for ending in ("npy", "npz", "h5", "parquet"):
            write_embeddings(table, tmp_path / f"{name}.{ending}")
    done = subprocess.run([sys.executable, "-c", MEMORY, tmp_path], capture_output=True, text=True, check=True)
    found = [line.split() for line in done.stdout.splitlines()]
    assert [(ending, int(count)) for ending, count, _ in found] == [
        (ending, len(X)) for ending in ("npy", "npz", "h5", "parquet")
    ]
    assert [ending for ending, _, more in found if float(more) > 60] == []
