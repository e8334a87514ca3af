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
from jointplda.commands.console import seconds_text
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
    live = Live(console=Console(file=sys.stderr), refresh_per_second=8, transient=True)

    def show(progress: Progress) -> None:
        rows.append(progress)
        del rows[:-ROWS_SHOWN]
        live.update(_iteration_table(rows))
        live.start()  # with the first iteration, since passes over the samples may come before it

    try:
        yield show
    finally:
        live.stop()


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


@contextmanager
def pass_progress(messages: Messages, unit: str = "samples") -> Iterator[ProgressCallback]:
    """A callback for passes over samples: a bar on a terminal, else a line every few seconds, with the rate."""
    shown = _Bar(unit) if messages.shows_progress else _Lines(messages, unit)
    try:
        yield shown
    finally:
        shown.stop()


class _Bar:
    """A bar of the pass that goes on; it is gone when the pass is done, so that others can draw."""

    def __init__(self, unit: str) -> None:
        self.unit = unit
        self.display: rich_progress.Progress | None = None

    def __call__(self, progress: Progress) -> None:
        if self.display is None:
            if progress.done == progress.total:  # the pass is done already
                return
            columns = (
                *rich_progress.Progress.get_default_columns(),
                rich_progress.TextColumn(f"{{task.completed:,.0f}} {self.unit}, {{task.fields[rate]}}"),
            )
            self.display = rich_progress.Progress(*columns, console=Console(file=sys.stderr), transient=True)
            self.display.add_task(progress.stage, total=progress.total, rate="")
            self.display.start()
        task = self.display.tasks[0]
        rate = _rate(progress.done / task.elapsed) if task.elapsed else ""
        self.display.update(task.id, completed=progress.done, total=progress.total, rate=rate)
        if progress.done == progress.total:
            self.stop()

    def stop(self) -> None:
        """Take the bar away."""
        if self.display is not None:
            self.display.stop()
            self.display = None


def _rate(each_second: float) -> str:
    return f"{each_second:,.0f}/s" if each_second >= 10.0 else f"{each_second:.2g}/s"


class _Lines:
    """A line every few seconds."""

    def __init__(self, messages: Messages, unit: str) -> None:
        self.messages, self.unit = messages, unit
        self.stage, self.began, self.last = "", 0.0, time.monotonic()
        self.first = 0  # samples of the first chunk, read before the clock started

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        if progress.stage != self.stage:
            self.stage, self.began, self.first = progress.stage, now, progress.done
        if now - self.last > SECONDS_BETWEEN_LINES and now > self.began:
            self.last, rate = now, max(progress.done - self.first, 1) / (now - self.began)
            total = progress.total
            whole = "" if total is None else f" of {total:,}"
            left = "" if total is None else f", {seconds_text((total - progress.done) / rate)} left"
            self.messages.info(f"{self.stage}: {progress.done:,}{whole} {self.unit}, {_rate(rate)}{left}")

    def stop(self) -> None:
        """Nothing is left on the screen."""
