"""NumPy files of one array, and embeddings in them: the matrix, with ids and labels in a table beside it.

Arrays of Python objects, which NumPy stores as pickles, are neither read nor written.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jointplda._identifiers import as_names
from jointplda.embedding_table import EmbeddingTable
from jointplda.errors import FileError, InputError
from jointplda.formats.named_arrays import as_embeddings, check_columns
from jointplda.formats.sheets import write_rows
from jointplda.formats.text import PathLikeStr, check_texts, target_file, text_file


def recognises(path: Path, start: bytes) -> bool:
    """Whether a file has the mark of an array; ``start`` holds its first bytes."""
    return start.startswith(b"\x93NUMPY")


def read_table(path: Path) -> EmbeddingTable:
    """The matrix, without ids."""
    return EmbeddingTable(as_names([]), X=as_embeddings(read_npy(path), "the matrix", path))


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
    try:
        with open(path, "rb") as stream:
            return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))
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
