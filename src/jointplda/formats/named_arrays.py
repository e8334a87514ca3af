"""Embeddings, ids and label columns as arrays by name, which several kinds of files hold.

``embeddings`` (or ``data``, ``X`` and the like) has the shape (n, d), ``ids`` the shape (n,), and every other array of
shape (n,) is a label column.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jointplda._identifiers import as_names
from jointplda._typing import Names
from jointplda.embedding_table import EmbeddingTable
from jointplda.errors import FileError, InputError, warn
from jointplda.formats.header_words import ID_NAMES, find_column, folded
from jointplda.formats.text import PathLikeStr

MATRIX_NAMES = ("embeddings", "embedding", "data", "x", "xvectors", "xvector", "vectors", "vector")
_OWN_NAMES = ("id", "ids", "embedding", "embeddings")


@dataclass(frozen=True)
class Header:
    """What is known of a stored array before it is read.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy.dtype
    by_column : bool
        Whether the numbers of a matrix are stored column by column, in Fortran order.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    by_column: bool = False


Spans = Sequence[tuple[int, int]]
Arrays = Mapping[str, NDArray[Any]]
RowReader = Callable[[tuple[str, ...], Spans], Iterator[Arrays]]
"""Reads the arrays of these names for spans of rows (first, end) that follow one another; there is at least one."""


@dataclass(frozen=True)
class NamedRows:
    """Rows of embeddings, ids and label columns that are stored as arrays by name; see ``EmbeddingRows``.

    Attributes
    ----------
    path : Path
    n_samples, n_features : int
    dtype : numpy.dtype
        Of the embeddings as they are given: float32 or float64.
    matrix : str
        The name of the embeddings.
    ids : str or None
        The name of the ids, if there are any.
    columns : tuple of str
        The names of the label columns.
    read : RowReader
    """

    path: Path
    n_samples: int
    n_features: int
    dtype: np.dtype[Any]
    matrix: str
    ids: str | None
    columns: tuple[str, ...]
    read: RowReader
    joined = ()

    @property
    def has_ids(self) -> bool:
        """Whether there are ids."""
        return self.ids is not None

    def tables(self, rows: int, start: int, stop: int | None, labels_only: bool) -> Iterator[EmbeddingTable]:
        """Tables of ``rows`` rows each but the last, without ids if there are none; see ``EmbeddingRows``."""
        end = self.n_samples if stop is None else min(stop, self.n_samples)
        spans = [(first, min(first + rows, end)) for first in range(start, end, rows)]
        matrix = () if labels_only else (self.matrix,)
        texts = self.columns if self.ids is None else (self.ids, *self.columns)
        pieces = self.read((*matrix, *texts), spans) if spans and (matrix or texts) else ({} for _ in spans)
        for (first, last), arrays in zip(spans, pieces, strict=True):
            X = np.empty((last - first, 0), self.dtype) if labels_only else arrays[self.matrix]
            named = {name: as_text(arrays[name], name, self.path) for name in texts}
            ids = as_names([]) if self.ids is None else named.pop(self.ids)
            yield EmbeddingTable(ids, named, X=X.astype(self.dtype, copy=False))


def named_rows(headers: Mapping[str, Header], read: RowReader, path: Path) -> NamedRows:
    """The embeddings, ids and label columns among stored arrays, by the names and shapes of these."""
    names = list(headers)
    dimensions = {name: len(header.shape) for name, header in headers.items()}
    where = find_column([name if dimensions[name] == 2 else "" for name in names], MATRIX_NAMES)
    if where is None:
        held = ", ".join(f"{name} {headers[name].shape}" for name in names) or "nothing"
        raise FileError(f"{path}: expected an array 'embeddings' (or 'data', 'X') of shape (n, d), got {held}.")
    matrix = names[where]
    dtype = embedding_type(headers[matrix], matrix, path)
    n, d = headers[matrix].shape
    where = find_column([name if dimensions[name] == 1 else "" for name in names], ID_NAMES)
    ids = None if where is None else names[where]
    if ids is not None and headers[ids].shape != (n,):
        count = headers[ids].shape[0]
        hint = "; the matrix may be transposed" if count == d else ""
        raise FileError(f"{path}: {matrix} has {n} rows and {ids} {count} ids{hint}.")
    for name, header in headers.items():
        if dimensions[name] == 1 and header.dtype.kind in "USO" and header.shape != (n,):
            warn(f"{path}: {name} has {header.shape[0]:,} values for {n:,} samples, so it is no label column.")
    columns = tuple(name for name, header in headers.items() if header.shape == (n,) and name != ids)
    return NamedRows(path, n, d, dtype, matrix, ids, columns, read)


def as_text(values: NDArray[np.generic], what: str, path: Path) -> Names:
    """An array of labels or ids as text: bytes are decoded, numbers printed; NaN becomes a missing label."""
    if values.dtype.kind in "Uiub":
        return values.astype(np.str_)
    if values.dtype.kind in "SOf":
        return as_names(_label_text(value, what, path) for value in values.tolist())
    raise FileError(f"{path}: {what} should be text or numbers, got type {values.dtype}.")


def _label_text(value: object, what: str, path: Path) -> str:
    if value is None or value != value:
        return ""
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            raise FileError(f"{path}: {what} should be UTF-8 text, got {value[:60]!r}.") from None
    return str(value)


def embedding_type(header: Header, what: str, path: Path) -> np.dtype[Any]:
    """The type of embeddings of real numbers: float32, or float64 for double precision and whole numbers."""
    if len(header.shape) != 2:
        raise FileError(f"{path}: {what} should have the shape (n, d), got {header.shape}.")
    if header.dtype.kind not in "fiu":
        raise FileError(f"{path}: {what} should hold real numbers, got type {header.dtype}.")
    if 0 in header.shape:
        raise FileError(f"{path}: {what} is empty, of shape {header.shape}.")
    return np.dtype(np.float32 if header.dtype.kind == "f" and header.dtype.itemsize <= 4 else np.float64)


def optional_package(name: str, path: PathLikeStr, kind: str, extra: str | None = None) -> Any:
    """Import a package that only files of this kind need; ``extra`` is the extra that has it, by default the kind."""
    try:
        return import_module(name)
    except ImportError:
        command = f'pip install "jointplda[{extra or kind.lower()}]"'
        raise FileError(f"{path}: {kind} files need the package {name}: {command}.") from None


def to_arrays(table: EmbeddingTable, path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a table by name; raises if a label column has the name of another part."""
    check_columns(table, path)
    return {"ids": table.ids, "embeddings": table.X, **table.columns}


def check_columns(table: EmbeddingTable, path: Path) -> None:
    """Refuse label columns that would be read as ids or as embeddings."""
    taken = [name for name in table.columns if folded(name) in _OWN_NAMES]
    if taken:
        raise InputError(f"{path}: a label column may not be named {taken[0]!r}; rename it.")
