"""``jointplda compare``: the same data and trials through several systems."""

from __future__ import annotations

import time
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any

import click

from jointplda.commands import options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jointplda.commands.options import Talk
    from jointplda.evaluation.evaluate import Evaluation, EvaluationSettings
    from jointplda.evaluation.labelled_samples import LabelledSamples
    from jointplda.evaluation.protocol import Experiment
    from jointplda.evaluation.systems import Recipe, Scored
    from jointplda.progress import Progress


def recipe_options(function: Any) -> Any:
    """Settings that all systems of a comparison share."""
    for option in (
        click.option("--same-channel", type=click.FloatRange(0, 1), default=0.5, show_default=True,
                     help="Probability of a shared channel that Joint PLDA averages with."),
        click.option("--tol", type=click.FloatRange(0), default=1e-5, show_default=True,
                     help="Stop EM when an iteration gains less, in nats per sample."),
        click.option("--max-iter", type=click.IntRange(1), default=200, show_default=True, help="EM iterations."),
        click.option("--speaker-prior", type=click.FloatRange(0), default=1.0, show_default=True,
                     help="Shrinkage of V V', of every model."),
        click.option("--noise-prior", type=click.FloatRange(0), default=1.0, show_default=True,
                     help="Shrinkage of D^-1, of every model."),
        click.option("--channel-rank", type=click.IntRange(1), help="Columns of U; default: what is supported."),
        click.option("--speaker-rank", type=click.IntRange(1),
                     help="Columns of V; default: what is supported, or all with a --speaker-prior."),
        click.option("--lda", type=click.IntRange(1), help="Dimensions of LDA, for LDA + PLDA."),
        click.option("--pca", type=click.IntRange(1), default=60, show_default=True, help="Dimensions of PCA."),
    ):  # fmt: skip
        function = option(function)
    return function


@click.command("compare", short_help="Several systems on the same data: one table, one page.")
@click.argument("data", type=options.IN_FILE)
@options.labels
@click.option("--speaker", required=True, metavar="COL|FILE", help="Column of the speakers, or a file like utt2spk.")
@click.option("--channel", "channels", multiple=True, required=True, metavar="COL|FILE",
              help="Column of a nuisance; may be repeated. The first one makes the cells.")  # fmt: skip
@click.option("--test", type=options.IN_FILE, help="Embeddings of test speakers. Default: hold out speakers of DATA.")
@click.option("--split", metavar="COL", help="Column of DATA that says 'train' or 'test'.")
@click.option("--test-share", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.35,
              show_default=True, help="Share of the speakers to hold out, without --test and --split.")  # fmt: skip
@click.option("--trials", type=options.IN_FILE, help="Trials of test samples, with labels. Default: every pair once.")
@click.option("--system", "systems", multiple=True, help="Only this system, by name; may be repeated.")
@recipe_options
@options.priors
@options.draws
@options.seed
@options.report
@options.allow_missing
@options.force
@options.as_json
@options.common
def command(quiet: bool, verbose: bool, **given: Any) -> None:
    """Train and score several systems on DATA alike, and print one table.

    Cosine (of embeddings centred on the training mean), LDA + PLDA and PLDA, each also with the means of the (known)
    channels removed, Joint PLDA, and Joint PLDA with settings chosen on training speakers, calibrated. Training and
    test speakers are never the same.
    """
    options.check_new(given["report"], given["force"])
    if given["split"] and given["test"]:
        raise click.UsageError("give --test or --split, not both.")
    with options.talking(quiet, verbose) as talk:
        facts = [("data", str(given["data"])), *([("test data", str(given["test"]))] if given["test"] else [])]
        run(given, _experiment(given, talk), facts, talk)


def run(
    given: dict[str, Any],
    experiment: Experiment,
    facts: Sequence[tuple[str, str]],
    talk: Talk,
    title: str = "Systems compared",
) -> None:
    """Train, score and evaluate every system; print the table and write the page."""
    from jointplda.commands.console import print_json
    from jointplda.commands.result_tables import as_dict, print_intervals, print_results
    from jointplda.evaluation.evaluate import EvaluationSettings

    settings = EvaluationSettings(given["draws"], 0.9, tuple(given["priors"]), True, given["seed"])
    scored = _train_all(given, experiment, talk)
    results = _evaluate_all(scored, experiment, settings, talk)
    if given["report"] is not None:
        _report(given, scored, results, experiment.train, facts, title)
        talk.say(f"report written to {given['report']}")
    if given["as_json"]:
        print_json({"systems": {name: as_dict(result) for name, result in results.items()}})
        return
    print_results(results)
    click.echo(f'"cross / same": targets across {experiment.train.channels.names[0]} against non-targets within one.')
    print_intervals(list(results.values()))


