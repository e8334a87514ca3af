"""``jointplda evaluate``: error rates and costs of scores, with intervals, in the four cells, and a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jointplda.commands import options

if TYPE_CHECKING:
    from jointplda.commands.options import Talk
    from jointplda.evaluation.evaluate import Evaluation, TrialSides


@click.command("evaluate", short_help="Error rates and costs of scores, with intervals and a page.")
@click.argument("scores", type=options.IN_FILE, nargs=-1, required=True)
@click.option("--key", type=options.IN_FILE, help="Which trials are targets; not needed if the scores say so.")
@options.labels
@click.option("--speaker", metavar="COL|FILE",
              help="Speakers of the samples, for intervals. Default: as the target trials link them.")  # fmt: skip
@click.option("--channel", "channels", multiple=True, metavar="COL|FILE",
              help="Channels of the samples: results by same and cross channel.")  # fmt: skip
@click.option("--by", multiple=True, metavar="COL|FILE",
              help="Break results down by a column of the key, or of the samples; may be repeated.")  # fmt: skip
@click.option("--models", type=options.IN_FILE, help="Samples of each model, where trials name models.")
@options.priors
@options.draws
@options.seed
@click.option("--not-llr", is_flag=True, help="Scores are not log-likelihood ratios: no Cllr, no actual costs.")
@click.option("--model", type=options.IN_FILE, help="Model file: adds its training to the report.")
@options.report
@options.allow_missing
@options.force
@options.as_json
@options.common
def command(quiet: bool, verbose: bool, **given: Any) -> None:
    """Evaluate SCORES (one file or several, side by side) against a key.

    Prints EER, minimum and actual detection costs, Cllr and minCllr with 90 % speaker-bootstrap intervals: pooled, in
    the four cells of same and cross channel (with --channel), and by condition (with --by).
    """
    if len(given["channels"]) > 1:
        raise click.UsageError("the cells are of one --channel; use --by for others.")
    given["channel"] = next(iter(given["channels"]), None)
    options.check_new(given["report"], given["force"])
    with options.talking(quiet, verbose) as talk:
        _evaluate(given, talk)


def _evaluate(given: dict[str, Any], talk: Talk) -> None:
    from jointplda.commands.console import print_json
    from jointplda.commands.result_tables import as_dict, print_intervals, print_results
    from jointplda.formats import read_trials

    key = None if given["key"] is None else read_trials(given["key"])
    names = _system_names(given["scores"])
    results = {name: _one(path, name, key, given, talk) for name, path in names.items()}
    if given["report"] is not None:
        _report(results, given)
        talk.say(f"report written to {given['report']}")
    if given["as_json"]:
        whole = {name: as_dict(result) for name, result in results.items()}
        print_json(next(iter(whole.values())) if len(whole) == 1 else {"systems": whole})
        return
    print_results(results)
    print_intervals(list(results.values()), guessed=given["speaker"] is None)


def _system_names(paths: tuple[Path, ...]) -> dict[str, Path]:
    """File stems, or whole paths where stems are alike."""
    stems = [path.stem for path in paths]
    return {path.stem if stems.count(path.stem) == 1 else str(path): path for path in paths}


def _one(path: Path, name: str, key: Any, given: dict[str, Any], talk: Talk) -> Evaluation:
    from jointplda.commands.progress_display import bar
    from jointplda.commands.result_tables import with_truth
    from jointplda.evaluation.evaluate import EvaluationSettings, evaluate
    from jointplda.formats import read_scores

    table, target = with_truth(read_scores(path), key, path, given["key"], given["allow_missing"])
    settings = EvaluationSettings(given["draws"], 0.9, tuple(given["priors"]), not given["not_llr"], given["seed"])
    with bar(talk, name) as progress:
        return evaluate(table.values, target, _sides(table.trials, given, talk), settings, progress)


def _sides(trials: Any, given: dict[str, Any], talk: Talk) -> TrialSides:
    """Speakers, channels and conditions of both sides of every trial."""
    from jointplda.commands.sample_labels import SampleLabels
    from jointplda.evaluation import join
    from jointplda.evaluation.evaluate import Coded, TrialSides

    labels = SampleLabels.read(trials, given["labels"], given["models"])
    enroll, test = labels.speakers(given["speaker"], given["allow_missing"])
    same = None
    if given["channel"]:
        same = join.same_channel(*labels.both(given["channel"], "--channel"), trials)
        unknown = int((same < 0).sum())
        if unknown == len(same):
            raise click.ClickException(f"--channel {given['channel']}: no trial has a channel on both sides.")
        if unknown:
            talk.say(f"{unknown:,} trials lack a channel on one side and are in no cell.")
    conditions: dict[str, Any] = {}
    for column in given["by"]:
        if column in trials.columns:
            conditions[column] = Coded.of(trials.columns[column], column)
        else:
            conditions[labels.name(column)] = join.pair_conditions(*labels.both(column, "--by"), trials)
    return TrialSides(enroll[trials.enroll], test[trials.test], same, conditions)


def _report(results: dict[str, Evaluation], given: dict[str, Any]) -> None:
    from jointplda.commands.data_input import column_name
    from jointplda.commands.report_output import write_report
    from jointplda.estimators.pipeline import Pipeline
    from jointplda.report.gather import system_of

    model = None if given["model"] is None else Pipeline.load(given["model"])
    last = list(results)[-1]
    systems = [system_of(name, each, model=model if name == last else None) for name, each in results.items()]
    channel = column_name(given["channel"]) if given["channel"] else ""
    facts = [
        ("scores", ", ".join(str(path) for path in given["scores"])),
        ("key", str(given["key"] or "in the scores")),
    ]
    title = f"Evaluation of {last}" if len(results) == 1 else f"{len(results)} systems on the same trials"
    write_report(given["report"], title, systems, list(results.values()), channel, facts)
