"""Writing embeddings; what would not read back the same is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from jointplda._identifiers import no_duplicates
from jointplda._validation import check_choice
from jointplda.embedding_table import EmbeddingTable
from jointplda.errors import InputError
from jointplda.file_kinds import KINDS, SUFFIXES, kind_of
from jointplda.formats.hdf5 import write_arrays
from jointplda.formats.header_words import folded
from jointplda.formats.kaldi_writer import write_archive
from jointplda.formats.npy import write_npy, write_npz
from jointplda.formats.parquet import write_parquet
from jointplda.formats.sheets import write_rows
from jointplda.formats.text import PathLikeStr, text_file
from jointplda.formats.text_checks import check_cells, check_names

_OWN_NAMES = ("id", "ids", "embedding", "embeddings")


def write_embeddings(table: EmbeddingTable, path: PathLikeStr, kind: str | None = None) -> None:
    """Write embeddings with their ids and labels; every file appears whole or not at all.

    Parameters
    ----------
    table : EmbeddingTable
        ``X`` of shape (n, d).
    path : path
    kind : {"npz", "npy", "hdf5", "parquet", "kaldi"}, optional
        By default, from the ending of the name. ``"npy"`` writes the matrix and, beside it, ids and labels with the
        ending ``.tsv``. ``"kaldi"`` writes ``.ark`` and ``.scp`` and, for each column that has labels,
        ``<stem>.utt2<column>``.
    """
    kind = kind or kind_of("embeddings", path)
    if kind is None:
        endings = ", ".join(SUFFIXES["embeddings"])
        raise InputError(f"not clear from the name {path}; end it in one of {endings}.", parameter="kind")
    check_choice("kind", kind, KINDS["embeddings"])
    _check_table(table, path)
    taken = [name for name in table.columns if folded(name) in _OWN_NAMES]
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
    beside = path.with_suffix(".tsv")
    if beside == path:
        raise InputError(f"{path}: this name is that of the table beside the matrix; end it in .npy.")
    check_names([*table.ids.tolist(), *table.columns], path)
    for values in table.columns.values():
        check_cells(np.unique(values).tolist(), path)
    rows = zip(table.ids.tolist(), *(values.tolist() for values in table.columns.values()), strict=True)
    with text_file(beside) as stream:
        write_rows(stream, ["id", *table.columns], rows)
        write_npy(path, table.X)


def _check_table(table: EmbeddingTable, path: PathLikeStr) -> None:
    """Refuse what no reader accepts: parts of different lengths, empty or repeated ids, numbers that are not finite."""
    X, n = table.X, len(table.ids)
    if X.ndim != 2 or len(X) != n or not X.size:
        raise InputError(f"{path}: the table has {n} ids and embeddings of shape {X.shape}.")
    for name, values in table.columns.items():
        if len(values) != n:
            raise InputError(f"{path}: the table has {n} ids, and the column {name!r} has {len(values)}.")
    if np.any(table.ids == ""):
        raise InputError(f"{path}: the id of row {int(np.argmax(table.ids == ''))} is empty.")
    no_duplicates(table.ids, "ids", str(path))
    if X.dtype.kind not in "fiu" or X.dtype.itemsize > 8:
        raise InputError(f"{path}: embeddings should be float32 or float64, got {X.dtype}.")
    if not np.isfinite(X).all():
        raise InputError(f"{path}: embeddings should be finite, and some of these are NaN or infinite.")
