"""``jointplda evaluate``: error rates and costs of scores, with intervals, by types of trials, and a page."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from jointplda._identifiers import as_names, listed
from jointplda._typing import Names
from jointplda.commands.console import print_json
from jointplda.commands.data_input import LabelColumn
from jointplda.commands.messages import Messages
from jointplda.commands.progress_display import bar
from jointplda.commands.results import as_dict, print_intervals, print_results, write_report
from jointplda.embedding_table import LabelTable
from jointplda.estimators.pipeline import Pipeline
from jointplda.evaluation import join
from jointplda.evaluation.evaluate import Coded, Evaluation, EvaluationSettings, TrialSides, evaluate
from jointplda.formats import read_enrollment, read_label_table, read_scores, read_trials
from jointplda.formats.label_reader import labels_of
from jointplda.report.gather import system_of
from jointplda.trial_list import Trials


@dataclass(kw_only=True)
class FileEvaluation:
    """The options of ``jointplda evaluate``, and the results that they ask for. A file of labels is read once for any
    number of score files.
    """

    messages: Messages
    scores: tuple[Path, ...]
    key: Path | None
    labels: Path | None
    models: Path | None
    speaker: str | None
    channels: tuple[str, ...]
    by: tuple[str, ...]
    not_llr: bool
    priors: tuple[float, ...]
    draws: int
    seed: int
    model: Path | None
    report: Path | None
    allow_missing: bool
    as_json: bool

    def __post_init__(self) -> None:
        self._labels = None if self.labels is None else read_label_table(self.labels)
        self._models = {} if self.models is None else read_enrollment(self.models)
        self._speaker = None if self.speaker is None else LabelColumn(self.speaker, "--speaker")
        self._channel = next(map(LabelColumn, self.channels), None)
        self._by = tuple(LabelColumn(name, "--by") for name in self.by)

    def show(self) -> None:
        """Evaluate every score file, print the results and write the page."""
        systems = _system_names(self.scores)
        key = None if self.key is None else read_trials(self.key)
        settings = EvaluationSettings(draws=self.draws, priors=self.priors, is_llr=not self.not_llr, seed=self.seed)
        results = {}
        for name, path in systems.items():
            table, target = join.with_truth(
                read_scores(path), key, where=str(path), key_where=str(self.key), allow_missing=self.allow_missing
            )
            sides = self._sides(table.trials)
            with bar(self.messages, name) as callback:
                results[name] = evaluate(table.values, target, sides, settings, callback)
        if self.report is not None:
            self._write_report(results, self.report)
        if self.as_json:
            whole = {name: as_dict(result) for name, result in results.items()}
            print_json(next(iter(whole.values())) if len(whole) == 1 else {"systems": whole})
            return
        print_results(results)
        print_intervals(list(results.values()), inferred=self.speaker is None)

    def _write_report(self, results: dict[str, Evaluation], path: Path) -> None:
        model, last = None if self.model is None else Pipeline.load(self.model), list(results)[-1]
        systems = [system_of(name, each, model=model if name == last else None) for name, each in results.items()]
        facts = [("scores", ", ".join(map(str, self.scores))), ("key", str(self.key or "in the scores"))]
        title = f"Evaluation of {last}" if len(results) == 1 else f"{len(results)} systems on the same trials"
        condition = "" if self._channel is None else self._channel.condition(self._labels)
        write_report(path, title, systems, list(results.values()), condition, facts)
        self.messages.info(f"report written to {path}")

    def _sides(self, trials: Trials) -> TrialSides:
        """Speakers, channels and further labels of both sides of every trial."""
        enrolled = [sample for name in trials.models for sample in self._models.get(str(name), [str(name)])]
        ids, columns = as_names(dict.fromkeys([*enrolled, *map(str, trials.samples)])), {}
        if self._labels is not None:
            named = f"The trials name {listed(ids)}, the labels {listed(self._labels.ids)}."
            columns = labels_of(ids, self._labels, f"{self.labels}: none of its ids is in the trials. {named}")
        table = LabelTable(ids, columns)

        def both(column: LabelColumn) -> tuple[list[set[str]], Names]:
            """Labels of models (those of all their samples) and of test samples, in the order of the trials' names."""
            of_sample = dict(zip(ids.tolist(), column.values(table).tolist(), strict=True))
            test = as_names(of_sample[str(sample)] for sample in trials.samples)
            return join.model_labels(of_sample, self._models, trials.models), test

        if self._speaker is None:
            left, right = join.speakers_from_targets(trials, self._models)
        else:
            left, right = self._speakers(trials, *both(self._speaker))
        codes = np.unique(np.concatenate((left, right)), return_inverse=True)[1]
        same = None
        if self._channel is not None:
            same = join.same_channel(*both(self._channel), trials)
            unknown = int((same < 0).sum())
            if unknown == len(same):
                raise click.ClickException(f"--channel {self._channel.name}: no trial has a channel on both sides.")
            if unknown:
                self.messages.info(f"{unknown:,} trials lack a channel on one side and are of no type of trials.")
        conditions: dict[str, Any] = {}
        for column in self._by:
            if column.name in trials.columns:
                conditions[column.name] = Coded.of(trials.columns[column.name], column.name)
            else:
                conditions[column.condition(table)] = join.pair_conditions(*both(column), trials)
        return TrialSides(codes[: len(left)][trials.enroll], codes[len(left) :][trials.test], same, conditions)

    def _speakers(self, trials: Trials, enroll: Sequence[set[str]], test: Names) -> tuple[Names, Names]:
        """A name for the speaker of each model and of each test sample, from the labels of both."""
        mixed = [str(model) for model, labels in zip(trials.models, enroll, strict=True) if len(labels) > 1]
        if mixed:
            problem = f"models with samples of several speakers: {listed(mixed)}."
            raise click.ClickException(f"--speaker {self.speaker}: {problem}")
        left = as_names(next(iter(labels), "") for labels in enroll)
        missing = [*trials.models[left == ""].tolist(), *trials.samples[test == ""].tolist()]
        if missing and not self.allow_missing:
            raise click.ClickException(
                f"--speaker {self.speaker}: no speaker for {listed(missing)}. If they are models of several samples, "
                "list those with --models. With --allow-missing each counts as a speaker."
            )
        own = as_names(f"model {name}" if str(name) in self._models else f"sample {name}" for name in trials.models)
        return np.where(left == "", own, left), np.where(test == "", np.char.add("sample ", trials.samples), test)


def _system_names(paths: tuple[Path, ...]) -> dict[str, Path]:
    """File stems, or whole paths where two stems are the same."""
    if len(set(paths)) < len(paths):
        raise click.UsageError("the same score file is given twice.")
    stems = [path.stem for path in paths]
    return {path.stem if stems.count(path.stem) == 1 else str(path): path for path in paths}
