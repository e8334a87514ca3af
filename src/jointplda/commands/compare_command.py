"""``jointplda compare``: the same data and trials through several systems."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import cloup

from jointplda.commands import options
from jointplda.commands.data_input import SampleSource
from jointplda.commands.evaluate_command import EvaluationOptions
from jointplda.commands.messages import command_messages

if TYPE_CHECKING:
    from jointplda.commands.messages import Messages
    from jointplda.evaluation.evaluate import Evaluation
    from jointplda.evaluation.protocol import Experiment
    from jointplda.evaluation.systems import Recipe, Scored
    from jointplda.progress import Progress

F = TypeVar("F", bound=Callable[..., Any])
DEFAULTS: dict[str, Any] = {"noise_prior": 1.0, "speaker_prior": 1.0, "max_iter": 200}
"""Settings of a comparison that differ from the defaults of the recipe: covariances of few speakers are shrunk."""


@dataclass(frozen=True, kw_only=True)
class ComparisonRequest(EvaluationOptions):
    """Options that ``compare`` and ``demo`` share; None stands for the default."""

    pca: int | None
    lda: int | None
    speaker_rank: int | None
    channel_rank: int | None
    noise_prior: float | None
    speaker_prior: float | None
    max_iter: int | None
    tol: float | None
    same_channel: float | None
    report: Path | None
    as_json: bool
    systems: tuple[str, ...] = ()

    @property
    def recipe(self) -> Recipe:
        """The settings that all systems share."""
        from jointplda.evaluation.systems import Recipe

        values = {field.name: getattr(self, field.name) for field in fields(Recipe)}
        return Recipe(**DEFAULTS | {name: value for name, value in values.items() if value is not None})


@dataclass(frozen=True, kw_only=True)
class CompareRequest(SampleSource, ComparisonRequest):
    """Options of ``jointplda compare``."""

    test: Path | None
    split: str | None
    test_share: float
    trials: Path | None
    force: bool


def advanced_group() -> Callable[[F], F]:
    """Settings that all systems of a comparison share, and of their evaluation."""
    supported = "as many as the speakers support"
    return cloup.option_group(
        "Advanced",
        options.count("--pca", "Dimensions of PCA.", "60"),
        options.count("--lda", "Dimensions of LDA, for LDA + PLDA.", supported),
        options.count("--speaker-rank", "Columns of V.", f"{supported}; all with a --speaker-prior"),
        options.count("--channel-rank", "Columns of U.", "as many as the channels support"),
        options.real("--noise-prior", "Strength of the prior that shrinks D^-1 of every model.", "1"),
        options.real("--speaker-prior", "Strength of the prior that shrinks V V' of every model.", "1"),
        options.count("--max-iter", "EM iterations at most.", "200"),
        options.real("--tol", "Stop EM when an iteration gains less, in nats per sample.", "1e-05"),
        options.probability("--same-channel", "Prior probability that both sides share their channel, for Joint PLDA.",
                            "0.5"),
        options.priors,
        options.draws,
        options.seed,
    )  # fmt: skip


@cloup.command(
    "compare", short_help="Several systems on the same data: one table, one page.",
    epilog="The systems are cosine (of embeddings centered on the training mean), LDA + PLDA and PLDA, each also with "
    "the means of the known channels removed, Joint PLDA with the same settings as PLDA, and Joint PLDA with settings "
    "chosen on training speakers, calibrated. Training and test speakers are never the same.",
)  # fmt: skip
@cloup.argument("data", type=options.IN_FILE)
@cloup.option_group(
    "Data",
    options.labels,
    options.speaker,
    cloup.option("--channel", "channels", multiple=True, required=True, metavar="COL|FILE",
                 help="Channels of a condition such as language: a label column or a file; may be repeated. The first "
                 "condition makes the types of trials."),
    cloup.option("--test", type=options.IN_FILE, show_default="held-out speakers of DATA",
                 help="Embeddings of test speakers."),
    cloup.option("--split", metavar="COL", help="Label column of DATA with the values 'train' and 'test'."),
    cloup.option("--test-share", type=options.PRIOR, metavar="P", default=0.35, show_default=True,
                 help="Share of the speakers to hold out, without --test and --split."),
    cloup.option("--trials", type=options.IN_FILE, show_default="every pair of test samples",
                 help="Trials of test samples, with labels."),
    cloup.option("--system", "systems", multiple=True, metavar="NAME", help="Only this system; may be repeated."),
    options.allow_missing,
)  # fmt: skip
@cloup.option_group("Result", options.report, options.force, options.as_json)
@advanced_group()
@options.common
def command(quiet: bool, verbose: bool, **values: Any) -> None:
    """Train and score several systems on the same DATA, and print one table.

    \b
    Example:
      jointplda compare train.npz --test test.npz --speaker speaker \\
          --channel language --report comparison.html
    """  # noqa: D301
    request = CompareRequest(**values)
    options.check_new(request.report, request.force)
    if request.split and request.test:
        raise click.UsageError("use --test or --split, not both.")
    with command_messages(quiet, verbose) as messages:
        facts = [("data", str(request.data)), *([("test data", str(request.test))] if request.test else [])]
        run_comparison(request, _experiment(request, messages), facts, messages)


def run_comparison(
    request: ComparisonRequest,
    experiment: Experiment,
    facts: Sequence[tuple[str, str]],
    messages: Messages,
    title: str = "Systems compared",
) -> None:
    """Train, score and evaluate every system; print the table and write the page."""
    from jointplda.commands.console import print_json
    from jointplda.commands.result_tables import as_dict, print_intervals, print_results
    from jointplda.metrics.trial_types import CROSS_SAME

    scored = _train_all(request, experiment, messages)
    results = _evaluate_all(scored, experiment, request, messages)
    if request.report is not None:
        _write_report(request, request.report, scored, results, experiment, facts, title)
        messages.info(f"report written to {request.report}")
    if request.as_json:
        print_json({"systems": {name: as_dict(result) for name, result in results.items()}})
        return
    print_results(results)
    condition = experiment.train.channels.names[0]
    click.echo(f'"{CROSS_SAME}": targets that differ in {condition} against non-targets that share it.')
    print_intervals(list(results.values()))


def _train_all(request: ComparisonRequest, experiment: Experiment, messages: Messages) -> list[Scored]:
    from jointplda.commands.progress_display import bar
    from jointplda.evaluation.systems import run_systems

    scored, begun = [], time.monotonic()
    with bar(messages, "training and scoring") as draw:

        def show(progress: Progress) -> None:
            if progress.detail is None:
                messages.detail(f"{progress.stage} ...")
            draw(progress)

        for system in run_systems(
            experiment.train, experiment.test, experiment.pairs, request.recipe, systems=request.systems or None,
            callback=show,
        ):  # fmt: skip
            scored.append(system)
            messages.detail(f"{system.name}: trained and scored ({time.monotonic() - begun:.1f} s)")
            begun = time.monotonic()
    return scored


def _evaluate_all(
    scored: Sequence[Scored], experiment: Experiment, request: ComparisonRequest, messages: Messages
) -> dict[str, Evaluation]:
    from jointplda.commands.progress_display import bar
    from jointplda.evaluation.evaluate import evaluate

    results = {}
    for system in scored:
        settings = request.settings(is_llr=system.is_llr)
        with bar(messages, f"evaluating {system.name}") as callback:
            results[system.name] = evaluate(system.scores, experiment.target, experiment.sides, settings, callback)
    return results


def _write_report(
    request: ComparisonRequest, path: Path, scored: Sequence[Scored], results: dict[str, Evaluation],
    experiment: Experiment, facts: Sequence[tuple[str, str]], title: str,
) -> None:  # fmt: skip
    from jointplda.commands.report_output import write_report
    from jointplda.commands.summary import summary_of
    from jointplda.report.gather import system_of

    systems = [
        system_of(each.name, results[each.name], description=each.description, model=each.model) for each in scored
    ]
    train = experiment.train
    condition = train.channels.names[0]
    listed = [
        *facts,
        ("training", f"{len(train.X):,} samples of {len(set(train.speakers.tolist())):,} speakers"),
        ("conditions", ", ".join(train.channels.names)),
        ("settings", ", ".join(f"{name} {value}" for name, value in asdict(request.recipe).items())),
    ]
    summary = summary_of(results, condition)
    write_report(path, title, systems, list(results.values()), condition, listed, summary)


def _experiment(request: CompareRequest, messages: Messages) -> Experiment:
    """Training samples and test trials, as the options say."""
    import numpy as np

    from jointplda._identifiers import positions
    from jointplda.commands.data_input import column, labelled_samples, read_samples, read_table
    from jointplda.evaluation.protocol import held_out, trials_of

    table = read_table(request.data, request.labels)
    samples = labelled_samples(table, request, messages)
    if request.test:
        train, test = samples, read_samples(request, messages, request.test)
    elif request.split:
        words = np.char.lower(column(table, request.split, "--split"))[positions(samples.ids, table.ids)]
        unknown = set(words.tolist()) - {"train", "test", ""}
        if unknown or not (words == "train").any() or not (words == "test").any():
            raise click.ClickException(
                f"--split {request.split}: expected the values 'train' and 'test', got "
                f"{sorted(set(words.tolist()))[:5]}."
            )
        train, test = samples.take(words == "train"), samples.take(words == "test")
    else:
        chosen = held_out(samples.speakers, request.test_share, request.seed)
        train, test = samples.take(~chosen), samples.take(chosen)
    return trials_of(train, test, request.trials, allow_missing=request.allow_missing)
