"""``jointplda evaluate``: error rates and costs of scores, with intervals, by types of trials, and a page."""

from pathlib import Path
from typing import Any

import click

from jointplda.commands.console import print_json
from jointplda.commands.messages import Messages
from jointplda.commands.progress_display import bar
from jointplda.commands.results import as_dict, print_intervals, print_results, write_report
from jointplda.commands.sample_labels import LabelFiles
from jointplda.estimators.pipeline import Pipeline
from jointplda.evaluation.evaluate import EvaluationSettings, evaluate
from jointplda.evaluation.join import with_truth
from jointplda.formats import read_scores, read_trials
from jointplda.report.gather import system_of


def evaluate_files(
    messages: Messages,
    *,
    scores: tuple[Path, ...],
    key: Path | None,
    model: Path | None,
    report: Path | None,
    not_llr: bool,
    priors: tuple[float, ...],
    draws: int,
    seed: int,
    allow_missing: bool,
    as_json: bool,
    **label_files: Any,
) -> None:
    """Evaluate every score file, print the results and write the page; ``label_files`` are those of LabelFiles."""
    systems = _system_names(scores)
    stated = None if key is None else read_trials(key)
    labels = LabelFiles(messages, allow_missing=allow_missing, **label_files)
    settings = EvaluationSettings(draws=draws, priors=priors, is_llr=not not_llr, seed=seed)
    results = {}
    for name, path in systems.items():
        table, target = with_truth(
            read_scores(path), stated, where=str(path), key_where=str(key), allow_missing=allow_missing
        )
        sides = labels.sides(table.trials)
        with bar(messages, name) as callback:
            results[name] = evaluate(table.values, target, sides, settings, callback)
    if report is not None:
        trained, last = None if model is None else Pipeline.load(model), list(results)[-1]
        shown = [system_of(name, each, model=trained if name == last else None) for name, each in results.items()]
        facts = [("scores", ", ".join(map(str, scores))), ("key", str(key or "in the scores"))]
        title = f"Evaluation of {last}" if len(results) == 1 else f"{len(results)} systems on the same trials"
        write_report(report, title, shown, list(results.values()), labels.condition, facts)
        messages.info(f"report written to {report}")
    if as_json:
        whole = {name: as_dict(result) for name, result in results.items()}
        print_json(next(iter(whole.values())) if len(whole) == 1 else {"systems": whole})
        return
    print_results(results)
    print_intervals(list(results.values()), inferred=labels.speaker is None)


def _system_names(paths: tuple[Path, ...]) -> dict[str, Path]:
    """File stems, or whole paths where two stems are the same."""
    if len(set(paths)) < len(paths):
        raise click.UsageError("the same score file is given twice.")
    stems = [path.stem for path in paths]
    return {path.stem if stems.count(path.stem) == 1 else str(path): path for path in paths}
