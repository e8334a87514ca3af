"""NumPy archives of arrays by name, and embeddings in them; not of Python objects, as in ``formats.npy``."""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from jointplda.embedding_table import EmbeddingTable
from jointplda.errors import FileError, InputError
from jointplda.formats.named_arrays import from_arrays, to_arrays
from jointplda.formats.npy import explained
from jointplda.formats.text import PathLikeStr, target_file


def recognises(path: Path, start: bytes) -> bool:
    """Whether a file has the mark of an archive; ``start`` holds its first bytes."""
    return start.startswith((b"PK\x03\x04", b"PK\x05\x06"))


def read_table(path: Path) -> EmbeddingTable:
    """Embeddings, ids and label columns."""
    return from_arrays(read_npz(path), path)


def write_table(table: EmbeddingTable, path: Path) -> None:
    """Write embeddings, ids and label columns."""
    write_npz(path, to_arrays(table, path))


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """Every array of an ``.npz`` file, by name."""
    arrays = {}
    name = ""
    try:
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as stored:
            for name in stored.files:
                array = stored[name]
                if isinstance(array, np.ndarray):
                    arrays[name] = array
    except Exception as error:  # zipfile and NumPy raise errors of many kinds on damaged members
        raise FileError(f"{path}: {explained(error, name)}") from None
    return arrays


def write_npz(path: PathLikeStr, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays by name."""
    for key in arrays:
        if key.endswith(".npy") or not key.isprintable():
            raise InputError(f"{path}: an .npz file cannot hold a column named {key!r}; rename it.")
    with target_file(path) as name, zipfile.ZipFile(name, "w") as packed:
        for key, array in arrays.items():
            with packed.open(f"{key}.npy", "w", force_zip64=True) as stream:
                np.lib.format.write_array(cast(BinaryIO, stream), np.asanyarray(array), allow_pickle=False)
