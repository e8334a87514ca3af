"""Writing embeddings as Kaldi does: an archive, a script that points into it, and a file for each label column."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from jointplda._typing import Names
from jointplda.embedding_table import EmbeddingTable
from jointplda.errors import InputError
from jointplda.formats.kaldi import BINARY, binary, kaldi_column, script_fields
from jointplda.formats.label_reader import has_header
from jointplda.formats.text import PathLikeStr, target_file, text_file
from jointplda.formats.text_checks import check_cells, check_words


def write_archive(table: EmbeddingTable, path: PathLikeStr) -> None:
    """Write an archive, its script, and ``<stem>.utt2<column>`` for each column that has labels."""
    script, archive = Path(path).with_suffix(".scp"), Path(path).with_suffix(".ark")
    ids = table.ids.tolist()
    check_words(ids, path)
    _check_place(archive)
    columns = _kaldi_columns(table.columns, path)
    for column, values in columns.items():
        _check_column(column, values, ids, path)
    with target_file(archive) as ark, text_file(script) as scp, ExitStack() as stack:
        with open(ark, "wb") as stream:
            for name, vector in zip(ids, table.X, strict=True):
                stream.write(f"{name} ".encode())
                scp.write(f"{name} {archive}:{stream.tell()}\n")
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
    check_cells(np.unique(values).tolist(), path)
    row = int(np.argmax(values != ""))
    if has_header(f"{ids[row]} {values[row]}", f"utt2{column}"):
        raise InputError(f"{path}: the id {ids[row]!r} would be read as a header of the labels; rename it.")


def _check_place(archive: Path) -> None:
    """Refuse a folder whose name would end the path of the archive in the script, or be taken for a command."""
    text = str(archive)
    if not text.isprintable() or text.startswith("|") or script_fields(f"id {text}") != ("id", text):
        raise InputError(f"{text!r}: a Kaldi script cannot hold this path; choose another folder or name.")
