"""What evaluate, compare and demo share: truth of scores, tables of results, the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from jointplda.evaluation.evaluate import Evaluation
    from jointplda.trial_list import ScoreTable, Trials

WIDE = 130
"""Columns a terminal should have for intervals to be printed."""
SHORT = ("EER", "minDCF", "actDCF", "Cllr", "minCllr")


def scored_with_truth(scores: Path, key: Path | None, allow_missing: bool) -> tuple[ScoreTable, Any]:
    """Scores with the truth of their trials, from the key or from the score file itself."""
    from jointplda.formats import read_scores, read_trials

    return with_truth(read_scores(scores), None if key is None else read_trials(key), scores, key, allow_missing)


def with_truth(
    table: ScoreTable, key: Trials | None, scores: Path, key_path: Path | None, allow_missing: bool
) -> tuple[ScoreTable, Any]:
    """Scores and a mask of targets; both classes must be there."""
    import numpy as np

    from jointplda.errors import InputError, warn
    from jointplda.evaluation.join import with_key
    from jointplda.trial_list import ScoreTable

    if key is not None:
        if key.target is None:
            raise click.ClickException(f"{key_path}: a trial list without labels; a key has a column target/nontarget.")
        try:
            table = with_key(table, key, allow_missing=allow_missing)
        except InputError as error:
            raise click.ClickException(f"{scores}, {key_path}: {error}") from None
    elif table.trials.target is None:
        raise click.ClickException(f"{scores}: does not say which trials are targets; give --key.")
    assert table.trials.target is not None
    stated = np.flatnonzero(table.trials.target >= 0)
    if len(stated) < len(table.values):
        warn(f"{scores}: {len(table.values) - len(stated):,} trials are not labelled and are left out.")
        table = ScoreTable(table.trials.take(stated), table.values[stated])
    assert table.trials.target is not None
    target = table.trials.target == 1
    targets = int(np.count_nonzero(target))
    if targets in (0, len(target)):
        missing = "targets" if not targets else "non-targets"
        raise click.ClickException(
            f"{key_path or scores}: among {len(target):,} scored trials there are no {missing}; error rates need both."
        )
    return table, target


def as_dict(result: Evaluation) -> dict[str, Any]:
    """Everything an evaluation found, for JSON."""
    parts = {}
    for name, part in result.parts.items():
        figures: dict[str, Any] = {"targets": part.targets, "nontargets": part.nontargets}
        if part.measures is not None:
            figures |= part.measures.named()
            figures["intervals"] = {key: list(ends) for key, ends in part.intervals.items()}
        parts[name] = figures
    return {"parts": parts, "draws": result.draws, "speakers": result.speakers, "level": result.level}


def print_results(results: Mapping[str, Evaluation]) -> None:
    """A table of the main figures by part (one system), or by system (several)."""
    from jointplda.commands.console import print_table, without_columns

    names = _columns(results)
    if len(results) == 1:
        result = next(iter(results.values()))
        rows = [
            [name, f"{part.targets:,}", f"{part.nontargets:,}", *(_cell(part, column) for column in names)]
            for name, part in result.parts.items()
        ]
        droppable = ["targets", "non-targets", *_optional(names)]
        print_table("", *without_columns(["trials", "targets", "non-targets", *names], rows, droppable))
        return
    hard = any("cross / same" in result.parts for result in results.values())
    header = ["system", *names, *(["EER cross / same"] if hard else [])]
    rows = [
        [name, *(_cell(result.pooled, column) for column in names), *([_hard(result)] if hard else [])]
        for name, result in results.items()
    ]
    print_table("", *without_columns(header, rows, _optional(names)))


def _optional(names: Sequence[str]) -> list[str]:
    """Measures that a narrow terminal does without, in the order they go."""
    return [name for kind in ("actDCF", "minDCF", "minCllr") for name in names if name.startswith(kind)]


def _columns(results: Mapping[str, Evaluation]) -> list[str]:
    """Measures to print, in a fixed order: those that any system has, costs at the first prior only."""
    found: dict[str, None] = {}
    for result in results.values():
        for part in result.parts.values():
            if part.measures is not None:
                found |= dict.fromkeys(part.measures.named())
    chosen: list[str] = []
    for kind in SHORT:
        chosen += [name for name in found if name == kind or name.startswith(f"{kind}(")][:1]
    return chosen


def _cell(part: Any, name: str) -> str:
    from jointplda.commands.console import number, percent, width

    if part.measures is None or name not in part.measures.named():
        return "–"
    shown = percent if name == "EER" else number
    text = shown(part.measures.named()[name])
    if name in part.intervals and name in ("EER", "Cllr") and width() >= WIDE:
        low, high = (shown(end).removesuffix(" %") for end in part.intervals[name])
        text = f"{text} [{low}, {high}]"
    return text


def _hard(result: Evaluation) -> str:
    part = result.parts.get("cross / same")
    return "–" if part is None else _cell(part, "EER")


def print_intervals(results: Sequence[Evaluation], *, guessed: bool = False) -> None:
    """What the brackets are, or where to find them; ``guessed`` if target trials alone say who is who."""
    from jointplda.commands.console import width

    told = interval_text(results)
    if told:
        where = "[ ]" if width() >= WIDE else f"in terminals of {WIDE} columns, and with --json"
        note = ", as target trials link them (--speaker gives the real ones)" if guessed else ""
        click.echo(f"intervals {where}: {told}{note}")


def interval_text(results: Sequence[Evaluation]) -> str:
    """What the intervals are, in words; empty without any."""
    drawn = [result for result in results if result.draws]
    if not drawn:
        return ""
    first = drawn[0]
    return f"{100 * first.level:.0f} %, {first.draws:,} draws of {first.speakers:,} speakers"
