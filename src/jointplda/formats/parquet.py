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
_BATCH_BYTES = 1 << 20
_TEXTS_AT_ONCE = 16_384
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
            first = next(_batches(stored, [name], 0, 1), None)
            values = np.empty((0, 0)) if first is None else _matrix(first.column(name), name, path)
            headers[name] = Header((n, values.shape[1]), values.dtype)
    stored_names = {"embeddings" if [name] == lists else name: name for name in headers}
    named = {name: headers[stored] for name, stored in stored_names.items()}
    return named_rows(named, partial(_pieces, path, stored_names, named), path)


def _pieces(
    path: Path, stored_names: Mapping[str, str], headers: Mapping[str, Header], names: tuple[str, ...], spans: Spans
) -> Iterator[Arrays]:
    row_bytes = sum(8 * width for name in names for width in headers[name].shape[1:])
    size = max(1, _BATCH_BYTES // row_bytes) if row_bytes else _TEXTS_AT_ONCE
    with _opened(path) as stored:
        batch, batches = None, None
        for first, end in spans:
            if batches is None:
                batches = _batches(stored, [stored_names[name] for name in names], first, min(size, end - first))
            arrays = {name: np.empty((end - first, *headers[name].shape[1:]), headers[name].dtype) for name in names}
            row = first
            while row < end:
                batch = batch if batch is not None and len(batch) else next(batches, None)
                if batch is None:
                    raise FileError(f"{path}: a damaged Parquet file (it has {row} rows and says it has more).")
                taken = batch.slice(0, end - row)
                for name, array in arrays.items():
                    column, own = taken.column(stored_names[name]), stored_names[name]
                    is_text = array.ndim == 1
                    array[row - first : row - first + len(taken)] = (
                        _texts(column, own, path) if is_text else _matrix(column, own, path, array.shape[1], row)
                    )
                row += len(taken)
                batch = batch.slice(len(taken))
            yield arrays


def _batches(stored: Any, names: Sequence[str], start: int, size: int) -> Iterator[Any]:
    """Batches of up to ``size`` rows, from row ``start`` on; row groups before it are not read."""
    ends = np.cumsum([0, *(stored.metadata.row_group(group).num_rows for group in range(stored.num_row_groups))])
    group = int(np.searchsorted(ends, start, side="right")) - 1
    groups = list(range(group, stored.num_row_groups))
    skipped = start - int(ends[group])
    for batch in stored.iter_batches(size, groups, names, use_threads=False) if groups else ():
        rest = batch.slice(min(skipped, len(batch)))
        skipped -= len(batch) - len(rest)
        if len(rest):
            yield rest


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
        # Pages are read one by one, and not all those of a row group before the first is given.
        with parquet.ParquetFile(path, buffer_size=_BATCH_BYTES, pre_buffer=False) as stored:
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
