"""Text files of any origin: plain or gzip, with any line ends, with or without a byte order mark."""

import gzip
import io
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import BinaryIO, TextIO, cast

from jointplda._atomic import replacing
from jointplda.errors import FileError, InputError, Remedy

PathLikeStr = str | PathLike[str]
Field = str | bytes

_GZIP = b"\x1f\x8b"
_UTF8_MARK = b"\xef\xbb\xbf"
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def existing(path: PathLikeStr) -> Path:
    """The path, if it is that of a file that is not empty."""
    target = Path(path)
    try:
        if target.is_dir():
            problem = "expected a file, got a folder"
        elif not target.exists():
            problem = "no such file"
        elif not target.is_file():
            problem = "expected a file, got a pipe or a device; write its content to a file first"
        elif target.stat().st_size == 0:
            problem = "the file is empty"
        else:
            return target
    except (OSError, ValueError) as error:
        raise FileError(f"{str(target)!r}: cannot be read ({error}).") from None
    raise FileError(f"{target}: {problem}.")


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
    """Lines that are not blank, without their ends, each with its number from 1."""
    seen = False
    with opened(path) as stream:
        pieces = chain.from_iterable(raw.rstrip(b"\r\n").split(b"\r") for raw in stream)
        for number, line in enumerate(pieces, 1):
            if number == 1:
                line = _start_of_text(line, Path(path))
            if line and not line.isspace():
                seen = True
                yield number, line
    if not seen:
        raise FileError(f"{path}: the file holds nothing but blank lines.")


def word_lists(path: Path, expected: str, hint: str = "") -> Iterator[tuple[int, str, list[str]]]:
    """Number, first word and further words of each line; ``expected`` and ``hint`` say what a line should be."""
    for number, line in lines(path):
        first, *more = (decoded(field, path, number) for field in line.split())
        if not more:
            raise FileError(f"{path}, line {number}: expected {expected!r}, got {first!r} alone.{hint}")
        yield number, first, more


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


def check_texts(
    texts: Iterable[str],
    path: PathLikeStr,
    *,
    may_be_empty: bool = False,
    may_have_spaces: bool = True,
    remedy: Remedy | None = None,
) -> None:
    """Refuse ids, labels and names of columns that a text file would not give back unchanged.

    Files are UTF-8, so lone surrogates cannot be written. Line ends and other control characters end lines and fields
    or mark binary files. Readers drop a byte order mark at the start of a file, and spaces around a cell. An empty
    text is a missing label. A file whose fields are separated by whitespace can hold no spaces; the ``remedy`` names a
    kind of file that can.
    """
    for text in texts:
        if _UNSAFE.search(text):
            problem = "holds a control character or a lone surrogate"
        elif text.startswith("\ufeff"):
            problem = "starts with a byte order mark"
        elif text != text.strip():
            problem = "starts or ends with a space"
        elif not text and not may_be_empty:
            problem = "is empty"
        elif " " in text and not may_have_spaces:
            problem = "holds a space"
        else:
            continue
        raise InputError(
            f"{path}: {text[:80]!r} {problem}, which this format cannot hold; rename it.",
            remedy=remedy if problem == "holds a space" else None,
        )


@contextmanager
def target_file(path: PathLikeStr) -> Iterator[Path]:
    """A temporary file that takes the place of ``path`` if no error occurs; see ``_atomic.replacing``."""
    try:
        with replacing(path) as name:
            yield name
    except OSError as error:
        raise FileError(f"{path}: cannot be written ({error.strerror or error}).") from None


@contextmanager
def text_file(path: PathLikeStr) -> Iterator[TextIO]:
    """A UTF-8 file to write, gzipped if its name ends in .gz; it appears whole or not at all."""
    with target_file(path) as name, open(name, "wb") as raw:
        packed = gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if Path(path).suffix == ".gz" else raw
        with packed, io.TextIOWrapper(cast(BinaryIO, packed), encoding="utf-8", newline="\n") as stream:
            yield stream
