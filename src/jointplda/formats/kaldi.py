"""Embeddings as Kaldi keeps them: archives, scripts that point into them, and folders with files of labels.

A script has lines ``key archive:offset``; commands in scripts are refused. A folder has one script (or several, one of
them ``xvector.scp``), and its files ``utt2*`` are label columns.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from jointplda._identifiers import as_names, listed
from jointplda._typing import Names
from jointplda.embedding_table import EmbeddingTable, LabelTable
from jointplda.errors import FileError, InputError
from jointplda.file_kinds import suffix_of
from jointplda.formats.header_words import kaldi_column
from jointplda.formats.kaldi_records import BINARY, binary, read_key, read_vector, skip_vector
from jointplda.formats.label_reader import has_header, read_labels
from jointplda.formats.text import (
    PathLikeStr,
    check_texts,
    decoded,
    existing,
    head,
    lines,
    opened,
    target_file,
    text_file,
)

_FOLDER_SCRIPTS = ("xvector.scp", "ivector.scp", "embeddings.scp", "feats.scp")
_NO_VECTOR = np.empty(0)


def recognises(path: Path, start: bytes) -> bool:
    """Whether a file is an archive or a script; ``start`` holds its first bytes."""
    return _is_archive(path, start) or suffix_of(path) == ".scp" or ".ark" in _first_value(path)


@dataclass(frozen=True)
class KaldiRows:
    """Vectors of an archive or a script, one after another; see ``EmbeddingRows``.

    Attributes
    ----------
    path : Path
    n_samples : int or None
        The number of entries of a script; None for an archive.
    n_features : int
    dtype : numpy.dtype
        That of the first vector. A table that holds a vector of double precision is float64.
    first_id : str
        The id of the first vector.
    joined : tuple of (Path, LabelTable)
        The files of labels of a folder, and what they hold.
    """

    path: Path
    n_samples: int | None
    n_features: int
    dtype: np.dtype[Any]
    first_id: str
    joined: tuple[tuple[Path, LabelTable], ...] = ()
    has_ids = True

    def tables(self, rows: int, start: int, stop: int | None, labels_only: bool) -> Iterator[EmbeddingTable]:
        """Tables of ``rows`` rows each but the last; see ``EmbeddingRows``."""
        read = _in_archive if self.n_samples is None else _in_script
        records = read(self.path, start, stop, labels_only)
        width = 0 if labels_only else self.n_features
        while found := list(islice(records, rows)):
            ids, vectors = zip(*found, strict=True)
            for name, vector in found:
                if len(vector) != width:
                    raise FileError(
                        f"{self.path}: expected vectors of dimension {width}, like that of {self.first_id!r}; "
                        f"that of {name!r} has {len(vector)}."
                    )
            yield EmbeddingTable(as_names(ids), X=np.stack(vectors))


def open_rows(path: Path) -> KaldiRows:
    """The rows of an archive, a script or a folder."""
    sheets: list[Path] = []
    is_folder = path.is_dir()
    if is_folder:
        sheets = [sheet for sheet in sorted(path.glob("utt2*")) if sheet.is_file() and kaldi_column(sheet.name)]
        path = existing(_folder_script(path))
    is_archive = not is_folder and _is_archive(path, head(path))
    count = None if is_archive else sum(1 for _ in _script(path))
    first = next((_in_archive if is_archive else _in_script)(path), None)
    if first is None:
        raise FileError(f"{path}: holds no vectors.")
    name, vector = first
    if not len(vector):
        raise FileError(f"{path}: the vector of {name!r} is empty.")
    joined = tuple((sheet, read_labels(sheet)) for sheet in sheets)
    return KaldiRows(path, count, len(vector), vector.dtype, name, joined)


def _is_archive(path: Path, start: bytes) -> bool:
    return b" " + BINARY in start or _first_value(path).startswith("[")


def _first_value(path: Path) -> str:
    """What follows the key in the first line of a text."""
    number, line = next(lines(path))
    fields = [decoded(field, path, number) for field in line.split(maxsplit=1)]
    return fields[1] if len(fields) == 2 else ""


def _folder_script(folder: Path) -> Path:
    scripts = sorted(folder.glob("*.scp"))
    known = [folder / name for name in _FOLDER_SCRIPTS if (folder / name) in scripts]
    if not known and len(scripts) != 1:
        held = listed(script.name for script in scripts) if scripts else "none"
        raise FileError(
            f"{folder}: a folder of embeddings should hold xvector.scp or one single .scp file, got {held}; "
            "name the file itself."
        )
    return (known or scripts)[0]


def _in_archive(
    path: Path, start: int = 0, stop: int | None = None, labels_only: bool = False
) -> Iterator[tuple[str, NDArray[Any]]]:
    """Ids and vectors of a range of rows of an archive, or ids and empty vectors."""
    with opened(path) as stream:
        for row, key in enumerate(iter(lambda: read_key(stream), b"")):
            if row == stop:
                break
            name = decoded(key, path, row + 1)
            if row < start or labels_only:
                skip_vector(stream, f"{path}, {name!r}")
            if row >= start:
                yield name, _NO_VECTOR if labels_only else read_vector(stream, f"{path}, {name!r}")


def _in_script(
    path: Path, start: int = 0, stop: int | None = None, labels_only: bool = False
) -> Iterator[tuple[str, NDArray[Any]]]:
    """The ids and vectors that a range of lines ``key archive:offset`` points to, or ids and empty vectors.

    An archive with a relative path is looked for in the working folder, then in the folder of the script.
    """
    with ExitStack() as stack:
        archives: dict[str, BinaryIO] = {}
        for number, key, name, offset in islice(_script(path), start, stop):
            if labels_only:
                yield key, _NO_VECTOR
                continue
            if name not in archives:
                if len(archives) > 100:
                    stack.close()
                    archives.clear()
                archives[name] = stack.enter_context(opened(_archive(name, path, number)))
            archives[name].seek(offset)
            yield key, read_vector(archives[name], f"{path}, line {number} ({name}:{offset})")


def _script(path: Path) -> Iterator[tuple[int, str, str, int]]:
    """Line, key, archive and offset of each entry."""
    for number, line in lines(path):
        key, rest = _script_fields(decoded(line, path, number))
        if not rest:
            raise FileError(f"{path}, line {number}: expected 'key archive.ark:offset', got {key[:60]!r}.")
        if rest.endswith(("|", "]")) or rest.startswith("|"):
            raise FileError(
                f"{path}, line {number}: expected 'key archive.ark:offset', got a command or a range "
                f"({rest[:60]!r}), which is not run; copy the vectors to an archive first (copy-vector)."
            )
        name, colon, offset = rest.rpartition(":")
        yield (number, key, name, int(offset)) if colon and offset.isdecimal() else (number, key, rest, 0)


def _script_fields(line: str) -> tuple[str, str]:
    """The key of a line of a script, and what it points to; both end at spaces or tabs, and no other whitespace."""
    key, _, rest = line.strip(" \t").replace("\t", " ").partition(" ")
    return key, rest.strip(" ")


def _archive(name: str, script: Path, number: int) -> Path:
    for candidate in (Path(name), script.parent / name, script.parent / Path(name).name):
        if candidate.is_file():
            return candidate
    raise FileError(
        f"{script}, line {number}: the archive {name} is neither in the working folder nor beside the script. "
        "Run from the folder the script was written in, or move the archive."
    )


def write_table(table: EmbeddingTable, path: Path) -> None:
    """Write an archive, its script, and ``<stem>.utt2<column>`` for each column that has labels."""
    script, archive = path.with_suffix(".scp"), path.with_suffix(".ark")
    ids, place = table.ids.tolist(), str(archive)
    check_texts(ids, path, may_have_spaces=False)
    # A folder's name may end the path of the archive in the script, or be taken for a command.
    if not place.isprintable() or place.startswith("|") or _script_fields(f"id {place}") != ("id", place):
        raise InputError(f"{place!r}: a Kaldi script cannot hold this path; choose another folder or name.")
    columns = _kaldi_columns(table.columns, path)
    for column, values in columns.items():
        _check_column(column, values, ids, path)
    with target_file(archive) as ark, text_file(script) as scp, ExitStack() as stack:
        with open(ark, "wb") as stream:
            for name, vector in zip(ids, table.X, strict=True):
                stream.write(f"{name} ".encode())
                scp.write(f"{name} {place}:{stream.tell()}\n")
                stream.write(BINARY + binary(vector))
        for column, values in columns.items():
            sheet = stack.enter_context(text_file(script.with_suffix(f".utt2{column}")))
            sheet.writelines(f"{name} {value}\n" for name, value in zip(ids, values.tolist(), strict=True) if value)


def _kaldi_columns(columns: Mapping[str, Names], path: PathLikeStr) -> dict[str, Names]:
    """Label columns that have a label, under Kaldi's names: speaker is spk."""
    if "speaker" in columns and "spk" in columns and np.any(columns["speaker"] != columns["spk"]):
        raise InputError(f"{path}: columns 'speaker' and 'spk' differ, but Kaldi has one name for both; rename one.")
    renamed = {"spk" if name == "speaker" else name: values for name, values in columns.items()}
    return {name: values for name, values in renamed.items() if np.any(values != "")}


def _check_column(column: str, values: Names, ids: list[str], path: PathLikeStr) -> None:
    """Refuse a label column that ``<stem>.utt2<column>`` would not give back."""
    if kaldi_column(f"utt2{column}") != column:
        raise InputError(
            f"{path}: Kaldi names the file of a label column by the column, and {column!r} holds more than letters, "
            "digits, '_' and '-'; rename it."
        )
    check_texts(np.unique(values).tolist(), path, may_be_empty=True)
    row = int(np.argmax(values != ""))
    if has_header(f"{ids[row]} {values[row]}", f"utt2{column}"):
        raise InputError(f"{path}: the id {ids[row]!r} would be read as a header of the labels; rename it.")
