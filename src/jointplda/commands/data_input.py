"""Embeddings and labels as commands name them: a column, or a file of two columns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from jointplda._typing import Names
    from jointplda.commands.options import Talk
    from jointplda.embedding_table import EmbeddingTable, LabelTable


def load(path: Path, labels: Path | None) -> EmbeddingTable:
    """Embeddings with the columns of their own file and of the labels file."""
    from jointplda.formats import read_embeddings

    return read_embeddings(path, labels if labels is None or not _binary(labels) else label_table(labels))


def label_table(path: Path) -> LabelTable:
    """Labels by id: from a table, or from the columns of a file of embeddings."""
    from jointplda.embedding_table import LabelTable
    from jointplda.formats import read_embeddings, read_labels

    if not _binary(path):
        return read_labels(path)
    table = read_embeddings(path)
    return LabelTable(table.ids, table.columns)


def _binary(path: Path) -> bool:
    """Whether a file is an npz or HDF5 file, which holds embeddings beside its labels."""
    if path.is_dir():
        return False
    with path.open("rb") as file:
        return file.read(8).startswith((b"PK\x03\x04", b"\x89HDF\r\n\x1a\n"))


def column(table: EmbeddingTable | LabelTable, given: str, option: str) -> Names:
    """Labels of every sample: from a column of that name, or from a file ``id value`` such as Kaldi's utt2spk."""
    import numpy as np

    from jointplda._identifiers import listed, positions
    from jointplda.formats import read_labels

    if given in table.columns:
        return table.columns[given]
    if not Path(given).is_file():
        there = ", ".join(map(repr, table.columns)) or "no columns"
        raise click.ClickException(
            f"{option} {given}: neither a column (there are: {there}) nor a file. Give a column of the embeddings "
            "or of --labels, or a file with lines 'id value' such as Kaldi's utt2spk."
        )
    found = read_labels(given)
    values = next(iter(found.columns.values()))
    if len({id(each) for each in found.columns.values()}) > 1 and not _alike(list(found.columns.values())):
        raise click.ClickException(
            f"{option} {given}: has {len(found.columns)} columns ({', '.join(map(repr, found.columns))}); expected one "
            f"value per id. Give the file as --labels and name one column with {option}."
        )
    rows = positions(table.ids, found.ids)
    if len(rows) and (rows < 0).all():
        raise click.ClickException(
            f"{option} {given}: none of its ids is among the embeddings; there they are like {listed(table.ids)}, "
            f"here like {listed(found.ids)}."
        )
    return np.where(rows >= 0, values[np.maximum(rows, 0)], "")


def _alike(columns: Sequence[Names]) -> bool:
    return all((each == columns[0]).all() for each in columns[1:])


def column_name(given: str, table: EmbeddingTable | LabelTable | None = None) -> str:
    """What to call a condition: a column by its whole name, a file by what follows utt2 in its name, or by its stem."""
    from jointplda.formats.label_reader import kaldi_column

    if (table is not None and given in table.columns) or not Path(given).is_file():
        return given
    return kaldi_column(Path(given).name) or Path(given).stem


def condition_names(channels: Sequence[str], table: EmbeddingTable | LabelTable) -> tuple[str, ...]:
    """The name of each condition; two of one name are refused, because a model tells conditions apart by name."""
    names = tuple(column_name(given, table) for given in channels)
    for i, name in enumerate(names):
        if name in names[:i]:
            raise click.ClickException(
                f"--channel {channels[names.index(name)]} and --channel {channels[i]}: both conditions would be called "
                f"{name!r}. Give each condition once, from columns or files of different names."
            )
    return names


def labelled(
    table: EmbeddingTable, speaker: str, channels: Sequence[str], talk: Talk, *, allow_missing: bool
) -> tuple[EmbeddingTable, Names, list[Names]]:
    """Embeddings with their speakers and channels; samples without a speaker are an error, or left out."""
    import numpy as np

    from jointplda._identifiers import listed

    speakers = column(table, speaker, "--speaker")
    values = [column(table, given, "--channel") for given in channels]
    missing = np.flatnonzero(speakers == "")
    if len(missing) and not allow_missing:
        raise click.ClickException(
            f"{len(missing):,} of {len(speakers):,} samples have no speaker: {listed(table.ids[missing])}. "
            "Use --allow-missing to leave them out."
        )
    kept = np.flatnonzero(speakers != "")
    if len(missing):
        talk.say(f"{len(missing):,} samples without a speaker are left out.")
    for given, labels in zip(channels, values, strict=True):
        absent = int(np.count_nonzero(labels[kept] == ""))
        if absent:
            talk.say(
                f"{absent:,} samples have no {column_name(given, table)}: each is taken to be in a channel of its own."
            )
    return table.take(kept), speakers[kept], [labels[kept] for labels in values]
