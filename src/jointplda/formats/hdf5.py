"""HDF5 files as arrays by name, and embeddings in them. The one module that imports h5py."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jointplda.embedding_table import EmbeddingTable
from jointplda.errors import FileError, InputError
from jointplda.formats.named_arrays import from_arrays, optional_package, to_arrays
from jointplda.formats.text import PathLikeStr, target_file

_MAGIC = b"\x89HDF\r\n\x1a\n"


def recognises(path: Path, start: bytes) -> bool:
    """Whether the first bytes of a file hold the mark of HDF5, which a block of other data may precede."""
    return any(start.startswith(_MAGIC, offset) for offset in (0, 512, 1024, 2048))


def read_table(path: Path) -> EmbeddingTable:
    """Embeddings, ids and label columns."""
    return from_arrays(read_arrays(path), path)


def write_table(table: EmbeddingTable, path: Path) -> None:
    """Write embeddings, ids and label columns."""
    write_arrays(path, to_arrays(table, path))


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Every dataset, by its full name without the leading slash; texts are decoded."""
    h5py = optional_package("h5py", path, "HDF5")
    arrays: dict[str, NDArray[Any]] = {}

    def keep(name: str | bytes, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and isinstance(name, str):
            text = h5py.check_string_dtype(item.dtype)
            arrays[name] = np.asarray(item.asstr("utf-8")[...]).astype(np.str_) if text else np.asarray(item[...])

    try:
        with h5py.File(path, "r") as stored:
            stored.visititems(keep)
    except UnicodeDecodeError as error:
        raise FileError(f"{path}: texts should be UTF-8 ({error}).") from None
    except (ArithmeticError, LookupError, MemoryError, OSError, RuntimeError, TypeError, ValueError) as error:
        raise FileError(f"{path}: a damaged HDF5 file ({error}).") from None
    return arrays


def write_arrays(path: PathLikeStr, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write datasets; texts as UTF-8 of fixed length, which every reader of BOSARIS files accepts."""
    h5py = optional_package("h5py", path, "HDF5")
    with target_file(path) as name, h5py.File(name, "w") as stored:
        for key, values in arrays.items():
            # Others would be read as paths through groups.
            if not key or "/" in key or key.strip(".") == "" or not key.isprintable():
                raise InputError(f"{path}: HDF5 cannot hold a column named {key!r}; rename it.")
            if values.dtype.kind == "U":
                try:
                    texts = np.char.encode(values, "utf-8")
                except UnicodeEncodeError as error:
                    raise InputError(
                        f"{path}: {error.object!r} holds a lone surrogate, which UTF-8 cannot hold."
                    ) from None
                values = texts.astype(h5py.string_dtype("utf-8", max(1, texts.dtype.itemsize)))
            stored.create_dataset(key, data=values, compression="gzip" if values.dtype.kind in "iub" else None)
