"""Parquet tables: text columns, and one column of lists for embeddings. The one module that imports pyarrow."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jointplda._typing import Names
from jointplda.embedding_table import EmbeddingTable
from jointplda.errors import FileError, InputError
from jointplda.formats.named_arrays import (
    Arrays,
    Header,
    NamedRows,
    Spans,
    as_text,
    named_rows,
    optional_package,
    to_arrays,
)
from jointplda.formats.text import target_file

# The format's mark and the first byte of the page header that follows it: text may start with "PAR1" too.
_MAGIC = b"PAR1\x15"
_BUFFER = 1 << 20
_ROWS_AT_ONCE = 16_384
_PACKAGES = ("pyarrow", "pyarrow.parquet")


def recognises(path: Path, start: bytes) -> bool:
    """Whether a file has the mark of Parquet; ``start`` holds its first bytes."""
    return start.startswith(_MAGIC)


def open_rows(path: Path) -> NamedRows:
    """The rows of embeddings, ids and label columns; a single column of lists may have any name."""
    with _opened(path) as stored:
        lists, texts = _columns(stored, path)
        n = stored.metadata.num_rows
        headers = {name: Header((n,), np.dtype(object)) for name in texts}
        for name in lists:
            first = next(_batches(stored, [name], 1, range(stored.num_row_groups)), None)
            values = np.empty((0, 0)) if first is None else _matrix(first.column(name), name, path)
            headers[name] = Header((n, values.shape[1]), values.dtype)
    stored_names = {"embeddings" if [name] == lists else name: name for name in headers}
    named = {name: headers[stored] for name, stored in stored_names.items()}
    widths = {name: header.shape[1] for name, header in named.items() if len(header.shape) == 2}
    return named_rows(named, partial(_pieces, path, stored_names, widths), path)


def _pieces(
    path: Path, stored_names: Mapping[str, str], widths: Mapping[str, int], names: tuple[str, ...], spans: Spans
) -> Iterator[Arrays]:
    with _opened(path) as stored:
        for first, batches in _spans_of_batches(stored, [stored_names[name] for name in names], list(spans)):
            arrays: dict[str, list[NDArray[Any]]] = {name: [] for name in names}
            for batch in batches:
                for name, found in arrays.items():
                    column, own = batch.column(stored_names[name]), stored_names[name]
                    if name in widths:
                        found.append(_matrix(column, own, path, widths[name], first))
                    else:
                        found.append(_texts(column, own, path))
                first += len(batch)
            yield {name: found[0] if len(found) == 1 else np.concatenate(found) for name, found in arrays.items()}


def _spans_of_batches(
    stored: Any, names: Sequence[str], spans: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, list[Any]]]:
    """The first row of each span of rows, and batches of exactly its rows. Row groups before the first are not read."""
    sizes = [stored.metadata.row_group(group).num_rows for group in range(stored.num_row_groups)]
    ends = np.cumsum(sizes)
    group = int(np.searchsorted(ends, spans[0][0], side="right")) if spans else len(sizes)
    at = int(ends[group] - sizes[group]) if spans else 0
    largest = max((end - first for first, end in spans), default=0)
    batches = _batches(stored, names, min(largest, _ROWS_AT_ONCE), range(group, len(sizes)))
    batch = None
    for first, end in spans:
        found = []
        while at < end:
            if batch is None or not len(batch):
                batch = next(batches)
            skipped = min(max(first - at, 0), len(batch))
            taken = batch.slice(skipped, end - at - skipped)
            batch, at = batch.slice(skipped + len(taken)), at + skipped + len(taken)
            if len(taken):
                found.append(taken)
        yield first, found


def _batches(stored: Any, names: Sequence[str], size: int, groups: range) -> Iterator[Any]:
    yield from stored.iter_batches(size, row_groups=list(groups), columns=names) if len(groups) else ()


def read_texts(path: Path) -> dict[str, Names]:
    """Columns other than lists, as text with shape (n,)."""
    with _opened(path) as stored:
        _, names = _columns(stored, path)
        table = stored.read(names)
        arrays = {name: _texts(table.column(name), name, path) for name in names}
    return {name: as_text(values, f"the column {name!r}", path) for name, values in arrays.items()}


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    arrow, parquet = (optional_package(name, path, "Parquet") for name in _PACKAGES)
    try:
        # With a buffer, pages are read one by one, and not all of the columns of a row group at once.
        with parquet.ParquetFile(path, buffer_size=_BUFFER) as stored:
            yield stored
    except FileError:
        raise
    except (arrow.ArrowException, LookupError, OSError, ValueError) as error:
        raise FileError(f"{path}: a damaged Parquet file ({error}).") from None


def _columns(stored: Any, path: Path) -> tuple[list[str], list[str]]:
    """Names of the columns of lists, and of the other columns."""
    types = optional_package("pyarrow", path, "Parquet").types
    lists, texts = [], []
    for field in stored.schema_arrow:
        if types.is_fixed_size_list(field.type) or types.is_list(field.type) or types.is_large_list(field.type):
            lists.append(field.name)
        elif types.is_nested(field.type):
            raise FileError(f"{path}: the column {field.name!r} should hold text, numbers or lists, got {field.type}.")
        else:
            texts.append(field.name)
    return lists, texts


def write_table(table: EmbeddingTable, path: Path) -> None:
    """Write ids and labels as text columns and, as ``embedding``, a column of lists of fixed size."""
    columns = to_arrays(table, path)
    matrix = columns.pop("embeddings")
    arrow, parquet = (optional_package(name, path, "Parquet") for name in _PACKAGES)
    lists = arrow.FixedSizeListArray.from_arrays(arrow.array(matrix.ravel()), matrix.shape[1])
    try:
        texts = {name: arrow.array(values.tolist(), arrow.string()) for name, values in columns.items()}
        stored = arrow.table({**texts, "embedding": lists})
    except UnicodeEncodeError as error:
        raise InputError(f"{path}: {error.object!r} holds a lone surrogate, which UTF-8 cannot hold.") from None
    with target_file(path) as name:
        parquet.write_table(stored, name)


def _texts(column: Any, name: str, path: Path) -> NDArray[Any]:
    """The values of a column as objects, whose text ``as_text`` gives."""
    try:
        return np.array(column.to_pylist(), dtype=object)
    except (UnicodeDecodeError, OverflowError) as error:
        raise FileError(f"{path}: the column {name!r} should hold UTF-8 text or numbers ({error}).") from None


def _matrix(column: Any, name: str, path: Path, width: int | None = None, first: int = 0) -> NDArray[Any]:
    """Lists of ``width`` numbers, or of as many as the first has, as a matrix; ``first`` is the row of the first."""
    lengths = np.asarray(column.value_lengths().fill_null(-1).to_numpy(zero_copy_only=False))
    width = lengths[0] if width is None else width
    odd = np.flatnonzero(lengths != width)
    if len(odd) or column.null_count:
        row = int(odd[0]) if len(odd) else 0
        raise FileError(
            f"{path}: the lists in {name!r} should all have {width} numbers; that in row {first + row} has "
            f"{lengths[row]}."
        )
    values = column.flatten()
    if values.null_count:
        raise FileError(f"{path}: the lists in {name!r} hold missing values.")
    return np.asarray(values.to_numpy(zero_copy_only=False)).reshape(len(column), -1)
