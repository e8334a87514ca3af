"""NumPy archives of arrays by name, and embeddings in them; not of Python objects, as in ``formats.npy``."""

import math
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from jointplda.embedding_table import EmbeddingTable
from jointplda.errors import FileError, InputError
from jointplda.formats.named_arrays import Arrays, Header, NamedRows, Spans, named_rows, to_arrays
from jointplda.formats.npy import MAGIC, explained, fill, read_header
from jointplda.formats.text import PathLikeStr, target_file


def recognises(path: Path, start: bytes) -> bool:
    """Whether a file has the mark of an archive; ``start`` holds its first bytes."""
    return start.startswith((b"PK\x03\x04", b"PK\x05\x06"))


def open_rows(path: Path) -> NamedRows:
    """The rows of embeddings, ids and label columns."""
    members: dict[str, str] = {}
    headers: dict[str, Header] = {}
    name = ""
    with ExitStack() as stack:
        stored = stack.enter_context(_opened(path))
        for member in stored.namelist():
            name = member.removesuffix(".npy")
            with _explained(path, name), stored.open(member) as stream:
                if stream.read(6) == MAGIC:
                    stream.seek(0)
                    headers[name], members[name] = read_header(cast(BinaryIO, stream)), member
    return named_rows(headers, partial(_pieces, path, members), path)


def _pieces(path: Path, members: Mapping[str, str], names: tuple[str, ...], spans: Spans) -> Iterator[Arrays]:
    with _opened(path) as stored, ExitStack() as stack:
        streams: dict[str, BinaryIO] = {}
        headers = {}
        for name in names:
            with _explained(path, name):
                streams[name] = cast(BinaryIO, stack.enter_context(stored.open(members[name])))
                headers[name] = read_header(streams[name])
        place = 0
        for first, end in spans:
            arrays = {}
            for name, header in headers.items():
                with _explained(path, name):
                    arrays[name] = _rows(streams[name], header, first - place, end - first, path)
            place = end
            yield arrays


def _rows(stream: BinaryIO, header: Header, skipped: int, count: int, path: Path) -> NDArray[Any]:
    """The next ``count`` rows of an array after those that are skipped."""
    n, *rest = header.shape
    if header.by_column:
        if count < n:
            raise FileError(
                f"{path}: the embeddings are stored column by column (Fortran order), which an .npz file gives back "
                "only as a whole; save them in C order (numpy.ascontiguousarray) or as .npy."
            )
        return fill(np.empty(header.shape[::-1], header.dtype), stream).T
    stream.seek(skipped * math.prod(rest) * header.dtype.itemsize, 1)
    return fill(np.empty((count, *rest), header.dtype), stream)


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    with ExitStack() as stack:
        with _explained(path):
            stored = stack.enter_context(zipfile.ZipFile(path))
        yield stored


@contextmanager
def _explained(path: Path, name: str = "") -> Iterator[None]:
    try:
        yield
    except FileError:
        raise
    except Exception as error:  # zipfile and NumPy raise errors of many kinds on damaged members
        raise FileError(f"{path}: {explained(error, name)}") from None


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
