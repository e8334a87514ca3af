"""Kaldi's vectors and matrices, binary or text.

They are read here and not through a package, so that nothing in a file can run code: records of Python objects are
refused, and a record that ends too early is an error.
"""

import math
import re
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from jointplda.errors import FileError

BINARY = b"\0B"
_TYPES = {b"FV": "<f4", b"DV": "<f8", b"FM": "<f4", b"DM": "<f8"}
_SPACE = b" \t\r\n"
_KEY = re.compile(rb"[ \t\r\n]*([^ \t\r\n]+)[ \t\r\n]")


def read_binary(stream: BinaryIO, where: str) -> NDArray[Any]:
    """A vector or matrix in binary form, from what follows the binary mark: token, sizes, numbers."""
    kind, shape = _header(stream, where)
    wanted = math.prod(shape) * kind.itemsize
    try:
        data = stream.read(wanted)
    except (MemoryError, OverflowError):
        raise FileError(f"{where}: damaged: the shape {shape} is too large to be true.") from None
    if len(data) != wanted:
        raise FileError(f"{where}: the file ends too early ({len(data)} of {wanted} bytes); it may be truncated.")
    return np.frombuffer(data, kind).reshape(shape).astype(kind.newbyteorder("="))


def _header(stream: BinaryIO, where: str) -> tuple[np.dtype[Any], tuple[int, ...]]:
    token = stream.read(3)
    if token[:2] not in _TYPES or token[2:] != b" ":
        raise FileError(f"{where}: expected a vector (FV, DV) or matrix (FM, DM), got {token!r}.")
    return np.dtype(_TYPES[token[:2]]), tuple(_size(stream, where) for _ in range(1 if token[1:2] == b"V" else 2))


def _size(stream: BinaryIO, where: str) -> int:
    data = stream.read(5)
    if len(data) != 5 or data[:1] != b"\4" or (size := int.from_bytes(data[1:], "little", signed=True)) < 0:
        raise FileError(f"{where}: the file ends too early or is damaged: expected the size of a vector, got {data!r}.")
    return size


def _read_text(start: bytes, stream: BinaryIO, where: str) -> NDArray[np.float64]:
    """A vector ``[ 1 2 ]``, or a matrix with a line for each row, as text; its first bytes are ``start``."""
    if start in (b"PK", b"NP", b"AU", b"RI"):
        raise FileError(f"{where}: expected a vector, got sound or a Python object.")
    text = start + stream.readline()
    while b"]" not in text and (line := stream.readline()):
        text += line
    body = text.strip()
    if not body.startswith(b"["):
        raise FileError(f"{where}: expected '[', got {body[:40]!r}.")
    if not body.endswith(b"]"):
        raise FileError(f"{where}: the file ends before ']'; it may be truncated.")
    lines = body[1:-1].split(b"\n")
    try:
        numbers = np.array([[float(number) for number in line.split()] for line in lines if line.strip()] or [[]])
    except ValueError:
        raise FileError(f"{where}: expected numbers between brackets, in rows of equal length.") from None
    return numbers if len(lines) > 1 else numbers[0]


def read_key(stream: BinaryIO) -> bytes:
    """Read the next key and the space after it; the key is empty at the end of the file."""
    if match := _KEY.match(stream.peek(1)):  # type: ignore[attr-defined]
        stream.read(match.end())
        return match.group(1)
    key = b""  # of a key that ends beyond what is in the buffer, or of none
    while byte := stream.read(1):
        if byte not in _SPACE:
            key += byte
        elif key:
            break
    return key


def read_vector(stream: BinaryIO, where: str) -> NDArray[Any]:
    """Read one vector, binary or text; ``where`` names it in errors."""
    mark = stream.read(2)
    values = read_binary(stream, where) if mark == BINARY else _read_text(mark, stream, where)
    if values.ndim != 1:
        raise FileError(f"{where}: expected one vector, got a matrix of shape {values.shape}; average its rows first.")
    return values


def skip_vector(stream: BinaryIO, where: str) -> None:
    """Pass over one vector, without reading its numbers where it is binary."""
    mark = stream.read(2)
    if mark != BINARY:
        _read_text(mark, stream, where)
        return
    kind, shape = _header(stream, where)
    stream.seek(max(math.prod(shape) * kind.itemsize - 1, 0), 1)
    if 0 not in shape and not stream.read(1):
        raise FileError(f"{where}: the file ends too early; it may be truncated.")


def binary(values: NDArray[Any]) -> bytes:
    """A vector or matrix in Kaldi's binary form, without the binary mark before it."""
    kind = "F" if values.dtype == np.float32 else "D"
    sizes = b"".join(b"\4" + size.to_bytes(4, "little") for size in values.shape)
    token = f"{kind}{'V' if values.ndim == 1 else 'M'} ".encode()
    return token + sizes + values.astype(_TYPES[token[:2]]).tobytes()
