"""NumPy archives of arrays by name, and embeddings in them; not of Python objects, as in ``formats.npy``."""

import math
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from jointplda.embedding_table import EmbeddingTable
from jointplda.errors import FileError, InputError
from jointplda.formats.named_arrays import Arrays, Header, NamedRows, Spans, named_rows, to_arrays
from jointplda.formats.npy import MAGIC, explained, fill, read_header, read_rows
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
    with _opened(path) as stored, open(path, "rb") as file, ExitStack() as stack:
        readers = {}
        for name in names:
            with _explained(path, name):
                member = stored.getinfo(members[name])
                stream = cast(BinaryIO, stack.enter_context(stored.open(member)))
                readers[name] = _reader(stream, member, file, spans)
        for span in spans:
            arrays = {}
            for name, read in readers.items():
                with _explained(path, name):
                    arrays[name] = read(*span)
            yield arrays


def _reader(
    stream: BinaryIO, member: zipfile.ZipInfo, file: BinaryIO, spans: Spans
) -> Callable[[int, int], NDArray[Any]]:
    """What reads one span of rows of a member after another: its stream, or the file that it is stored in."""
    header, first = read_header(stream), spans[0][0]
    by_column = header.by_column and tuple(spans) != ((0, header.shape[0]),)
    if member.compress_type == zipfile.ZIP_STORED and (by_column or first):
        # The stream checks the sum of all bytes at its end; in the file one can go to any row at once.
        file.seek(member.header_offset + 26)
        start = file.tell() + 4 + sum(struct.unpack("<HH", file.read(4))) + stream.tell()
        return partial(read_rows, file, header, start)
    if by_column:
        raise FileError(
            f"{file.name}: the embeddings are stored column by column (Fortran order) and compressed, and can be read "
            "only as a whole; save them in C order (numpy.ascontiguousarray), or without compression."
        )
    stream.seek(first * math.prod(header.shape[1:]) * header.dtype.itemsize, 1)
    return partial(_next_rows, stream, header)


def _next_rows(stream: BinaryIO, header: Header, first: int, end: int) -> NDArray[Any]:
    if header.by_column:
        return fill(np.empty(header.shape[::-1], header.dtype), stream).T
    return fill(np.empty((end - first, *header.shape[1:]), header.dtype), stream)


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
