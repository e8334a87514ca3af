"""Results of evaluate, compare and demo: on standard output, as JSON, and as a page."""

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from math import isnan
from pathlib import Path
from typing import Any

import click

from jointplda.commands import console
from jointplda.commands.console import print_table, without_columns
from jointplda.evaluation.evaluate import Evaluation, Part
from jointplda.metrics.measure_kind import CLLR, EER, Measure, MeasureKind
from jointplda.metrics.trial_types import CROSS_SAME
from jointplda.report.content import Page, System
from jointplda.report.page import write_page

WIDTH_FOR_INTERVALS = 130
"""Columns that a terminal needs for intervals to be printed."""


def as_dict(result: Evaluation) -> dict[str, Any]:
    """All figures of an evaluation, for JSON."""
    parts = {}
    for name, part in result.parts.items():
        figures: dict[str, Any] = {"targets": part.targets, "nontargets": part.nontargets}
        if part.measures is not None:
            figures |= part.measures.named()
            figures["intervals"] = {key: list(ends) for key, ends in part.intervals.items()}
        parts[name] = figures
    return {"parts": parts, "draws": result.draws, "speakers": result.speakers, "level": result.level}


def print_results(results: Mapping[str, Evaluation]) -> None:
    """A table of the main figures by part (of one system), or by system (of several)."""
    measures = _columns(results)
    names = [str(measure) for measure in measures]
    if len(results) == 1:
        result = next(iter(results.values()))
        rows = [
            [name, f"{part.targets:,}", f"{part.nontargets:,}", *(_cell(part, measure) for measure in measures)]
            for name, part in result.parts.items()
        ]
        droppable = ["targets", "non-targets", *_droppable(measures)]
        print_table("", *without_columns(["trials", "targets", "non-targets", *names], rows, droppable))
        return
    crossed = any(CROSS_SAME in result.parts for result in results.values())
    header = ["system", *names, *([f"EER {CROSS_SAME}"] if crossed else [])]
    rows = [
        [name, *(_cell(result.pooled, measure) for measure in measures)]
        + ([_cell(result.parts.get(CROSS_SAME), EER)] if crossed else [])
        for name, result in results.items()
    ]
    print_table("", *without_columns(header, rows, _droppable(measures)))


def _columns(results: Mapping[str, Evaluation]) -> list[Measure]:
    """Measures to print, in a fixed order: those that any system has, detection costs at their first prior only."""
    first: dict[MeasureKind, Measure] = {}
    for result in results.values():
        for part in result.parts.values():
            for measure in part.estimates:
                first.setdefault(measure.kind, measure)
    order = MeasureKind.EER, MeasureKind.MIN_DCF, MeasureKind.ACT_DCF, MeasureKind.CLLR, MeasureKind.MIN_CLLR
    return [first[kind] for kind in order if kind in first]


def _droppable(measures: Sequence[Measure]) -> list[str]:
    """Measures that a narrow terminal does without, in the order in which they are dropped."""
    order = MeasureKind.ACT_DCF, MeasureKind.MIN_DCF, MeasureKind.MIN_CLLR
    return [str(measure) for kind in order for measure in measures if measure.kind == kind]


def _cell(part: Part | None, measure: Measure) -> str:
    if part is None or measure not in part.estimates:
        return "–"
    found = part.estimates[measure]
    text = measure.text(found.value)
    if not isnan(found.low) and measure in (EER, CLLR) and console.width() >= WIDTH_FOR_INTERVALS:
        text = f"{text} [{measure.figure(found.low)}, {measure.figure(found.high)}]"
    return text


def print_intervals(results: Sequence[Evaluation], *, inferred: bool = False) -> None:
    """Say what the brackets are, or where to find intervals; ``inferred`` if target trials identify the speakers."""
    text = interval_text(results)
    if text:
        where = "[ ]" if console.width() >= WIDTH_FOR_INTERVALS else f"(with {WIDTH_FOR_INTERVALS} columns, or --json)"
        note = ", inferred from the target trials (--speaker names them)" if inferred else ""
        click.echo(f"intervals {where}: {text}{note}")


def interval_text(results: Sequence[Evaluation]) -> str:
    """Level, draws and speakers of the intervals; empty if there are none."""
    first = next((result for result in results if result.draws), None)
    return f"{100 * first.level:.0f} %, {first.draws:,} draws of {first.speakers:,} speakers" if first else ""


def write_report(
    path: Path,
    title: str,
    systems: Sequence[System],
    results: Sequence[Evaluation],
    channel: str,
    facts: Sequence[tuple[str, str]],
    summary: str = "",
) -> None:
    """Write the page of several systems; without a summary it starts with the number of trials."""
    intervals = interval_text(results)
    pooled = results[-1].pooled
    trials = f"{pooled.targets:,} target and {pooled.nontargets:,} non-target trials"
    listed = [*facts, ("trials", trials), ("intervals", intervals or "none"), ("jointplda", version("jointplda"))]
    write_page(Page(title, summary or f"{trials}.", systems, listed, channel, intervals), path)
