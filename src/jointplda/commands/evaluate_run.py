"""``jointplda evaluate``: error rates and costs of scores, with intervals, in the four cells, and a page."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

import jointplda
from jointplda.commands.console import print_json
from jointplda.commands.data_input import LabelColumn, label_columns
from jointplda.commands.evaluate_command import EvaluateRequest
from jointplda.commands.messages import Messages
from jointplda.commands.progress_display import bar
from jointplda.commands.results import as_dict, evaluation_settings, print_intervals, print_results, write_report
from jointplda.commands.sample_labels import LabelFiles
from jointplda.evaluation import join
from jointplda.evaluation.evaluate import Coded, Evaluation, TrialSides, evaluate
from jointplda.formats import read_scores, read_trials
from jointplda.report.gather import system_of
from jointplda.trial_list import Trials


@dataclass(frozen=True)
class Labels:
    """The labels of samples that the options name; files are read once for all score files."""

    files: LabelFiles
    speaker: LabelColumn | None
    channel: LabelColumn | None
    by: tuple[LabelColumn, ...]


def evaluate_files(request: EvaluateRequest, messages: Messages) -> None:
    """Evaluate every score file, print the results and write the page."""
    systems = _system_names(request.scores)
    key = None if request.key is None else read_trials(request.key)
    labels = Labels(
        LabelFiles.read(request.labels, request.models),
        None if request.speaker is None else LabelColumn(request.speaker, "--speaker"),
        next(iter(label_columns(request.channels)), None),
        label_columns(request.by, "--by"),
    )
    results = {name: _evaluated(path, name, key, labels, request, messages) for name, path in systems.items()}
    if request.report is not None:
        _write_report(results, labels, request, request.report)
        messages.info(f"report written to {request.report}")
    if request.as_json:
        whole = {name: as_dict(result) for name, result in results.items()}
        print_json(next(iter(whole.values())) if len(whole) == 1 else {"systems": whole})
        return
    print_results(results)
    print_intervals(list(results.values()), inferred=request.speaker is None)


def _system_names(paths: tuple[Path, ...]) -> dict[str, Path]:
    """File stems, or whole paths where two stems are the same."""
    if len(set(paths)) < len(paths):
        raise click.UsageError("the same score file is given twice.")
    stems = [path.stem for path in paths]
    return {path.stem if stems.count(path.stem) == 1 else str(path): path for path in paths}


def _evaluated(
    path: Path, name: str, key: Trials | None, labels: Labels, request: EvaluateRequest, messages: Messages
) -> Evaluation:
    table, target = join.with_truth(
        read_scores(path), key, where=str(path), key_where=str(request.key), allow_missing=request.allow_missing
    )
    sides = _sides(table.trials, labels, request, messages)
    with bar(messages, name) as callback:
        settings = evaluation_settings(request, is_llr=not request.not_llr)
        return evaluate(table.values, target, sides, settings, callback)


def _sides(trials: Trials, labels: Labels, request: EvaluateRequest, messages: Messages) -> TrialSides:
    """Speakers, channels and further labels of both sides of every trial."""
    samples = labels.files.of(trials)
    enroll, test = samples.speakers(labels.speaker, request.allow_missing)
    same = None
    if labels.channel is not None:
        same = join.same_channel(*samples.both(labels.channel), trials)
        unknown = int((same < 0).sum())
        if unknown == len(same):
            raise click.ClickException(f"--channel {labels.channel.name}: no trial has a channel on both sides.")
        if unknown:
            messages.info(f"{unknown:,} trials lack a channel on one side and are in no cell.")
    conditions: dict[str, Any] = {}
    for column in labels.by:
        if column.name in trials.columns:
            conditions[column.name] = Coded.of(trials.columns[column.name], column.name)
        else:
            conditions[column.condition(samples.table)] = join.pair_conditions(*samples.both(column), trials)
    return TrialSides(enroll[trials.enroll], test[trials.test], same, conditions)


def _write_report(results: dict[str, Evaluation], labels: Labels, request: EvaluateRequest, path: Path) -> None:
    model = None if request.model is None else jointplda.Pipeline.load(request.model)
    last = list(results)[-1]
    systems = [system_of(name, result, model=model if name == last else None) for name, result in results.items()]
    channel = "" if labels.channel is None else labels.channel.condition(labels.files.labels)
    facts = [
        ("scores", ", ".join(str(path) for path in request.scores)),
        ("key", str(request.key or "in the scores")),
    ]
    title = f"Evaluation of {last}" if len(results) == 1 else f"{len(results)} systems on the same trials"
    write_report(path, title, systems, list(results.values()), channel, facts)
