"""Embeddings, ids and label columns as arrays by name, which several kinds of files hold.

``embeddings`` (or ``data``, ``X`` and the like) has the shape (n, d), ``ids`` the shape (n,), and every other array of
shape (n,) is a label column.
"""

from collections.abc import Mapping
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

Arrays = Mapping[str, NDArray[Any]]


def from_arrays(arrays: Arrays, path: Path) -> EmbeddingTable:
    """The table that arrays by name hold; without ids if none of them has ids."""
    names = list(arrays)
    matrix = find_column([name if arrays[name].ndim == 2 else "" for name in names], MATRIX_NAMES)
    if matrix is None:
        held = ", ".join(f"{name} {arrays[name].shape}" for name in names) or "nothing"
        raise FileError(f"{path}: expected an array 'embeddings' (or 'data', 'X') of shape (n, d), got {held}.")
    X = as_embeddings(arrays[names[matrix]], names[matrix], path)
    where = find_column([name if arrays[name].ndim == 1 else "" for name in names], ID_NAMES)
    ids = as_names([]) if where is None else as_text(arrays[names[where]], names[where], path)
    if where is not None and len(ids) != len(X):
        hint = "; the matrix may be transposed" if len(ids) == X.shape[1] else ""
        raise FileError(f"{path}: {names[matrix]} has {len(X)} rows and {names[where]} {len(ids)} ids{hint}.")
    columns = {
        name: as_text(values, name, path)
        for name, values in arrays.items()
        if values.shape == (len(X),) and name != names[where if where is not None else matrix]
    }
    for name, values in arrays.items():
        if values.ndim == 1 and values.dtype.kind in "USO" and len(values) != len(X):
            warn(f"{path}: {name} has {len(values):,} values for {len(X):,} samples, so it is no label column.")
    return EmbeddingTable(ids, columns, X=X)


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


def as_embeddings(X: NDArray[Any], what: str, path: Path) -> NDArray[Any]:
    """A matrix of real numbers, as float32 or float64."""
    if X.ndim != 2:
        raise FileError(f"{path}: {what} should have the shape (n, d), got {X.shape}.")
    if X.dtype.kind not in "fiu":
        raise FileError(f"{path}: {what} should hold real numbers, got type {X.dtype}.")
    if not X.size:
        raise FileError(f"{path}: {what} is empty, of shape {X.shape}.")
    return X.astype(np.float32 if X.dtype.kind == "f" and X.dtype.itemsize <= 4 else np.float64, copy=False)


def optional_package(name: str, path: PathLikeStr, kind: str) -> Any:
    """Import a package that only files of this kind need."""
    try:
        return import_module(name)
    except ImportError:
        extra = f'pip install "jointplda[{kind.lower()}]"'
        raise FileError(f"{path}: {kind} files need the package {name}: {extra}.") from None


def to_arrays(table: EmbeddingTable, path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a table by name; raises if a label column has the name of another part."""
    check_columns(table, path)
    return {"ids": table.ids, "embeddings": table.X, **table.columns}


def check_columns(table: EmbeddingTable, path: Path) -> None:
    """Refuse label columns that would be read as ids or as embeddings."""
    taken = [name for name in table.columns if folded(name) in _OWN_NAMES]
    if taken:
        raise InputError(f"{path}: a label column may not be named {taken[0]!r}; rename it.")
