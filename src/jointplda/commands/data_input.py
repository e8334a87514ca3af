"""Embeddings and labels as commands name them: a label column, or a file of two columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import click

if TYPE_CHECKING:
    from jointplda._typing import Names
    from jointplda.commands.messages import Messages
    from jointplda.embedding_table import EmbeddingTable, LabelTable
    from jointplda.evaluation.labelled_samples import LabelledSamples


@dataclass(frozen=True, kw_only=True)
class SampleSource:
    """Where labelled embeddings come from.

    Attributes
    ----------
    data : Path
        File or folder of embeddings.
    labels : Path or None
        Table of labels by id.
    speaker : str
        Label column of the speakers, or a file "id speaker".
    channels : tuple of str
        For each condition its label column, or a file "id channel".
    allow_missing : bool
        Leave out samples without a speaker instead of raising.
    """

    leaves_out_missing_channels: ClassVar[bool] = False

    data: Path
    labels: Path | None
    speaker: str
    channels: tuple[str, ...]
    allow_missing: bool


def read_table(path: Path, labels: Path | None) -> EmbeddingTable:
    """Embeddings with the label columns of their own file and of the labels file."""
    from jointplda.formats import read_embeddings

    return read_embeddings(path, labels)


def column(table: LabelTable, name: str, option: str) -> Names:
    """Labels of every sample: from the column of that name, or from a file "id value" such as Kaldi's utt2spk."""
    import numpy as np

    from jointplda._identifiers import listed, positions
    from jointplda.formats import read_labels

    if name in table.columns:
        return table.columns[name]
    if not Path(name).is_file():
        columns = ", ".join(map(repr, table.columns)) or "none"
        raise click.ClickException(
            f"{option} {name}: neither a label column (there are: {columns}) nor a file. Name a column of the "
            "embeddings or of --labels, or a file with lines 'id value' such as Kaldi's utt2spk."
        )
    labels = read_labels(name)
    values = next(iter(labels.columns.values()))
    if any((other != values).any() for other in labels.columns.values()):
        raise click.ClickException(
            f"{option} {name}: expected one value per id, got {len(labels.columns)} columns "
            f"({', '.join(map(repr, labels.columns))}). Use the file as --labels and name one column with {option}."
        )
    rows = positions(table.ids, labels.ids)
    if len(rows) and (rows < 0).all():
        raise click.ClickException(
            f"{option} {name}: none of its ids is among the samples. The samples are called {listed(table.ids)}, the "
            f"ids of the file are {listed(labels.ids)}."
        )
    return np.where(rows >= 0, values[np.maximum(rows, 0)], "")


def column_name(name: str, table: LabelTable | None = None) -> str:
    """What to call a condition: a column by its whole name, a file by what follows utt2 in its name, or by its stem."""
    from jointplda.formats.header_words import kaldi_column

    if (table is not None and name in table.columns) or not Path(name).is_file():
        return name
    return kaldi_column(Path(name).name) or Path(name).stem


def condition_names(channels: Sequence[str], table: LabelTable) -> tuple[str, ...]:
    """The name of each condition. Raise if two share a name, because a model identifies conditions by name."""
    names = tuple(column_name(channel, table) for channel in channels)
    for i, name in enumerate(names):
        if name in names[:i]:
            raise click.ClickException(
                f"--channel {channels[names.index(name)]} and --channel {channels[i]}: both conditions would be called "
                f"{name!r}. Name each condition once, from columns or files of different names."
            )
    return names


def read_samples(source: SampleSource, messages: Messages, path: Path | None = None) -> LabelledSamples:
    """Embeddings of the source, or of another file with the same labels, with their speakers and channels."""
    return labelled_samples(read_table(path or source.data, source.labels), source, messages)


def labelled_samples(table: EmbeddingTable, source: SampleSource, messages: Messages) -> LabelledSamples:
    """Embeddings with their speakers and channels; samples without a speaker raise an error, or are left out."""
    import numpy as np

    from jointplda._identifiers import listed
    from jointplda.evaluation.labelled_samples import LabelledSamples
    from jointplda.labels import ConditionColumns

    speakers = column(table, source.speaker, "--speaker")
    values = tuple(column(table, channel, "--channel") for channel in source.channels)
    names = condition_names(source.channels, table)
    missing = np.flatnonzero(speakers == "")
    if len(missing) and not source.allow_missing:
        raise click.ClickException(
            f"{len(missing):,} of {len(speakers):,} samples have no speaker: {listed(table.ids[missing])}. "
            "--allow-missing leaves them out."
        )
    kept = np.flatnonzero(speakers != "")
    if len(missing):
        messages.info(f"{len(missing):,} samples without a speaker are left out.")
    for name, labels in zip(names, values, strict=True):
        unknown = int(np.count_nonzero(labels[kept] == ""))
        if unknown:
            fate = "left out" if source.leaves_out_missing_channels else "each counts as a channel of its own"
            messages.info(f"{unknown:,} samples have no {name}: {fate}.")
    return LabelledSamples(table.ids, table.X, speakers, ConditionColumns(names, values)).take(kept)
