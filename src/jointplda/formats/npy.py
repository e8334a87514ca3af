"""NumPy files of one array, and embeddings in them: the matrix, with ids and labels in a table beside it.

Arrays of Python objects, which NumPy stores as pickles, are neither read nor written.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from jointplda.embedding_table import EmbeddingTable
from jointplda.errors import FileError, InputError
from jointplda.formats.named_arrays import Arrays, Header, NamedRows, Spans, check_columns, embedding_type
from jointplda.formats.sheets import write_rows
from jointplda.formats.text import PathLikeStr, check_texts, target_file, text_file

MAGIC = b"\x93NUMPY"
_BYTES_AT_ONCE = 1 << 20


def recognises(path: Path, start: bytes) -> bool:
    """Whether a file has the mark of an array; ``start`` holds its first bytes."""
    return start.startswith(MAGIC)


def open_rows(path: Path) -> NamedRows:
    """The rows of the matrix, without ids."""
    with _explained(path), open(path, "rb") as stream:
        header = read_header(stream)
        missing = stream.tell() + math.prod(header.shape) * header.dtype.itemsize - path.stat().st_size
        if missing > 0:
            raise ValueError(f"its last {missing} bytes are missing")
    dtype = embedding_type(header, "the matrix", path)
    n, d = header.shape
    return NamedRows(path, n, d, dtype, "the matrix", None, (), partial(_pieces, path, header))


def _pieces(path: Path, header: Header, names: tuple[str, ...], spans: Spans) -> Iterator[Arrays]:
    with _explained(path), open(path, "rb") as stream:
        read_header(stream)
        start = stream.tell()
        for span in spans:
            yield {names[0]: read_rows(stream, header, start, *span)}


def read_rows(stream: BinaryIO, header: Header, start: int, first: int, end: int) -> NDArray[Any]:
    """Rows ``first`` to before ``end`` of the array whose numbers begin at byte ``start`` of a file."""
    (n, *rest), size = header.shape, header.dtype.itemsize
    if header.by_column:
        columns = np.empty((*rest, end - first), header.dtype)
        for j, column in enumerate(columns):
            stream.seek(start + (j * n + first) * size)
            fill(column, stream)
        return columns.T
    stream.seek(start + first * math.prod(rest) * size)
    return fill(np.empty((end - first, *rest), header.dtype), stream)


def read_header(stream: BinaryIO) -> Header:
    """Shape and type of the array whose file starts here; the stream is then at its first number."""
    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise ValueError(f"unknown version {version}")
    # Version 3 differs from 2 in the names of fields only, which no array of numbers or texts has.
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, by_column, dtype = read(stream)
    if min(shape, default=0) < 0:
        raise ValueError(f"the shape {shape}")
    if dtype.hasobject:
        raise ValueError("Object arrays are not loaded")
    return Header(shape, dtype, by_column and len(shape) > 1)


def fill(array: NDArray[Any], stream: BinaryIO) -> NDArray[Any]:
    """Fill a contiguous array with the numbers that come next in a stream, and return it."""
    data = array.reshape(-1).view(np.uint8).data if array.nbytes else memoryview(b"")
    done = 0
    while done < len(data):
        count = stream.readinto(data[done : done + _BYTES_AT_ONCE])  # type: ignore[attr-defined]
        if not count:
            raise ValueError(f"it ends {len(data) - done} bytes too early")
        done += count
    return array


def write_table(table: EmbeddingTable, path: Path) -> None:
    """Write the matrix and, beside it, ids and labels with the ending ``.tsv``."""
    check_columns(table, path)
    beside = path.with_suffix(".tsv")
    if beside == path:
        raise InputError(f"{path}: this name is that of the table beside the matrix; end it in .npy.")
    check_texts([*table.ids.tolist(), *table.columns], path)
    for values in table.columns.values():
        check_texts(np.unique(values).tolist(), path, may_be_empty=True)
    rows = zip(table.ids.tolist(), *(values.tolist() for values in table.columns.values()), strict=True)
    with text_file(beside) as stream:
        write_rows(stream, ["id", *table.columns], rows)
        write_npy(path, table.X)


def read_npy(path: Path) -> NDArray[Any]:
    """The array of an ``.npy`` file."""
    with _explained(path), open(path, "rb") as stream:
        return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # NumPy raises errors of many kinds on damaged headers and sizes
        raise FileError(f"{path}: {explained(error)}") from None


def write_npy(path: PathLikeStr, array: NDArray[Any]) -> None:
    """Write one array."""
    with target_file(path) as name, open(name, "wb") as stream:
        np.lib.format.write_array(stream, array, allow_pickle=False)


def explained(error: Exception, name: str = "") -> str:
    """What is wrong with a NumPy file, from the error of reading it or its array of that name."""
    if "Object arrays" in str(error):
        what = f"the array {name!r}" if name else "the array"
        return f"{what} holds Python objects, which are never loaded; store text as type str, numbers as float."
    return f"a damaged NumPy file ({error})."
