"""Embeddings and labels as commands name them: a label column, or a file of two columns."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import click
import numpy as np

from jointplda._identifiers import listed, no_duplicates
from jointplda._typing import Names
from jointplda.commands.messages import Messages
from jointplda.commands.options import LabelOptions
from jointplda.commands.training_options import Step
from jointplda.embedding_table import EmbeddingTable, LabelTable
from jointplda.evaluation.protocol import LabelledSamples
from jointplda.formats import read_embeddings, read_labels
from jointplda.formats.header_words import kaldi_column
from jointplda.formats.label_reader import labels_of
from jointplda.labels import ConditionColumns
from jointplda.preprocessing import STEPS


@dataclass(frozen=True)
class LabelColumn:
    """Labels that an option such as "--channel" names: a label column, or a file "id value" such as Kaldi's utt2spk,
    which is read once.
    """

    name: str
    option: str = "--channel"

    def values(self, table: LabelTable, is_part: bool = False) -> Names:
        """The label of every sample of a table; an empty text where there is none.

        The file may have no label at all for samples that are a part of all. Its ids are indexed once.
        """
        if self.name in table.columns:
            return table.columns[self.name]
        if not Path(self.name).is_file():
            columns = ", ".join(map(repr, table.columns)) or "none"
            raise click.ClickException(
                f"{self.option} {self.name}: neither a label column (there are: {columns}) nor a file. Name a column "
                "of the embeddings or of --labels, or a file with lines 'id value' such as Kaldi's utt2spk."
            )
        problem = (
            f"{self.option} {self.name}: none of its ids is among the samples. The samples are called "
            f"{listed(table.ids)}, the ids of the file are {listed(self._file.ids)}."
        )
        return next(iter(labels_of(table.ids, self._file, None if is_part else problem).values()))

    @cached_property
    def _file(self) -> LabelTable:
        labels = read_labels(self.name)
        values = next(iter(labels.columns.values()))
        if any((other != values).any() for other in labels.columns.values()):
            raise click.ClickException(
                f"{self.option} {self.name}: expected one value per id, got {len(labels.columns)} columns "
                f"({', '.join(map(repr, labels.columns))}). Use the file as --labels and name one column with "
                f"{self.option}."
            )
        return labels

    def condition(self, table: LabelTable | None) -> str:
        """The name of the condition: a column as it is, a file by what follows utt2 in its name, or by its stem."""
        if (table is not None and self.name in table.columns) or not Path(self.name).is_file():
            return self.name
        return kaldi_column(Path(self.name)) or Path(self.name).stem


def conditions_of(table: LabelTable, channels: Sequence[LabelColumn], is_part: bool = False) -> ConditionColumns:
    """The channels of every sample by condition. Raise if two conditions share a name, because a model goes by name."""
    names = tuple(channel.condition(table) for channel in channels)
    for i, name in enumerate(names):
        if name in names[:i]:
            raise click.ClickException(
                f"--channel {channels[names.index(name)].name} and --channel {channels[i].name}: both conditions would "
                f"be called {name!r}. Name each condition once, from columns or files of different names."
            )
    return ConditionColumns(names, tuple(channel.values(table, is_part) for channel in channels))


class SampleReader:
    """Reads labelled embeddings: their speakers and channels, from columns or files that are read once."""

    def __init__(
        self, source: LabelOptions, messages: Messages, without_channel: str = "each counts as a channel of its own"
    ) -> None:
        self.source, self.messages, self.without_channel = source, messages, without_channel
        self.speaker = LabelColumn(source.speaker, "--speaker")
        self.channels = tuple(map(LabelColumn, source.channels))
        self._without: Counter[str] = Counter()  # how many samples lack a label, by what it is of

    def read(self, *paths: Path) -> LabelledSamples:
        """Embeddings of one file or several, with their speakers and channels."""
        tables = [read_embeddings(path, self.source.labels) for path in paths]
        named = [table.ids for table in tables if not are_row_numbers(table.ids)]
        if len(named) > 1:
            no_duplicates(np.concatenate(named), "ids", " and ".join(map(str, paths)))
        labelled = [self.labelled(table, path=path) for table, path in zip(tables, paths, strict=True)]
        samples = joined(labelled, paths)
        self.say()
        return samples

    def labelled(self, table: EmbeddingTable, is_part: bool = False, path: Path | None = None) -> LabelledSamples:
        """Embeddings with their speakers and channels; samples without a speaker raise an error, or are left out.

        A file of labels may have none for samples that are a part of all. Errors name the file ``path`` of the samples.
        """
        where = "" if path is None else f"{path}: "
        try:
            speakers, channels = self.speaker.values(table, is_part), conditions_of(table, self.channels, is_part)
        except click.ClickException as error:
            raise click.ClickException(f"{where}{error.message}") from None
        missing = np.flatnonzero(speakers == "")
        if len(missing) and not self.source.allow_missing:
            raise click.ClickException(
                f"{where}{len(missing):,} of {'the first ' if is_part else ''}{len(speakers):,} samples "
                f"have no speaker: {listed(table.ids[missing])}. "
                "--allow-missing leaves them out."
            )
        kept = np.flatnonzero(speakers != "")
        self._without["speaker"] += len(missing)
        for name, labels in zip(channels.names, channels.values, strict=True):
            self._without[f"channel {name}"] += int(np.count_nonzero(labels[kept] == ""))
        return LabelledSamples(table.ids, table.X, speakers, channels).take(kept)

    def say(self) -> None:
        """Say how many samples lacked labels since this was said last."""
        for what, count in self._without.items():
            name = what.removeprefix("channel ")
            if count and what == "speaker":
                self.messages.info(f"{count:,} samples without a speaker are left out.")
            elif count:
                self.messages.info(f"{count:,} samples have no {name}: {self.without_channel}.")
        self._without.clear()


def are_row_numbers(ids: Names, first: int = 0) -> bool:
    """Whether ids are numbers of rows from ``first`` on, as a file without ids has them; other files repeat them."""
    return bool(len(ids)) and str(ids[0]) == str(first) and str(ids[-1]) == str(first + len(ids) - 1)


def joined(samples: Sequence[LabelledSamples], paths: Sequence[Path]) -> LabelledSamples:
    """The samples of several files as those of one; raises if they do not fit together."""
    if len(samples) == 1:
        return samples[0]
    for one, path in zip(samples, paths, strict=True):
        if one.X.shape[1] != samples[0].X.shape[1]:
            raise click.ClickException(
                f"{path}: has {one.X.shape[1]} dimensions, and {paths[0]} has {samples[0].X.shape[1]}. Use embeddings "
                "of one extractor."
            )
    ids = np.concatenate([one.ids for one in samples])
    names = samples[0].channels.names
    columns = tuple(np.concatenate([one.channels.values[k] for one in samples]) for k in range(len(names)))
    X, speakers = (np.concatenate(column) for column in zip(*((one.X, one.speakers) for one in samples), strict=True))
    return LabelledSamples(ids, X, speakers, ConditionColumns(names, columns))


def step_objects(steps: Iterable[Step], default: Iterable[Any] = ()) -> list[Any]:
    """Preprocessing steps of the command line as estimators, of the classes that their options are named after.

    Without any they are those of the ``default`` that the user did not turn off, as by --no-length-norm.
    """
    classes = {name.lower(): step for name, step in STEPS.items()}
    given = [(classes[name.replace("_", "")], value) for name, value in steps]
    turned_off = {step for step, value in given if value is False}
    wanted = [step() if value is True else step(value) for step, value in given if value is not False]
    return wanted or [step for step in default if type(step) not in turned_off]
