"""What is known of both sides of trials: speakers, channels and further labels, also of models of several samples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click
import numpy as np

from jointplda._identifiers import as_names, listed
from jointplda._typing import IntArray, Names
from jointplda.commands.data_input import LabelColumn, labels_of
from jointplda.commands.evaluate_command import EvaluateRequest
from jointplda.commands.messages import Messages
from jointplda.embedding_table import LabelTable
from jointplda.evaluation import join
from jointplda.evaluation.evaluate import Coded, TrialSides
from jointplda.formats import read_enrollment, read_label_table
from jointplda.trial_list import Trials

NOT_IN_TRIALS = "none of its ids is in the trials. The trials name {wanted}, the labels {known}."


class LabelFiles:
    """The labels that the options of ``evaluate`` name; each file is read once for any number of trial lists."""

    def __init__(self, request: EvaluateRequest, messages: Messages) -> None:
        self.request, self.messages = request, messages
        self.labels = None if request.labels is None else read_label_table(request.labels)
        self.models = {} if request.models is None else read_enrollment(request.models)
        self.speaker = None if request.speaker is None else LabelColumn(request.speaker, "--speaker")
        self.channel = next(map(LabelColumn, request.channels), None)
        self.by = tuple(LabelColumn(name, "--by") for name in request.by)

    @property
    def condition(self) -> str:
        """Name of the condition that makes the cells; empty without one."""
        return "" if self.channel is None else self.channel.condition(self.labels)

    def sides(self, trials: Trials) -> TrialSides:
        """Speakers, channels and further labels of both sides of every trial."""
        enrolled = [sample for name in trials.models for sample in self.models.get(str(name), [str(name)])]
        ids, columns = as_names(dict.fromkeys([*enrolled, *map(str, trials.samples)])), {}
        if self.labels is not None:
            columns = labels_of(ids, self.labels, str(self.request.labels), NOT_IN_TRIALS)
        samples = SampleLabels(trials, LabelTable(ids, columns), self.models)
        enroll, test = samples.speakers(self.speaker, self.request.allow_missing)
        same = None
        if self.channel is not None:
            same = join.same_channel(*samples.both(self.channel), trials)
            unknown = int((same < 0).sum())
            if unknown == len(same):
                raise click.ClickException(f"--channel {self.channel.name}: no trial has a channel on both sides.")
            if unknown:
                self.messages.info(f"{unknown:,} trials lack a channel on one side and are of no type of trials.")
        conditions: dict[str, Any] = {}
        for column in self.by:
            if column.name in trials.columns:
                conditions[column.name] = Coded.of(trials.columns[column.name], column.name)
            else:
                conditions[column.condition(samples.table)] = join.pair_conditions(*samples.both(column), trials)
        return TrialSides(enroll[trials.enroll], test[trials.test], same, conditions)


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
        return join.model_labels(of_sample, self.models, self.trials.models), test

    def speakers(self, column: LabelColumn | None, allow_missing: bool) -> tuple[IntArray, IntArray]:
        """A number for the speaker of each model and of each test sample: from labels, or from the target trials."""
        if column is None:
            left, right = join.speakers_from_targets(self.trials, self.models)
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
