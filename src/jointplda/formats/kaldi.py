"""Kaldi's vectors and matrices, binary or text, in archives and the scripts that point into them.

Read by hand rather than through a package: records of Python objects and commands in scripts, both of which can run
code, are refused, and a record that ends too early is an error.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from jointplda._typing import Names
from jointplda.embedding_table import EmbeddingTable
from jointplda.errors import FileError
from jointplda.formats.names import as_names
from jointplda.formats.text import PathLikeStr, decoded, lines, opened, target_file, text_file, without_spaces

BINARY = b"\0B"
_TYPES = {b"FV": "<f4", b"DV": "<f8", b"FM": "<f4", b"DM": "<f8"}
_SPACE = b" \t\r\n"


def read_binary(stream: BinaryIO, where: str) -> NDArray[Any]:
    """One vector or matrix after its binary mark: token, sizes, numbers."""
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
    """One vector ``[ 1 2 ]`` or matrix (rows on lines of their own) as text, from its bracket on."""
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
    """The next key and the one space after it; nothing at the end of the file."""
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
    """The rest of a text record, whose first bytes were read already; Kaldi ends a record with its line."""
    text = start + stream.readline()
    while b"]" not in text and (more := stream.readline()):
        text += more
    return io.BytesIO(text)


def read_scp(path: Path) -> EmbeddingTable:
    """The vectors a script points to: lines ``key archive:offset``.

    Archives with relative names are looked for from the working folder, then from the folder of the script.
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
        key, _, rest = decoded(line.strip(), path, number).replace("\t", " ").partition(" ")
        rest = rest.strip()
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


def _archive(name: str, script: Path, number: int) -> Path:
    for candidate in (Path(name), script.parent / name, script.parent / Path(name).name):
        if candidate.is_file():
            return candidate
    raise FileError(
        f"{script}, line {number}: the archive {name} is neither in the working folder nor beside the script. "
        "Run from the folder the script was written in, or move the archive."
    )


def stacked(ids: Sequence[str], vectors: Sequence[NDArray[Any]], path: Path) -> EmbeddingTable:
    """Vectors of equal length as one matrix, float64 if one of them is."""
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
    return EmbeddingTable(as_names(ids), np.stack(vectors))


def binary(values: NDArray[Any]) -> bytes:
    """A vector or matrix as Kaldi's binary, without the mark before it."""
    kind = "F" if values.dtype == np.float32 else "D"
    sizes = b"".join(b"\4" + size.to_bytes(4, "little") for size in values.shape)
    token = f"{kind}{'V' if values.ndim == 1 else 'M'} ".encode()
    return token + sizes + values.astype(_TYPES[token[:2]]).tobytes()


def write_archive(table: EmbeddingTable, path: PathLikeStr) -> None:
    """Write an archive, a script that points into it, and ``<stem>.utt2<column>`` for each label column."""
    script, archive = Path(path).with_suffix(".scp"), Path(path).with_suffix(".ark")
    without_spaces([str(name) for name in table.ids], path)
    columns = kaldi_columns(table.columns)
    without_spaces([column.replace("/", " ") for column in columns], path)
    for values in columns.values():
        without_spaces([str(value).replace(" ", "_") for value in np.unique(values[values != ""])], path)
    with target_file(archive) as ark, text_file(script) as scp, ExitStack() as stack:
        with open(ark, "wb") as stream:
            for name, vector in zip(table.ids.tolist(), table.X, strict=True):
                stream.write(f"{name} ".encode())
                scp.write(f"{name} {archive}:{stream.tell()}\n")
                stream.write(BINARY + binary(vector))
        for column, values in columns.items():
            sheet = stack.enter_context(text_file(script.with_suffix(f".utt2{column}")))
            for name, value in zip(table.ids.tolist(), values.tolist(), strict=True):
                if value:
                    sheet.write(f"{name} {value}\n")


def kaldi_columns(columns: Mapping[str, Names]) -> dict[str, Names]:
    """Label columns under Kaldi's names: speaker is spk."""
    renamed = {name: values for name, values in columns.items() if name != "speaker"}
    return {**renamed, "spk": columns["speaker"]} if "speaker" in columns else renamed
