"""Tables of text: rows of cells, separated by tabs, commas or whitespace."""

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from jointplda.errors import FileError
from jointplda.formats.text import Field, PathLikeStr, decoded, lines, text_file


@dataclass(frozen=True)
class Sheet:
    """Rows of equal length, each with the number of its line.

    Fields are text in files with a delimiter, and bytes (which are faster) in files separated by whitespace.
    """

    path: Path
    first: list[str]
    has_header: bool
    rows: Iterator[tuple[int, Sequence[Field]]]


def read_sheet(path: Path, is_header: Callable[[list[str]], bool]) -> Sheet:
    """Rows of a list: cells end at tabs or commas if its first line is a header that has them, else at whitespace.

    Under a header of one word, every line is one cell. A header is the ``first`` line, and not among the rows.
    """
    number, first = next(lines(path))
    text = decoded(first, path, number)
    cells = first_cells(text, path, number)
    if not is_header(cells):
        cells = [decoded(field, path, number) for field in first.split()]
        return Sheet(path, cells, False, _rows(path, None, len(cells)))
    twice = sorted({cell for cell in cells if cells.count(cell) > 1})
    if twice:
        raise FileError(f"{path}, line {number}: the header names the column {twice[0]!r} twice; rename one.")
    rows = _rows(path, delimiter_of(text) or ("\t" if len(cells) == 1 else None), len(cells))
    next(rows)
    return Sheet(path, cells, True, rows)


def delimiter_of(line: str) -> str | None:
    """A tab if the line has one, else a comma if it has one, else None for whitespace."""
    return "\t" if "\t" in line else "," if "," in line else None


def first_cells(line: str, path: PathLikeStr, number: int = 1) -> list[str]:
    """The cells of a first line, by which a header is recognised."""
    delimiter = delimiter_of(line)
    if delimiter is None:
        return line.split()
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter))]
    except (csv.Error, StopIteration) as error:
        raise FileError(f"{path}, line {number}: cannot be split into cells ({error}).") from None


def write_sheet(path: PathLikeStr, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table with tabs, quoting cells where needed; the file appears whole or not at all."""
    with text_file(path) as stream:
        write_rows(stream, header, rows)


def write_rows(stream: TextIO, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write the rows of a table to an open file."""
    sheet = csv.writer(stream, delimiter="\t", lineterminator="\n")
    sheet.writerow(header)
    sheet.writerows(rows)


def _by_delimiter(path: Path, delimiter: str) -> Iterator[tuple[int, Sequence[Field]]]:
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


def _rows(path: Path, delimiter: str | None, width: int) -> Iterator[tuple[int, Sequence[Field]]]:
    """Rows of a file, split at the delimiter or else at whitespace; raises if one has more or fewer fields."""
    split = ((number, line.split()) for number, line in lines(path))
    for number, fields in _by_delimiter(path, delimiter) if delimiter else split:
        if len(fields) != width:
            raise FileError(
                f"{path}, line {number}: expected {width} columns, as in the first line, got {len(fields)}. "
                "Names that hold spaces need a file with tabs and a header."
            )
        yield number, fields