def _train_all(given: dict[str, Any], experiment: Experiment, talk: Talk) -> list[Scored]:
    from jointplda.commands.progress_display import bar
    from jointplda.evaluation.systems import run_systems

    scored, begun = [], time.monotonic()
    with bar(talk, "training and scoring") as progress:

        def show(step: Progress) -> None:
            if not step.done:
                talk.say(f"{step.stage} ...", least=1)
            elif step.done % 5 == 0:
                progress(step)

        chosen = given.get("systems") or None
        train, test, pairs = experiment.train, experiment.test, experiment.pairs
        for system in run_systems(train, test, pairs, _recipe(given), systems=chosen, callback=show):
            scored.append(system)
            took = time.monotonic() - begun
            talk.say(f"{system.name}: trained and scored ({took:.1f} s)", least=1)
            begun = time.monotonic()
    return scored


def _evaluate_all(
    scored: list[Scored], experiment: Experiment, settings: EvaluationSettings, talk: Talk
) -> dict[str, Evaluation]:
    from jointplda.commands.progress_display import bar
    from jointplda.evaluation.evaluate import evaluate

    results = {}
    for system in scored:
        with bar(talk, f"evaluating {system.name}") as progress:
            own = replace(settings, is_llr=system.is_llr)
            results[system.name] = evaluate(system.scores, experiment.target, experiment.sides, own, progress)
    return results


def _recipe(given: dict[str, Any]) -> Recipe:
    from jointplda.evaluation.systems import Recipe

    return Recipe(**{name: given[name] for name in (field.name for field in fields(Recipe))})


def _report(
    given: dict[str, Any], scored: list[Scored], results: dict[str, Evaluation], train: LabelledSamples,
    facts: Sequence[tuple[str, str]], title: str,
) -> None:  # fmt: skip
    from jointplda.commands.report_output import write_report
    from jointplda.commands.summary import summary_of
    from jointplda.report.gather import system_of

    systems = [
        system_of(each.name, results[each.name], description=each.description, model=each.model) for each in scored
    ]
    told = [
        *facts,
        ("training", f"{len(train.X):,} samples of {len(set(train.speakers.tolist())):,} speakers"),
        ("conditions", ", ".join(train.channels.names)),
        ("settings", ", ".join(f"{name} {value}" for name, value in asdict(_recipe(given)).items())),
    ]
    write_report(
        given["report"], title, systems, list(results.values()), train.channels.names[0], told,
        summary_of(results, train.channels.names[0]),
    )  # fmt: skip


def _experiment(given: dict[str, Any], talk: Talk) -> Experiment:
    """Training set and test trials, as the options say."""
    import numpy as np

    from jointplda.commands import data_input
    from jointplda.evaluation.labelled_samples import LabelledSamples
    from jointplda.evaluation.protocol import held_out, trials_of
    from jointplda.labels import ConditionColumns

    def samples(path: Any) -> tuple[LabelledSamples, Any]:
        table = data_input.load(path, given["labels"])
        kept, speakers, channels = data_input.labelled(
            table, given["speaker"], given["channels"], talk, allow_missing=given["allow_missing"]
        )
        names = tuple(data_input.condition_names(given["channels"], kept))
        return LabelledSamples(kept.ids, kept.X, speakers, ConditionColumns(names, tuple(channels))), kept

    whole, table = samples(given["data"])
    if given["test"]:
        train, test = whole, samples(given["test"])[0]
    elif given["split"]:
        which = np.char.lower(data_input.column(table, given["split"], "--split"))
        unknown = sorted(set(which.tolist()) - {"train", "test", ""})
        if unknown or not (which == "train").any() or not (which == "test").any():
            raise click.ClickException(
                f"--split {given['split']}: expected the words 'train' and 'test', got "
                f"{sorted(set(which.tolist()))[:5]}."
            )
        train, test = whole.take(which == "train"), whole.take(which == "test")
    else:
        chosen = held_out(whole.speakers, given["test_share"], given["seed"])
        train, test = whole.take(~chosen), whole.take(chosen)
    return trials_of(train, test, given["trials"], allow_missing=given["allow_missing"])
