"""Results on standard output: tables for people, one JSON object for programs."""

import json
import math
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table


def print_json(result: Any) -> None:
    """Print one JSON object; NaN becomes null, infinities become strings."""
    click.echo(json.dumps(_plain(result), indent=2, ensure_ascii=False, allow_nan=False))


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> None:
    """Print a table whose first ``left`` columns are texts and the others numbers; no cell is shortened."""
    console = Console(file=sys.stdout, width=max(width(), _natural(header, rows)), highlight=False, soft_wrap=True)
    table = Table(title=title or None, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False, title_style="bold")
    for index, name in enumerate(header):
        table.add_column(name, justify="left" if index < left else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    console.print(table)


def _natural(header: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """Width that a table needs."""
    return sum(max(map(len, column)) + 3 for column in zip(header, *rows, strict=True)) + 2


def without_columns(
    header: list[str], rows: list[list[str]], droppable: Iterable[str]
) -> tuple[list[str], list[list[str]]]:
    """Drop columns, in the given order, until the table fits the terminal."""
    for name in droppable:
        if _natural(header, rows) <= width():
            break
        if name in header:
            k = header.index(name)
            header, rows = header[:k] + header[k + 1 :], [row[:k] + row[k + 1 :] for row in rows]
    return header, rows


def width() -> int:
    """Width of the terminal, or 220 where there is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 220


def print_facts(title: str, facts: Iterable[tuple[str, str]]) -> None:
    """Print names and values, one pair per line."""
    pairs = list(facts)
    width = max((len(name) for name, _ in pairs), default=0)
    if title:
        click.secho(title, bold=True)
    for name, value in pairs:
        click.echo(f"  {name:<{width}}  {value}")


def bytes_text(value: float) -> str:
    """A size in a suitable unit."""
    for unit in ("bytes", "kB", "MB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} GB"


def seconds_text(value: float) -> str:
    """A time in a suitable unit."""
    if value < 1:
        return f"{1000 * value:.0f} ms"
    if value < 120:
        return f"{value:.1f} s"
    return f"{value / 60:.0f} min" if value < 7200 else f"{value / 3600:.1f} h"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value
