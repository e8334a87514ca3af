"""``jointplda evaluate``: error rates and costs of scores, with intervals, by types of trials, and a page."""

from pathlib import Path

import click

import jointplda
from jointplda.commands.console import print_json
from jointplda.commands.evaluate_command import EvaluateRequest
from jointplda.commands.messages import Messages
from jointplda.commands.progress_display import bar
from jointplda.commands.results import as_dict, evaluation_settings, print_intervals, print_results, write_report
from jointplda.commands.sample_labels import LabelFiles
from jointplda.evaluation.evaluate import Evaluation, evaluate
from jointplda.evaluation.join import with_truth
from jointplda.formats import read_scores, read_trials
from jointplda.report.gather import system_of


def evaluate_files(request: EvaluateRequest, messages: Messages) -> None:
    """Evaluate every score file, print the results and write the page."""
    systems = _system_names(request.scores)
    key = None if request.key is None else read_trials(request.key)
    labels = LabelFiles(request, messages)
    settings, results = evaluation_settings(request, is_llr=not request.not_llr), {}
    for name, path in systems.items():
        table, target = with_truth(
            read_scores(path), key, where=str(path), key_where=str(request.key), allow_missing=request.allow_missing
        )
        sides = labels.sides(table.trials)
        with bar(messages, name) as callback:
            results[name] = evaluate(table.values, target, sides, settings, callback)
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


def _write_report(results: dict[str, Evaluation], labels: LabelFiles, request: EvaluateRequest, path: Path) -> None:
    model = None if request.model is None else jointplda.Pipeline.load(request.model)
    last = list(results)[-1]
    systems = [system_of(name, result, model=model if name == last else None) for name, result in results.items()]
    facts = [("scores", ", ".join(map(str, request.scores))), ("key", str(request.key or "in the scores"))]
    title = f"Evaluation of {last}" if len(results) == 1 else f"{len(results)} systems on the same trials"
    write_report(path, title, systems, list(results.values()), labels.condition, facts)
