"""Label tables: CSV or TSV with a header, Parquet, and Kaldi's ``utt2spk``, ``utt2lang``, ``spk2utt``."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from jointplda._identifiers import as_names, no_duplicates
from jointplda._typing import Names
from jointplda.embedding_table import LabelTable
from jointplda.errors import FileError, InputError
from jointplda.formats.header_words import ID_NAMES, bare_name, find_column, folded, kaldi_column
from jointplda.formats.pair_rows import read_rows
from jointplda.formats.parquet import read_texts, recognises
from jointplda.formats.sheets import delimiter_of, first_cells, read_sheet
from jointplda.formats.text import PathLikeStr, decoded, existing, head, lines, word_lists


def read_labels(path: PathLikeStr, rows_only: bool = False) -> LabelTable:
    """Read labels by id.

    CSV, TSV and Parquet tables have a header; ids are in the column named ``id``, ``utt``, ``segmentid``, ``file`` or
    the like, and otherwise in the first column. A file without header has lines ``id value``, in which the value goes
    to the end of the line. Its column has a name from that of the file: ``lang`` for ``utt2lang``, both ``spk`` and
    ``speaker`` for ``utt2spk``, and ``value`` for other names. A file named ``spk2utt`` has lines
    ``speaker id id ...``.

    Parameters
    ----------
    path : path
    rows_only : bool
        The rows describe those of a matrix, in order. Ids are then read only from a column with one of the names
        above; without such a column they are the numbers of the rows, from ``"0"``.

    Returns
    -------
    labels : LabelTable
        Of n rows, in the order of the file.

    Raises
    ------
    FileError, InputError
        If the file cannot be read as labels, or an id is missing or occurs twice.
    """
    target = existing(path)
    if recognises(target, head(target)):
        columns = read_texts(target)
        if not columns or not len(next(iter(columns.values()))):
            raise FileError(f"{target}: expected rows with an id and labels, got an empty table.")
        return _table(columns, rows_only, target, None)
    name = bare_name(target)
    if name == "spk2utt" or name.endswith(".spk2utt"):
        lists = word_lists(target, "speaker id id ...")
        return _named([(name, speaker, number) for number, speaker, names in lists for name in names], "spk", target)
    number, first = next(lines(target))
    if has_header(decoded(first, target, number), name):
        return _from_sheet(target, rows_only)
    return _from_pairs(target, name)


def has_header(line: str, name: str) -> bool:
    """Whether a first line is a header. Two of three signs say so: a delimiter, a name for ids, no name of Kaldi's."""
    cells = first_cells(line, name)
    signs = (delimiter_of(line) is not None, folded("".join(cells[:1])) in ID_NAMES, kaldi_column(name) is None)
    return sum(signs) >= 2


def _from_sheet(path: Path, rows_only: bool) -> LabelTable:
    sheet = read_sheet(path, lambda cells: True)
    header = [cell or f"column{index + 1}" for index, cell in enumerate(sheet.first)]
    rows = read_rows(sheet)
    columns, numbers = rows.texts(header), rows.numbers.tolist()
    for name, values in columns.items() if find_column(header, ID_NAMES) is None else ():
        again = np.flatnonzero(values == name)
        if len(again):
            raise FileError(
                f"{path}, line 1: expected a header, but {name!r} also occurs as a value in line "
                f"{numbers[again[0]]}. Add a header that names the columns, such as id, speaker."
            )
    return _table(columns, rows_only, path, numbers)


def _table(columns: dict[str, Names], rows_only: bool, path: Path, numbers: Sequence[int] | None) -> LabelTable:
    where = find_column(list(columns), ID_NAMES)
    if where is None and rows_only:
        count = len(next(iter(columns.values())))
        return LabelTable(as_names(str(row) for row in range(count)), columns)
    name = list(columns)[where or 0]
    ids = columns.pop(name)
    empty = np.flatnonzero(ids == "")
    if len(empty):
        place = f"row {empty[0]}" if numbers is None else f"line {numbers[empty[0]]}"
        raise FileError(f"{path}, {place}: expected an id in the column {name!r}, got nothing.")
    _refuse_repeats(ids, path, numbers)
    return LabelTable(ids, columns)


def _refuse_repeats(ids: Names, path: Path, numbers: Sequence[int] | None) -> None:
    if numbers is None:
        no_duplicates(ids, "ids", str(path))
        return
    first: dict[str, int] = {}
    for name, number in zip(ids.tolist(), numbers, strict=True):
        if name in first:
            raise FileError(
                f"{path}, line {number}: the id {name!r} occurs a second time, after line {first[name]}; remove one."
            )
        first[name] = number


def _from_pairs(path: Path, name: str) -> LabelTable:
    """Lines ``id value``."""
    rows = []
    for number, line in lines(path):
        fields = line.split(maxsplit=1)
        if len(fields) != 2:
            raise FileError(
                f"{path}, line {number}: expected 'id value', got {decoded(line, path, number)[:60]!r}. "
                "A table with other columns needs a header, with tabs or commas."
            )
        rows.append((decoded(fields[0], path, number), decoded(fields[1].rstrip(), path, number), number))
    return _named(rows, kaldi_column(name) or "value", path)


def _named(rows: Sequence[tuple[str, str, int]], name: str, path: Path) -> LabelTable:
    """A table with one column, from the id, the value and the line of each row."""
    ids, values = as_names(row[0] for row in rows), as_names(row[1] for row in rows)
    _refuse_repeats(ids, path, [row[2] for row in rows])
    return LabelTable(ids, {name: values} if name != "spk" else {"spk": values, "speaker": values})


def labels_of(ids: Names, labels: LabelTable, problem: str | None = None) -> dict[str, Names]:
    """Label columns of these ids, with empty texts for ids without a label.

    The ``problem``, if there is one, is raised if no id has a label. Repeated calls with the same labels are cheap.
    """
    rows = labels.rows(ids)
    if problem is not None and len(rows) and np.all(rows < 0):
        raise InputError(problem)
    return {name: np.where(rows < 0, "", values[rows]) for name, values in labels.columns.items()}
