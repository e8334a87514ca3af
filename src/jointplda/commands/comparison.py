"""Systems compared: trained, scored and evaluated on the same data, with a table, a page, and a sentence."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from jointplda.commands.console import print_json
from jointplda.commands.messages import Messages
from jointplda.commands.progress_display import bar
from jointplda.commands.results import as_dict, print_intervals, print_results, write_report
from jointplda.commands.training_options import COMPARED
from jointplda.evaluation.evaluate import Evaluation, EvaluationSettings, evaluate
from jointplda.evaluation.protocol import Experiment
from jointplda.evaluation.systems import AUTOMATIC, JOINT, ComparedSettings, Scored, run_systems
from jointplda.metrics.measure_kind import CLLR, EER
from jointplda.metrics.trial_types import CROSS_SAME
from jointplda.progress import Progress
from jointplda.report.gather import system_of

OF_ITSELF = ", automatic"


def run_comparison(
    experiment: Experiment,
    facts: Sequence[tuple[str, str]],
    messages: Messages,
    title: str = "Systems compared",
    *,
    settings: Mapping[str, Any],
    systems: tuple[str, ...] = (),
    report: Path | None,
    as_json: bool,
    **evaluation: Any,
) -> None:
    """Train, score and evaluate every system, or those named; print the table and write the page. ``settings`` are
    those of ``ComparedSettings``, and ``evaluation`` those of ``EvaluationSettings``.
    """
    compared = ComparedSettings(**settings)
    scored = _train_all(compared, systems or None, experiment, messages)
    results = {}
    for system in scored:
        how = EvaluationSettings(is_llr=system.is_llr, **evaluation)
        with bar(messages, f"evaluating {system.name}") as callback:
            results[system.name] = evaluate(system.scores, experiment.target, experiment.sides, how, callback)
    train = experiment.train
    condition = train.channels.names[0]
    if report is not None:
        shown = [
            system_of(each.name, results[each.name], description=each.description, model=each.model) for each in scored
        ]
        listed = [
            *facts,
            ("training", f"{len(train.X):,} samples of {len(set(train.speakers.tolist())):,} speakers"),
            ("conditions", ", ".join(train.channels.names)),
            ("settings", ", ".join(f"{name} {getattr(compared, name)}" for name in COMPARED)),
        ]
        summary = summary_of(results, condition)
        write_report(report, title, shown, list(results.values()), condition, listed, summary)
        messages.info(f"report written to {report}")
    if as_json:
        print_json({"systems": {name: as_dict(result) for name, result in results.items()}})
        return
    print_results(results)
    click.echo(f'"{CROSS_SAME}": targets that differ in {condition} against non-targets that share it.')
    print_intervals(list(results.values()))


def _train_all(
    settings: ComparedSettings, systems: Sequence[str] | None, experiment: Experiment, messages: Messages
) -> list[Scored]:
    scored, begun = [], time.monotonic()
    with bar(messages, "training and scoring") as draw:

        def show(progress: Progress) -> None:
            if progress.detail is None:
                messages.detail(f"{progress.stage} ...")
            draw(progress)

        train, test, pairs, *_ = experiment
        for system in run_systems(train, test, pairs, settings, systems=systems, callback=show):
            scored.append(system)
            messages.detail(f"{system.name}: trained and scored ({time.monotonic() - begun:.1f} s)")
            begun = time.monotonic()
    return scored


def summary_of(results: Mapping[str, Evaluation], condition: str) -> str:
    """Joint PLDA (automatic, if there) against the best other system by pooled EER; without it the best system."""
    pooled = {name: result.pooled.measures for name, result in results.items()}
    rates = {name: measures.eer for name, measures in pooled.items() if measures is not None}
    key = AUTOMATIC if AUTOMATIC in rates else JOINT
    others = sorted((rate, name) for name, rate in rates.items() if name != key)
    if key not in rates or not others:
        best = min(rates, key=rates.__getitem__)
        return f"Lowest pooled equal error rate: {best}, {EER.text(rates[best])}."
    other = others[0][1]
    names = {name: f"automatic {name.removesuffix(OF_ITSELF)}" if name.endswith(OF_ITSELF) else name for name in rates}
    cllrs = [measures.cllr for name in (key, other) if (measures := pooled[name]) is not None]
    text = (
        f"Equal error rate over all trials: {EER.text(rates[key])} with {names[key]}, {EER.text(rates[other])} with "
        f"{names[other]}, the best of the others"
    )
    if not any(np.isnan(cllrs)):
        text += f"; Cllr {CLLR.text(cllrs[0])} against {CLLR.text(cllrs[1])}"
    cells = {name: results[name].parts.get(CROSS_SAME) for name in (key, other)}
    hard = {name: cell.measures.eer for name, cell in cells.items() if cell is not None and cell.measures is not None}
    if len(hard) == 2:
        text += (
            f". Where targets differ in {condition} and non-targets share it, the equal error rate is "
            f"{EER.text(hard[key])} with {names[key]} and {EER.text(hard[other])} with {names[other]}"
        )
    return f"{text}."
