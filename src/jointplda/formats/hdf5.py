"""HDF5 files as arrays by name, and embeddings in them. The one module that imports h5py."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jointplda._typing import IntArray, Names
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


def create_matrix(
    path: Path, name: str, shape: tuple[int, int], dtype: Any, mask: str, left_out: IntArray, texts: Mapping[str, Names]
) -> int:
    """Write ``texts`` and a matrix ``name`` that is still to be filled; return the byte at which its numbers begin.

    The matrix is stored row by row in one piece, so that its numbers can be written without this library, which might
    leave a damaged file when it is killed. The ``mask`` of that shape is 1 but for the pairs ``left_out`` (n, 2).
    """
    write_arrays(path, dict(texts))
    h5py = optional_package("h5py", path, "HDF5")
    with h5py.File(path, "r+") as stored:
        settings = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        settings.set_layout(h5py.h5d.CONTIGUOUS)
        settings.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        settings.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        settings.set_obj_track_times(False)
        side = tuple(min(each, 2048) for each in shape)
        marks = stored.create_dataset(mask, shape, np.int8, chunks=side, compression="gzip", fillvalue=1)
        tiles = left_out // side
        order = np.lexsort(tiles.T)
        ends = np.flatnonzero(np.any(np.diff(tiles[order], axis=0), axis=1)) + 1
        for members in np.split(order, ends) if len(order) else ():
            corner = tiles[members[0]] * side
            rows, columns = (left_out[members] - corner).T
            piece = np.ones(np.minimum(side, shape - corner), dtype=np.int8)
            piece[rows, columns] = 0
            marks[corner[0] : corner[0] + piece.shape[0], corner[1] : corner[1] + piece.shape[1]] = piece
        space = h5py.h5s.create_simple(shape)
        kind = h5py.h5t.py_create(np.dtype(dtype), logical=True)
        return int(h5py.h5d.create(stored.id, name.encode(), kind, space, settings).get_offset())


def offset_of(path: Path, name: str) -> int:
    """The byte at which the numbers of a matrix begin that ``create_matrix`` made."""
    h5py = optional_package("h5py", path, "HDF5")
    with h5py.File(path, "r") as stored:
        return int(stored[name].id.get_offset())


def opened_matrix(path: Path, name: str) -> Any:
    """A dataset of an HDF5 file, which is read where it is indexed; the file is open as long as the dataset is used."""
    return optional_package("h5py", path, "HDF5").File(path, "r")[name]
