"""Label tables: CSV or TSV with a header, Parquet, and Kaldi's ``utt2spk``, ``utt2lang``, ``spk2utt``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from jointplda._identifiers import no_duplicates
from jointplda._typing import Names
from jointplda.embedding_table import LabelTable
from jointplda.errors import FileError
from jointplda.formats.names import ID_NAMES, as_names, column, plain
from jointplda.formats.pair_rows import gather
from jointplda.formats.parquet import PARQUET_MAGIC, read_parquet
from jointplda.formats.text import PathLikeStr, decoded, delimiter_of, existing, head, lines, read_sheet, split

_ENDINGS = re.compile(r"(\.(gz|txt|tsv|csv))+$", re.IGNORECASE)


def read_labels(path: PathLikeStr, rows_only: bool = False) -> LabelTable:
    """Read labels by id.

    CSV, TSV and Parquet tables have a header; ids are in the column named ``id``, ``utt``, ``segmentid``, ``file`` or
    the like, or else in the first one. A file without header holds ``id value`` with the value to the end of the
    line; its column is named by the file: ``utt2lang`` gives ``lang``, ``utt2spk`` gives ``spk`` and ``speaker``,
    other names ``value``. A file named ``spk2utt`` holds ``speaker id id ...``.

    Parameters
    ----------
    path : path
    rows_only : bool
        The rows describe those of a matrix, in order: only a column with a known name holds ids, and without one
        they are the numbers of the rows, from ``"0"``.

    Returns
    -------
    labels : LabelTable
        Of n rows, in the order of the file.

    Raises
    ------
    FileError, InputError
        If the file cannot be read so, or an id is missing or occurs twice.
    """
    target = existing(path)
    if head(target, 4) == PARQUET_MAGIC:
        return _from_parquet(target, rows_only)
    name = _ENDINGS.sub("", target.name)
    if name == "spk2utt" or name.endswith(".spk2utt"):
        return _from_spk2utt(target)
    number, first = next(lines(target))
    if _has_header(decoded(first, target, number), name):
        return _from_sheet(target, rows_only)
    return _from_pairs(target, name)


def _has_header(line: str, name: str) -> bool:
    delimiter = delimiter_of(line)
    cells = split(line, delimiter, Path(name), 1)
    if bool(cells) and plain(cells[0]) in ID_NAMES:
        return True
    return delimiter is not None and kaldi_column(name) is None


def kaldi_column(name: str) -> str | None:
    """What follows ``utt2`` in the name of a file, None for other names."""
    found = re.search(r"(?:^|\.)utt2([\w-]+)$", _ENDINGS.sub("", name))
    return found.group(1) if found else None


def _from_sheet(path: Path, rows_only: bool) -> LabelTable:
    sheet = read_sheet(path, lambda cells: True)
    header = [cell or f"column{index + 1}" for index, cell in enumerate(sheet.header or [])]
    rows = gather(sheet)
    texts = list(rows.further([str(index) for index in range(len(header))], ()).values())
    numbers = rows.numbers.tolist()
    where = column(header, ID_NAMES)
    if where is None:
        _refuse_data_as_header(header, texts, numbers, path)
    columns = dict(zip(header, texts, strict=True))
    return _table(columns, None if rows_only and where is None else where or 0, path, numbers)


def _refuse_data_as_header(header: list[str], texts: Sequence[Names], numbers: Sequence[int], path: Path) -> None:
    for name, values in zip(header, texts, strict=True):
        again = np.flatnonzero(values == name)
        if len(again):
            raise FileError(
                f"{path}, line 1: expected a header, but {name!r} also occurs as a value in line "
                f"{numbers[again[0]]}. Add a header that names the columns, such as id, speaker."
            )


def _table(columns: dict[str, Names], where: int | None, path: Path, numbers: Sequence[int] | None) -> LabelTable:
    if where is None:
        count = len(next(iter(columns.values())))
        return LabelTable(as_names(str(row) for row in range(count)), columns)
    name = list(columns)[where]
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


def _from_parquet(path: Path, rows_only: bool) -> LabelTable:
    columns = {name: values for name, values in read_parquet(path).items() if values.ndim == 1}
    where = column(list(columns), ID_NAMES)
    if not columns or not len(next(iter(columns.values()))):
        raise FileError(f"{path}: expected rows with an id and labels, got an empty table.")
    return _table(columns, None if rows_only and where is None else where or 0, path, None)


def _from_pairs(path: Path, name: str) -> LabelTable:
    ids, values, numbers = [], [], []
    for number, line in lines(path):
        fields = line.split(maxsplit=1)
        if len(fields) != 2:
            raise FileError(
                f"{path}, line {number}: expected 'id value', got {decoded(line, path, number)[:60]!r}. "
                "A table with other columns needs a header, with tabs or commas."
            )
        ids.append(decoded(fields[0], path, number))
        values.append(decoded(fields[1].rstrip(), path, number))
        numbers.append(number)
    return _named(as_names(ids), as_names(values), kaldi_column(name) or "value", path, numbers)


def _from_spk2utt(path: Path) -> LabelTable:
    ids, values, numbers = [], [], []
    for number, line in lines(path):
        speaker, *utterances = (decoded(field, path, number) for field in line.split())
        if not utterances:
            raise FileError(f"{path}, line {number}: expected 'speaker id id ...', got {speaker!r} alone.")
        ids += utterances
        values += [speaker] * len(utterances)
        numbers += [number] * len(utterances)
    return _named(as_names(ids), as_names(values), "spk", path, numbers)


def _named(ids: Names, values: Names, name: str, path: Path, numbers: Sequence[int]) -> LabelTable:
    _refuse_repeats(ids, path, numbers)
    return LabelTable(ids, {name: values} if name != "spk" else {"spk": values, "speaker": values})
