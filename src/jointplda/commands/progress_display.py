"""Progress on standard error: a live table of EM iterations, bars for long work."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich import box
from rich import progress as rich_progress
from rich.console import Console
from rich.live import Live
from rich.table import Table

import jointplda
from jointplda.commands.messages import NORMAL, Messages
from jointplda.progress import Progress, ProgressCallback

ROWS_SHOWN = 8
SECONDS_BETWEEN_LINES = 10.0


@contextmanager
def em_progress(messages: Messages) -> Iterator[ProgressCallback]:
    """A callback for EM: a live table of the last iterations on a terminal, else a line every few seconds."""
    if not messages.shows_progress:
        yield _iteration_lines(messages)
        return
    rows: list[Progress] = []
    with Live(_iteration_table(rows), console=Console(file=sys.stderr), refresh_per_second=8, transient=True) as live:

        def show(progress: Progress) -> None:
            rows.append(progress)
            del rows[:-ROWS_SHOWN]
            live.update(_iteration_table(rows))

        yield show


def _iteration_table(rows: list[Progress]) -> Any:
    table = Table("iteration", "log-likelihood", "gain", "time", box=box.SIMPLE_HEAD, title="EM, nats per sample")
    for column in table.columns:
        column.justify = "right"
    for row in rows:
        iteration: jointplda.Iteration = row.detail
        gain, took = f"{iteration.gain:.3g}", f"{1000 * iteration.seconds:.0f} ms"
        table.add_row(f"{row.done} / {row.total}", f"{iteration.log_likelihood:.6f}", gain, took)
    return table


def _iteration_lines(messages: Messages) -> ProgressCallback:
    """A line every few seconds. With --verbose the log of the library has a line for every iteration instead."""
    last = time.monotonic()

    def say(progress: Progress) -> None:
        nonlocal last
        if messages.level == NORMAL and time.monotonic() - last > SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            step: jointplda.Iteration = progress.detail
            messages.info(f"iteration {progress.done}: {step.log_likelihood:.6f} nats per sample, gain {step.gain:.3g}")

    return say


@contextmanager
def bar(messages: Messages, what: str) -> Iterator[ProgressCallback]:
    """A callback that draws a bar on a terminal and does nothing elsewhere."""
    if not messages.shows_progress:
        yield lambda progress: None
        return
    with rich_progress.Progress(console=Console(file=sys.stderr), transient=True) as display:
        task = display.add_task(what, total=None)
        yield lambda progress: display.update(task, completed=progress.done, total=progress.total)
