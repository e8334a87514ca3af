"""Writing embeddings."""

from __future__ import annotations

import csv
from pathlib import Path

from jointplda._identifiers import no_duplicates
from jointplda._validation import check_choice
from jointplda.embedding_table import EmbeddingTable
from jointplda.errors import InputError
from jointplda.formats.hdf5 import write_arrays
from jointplda.formats.kaldi import write_archive
from jointplda.formats.names import plain
from jointplda.formats.npy import write_npy, write_npz
from jointplda.formats.parquet import write_parquet
from jointplda.formats.text import PathLikeStr, text_file

KINDS = ("npz", "npy", "hdf5", "parquet", "kaldi")
_OWN_NAMES = ("id", "ids", "embedding", "embeddings")
_BY_NAME = {
    ".npz": "npz",
    ".npy": "npy",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".parquet": "parquet",
    ".scp": "kaldi",
    ".ark": "kaldi",
}


def write_embeddings(table: EmbeddingTable, path: PathLikeStr, kind: str | None = None) -> None:
    """Write embeddings with their ids and labels; every file appears whole or not at all.

    Parameters
    ----------
    table : EmbeddingTable
        ``X`` of shape (n, d).
    path : path
    kind : {"npz", "npy", "hdf5", "parquet", "kaldi"}, optional
        By default, from the ending of the name. ``"npy"`` writes the matrix and, beside it, ids and labels with the
        ending ``.tsv``; ``"kaldi"`` writes ``.ark`` and ``.scp`` and, for each label column,
        ``<stem>.utt2<column>``.
    """
    suffix = Path(path).suffix.lower()
    if kind is None and suffix not in _BY_NAME:
        raise InputError(f"{path}: the kind is not clear from the name; end it in one of {', '.join(_BY_NAME)}.")
    kind = check_choice("kind", kind or _BY_NAME[suffix], KINDS)
    _refuse_unequal(table, path)
    no_duplicates(table.ids, "ids", str(path))
    taken = [name for name in table.columns if plain(name) in _OWN_NAMES]
    if taken and kind != "kaldi":
        raise InputError(f"{path}: a label column may not be named {taken[0]!r}; rename it.")
    if kind == "kaldi":
        write_archive(table, path)
    elif kind == "parquet":
        write_parquet(path, table.X, {"ids": table.ids, **table.columns})
    elif kind == "npy":
        _write_npy(table, Path(path))
    else:
        arrays = {"ids": table.ids, "embeddings": table.X, **table.columns}
        (write_npz if kind == "npz" else write_arrays)(path, arrays)


def _write_npy(table: EmbeddingTable, path: Path) -> None:
    with text_file(path.with_suffix(".tsv")) as stream:
        sheet = csv.writer(stream, delimiter="\t", lineterminator="\n")
        sheet.writerow(["id", *table.columns])
        sheet.writerows(zip(table.ids.tolist(), *(c.tolist() for c in table.columns.values()), strict=True))
        write_npy(path, table.X)


def _refuse_unequal(table: EmbeddingTable, path: PathLikeStr) -> None:
    if table.X.shape[:1] != table.ids.shape:
        raise InputError(f"{path}: the table has {len(table.ids)} ids and embeddings of shape {table.X.shape}.")
    for name, values in table.columns.items():
        if len(values) != len(table.ids):
            raise InputError(f"{path}: the table has {len(table.ids)} ids, and the column {name!r} has {len(values)}.")
