"""Embeddings of every kind in ``file_kinds.FILE_KINDS``, read and written whole."""

import sys
from pathlib import Path

from jointplda._identifiers import no_duplicates
from jointplda._validation import check_choice
from jointplda.embedding_table import EmbeddingTable, LabelTable
from jointplda.errors import InputError
from jointplda.file_kinds import kind_of
from jointplda.formats.embedding_kinds import KINDS, format_of
from jointplda.formats.embedding_stream import open_embeddings
from jointplda.formats.row_checks import check_rows
from jointplda.formats.text import PathLikeStr


def read_embeddings(path: PathLikeStr, labels: PathLikeStr | LabelTable | None = None) -> EmbeddingTable:
    """Read embeddings, their ids and their labels.

    The content decides what the file is, not its name. The kinds of files are those of ``file_kinds.FILE_KINDS``; the
    modules of ``jointplda.formats`` with their names say what they hold. A matrix alone (``.npy``) needs ``labels``, or
    a ``.tsv`` or ``.csv`` of the same name beside it, with one row for each of its rows, in order. Another file without
    ids gets those of ``labels``, row by row, and without ``labels`` the numbers of the rows, from ``"0"``.

    Parameters
    ----------
    path : path
        A file, or a folder of Kaldi.
    labels : path or LabelTable, optional
        Labels to join by id; its columns replace those of the same name. See ``read_labels``. The labels of
        embeddings that have no row there are missing (empty texts).

    Returns
    -------
    table : EmbeddingTable
        ``X`` of shape (n, d), float32 or float64: whole numbers become float64, float16 becomes float32.

    Raises
    ------
    FileError
        If the file is damaged, of another kind, or holds numbers that are not finite.
    InputError
        If ids repeat, or labels do not fit.
    """
    (table,) = open_embeddings(path, labels).chunks(sys.maxsize)
    return table


def write_embeddings(table: EmbeddingTable, path: PathLikeStr, kind: str | None = None) -> None:
    """Write embeddings with their ids and labels; every file appears whole or not at all.

    Parameters
    ----------
    table : EmbeddingTable
        ``X`` of shape (n, d).
    path : path
    kind : str, optional
        One of the kinds in ``file_kinds.FILE_KINDS``; by default, from the ending of the name.
    """
    kind = kind or kind_of("embeddings", path)
    if kind is None:
        endings = ", ".join(suffix for each in KINDS.values() for suffix in each.suffixes)
        raise InputError(f"not clear from the name {path}; end it in one of {endings}.", parameter="kind")
    check_choice("kind", kind, tuple(KINDS))
    X, n = table.X, len(table.ids)
    if X.ndim != 2 or len(X) != n or not X.size:
        raise InputError(f"{path}: the table has {n} ids and embeddings of shape {X.shape}.")
    for name, values in table.columns.items():
        if len(values) != n:
            raise InputError(f"{path}: the table has {n} ids, and the column {name!r} has {len(values)}.")
    if X.dtype.kind not in "fiu" or X.dtype.itemsize > 8:
        raise InputError(f"{path}: embeddings should be float32 or float64, got {X.dtype}.")
    check_rows(table, path, InputError)
    no_duplicates(table.ids, "ids", str(path))
    format_of(kind).write_table(table, Path(path))
