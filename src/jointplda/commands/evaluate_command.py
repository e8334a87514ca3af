"""``jointplda evaluate``: error rates and costs of scores, with intervals, by types of trials, and a page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import cloup

from jointplda.commands import options
from jointplda.commands.messages import command_messages

if TYPE_CHECKING:
    from jointplda.commands.messages import Messages
    from jointplda.commands.sample_labels import LabelFiles
    from jointplda.evaluation.evaluate import Evaluation, EvaluationSettings, TrialSides
    from jointplda.trial_list import Trials


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions:
    """Options of an evaluation, which ``evaluate``, ``compare`` and ``demo`` share; None stands for the default."""

    priors: tuple[float, ...]
    draws: int | None
    seed: int

    def settings(self, *, is_llr: bool = True) -> EvaluationSettings:
        """The settings of the library."""
        from jointplda.evaluation.evaluate import EvaluationSettings

        settings: dict[str, Any] = {} if self.draws is None else {"draws": self.draws}
        settings |= {"priors": self.priors} if self.priors else {}
        return EvaluationSettings(seed=self.seed, is_llr=is_llr, **settings)


@dataclass(frozen=True, kw_only=True)
class EvaluateRequest(EvaluationOptions):
    """Options of ``jointplda evaluate``."""

    scores: tuple[Path, ...]
    key: Path | None
    labels: Path | None
    speaker: str | None
    channels: tuple[str, ...]
    by: tuple[str, ...]
    models: Path | None
    not_llr: bool
    model: Path | None
    report: Path | None
    allow_missing: bool
    force: bool
    as_json: bool

    @property
    def channel(self) -> str | None:
        """The condition that makes the types of trials."""
        return self.channels[0] if self.channels else None


@cloup.command("evaluate", short_help="Error rates and costs of scores, with intervals and a page.")
@cloup.argument("scores", type=options.IN_FILE, nargs=-1, required=True)
@cloup.option_group(
    "Data",
    options.key,
    options.labels,
    cloup.option("--speaker", metavar="COL|FILE", show_default="inferred from the target trials",
                 help="Speakers of the samples, for the intervals."),
    cloup.option("--channel", "channels", multiple=True, metavar="COL|FILE",
                 help="Channels of the samples: adds results by same and cross channel."),
    cloup.option("--by", multiple=True, metavar="COL|FILE",
                 help="Label column of the key or of the samples: adds results by its values; may be repeated."),
    cloup.option("--models", type=options.IN_FILE, help="Samples of each enrolled model, where trials name models."),
    options.allow_missing,
)  # fmt: skip
@cloup.option_group("Result", options.report, options.force, options.as_json)
@cloup.option_group(
    "Advanced",
    options.priors,
    options.draws,
    options.seed,
    cloup.option("--not-llr", is_flag=True,
                 help="The scores are no log-likelihood ratios: omit Cllr and actual costs."),
    cloup.option("--model", type=options.IN_FILE, help="Model file whose training is added to the page."),
)  # fmt: skip
@options.common
def command(quiet: bool, verbose: bool, **values: Any) -> None:
    """Evaluate SCORES (one file, or several side by side) against a key.

    \b
    Example:
      jointplda evaluate scores.txt --key trials.txt --labels test.npz \\
          --speaker speaker --channel language --report report.html

    Prints EER, minimum and actual detection costs, Cllr and minCllr with 90 % speaker-bootstrap intervals: pooled, by
    same and cross channel (with --channel), and by label (with --by).
    """  # noqa: D301
    request = EvaluateRequest(**values)
    if len(request.channels) > 1:
        raise click.UsageError("the types of trials are of one --channel; use --by for other conditions.")
    options.check_new(request.report, request.force)
    with command_messages(quiet, verbose) as messages:
        _evaluate(request, messages)


def _evaluate(request: EvaluateRequest, messages: Messages) -> None:
    from jointplda.commands.console import print_json
    from jointplda.commands.result_tables import as_dict, print_intervals, print_results
    from jointplda.commands.sample_labels import LabelFiles
    from jointplda.formats import read_trials

    key = None if request.key is None else read_trials(request.key)
    files = LabelFiles.read(request.labels, request.models)
    results = {
        name: _evaluated(path, name, key, files, request, messages)
        for name, path in _system_names(request.scores).items()
    }
    if request.report is not None:
        _write_report(results, files, request, request.report)
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
    path: Path, name: str, key: Trials | None, files: LabelFiles, request: EvaluateRequest, messages: Messages
) -> Evaluation:
    from jointplda.commands.progress_display import bar
    from jointplda.commands.result_tables import with_truth
    from jointplda.evaluation.evaluate import evaluate
    from jointplda.formats import read_scores

    table, target = with_truth(read_scores(path), key, path, request.key, request.allow_missing)
    sides = _sides(table.trials, files, request, messages)
    with bar(messages, name) as callback:
        return evaluate(table.values, target, sides, request.settings(is_llr=not request.not_llr), callback)


def _sides(trials: Trials, files: LabelFiles, request: EvaluateRequest, messages: Messages) -> TrialSides:
    """Speakers, channels and further labels of both sides of every trial."""
    from jointplda.commands.data_input import column_name
    from jointplda.commands.sample_labels import SampleLabels
    from jointplda.evaluation import join
    from jointplda.evaluation.evaluate import Coded, TrialSides

    labels = SampleLabels.of(trials, files)
    enroll, test = labels.speakers(request.speaker, request.allow_missing)
    same = None
    if request.channel:
        same = join.same_channel(*labels.both(request.channel, "--channel"), trials)
        unknown = int((same < 0).sum())
        if unknown == len(same):
            raise click.ClickException(f"--channel {request.channel}: no trial has a channel on both sides.")
        if unknown:
            messages.info(f"{unknown:,} trials lack a channel on one side and are of no type of trials.")
    conditions: dict[str, Any] = {}
    for column in request.by:
        if column in trials.columns:
            conditions[column] = Coded.of(trials.columns[column], column)
        else:
            conditions[column_name(column, labels.table)] = join.pair_conditions(*labels.both(column, "--by"), trials)
    return TrialSides(enroll[trials.enroll], test[trials.test], same, conditions)


def _write_report(results: dict[str, Evaluation], files: LabelFiles, request: EvaluateRequest, path: Path) -> None:
    from jointplda.commands.data_input import column_name
    from jointplda.commands.report_output import write_report
    from jointplda.estimators.pipeline import Pipeline
    from jointplda.report.gather import system_of

    model = None if request.model is None else Pipeline.load(request.model)
    last = list(results)[-1]
    systems = [system_of(name, result, model=model if name == last else None) for name, result in results.items()]
    channel = column_name(request.channel, files.labels) if request.channel else ""
    facts = [
        ("scores", ", ".join(str(path) for path in request.scores)),
        ("key", str(request.key or "in the scores")),
    ]
    title = f"Evaluation of {last}" if len(results) == 1 else f"{len(results)} systems on the same trials"
    write_report(path, title, systems, list(results.values()), channel, facts)
