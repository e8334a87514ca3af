"""Labels of the samples behind trials, where trials may name models of several samples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np

from jointplda._identifiers import as_names, listed
from jointplda._typing import IntArray, Names
from jointplda.commands.data_input import LabelColumn, labels_of, read_label_table
from jointplda.embedding_table import LabelTable
from jointplda.evaluation.join import model_labels, speakers_from_targets
from jointplda.formats import read_enrollment
from jointplda.trial_list import Trials

NOT_IN_TRIALS = "none of its ids is in the trials. The trials name {wanted}, the labels {known}."


@dataclass(frozen=True)
class LabelFiles:
    """The labels by id and the samples of each model, read once for any number of trial lists."""

    labels: LabelTable | None
    models: Mapping[str, Sequence[str]]
    path: Path | None

    @classmethod
    def read(cls, labels: Path | None, models: Path | None) -> "LabelFiles":
        """Read labels from a table or a file of embeddings, and models from a list such as spk2utt."""
        table = None if labels is None else read_label_table(labels)
        return cls(table, {} if models is None else read_enrollment(models), labels)

    def of(self, trials: Trials) -> "SampleLabels":
        """The labels of all samples that the trials name, directly or as a part of a model."""
        enrolled = [sample for name in trials.models for sample in self.models.get(str(name), [str(name)])]
        ids = as_names(dict.fromkeys([*enrolled, *map(str, trials.samples)]))
        columns = {} if self.labels is None else labels_of(ids, self.labels, str(self.path), NOT_IN_TRIALS)
        return SampleLabels(trials, LabelTable(ids, columns), self.models)


@dataclass(frozen=True)
class SampleLabels:
    """The samples of a trial list with their label columns, and the samples of each model."""

    trials: Trials
    table: LabelTable
    models: Mapping[str, Sequence[str]]

    def both(self, column: LabelColumn) -> tuple[list[set[str]], Names]:
        """Labels of models (those of all their samples) and of test samples, in the order of the trials' names."""
        of_sample = dict(zip(self.table.ids.tolist(), column.values(self.table).tolist(), strict=True))
        test = as_names(of_sample.get(str(sample), "") for sample in self.trials.samples)
        return model_labels(of_sample, self.models, self.trials.models), test

    def speakers(self, column: LabelColumn | None, allow_missing: bool) -> tuple[IntArray, IntArray]:
        """A number for the speaker of each model and of each test sample: from labels, or from the target trials."""
        if column is None:
            left, right = speakers_from_targets(self.trials, self.models)
        else:
            left, right = self._labelled_speakers(column, allow_missing)
        codes = np.unique(np.concatenate((left, right)), return_inverse=True)[1].astype(np.int64)
        return codes[: len(left)], codes[len(left) :]

    def _labelled_speakers(self, column: LabelColumn, allow_missing: bool) -> tuple[Names, Names]:
        enroll, right = self.both(column)
        mixed = [str(model) for model, labels in zip(self.trials.models, enroll, strict=True) if len(labels) > 1]
        if mixed:
            raise click.ClickException(
                f"--speaker {column.name}: models with samples of several speakers: {listed(mixed)}."
            )
        left = as_names(next(iter(labels), "") for labels in enroll)
        missing = [*self.trials.models[left == ""].tolist(), *self.trials.samples[right == ""].tolist()]
        if missing and not allow_missing:
            raise click.ClickException(
                f"--speaker {column.name}: no speaker for {listed(missing)}. If they are models of several samples, "
                "list those with --models. With --allow-missing each counts as a speaker."
            )
        own = as_names(f"model {name}" if str(name) in self.models else f"sample {name}" for name in self.trials.models)
        samples = np.char.add("sample ", self.trials.samples)
        return np.where(left == "", own, left), np.where(right == "", samples, right)
