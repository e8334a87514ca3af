"""Embeddings as Kaldi keeps them: archives, scripts that point into them, and folders with files of labels.

A script has lines ``key archive:offset``; commands in scripts are refused. A folder has one script (or several, one of
them ``xvector.scp``), and its files ``utt2*`` are label columns.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from jointplda._identifiers import as_names, listed
from jointplda._typing import Names
from jointplda.embedding_table import EmbeddingTable
from jointplda.errors import FileError, InputError
from jointplda.file_kinds import suffix_of
from jointplda.formats.header_words import kaldi_column
from jointplda.formats.kaldi_records import BINARY, binary, read_key, read_vector
from jointplda.formats.label_reader import has_header, labels_by_id, read_labels
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


def recognises(path: Path, start: bytes) -> bool:
    """Whether a file is an archive or a script; ``start`` holds its first bytes."""
    return _is_archive(path, start) or suffix_of(path) == ".scp" or ".ark" in _first_value(path)


def read_table(path: Path) -> EmbeddingTable:
    """Embeddings of an archive, a script or a folder."""
    if path.is_dir():
        return _from_folder(path)
    return _stacked(_in_archive(path) if _is_archive(path, head(path)) else _in_script(path), path)


def _is_archive(path: Path, start: bytes) -> bool:
    return b" " + BINARY in start or _first_value(path).startswith("[")


def _first_value(path: Path) -> str:
    """What follows the key in the first line of a text."""
    number, line = next(lines(path))
    fields = [decoded(field, path, number) for field in line.split(maxsplit=1)]
    return fields[1] if len(fields) == 2 else ""


def _from_folder(folder: Path) -> EmbeddingTable:
    scripts = sorted(folder.glob("*.scp"))
    known = [folder / name for name in _FOLDER_SCRIPTS if (folder / name) in scripts]
    if not known and len(scripts) != 1:
        held = listed(script.name for script in scripts) if scripts else "none"
        raise FileError(
            f"{folder}: a folder of embeddings should hold xvector.scp or one single .scp file, got {held}; "
            "name the file itself."
        )
    script = (known or scripts)[0]
    table = _stacked(_in_script(existing(script)), script)
    for labels in sorted(folder.glob("utt2*")):
        if labels.is_file() and kaldi_column(labels.name):
            table = labels_by_id(table, read_labels(labels), labels)
    return table


def _in_archive(path: Path) -> Iterator[tuple[str, NDArray[Any]]]:
    """All ids and vectors of an archive."""
    with opened(path) as stream:
        for number, key in enumerate(iter(lambda: read_key(stream), b""), 1):
            name = decoded(key, path, number)
            yield name, read_vector(stream, f"{path}, {name!r}")


def _in_script(path: Path) -> Iterator[tuple[str, NDArray[Any]]]:
    """The ids and vectors that a script points to, by lines ``key archive:offset``.

    An archive with a relative path is looked for in the working folder, then in the folder of the script.
    """
    with ExitStack() as stack:
        archives: dict[str, BinaryIO] = {}
        for number, key, name, offset in list(_script(path)):
            if name not in archives:
                if len(archives) > 100:
                    stack.close()
                    archives.clear()
                archives[name] = stack.enter_context(opened(_archive(name, path, number)))
            archives[name].seek(offset)
            yield key, read_vector(archives[name], f"{path}, line {number} ({name}:{offset})")


def _script(path: Path) -> Iterator[tuple[int, str, str, int]]:
    """Line, key, archive and offset of each entry."""
    keys = set()
    for number, line in lines(path):
        key, rest = _script_fields(decoded(line, path, number))
        if not rest:
            raise FileError(f"{path}, line {number}: expected 'key archive.ark:offset', got {key[:60]!r}.")
        if rest.endswith(("|", "]")) or rest.startswith("|"):
            raise FileError(
                f"{path}, line {number}: expected 'key archive.ark:offset', got a command or a range "
                f"({rest[:60]!r}), which is not run; copy the vectors to an archive first (copy-vector)."
            )
        if key in keys:
            raise FileError(f"{path}, line {number}: the id {key!r} occurs a second time; remove one.")
        keys.add(key)
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


def _stacked(records: Iterator[tuple[str, NDArray[Any]]], path: Path) -> EmbeddingTable:
    """Vectors of equal length as one matrix, which is float64 if one of them is."""
    found = list(records)
    if not found:
        raise FileError(f"{path}: holds no vectors.")
    ids, vectors = zip(*found, strict=True)
    if not len(vectors[0]):
        raise FileError(f"{path}: the vector of {ids[0]!r} is empty.")
    for name, vector in zip(ids, vectors, strict=True):
        if len(vector) != len(vectors[0]):
            raise FileError(
                f"{path}: expected vectors of dimension {len(vectors[0])}, like that of {ids[0]!r}; "
                f"that of {name!r} has {len(vector)}."
            )
    return EmbeddingTable(as_names(ids), X=np.stack(vectors))


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
