"""Text files of any origin: plain or gzip, any line ends, with or without a byte order mark. Lines come numbered."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import BinaryIO, TextIO, cast

from jointplda._atomic import replacing
from jointplda.errors import FileError, InputError

PathLikeStr = str | PathLike[str]
Field = str | bytes

_GZIP = b"\x1f\x8b"
_UTF8_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Sheet:
    """Rows of equal length, each with the number of its line.

    Fields are text where a delimiter had to be honoured, and bytes (quicker) where whitespace separates them.
    """

    path: Path
    header: list[str] | None
    first: list[str]
    rows: Iterator[tuple[int, Sequence[Field]]]


def existing(path: PathLikeStr) -> Path:
    """The path, if there is a file with something in it."""
    target = Path(path)
    try:
        if target.is_dir():
            raise FileError(f"{target}: expected a file, got a folder.")
        if not target.exists():
            raise FileError(f"{target}: no such file.")
        if not target.is_file():
            raise FileError(f"{target}: expected a file, got a pipe or a device; write its content to a file first.")
        if target.stat().st_size == 0:
            raise FileError(f"{target}: the file is empty.")
    except (OSError, ValueError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{str(target)!r}: cannot be read ({error}).") from None
    return target


def head(path: Path, size: int = 4096) -> bytes:
    """The first bytes of a file, as they are stored."""
    try:
        with open(path, "rb") as stream:
            return stream.read(size)
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error.strerror}).") from None


@contextmanager
def opened(path: PathLikeStr) -> Iterator[BinaryIO]:
    """The bytes of a file, decompressed if its content (not its name) is gzip."""
    target = existing(path)
    packed = head(target, 2) == _GZIP
    try:
        with cast(BinaryIO, gzip.open(target, "rb") if packed else open(target, "rb")) as stream:
            yield stream
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise FileError(f"{target}: a damaged gzip file ({error}); copy or download it again.") from None
    except OSError as error:
        raise FileError(f"{target}: cannot be read ({error}).") from None


def lines(path: PathLikeStr) -> Iterator[tuple[int, bytes]]:
    """Lines that hold something, without their ends, each with its number from 1."""
    seen = False
    with opened(path) as stream:
        for number, line in enumerate(_pieces(stream), 1):
            if number == 1:
                line = _start_of_text(line, Path(path))
            if line and not line.isspace():
                seen = True
                yield number, line
    if not seen:
        raise FileError(f"{path}: the file holds nothing but blank lines.")


def _pieces(stream: BinaryIO) -> Iterator[bytes]:
    for raw in stream:
        line = raw.rstrip(b"\r\n")
        if b"\r" in line:
            yield from line.split(b"\r")
        else:
            yield line


def _start_of_text(line: bytes, path: Path) -> bytes:
    if line.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise FileError(f"{path}: expected UTF-8 text, got UTF-16; save it as UTF-8.")
    if b"\0" in line:
        hint = "; its name ends in .gz, but it is not gzip" if path.suffix == ".gz" else ""
        raise FileError(f"{path}: expected text, got a binary file{hint}.")
    return line.removeprefix(_UTF8_MARK)


def decoded(field: Field, path: Path, number: int) -> str:
    """A field as text."""
    if isinstance(field, str):
        return field
    try:
        return field.decode("utf-8")
    except UnicodeDecodeError:
        raise FileError(
            f"{path}, line {number}: expected UTF-8 text, got {field[:60]!r}; convert the file to UTF-8, "
            "for instance with iconv."
        ) from None


def read_sheet(path: PathLikeStr, is_header: Callable[[list[str]], bool]) -> Sheet:
    """Rows of a list: delimited by its tabs or commas when its first line is a header, and by whitespace otherwise."""
    target = existing(path)
    number, first = next(lines(target))
    text = decoded(first, target, number)
    delimiter = delimiter_of(text)
    cells = split(text, delimiter, target, number)
    if is_header(cells):
        rows = records(target, delimiter) if delimiter else _by_whitespace(target)
        next(rows)
        return Sheet(target, _checked_header(cells, target, number), cells, _equally_long(target, rows, len(cells)))
    cells = [decoded(field, target, number) for field in first.split()]
    return Sheet(target, None, cells, _equally_long(target, _by_whitespace(target), len(cells)))


def delimiter_of(line: str) -> str | None:
    """Tab before comma; None for whitespace."""
    return "\t" if "\t" in line else "," if "," in line else None


def split(line: str, delimiter: str | None, path: Path, number: int) -> list[str]:
    """The cells of one line."""
    if delimiter is None:
        return line.split()
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter))]
    except (csv.Error, StopIteration) as error:
        raise FileError(f"{path}, line {number}: cannot be split into cells ({error}).") from None


def records(path: Path, delimiter: str) -> Iterator[tuple[int, Sequence[Field]]]:
    """Rows of a file with quotes and delimiters, each with the number of its last line."""
    number = 0

    def text() -> Iterator[str]:
        nonlocal number
        for number, line in lines(path):
            yield decoded(line, path, number) + "\n"

    try:
        for cells in csv.reader(text(), delimiter=delimiter, strict=True):
            yield number, [cell.strip() for cell in cells]
    except csv.Error as error:
        raise FileError(f"{path}, line {number}: cannot be split into cells ({error}).") from None


def _by_whitespace(path: Path) -> Iterator[tuple[int, Sequence[Field]]]:
    for number, line in lines(path):
        yield number, line.split()


def _equally_long(
    path: Path, rows: Iterator[tuple[int, Sequence[Field]]], width: int
) -> Iterator[tuple[int, Sequence[Field]]]:
    for number, fields in rows:
        if len(fields) != width:
            raise FileError(
                f"{path}, line {number}: expected {width} columns, as in the first line, got {len(fields)}. "
                "Names that hold spaces need a file with tabs and a header."
            )
        yield number, fields


def _checked_header(cells: list[str], path: Path, number: int) -> list[str]:
    twice = sorted({cell for cell in cells if cells.count(cell) > 1})
    if twice:
        raise FileError(f"{path}, line {number}: the header names the column {twice[0]!r} twice; rename one.")
    return cells


@contextmanager
def target_file(path: PathLikeStr) -> Iterator[Path]:
    """A temporary name that takes the place of ``path`` when all goes well; see ``files.replacing``."""
    try:
        with replacing(path) as name:
            yield name
    except OSError as error:
        raise FileError(f"{path}: cannot be written ({error.strerror or error}).") from None


@contextmanager
def text_file(path: PathLikeStr) -> Iterator[TextIO]:
    """A UTF-8 file to write, gzip if its name ends in .gz, that appears whole or not at all."""
    with target_file(path) as name, open(name, "wb") as raw:
        if Path(path).suffix == ".gz":
            with (
                gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed,
                io.TextIOWrapper(cast(BinaryIO, packed), encoding="utf-8", newline="\n") as stream,
            ):
                yield stream
        else:
            with io.TextIOWrapper(raw, encoding="utf-8", newline="\n") as stream:
                yield stream


def suffix_of(path: PathLikeStr) -> str:
    """The ending of a name in lower case, without ``.gz``."""
    name = Path(path)
    return (name.with_suffix("") if name.suffix.lower() == ".gz" else name).suffix.lower()


def without_spaces(names: Sequence[str], path: PathLikeStr) -> None:
    """Refuse names that a file separated by whitespace cannot hold."""
    for name in names:
        if len(str(name).encode().split()) != 1 or str(name).encode().split()[0] != str(name).encode():
            raise InputError(
                f"{path}: {str(name)!r} is empty or holds a space, which this format cannot hold; "
                "use the NIST format (.tsv), or rename it."
            )
