"""What is known of both sides of trials: speakers, channels and further labels, also of models of several samples."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from jointplda._identifiers import as_names, listed
from jointplda._typing import Names
from jointplda.commands.data_input import LabelColumn, labels_of
from jointplda.commands.messages import Messages
from jointplda.embedding_table import LabelTable
from jointplda.evaluation import join
from jointplda.evaluation.evaluate import Coded, TrialSides
from jointplda.formats import read_enrollment, read_label_table
from jointplda.trial_list import Trials

NOT_IN_TRIALS = "none of its ids is in the trials. The trials name {wanted}, the labels {known}."


class LabelFiles:
    """The labels that the options of ``evaluate`` name; each file is read once for any number of trial lists."""

    def __init__(
        self,
        messages: Messages,
        *,
        labels: Path | None,
        models: Path | None,
        speaker: str | None,
        channels: tuple[str, ...],
        by: tuple[str, ...],
        allow_missing: bool,
    ) -> None:
        self.messages, self.path, self.allow_missing = messages, labels, allow_missing
        self.labels = None if labels is None else read_label_table(labels)
        self.models = {} if models is None else read_enrollment(models)
        self.speaker = None if speaker is None else LabelColumn(speaker, "--speaker")
        self.channel = next(map(LabelColumn, channels), None)
        self.by = tuple(LabelColumn(name, "--by") for name in by)

    @property
    def condition(self) -> str:
        """Name of the condition that makes the cells; empty without one."""
        return "" if self.channel is None else self.channel.condition(self.labels)

    def sides(self, trials: Trials) -> TrialSides:
        """Speakers, channels and further labels of both sides of every trial."""
        enrolled = [sample for name in trials.models for sample in self.models.get(str(name), [str(name)])]
        ids, columns = as_names(dict.fromkeys([*enrolled, *map(str, trials.samples)])), {}
        if self.labels is not None:
            columns = labels_of(ids, self.labels, str(self.path), NOT_IN_TRIALS)
        table = LabelTable(ids, columns)

        def both(column: LabelColumn) -> tuple[list[set[str]], Names]:
            """Labels of models (those of all their samples) and of test samples, in the order of the trials' names."""
            of_sample = dict(zip(ids.tolist(), column.values(table).tolist(), strict=True))
            test = as_names(of_sample[str(sample)] for sample in trials.samples)
            return join.model_labels(of_sample, self.models, trials.models), test

        if self.speaker is None:
            left, right = join.speakers_from_targets(trials, self.models)
        else:
            left, right = self._speakers(trials, *both(self.speaker), f"--speaker {self.speaker.name}")
        codes = np.unique(np.concatenate((left, right)), return_inverse=True)[1]
        same = None
        if self.channel is not None:
            same = join.same_channel(*both(self.channel), trials)
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
                conditions[column.condition(table)] = join.pair_conditions(*both(column), trials)
        return TrialSides(codes[: len(left)][trials.enroll], codes[len(left) :][trials.test], same, conditions)

    def _speakers(self, trials: Trials, enroll: Sequence[set[str]], test: Names, option: str) -> tuple[Names, Names]:
        """A name for the speaker of each model and of each test sample, from the labels of both."""
        mixed = [str(model) for model, labels in zip(trials.models, enroll, strict=True) if len(labels) > 1]
        if mixed:
            raise click.ClickException(f"{option}: models with samples of several speakers: {listed(mixed)}.")
        left = as_names(next(iter(labels), "") for labels in enroll)
        missing = [*trials.models[left == ""].tolist(), *trials.samples[test == ""].tolist()]
        if missing and not self.allow_missing:
            raise click.ClickException(
                f"{option}: no speaker for {listed(missing)}. If they are models of several samples, list those with "
                "--models. With --allow-missing each counts as a speaker."
            )
        own = as_names(f"model {name}" if str(name) in self.models else f"sample {name}" for name in trials.models)
        return np.where(left == "", own, left), np.where(test == "", np.char.add("sample ", trials.samples), test)
