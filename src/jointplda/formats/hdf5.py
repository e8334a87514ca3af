"""HDF5 files as arrays by name, and embeddings in them. The one module that imports h5py."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jointplda.embedding_table import EmbeddingTable
from jointplda.errors import FileError, InputError
from jointplda.formats.named_arrays import Arrays, Header, NamedRows, Spans, named_rows, optional_package, to_arrays
from jointplda.formats.text import PathLikeStr, target_file

_MAGIC = b"\x89HDF\r\n\x1a\n"


def recognises(path: Path, start: bytes) -> bool:
    """Whether the first bytes of a file hold the mark of HDF5, which a block of other data may precede."""
    return any(start.startswith(_MAGIC, offset) for offset in (0, 512, 1024, 2048))


def open_rows(path: Path) -> NamedRows:
    """The rows of embeddings, ids and label columns."""
    with _opened(path) as stored:
        headers = {name: Header(item.shape or (), _type(item, path)) for name, item in _datasets(stored, path).items()}
    return named_rows(headers, partial(_pieces, path), path)


def _pieces(path: Path, names: tuple[str, ...], spans: Spans) -> Iterator[Arrays]:
    with _opened(path) as stored:
        for first, end in spans:
            yield {name: _values(stored[name], slice(first, end), path) for name in names}


def write_table(table: EmbeddingTable, path: Path) -> None:
    """Write embeddings, ids and label columns."""
    write_arrays(path, to_arrays(table, path))


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Every dataset, by its full name without the leading slash; texts are decoded."""
    with _opened(path) as stored:
        return {name: _values(item, ..., path) for name, item in _datasets(stored, path).items()}


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    h5py = optional_package("h5py", path, "HDF5")
    try:
        with h5py.File(path, "r") as stored:
            yield stored
    except FileError:
        raise
    except UnicodeDecodeError as error:
        raise FileError(f"{path}: texts should be UTF-8 ({error}).") from None
    except (ArithmeticError, LookupError, MemoryError, OSError, RuntimeError, TypeError, ValueError) as error:
        raise FileError(f"{path}: a damaged HDF5 file ({error}).") from None


def _datasets(stored: Any, path: Path) -> dict[str, Any]:
    h5py = optional_package("h5py", path, "HDF5")
    found: dict[str, Any] = {}

    def keep(name: str | bytes, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and isinstance(name, str):
            found[name] = item

    stored.visititems(keep)
    return found


def _type(item: Any, path: Path) -> np.dtype[Any]:
    """The type of a dataset as it is read; that of texts is not NumPy's."""
    is_text = optional_package("h5py", path, "HDF5").check_string_dtype(item.dtype)
    return np.dtype(np.str_ if is_text else item.dtype)


def _values(item: Any, rows: Any, path: Path) -> NDArray[Any]:
    if _type(item, path).kind == "U":
        return np.asarray(item.asstr("utf-8")[rows]).astype(np.str_)
    return np.asarray(item[rows])


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
