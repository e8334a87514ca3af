"""Embeddings of every kind in ``file_kinds.FILE_KINDS``, recognised by their content and joined with labels."""

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

import numpy as np

from jointplda._identifiers import as_names, no_duplicates
from jointplda._validation import check_choice
from jointplda.embedding_table import EmbeddingTable, LabelTable
from jointplda.errors import FileError, InputError, JointPLDAError
from jointplda.file_kinds import FILE_KINDS, kind_of
from jointplda.formats.label_reader import labels_by_id, read_labels
from jointplda.formats.text import PathLikeStr, decoded, existing, head, lines

KINDS = FILE_KINDS["embeddings"]


class EmbeddingFormat(Protocol):
    """What the module of a kind of embeddings has."""

    def recognises(self, path: Path, start: bytes) -> bool:
        """Whether a file, which starts with these bytes, is of this kind."""

    def read_table(self, path: Path) -> EmbeddingTable:
        """The table of a file; without ids if the file has none."""

    def write_table(self, table: EmbeddingTable, path: Path) -> None:
        """Write a table that was checked already, whole or not at all; refuse what would not read back the same."""


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
    source = Path(path)
    kind = _kind(source)
    table = _code(kind).read_table(source)
    is_bare = KINDS[kind].is_bare
    if is_bare:
        table = _with_table_beside(table, source, labels)
    if labels is not None:
        table = _joined(table, labels, source)
    if not len(table.ids):
        if is_bare:
            raise InputError(
                f"{source} is a matrix without ids; give a table of labels with one row for each of its {len(table.X)} "
                "rows, in order, or put it beside the matrix as a .tsv or .csv of the same name.",
                parameter="labels",
            )
        table = replace(table, ids=as_names(str(row) for row in range(len(table.X))))
    _check_rows(table, source, FileError)
    return table


def _code(kind: str) -> EmbeddingFormat:
    return cast(EmbeddingFormat, import_module(f"jointplda.formats.{kind}"))


def _kind(path: Path) -> str:
    if path.is_dir():
        return "kaldi"
    start = head(existing(path))
    if start[8:9] == b"{" and int.from_bytes(start[:8], "little") <= path.stat().st_size:
        raise FileError(f"{path}: expected embeddings, got a safetensors file, such as a model or statistics.")
    if start[:1] == b"\x80" and start[1:2] in b"\2\3\4\5":
        raise FileError(f"{path}: expected embeddings, got a pickle, which is never loaded because it can run code.")
    for kind in KINDS:
        if _code(kind).recognises(path, start):
            return kind
    number, line = next(lines(path))
    raise FileError(
        f"{path}: expected embeddings ({', '.join(each.words for each in KINDS.values())}), got text that starts with "
        f"{decoded(line, path, number)[:60]!r}. A table of labels goes with embeddings, not in their place."
    )


def _with_table_beside(table: EmbeddingTable, path: Path, labels: PathLikeStr | LabelTable | None) -> EmbeddingTable:
    """Ids and labels of a matrix from the .tsv or .csv of the same name, unless that is the labels file itself."""
    for suffix in (".tsv", ".csv"):
        beside = path.with_suffix(suffix)
        own = labels is not None and not isinstance(labels, LabelTable) and Path(labels).resolve() == beside.resolve()
        if beside.is_file() and not own:
            rows = read_labels(beside, rows_only=True)
            if len(rows.ids) == len(table.X):
                return EmbeddingTable(rows.ids, rows.columns, X=table.X)
    return table


def read_label_table(path: PathLikeStr, rows_only: bool = False) -> LabelTable:
    """Labels by id, from the label columns of a file of embeddings or from a table, as ``read_labels`` reads it.

    The argument ``rows_only`` is that of ``read_labels``.
    """
    target = existing(path)
    start = head(target)
    if any(kind.has_labels and _code(name).recognises(target, start) for name, kind in KINDS.items()):
        table = read_embeddings(target)
        return LabelTable(table.ids, table.columns)
    return read_labels(target, rows_only)


def _joined(table: EmbeddingTable, labels: PathLikeStr | LabelTable, path: Path) -> EmbeddingTable:
    by_row = not len(table.ids)
    where = Path("labels") if isinstance(labels, LabelTable) else Path(labels)
    joined = labels if isinstance(labels, LabelTable) else read_label_table(where, rows_only=by_row)
    if not by_row:
        return labels_by_id(table, joined, where)
    if len(joined.ids) != len(table.X):
        raise InputError(
            f"{where}: {path} has no ids, so the labels should have one row for each of its {len(table.X)} rows; "
            f"they have {len(joined.ids)}."
        )
    return replace(table, ids=joined.ids, columns={**table.columns, **joined.columns})


def _check_rows(table: EmbeddingTable, path: PathLikeStr, error: type[JointPLDAError]) -> None:
    """Refuse empty or repeated ids, and numbers that are not finite."""
    if np.any(table.ids == ""):
        raise error(f"{path}: the id of row {int(np.argmax(table.ids == ''))} is empty.")
    no_duplicates(table.ids, "ids", str(path))
    # A row with a finite sum holds finite numbers only; sums may also overflow, so the other rows are looked through.
    with np.errstate(over="ignore", invalid="ignore"):
        doubtful = np.flatnonzero(~np.isfinite(table.X.sum(axis=1, dtype=np.float64)))
    bad = doubtful[~np.isfinite(table.X[doubtful]).all(axis=1)]
    if len(bad):
        raise error(
            f"{path}: embeddings should be finite; that of {str(table.ids[bad[0]])!r} holds NaN or infinity "
            f"({len(bad)} such embeddings in all)."
        )


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
    _check_rows(table, path, InputError)
    _code(kind).write_table(table, Path(path))
