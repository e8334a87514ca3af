"""Results of evaluate, compare and demo on standard output, and the truth of scored trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from jointplda._typing import BoolArray
    from jointplda.evaluation.evaluate import Evaluation, Part
    from jointplda.metrics.measure_kind import Measure
    from jointplda.trial_list import ScoreTable, Trials

WIDTH_FOR_INTERVALS = 130
"""Columns that a terminal needs for intervals to be printed."""


def scored_with_truth(scores: Path, key: Path | None, allow_missing: bool) -> tuple[ScoreTable, BoolArray]:
    """Scores with the truth of their trials, from the key or from the score file itself."""
    from jointplda.formats import read_scores, read_trials

    return with_truth(read_scores(scores), None if key is None else read_trials(key), scores, key, allow_missing)


def with_truth(
    table: ScoreTable, key: Trials | None, scores: Path, key_path: Path | None, allow_missing: bool
) -> tuple[ScoreTable, BoolArray]:
    """Scores and a mask of the targets. Raise unless there are targets and non-targets."""
    import numpy as np

    from jointplda.errors import InputError, warn
    from jointplda.evaluation.join import with_key
    from jointplda.trial_list import ScoreTable

    if key is not None:
        if key.target is None:
            raise click.ClickException(f"{key_path}: a trial list without labels; expected a column target/nontarget.")
        try:
            table = with_key(table, key, allow_missing=allow_missing)
        except InputError as error:
            raise InputError(f"{scores}, {key_path}: {error.problem}", remedy=error.remedy) from None
    elif table.trials.target is None:
        raise click.ClickException(f"{scores}: does not say which trials are targets; use --key.")
    assert table.trials.target is not None
    stated = np.flatnonzero(table.trials.target >= 0)
    if len(stated) < len(table.values):
        warn(f"{scores}: {len(table.values) - len(stated):,} trials without a label are left out.")
        table = ScoreTable(table.trials.take(stated), table.values[stated])
    assert table.trials.target is not None
    target = table.trials.target == 1
    targets = int(np.count_nonzero(target))
    if targets in (0, len(target)):
        missing = "targets" if not targets else "non-targets"
        raise click.ClickException(
            f"{key_path or scores}: there are no {missing} among {len(target):,} scored trials; error rates need both."
        )
    return table, target


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
    from jointplda.commands.console import print_table, without_columns
    from jointplda.metrics.trial_types import CROSS_SAME

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
        [name, *(_cell(result.pooled, measure) for measure in measures), *([_cross_same(result)] if crossed else [])]
        for name, result in results.items()
    ]
    print_table("", *without_columns(header, rows, _droppable(measures)))


def _columns(results: Mapping[str, Evaluation]) -> list[Measure]:
    """Measures to print, in a fixed order: those that any system has, detection costs at their first prior only."""
    from jointplda.metrics.measure_kind import MeasureKind

    first: dict[MeasureKind, Measure] = {}
    for result in results.values():
        for part in result.parts.values():
            for measure in {} if part.measures is None else part.measures.figures():
                first.setdefault(measure.kind, measure)
    order = MeasureKind.EER, MeasureKind.MIN_DCF, MeasureKind.ACT_DCF, MeasureKind.CLLR, MeasureKind.MIN_CLLR
    return [first[kind] for kind in order if kind in first]


def _droppable(measures: Sequence[Measure]) -> list[str]:
    """Measures that a narrow terminal does without, in the order in which they are dropped."""
    from jointplda.metrics.measure_kind import MeasureKind

    order = MeasureKind.ACT_DCF, MeasureKind.MIN_DCF, MeasureKind.MIN_CLLR
    return [str(measure) for kind in order for measure in measures if measure.kind == kind]


def _cell(part: Part, measure: Measure) -> str:
    from jointplda.commands.console import number, percent, width
    from jointplda.metrics.measure_kind import CLLR, EER

    figures = {} if part.measures is None else part.measures.figures()
    if measure not in figures:
        return "–"
    shown = percent if measure == EER else number
    text = shown(figures[measure])
    if str(measure) in part.intervals and measure in (EER, CLLR) and width() >= WIDTH_FOR_INTERVALS:
        low, high = (shown(end).removesuffix(" %") for end in part.intervals[str(measure)])
        text = f"{text} [{low}, {high}]"
    return text


def _cross_same(result: Evaluation) -> str:
    from jointplda.metrics.measure_kind import EER
    from jointplda.metrics.trial_types import CROSS_SAME

    part = result.parts.get(CROSS_SAME)
    return "–" if part is None else _cell(part, EER)


def print_intervals(results: Sequence[Evaluation], *, inferred: bool = False) -> None:
    """Say what the brackets are, or where to find intervals; ``inferred`` if target trials identify the speakers."""
    from jointplda.commands.console import width

    text = interval_text(results)
    if text:
        where = "[ ]" if width() >= WIDTH_FOR_INTERVALS else f"(with {WIDTH_FOR_INTERVALS} columns, or --json)"
        note = ", inferred from the target trials (--speaker names them)" if inferred else ""
        click.echo(f"intervals {where}: {text}{note}")


def interval_text(results: Sequence[Evaluation]) -> str:
    """Level, draws and speakers of the intervals; empty if there are none."""
    drawn = [result for result in results if result.draws]
    if not drawn:
        return ""
    first = drawn[0]
    return f"{100 * first.level:.0f} %, {first.draws:,} draws of {first.speakers:,} speakers"
