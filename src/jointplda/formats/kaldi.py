"""Kaldi's vectors and matrices, binary or text, in archives and the scripts that point into them.

They are read here and not through a package, so that nothing in a file can run code: records of Python objects and
commands in scripts are refused, and a record that ends too early is an error.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from jointplda._identifiers import as_names
from jointplda.embedding_table import EmbeddingTable
from jointplda.errors import FileError
from jointplda.formats.text import decoded, lines, opened

BINARY = b"\0B"
_TYPES = {b"FV": "<f4", b"DV": "<f8", b"FM": "<f4", b"DM": "<f8"}
ENDINGS = re.compile(r"(\.(gz|txt|tsv|csv))+$", re.IGNORECASE)
_SPACE = b" \t\r\n"


def read_binary(stream: BinaryIO, where: str) -> NDArray[Any]:
    """A vector or matrix in binary form, from what follows the binary mark: token, sizes, numbers."""
    token = stream.read(3)
    if token[:2] not in _TYPES or token[2:] != b" ":
        raise FileError(f"{where}: expected a vector (FV, DV) or matrix (FM, DM), got {token!r}.")
    kind = np.dtype(_TYPES[token[:2]])
    shape = tuple(_size(stream, where) for _ in range(1 if token[1:2] == b"V" else 2))
    wanted = math.prod(shape) * kind.itemsize
    try:
        data = stream.read(wanted)
    except (MemoryError, OverflowError):
        raise FileError(f"{where}: damaged: the shape {shape} is too large to be true.") from None
    if len(data) != wanted:
        raise FileError(f"{where}: the file ends too early ({len(data)} of {wanted} bytes); it may be truncated.")
    return np.frombuffer(data, kind).reshape(shape).astype(kind.newbyteorder("="))


def _size(stream: BinaryIO, where: str) -> int:
    data = stream.read(5)
    if len(data) != 5 or data[:1] != b"\4" or (size := int.from_bytes(data[1:], "little", signed=True)) < 0:
        raise FileError(f"{where}: the file ends too early or is damaged: expected the size of a vector, got {data!r}.")
    return size


def read_text(stream: BinaryIO, where: str) -> NDArray[np.float64]:
    """A vector ``[ 1 2 ]``, or a matrix with a line for each row, as text that starts at the bracket."""
    rows: list[list[bytes]] = []
    closed = False
    for line in iter(stream.readline, b""):
        body = line.strip()
        if not rows and not body.startswith(b"["):
            raise FileError(f"{where}: expected '[', got {body[:40]!r}.")
        closed = body.endswith(b"]")
        rows.append(body.removeprefix(b"[").removesuffix(b"]").split() if not rows else body.removesuffix(b"]").split())
        if closed:
            break
    if not closed:
        raise FileError(f"{where}: the file ends before ']'; it may be truncated.")
    matrix = len(rows) > 1
    rows = [row for row in rows if row] or [[]]
    try:
        numbers = np.array([[float(number) for number in row] for row in rows])
    except ValueError:
        raise FileError(f"{where}: expected numbers between brackets, in rows of equal length.") from None
    return numbers if matrix else numbers[0]


def read_ark(path: Path) -> EmbeddingTable:
    """All vectors of an archive."""
    ids: list[str] = []
    vectors: list[NDArray[Any]] = []
    with opened(path) as stream:
        while key := _key(stream):
            name = decoded(key, path, len(ids) + 1)
            ids.append(name)
            vectors.append(_vector(stream, f"{path}, {name!r}"))
    return stacked(ids, vectors, path)


def _key(stream: BinaryIO) -> bytes:
    """Read the next key and the space after it; the key is empty at the end of the file."""
    key = b""
    while byte := stream.read(1):
        if byte not in _SPACE:
            key += byte
        elif key:
            break
    return key


def _vector(stream: BinaryIO, where: str) -> NDArray[Any]:
    mark = stream.read(2)
    if mark == BINARY:
        values = read_binary(stream, where)
    elif mark in (b"PK", b"NP", b"AU", b"RI"):
        raise FileError(f"{where}: expected a vector, got sound or a Python object.")
    else:
        values = read_text(_pushed_back(mark, stream), where)
    if values.ndim != 1:
        raise FileError(f"{where}: expected one vector, got a matrix of shape {values.shape}; average its rows first.")
    return values


def _pushed_back(start: bytes, stream: BinaryIO) -> BinaryIO:
    """A text record whose first bytes were read already; a record ends with the line that holds its bracket."""
    text = start + stream.readline()
    while b"]" not in text and (more := stream.readline()):
        text += more
    return io.BytesIO(text)


def read_scp(path: Path) -> EmbeddingTable:
    """The vectors that a script points to, by lines ``key archive:offset``.

    An archive with a relative path is looked for in the working folder, then in the folder of the script.
    """
    ids: list[str] = []
    vectors: list[NDArray[Any]] = []
    with ExitStack() as stack:
        archives: dict[str, BinaryIO] = {}
        for number, key, name, offset in _script(path):
            if name not in archives:
                if len(archives) > 100:
                    stack.close()
                    archives.clear()
                archives[name] = stack.enter_context(opened(_archive(name, path, number)))
            archives[name].seek(offset)
            ids.append(key)
            vectors.append(_vector(archives[name], f"{path}, line {number} ({name}:{offset})"))
    return stacked(ids, vectors, path)


def _script(path: Path) -> list[tuple[int, str, str, int]]:
    """Line, key, archive and offset of each entry."""
    entries: dict[str, tuple[int, str, str, int]] = {}
    for number, line in lines(path):
        key, rest = script_fields(decoded(line, path, number))
        if not rest:
            raise FileError(f"{path}, line {number}: expected 'key archive.ark:offset', got {key[:60]!r}.")
        if rest.endswith(("|", "]")) or rest.startswith("|"):
            raise FileError(
                f"{path}, line {number}: expected 'key archive.ark:offset', got a command or a range "
                f"({rest[:60]!r}), which is not run; copy the vectors to an archive first (copy-vector)."
            )
        if key in entries:
            raise FileError(f"{path}, line {number}: the id {key!r} occurs a second time; remove one.")
        name, colon, offset = rest.rpartition(":")
        place = (name, int(offset)) if colon and offset.isdecimal() else (rest, 0)
        entries[key] = (number, key, *place)
    return list(entries.values())


def script_fields(line: str) -> tuple[str, str]:
    """The key of a line of a script, and what it points to; both end at spaces or tabs, and no other whitespace."""
    key, _, rest = line.strip(" \t").replace("\t", " ").partition(" ")
    return key, rest.strip(" ")


def kaldi_column(name: str) -> str | None:
    """What follows ``utt2`` in the name of a file; None for names without it."""
    match = re.search(r"(?:^|\.)utt2([\w-]+)$", ENDINGS.sub("", name))
    return match.group(1) if match else None


def _archive(name: str, script: Path, number: int) -> Path:
    for candidate in (Path(name), script.parent / name, script.parent / Path(name).name):
        if candidate.is_file():
            return candidate
    raise FileError(
        f"{script}, line {number}: the archive {name} is neither in the working folder nor beside the script. "
        "Run from the folder the script was written in, or move the archive."
    )


def stacked(ids: Sequence[str], vectors: Sequence[NDArray[Any]], path: Path) -> EmbeddingTable:
    """Vectors of equal length as one matrix, which is float64 if one of them is."""
    if not vectors:
        raise FileError(f"{path}: holds no vectors.")
    if not len(vectors[0]):
        raise FileError(f"{path}: the vector of {ids[0]!r} is empty.")
    for name, vector in zip(ids, vectors, strict=True):
        if len(vector) != len(vectors[0]):
            raise FileError(
                f"{path}: expected vectors of dimension {len(vectors[0])}, like that of {ids[0]!r}; "
                f"that of {name!r} has {len(vector)}."
            )
    return EmbeddingTable(as_names(ids), X=np.stack(vectors))


def binary(values: NDArray[Any]) -> bytes:
    """A vector or matrix in Kaldi's binary form, without the binary mark before it."""
    kind = "F" if values.dtype == np.float32 else "D"
    sizes = b"".join(b"\4" + size.to_bytes(4, "little") for size in values.shape)
    token = f"{kind}{'V' if values.ndim == 1 else 'M'} ".encode()
    return token + sizes + values.astype(_TYPES[token[:2]]).tobytes()
