"""Embeddings and their labels, read a chunk of rows at a time, so that a file may be larger than memory."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jointplda._identifiers import as_names, hashes, no_duplicates, repeated
from jointplda._validation import check_number
from jointplda.embedding_table import EmbeddingTable, LabelTable
from jointplda.errors import FileError, InputError
from jointplda.formats.embedding_kinds import KINDS, EmbeddingRows, format_of, recognised_kind
from jointplda.formats.label_reader import labels_of, read_labels
from jointplda.formats.row_checks import check_rows
from jointplda.formats.text import PathLikeStr, existing, head

_CHUNK_BYTES = 1 << 23
_LABELS_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class EmbeddingStream:
    """Labelled embeddings of one file, read a chunk of rows at a time, any number of times.

    Every pass opens the file anew, so that several passes may go on at the same time, in other processes too. A pass
    holds one chunk, 8 bytes for every id, and the labels that come from other files.

    Attributes
    ----------
    path : Path
        The file, or a folder of Kaldi.
    n_samples : int or None
        The number of rows n; None where only a pass tells (an archive of Kaldi).
    n_features : int
        The dimension d of the embeddings.
    dtype : numpy.dtype
        The type of the embeddings, float32 or float64. In an archive of Kaldi it is that of the first vector, and a
        chunk that holds a vector of double precision is float64.
    """

    path: Path
    n_samples: int | None
    n_features: int
    dtype: np.dtype[Any]
    _rows: EmbeddingRows
    _by_row: LabelTable | None
    _by_id: tuple[tuple[Path, LabelTable], ...]

    def chunks(self, rows: int | None = None, start: int = 0, stop: int | None = None) -> Iterator[EmbeddingTable]:
        """Embeddings with ids and labels, in the order of the file.

        Joined, the chunks are what ``read_embeddings`` gives. What is wrong in a chunk is raised before it is given;
        ids that repeat, and labels that are those of other embeddings, are raised after the last chunk.

        Parameters
        ----------
        rows : int, optional
            Rows of each chunk; the last may have fewer. By default as many as fill 8 MiB.
        start, stop : int, optional
            The first row, and the row after the last; by default all rows. Ids are compared with those of the same
            range only, and labels may be missing from all of its samples; ``columns`` tells of the whole file.

        Returns
        -------
        chunks : iterator of EmbeddingTable
        """
        by_default = max(1, _CHUNK_BYTES // (self.n_features * self.dtype.itemsize))
        return self._pass(by_default if rows is None else rows, start, stop, labels_only=False)

    def columns(self, rows: int = _LABELS_AT_ONCE, start: int = 0, stop: int | None = None) -> Iterator[LabelTable]:
        """Ids and labels alone, in chunks; the embeddings are read in text archives only, and are not checked.

        The arguments are those of ``chunks``.
        """
        chunks = self._pass(rows, start, stop, labels_only=True)
        return (LabelTable(chunk.ids, chunk.columns) for chunk in chunks)

    def _pass(self, rows: int, start: int, stop: int | None, labels_only: bool) -> Iterator[EmbeddingTable]:
        check_number("rows", rows, 1, whole=True)
        check_number("start", start, 0, whole=True)
        if stop is not None:
            check_number("stop", stop, start, whole=True)
        return self._checked(rows, start, stop, labels_only)

    def _checked(self, rows: int, start: int, stop: int | None, labels_only: bool) -> Iterator[EmbeddingTable]:
        first, first_id, seen = start, "", [np.empty(0, np.uint64)]
        without_label = {id(labels): (where, labels) for where, labels in self._by_id}
        for chunk in self._rows.tables(rows, start, stop, labels_only):
            chunk = self._labelled(chunk, first)
            for key, (_, labels) in list(without_label.items()):
                if np.any(labels.rows(chunk.ids) >= 0):
                    del without_label[key]
            check_rows(chunk, self.path, FileError, first)
            first_id = first_id or str(chunk.ids[0])
            seen.append(hashes(chunk.ids))
            first += len(chunk.X)
            yield chunk
        is_whole = start == 0 and (stop is None or (self.n_samples is not None and stop >= self.n_samples))
        for where, labels in without_label.values() if is_whole else ():
            raise InputError(
                f"{where}: none of the {first} embeddings has a label here; their ids are like {first_id!r}, those of "
                f"the labels like {str(labels.ids[0])!r}."
            )
        again = repeated(np.concatenate(seen))
        if len(again):  # Different ids may have equal numbers, so the ids themselves are compared.
            found: list[str] = []
            first = start
            for chunk in self._rows.tables(_LABELS_AT_ONCE, start, stop, True):
                ids = self._labelled(chunk, first).ids
                found.extend(ids[np.isin(hashes(ids), again)].tolist())
                first += len(ids)
            no_duplicates(found, "ids", str(self.path))

    def _labelled(self, table: EmbeddingTable, first: int) -> EmbeddingTable:
        """A table of rows from row ``first`` on, with ids and all labels."""
        ids, columns, end = table.ids, dict(table.columns), first + len(table.X)
        if self._by_row is not None:
            ids = self._by_row.ids[first:end]
            columns.update({name: values[first:end] for name, values in self._by_row.columns.items()})
        elif not self._rows.has_ids:
            ids = as_names(str(row) for row in range(first, end))
        for _, labels in self._by_id:
            columns.update(labels_of(ids, labels))
        return EmbeddingTable(ids, columns, X=table.X)


def open_embeddings(path: PathLikeStr, labels: PathLikeStr | LabelTable | None = None) -> EmbeddingStream:
    """Open embeddings to read them a chunk at a time.

    Files, labels and errors are those of ``read_embeddings``. What cannot be read in chunks is a matrix in Fortran
    order in a compressed ``.npz`` file. To reach a row of a compressed file or of a Kaldi archive, what precedes it is
    passed over; in other files one can start anywhere.

    Parameters
    ----------
    path : path
        A file, or a folder of Kaldi.
    labels : path or LabelTable, optional
        Labels to join by id; its columns replace those of the same name. They are kept in memory.

    Returns
    -------
    stream : EmbeddingStream
    """
    source = Path(path)
    kind = recognised_kind(source)
    rows = format_of(kind).open_rows(source)
    is_bare = KINDS[kind].is_bare
    by_row = _table_beside(source, rows.n_samples, labels) if is_bare else None
    by_id = rows.joined
    if labels is not None:
        where = Path("labels") if isinstance(labels, LabelTable) else Path(labels)
        own = by_row is not None or rows.has_ids
        table = labels if isinstance(labels, LabelTable) else read_label_table(where, rows_only=not own)
        if own:
            by_id = (*by_id, (where, table))
        elif len(table.ids) != rows.n_samples:
            raise InputError(
                f"{where}: {source} has no ids, so the labels should have one row for each of its {rows.n_samples} "
                f"rows; they have {len(table.ids)}."
            )
        else:
            by_row = table
    if is_bare and by_row is None:
        raise InputError(
            f"{source} is a matrix without ids; give a table of labels with one row for each of its "
            f"{rows.n_samples} rows, in order, or put it beside the matrix as a .tsv or .csv of the same name.",
            parameter="labels",
        )
    return EmbeddingStream(source, rows.n_samples, rows.n_features, rows.dtype, rows, by_row, by_id)


def _table_beside(path: Path, count: int | None, labels: PathLikeStr | LabelTable | None) -> LabelTable | None:
    """Ids and labels of a matrix from the .tsv or .csv of the same name, unless that is the labels file itself."""
    for suffix in (".tsv", ".csv"):
        beside = path.with_suffix(suffix)
        own = labels is not None and not isinstance(labels, LabelTable) and Path(labels).resolve() == beside.resolve()
        if beside.is_file() and not own:
            rows = read_labels(beside, rows_only=True)
            if len(rows.ids) == count:
                return rows
    return None


def read_label_table(path: PathLikeStr, rows_only: bool = False) -> LabelTable:
    """Labels by id, from the label columns of a file of embeddings or from a table, as ``read_labels`` reads it.

    The argument ``rows_only`` is that of ``read_labels``.
    """
    target = existing(path)
    start = head(target)
    if any(kind.has_labels and format_of(name).recognises(target, start) for name, kind in KINDS.items()):
        (table,) = open_embeddings(target).columns(sys.maxsize)
        return table
    return read_labels(target, rows_only)
