"""Parquet tables: text columns, and one column of lists for embeddings. The one module that imports pyarrow."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jointplda.embedding_table import EmbeddingTable
from jointplda.errors import FileError, InputError
from jointplda.formats.named_arrays import as_text, from_arrays, optional_package, to_arrays
from jointplda.formats.text import target_file

# The format's mark and the first byte of the page header that follows it: text may start with "PAR1" too.
_MAGIC = b"PAR1\x15"
_PACKAGES = ("pyarrow", "pyarrow.parquet")


def recognises(path: Path, start: bytes) -> bool:
    """Whether a file has the mark of Parquet; ``start`` holds its first bytes."""
    return start.startswith(_MAGIC)


def read_table(path: Path) -> EmbeddingTable:
    """Embeddings, ids and label columns; a single column of lists may have any name."""
    arrays = read_parquet(path)
    lists = [name for name, values in arrays.items() if values.ndim == 2]
    return from_arrays({"embeddings" if [name] == lists else name: values for name, values in arrays.items()}, path)


def read_parquet(path: Path) -> dict[str, NDArray[Any]]:
    """Columns as arrays: lists of numbers with shape (n, d), others as text with shape (n,)."""
    arrow, parquet = (optional_package(name, path, "Parquet") for name in _PACKAGES)
    try:
        table = parquet.ParquetFile(path).read()
    except (arrow.ArrowException, OSError, ValueError) as error:
        raise FileError(f"{path}: a damaged Parquet file ({error}).") from None
    return {name: _array(arrow, table.column(name).combine_chunks(), name, path) for name in table.column_names}


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


def _array(arrow: Any, column: Any, name: str, path: Path) -> NDArray[Any]:
    types = arrow.types
    if types.is_fixed_size_list(column.type) or types.is_list(column.type) or types.is_large_list(column.type):
        return _matrix(column, name, path)
    if types.is_nested(column.type):
        raise FileError(f"{path}: the column {name!r} should hold text, numbers or lists, got {column.type}.")
    try:
        values = np.array(column.to_pylist(), dtype=object)
    except (UnicodeDecodeError, OverflowError) as error:
        raise FileError(f"{path}: the column {name!r} should hold UTF-8 text or numbers ({error}).") from None
    return as_text(values, f"the column {name!r}", path)


def _matrix(column: Any, name: str, path: Path) -> NDArray[Any]:
    lengths = np.asarray(column.value_lengths().fill_null(-1).to_numpy(zero_copy_only=False))
    odd = np.flatnonzero(lengths != lengths[0]) if len(lengths) else np.empty(0, np.int64)
    if len(odd) or column.null_count:
        row = int(odd[0]) if len(odd) else 0
        raise FileError(
            f"{path}: the lists in {name!r} should all have {lengths[0]} numbers; that in row {row} has {lengths[row]}."
        )
    values = column.flatten()
    if values.null_count:
        raise FileError(f"{path}: the lists in {name!r} hold missing values.")
    return np.asarray(values.to_numpy(zero_copy_only=False)).reshape(len(column), -1)
