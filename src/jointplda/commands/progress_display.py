"""Progress on standard error: a live table of EM's iterations, bars for long work."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jointplda.commands.options import Talk

SHOWN = 8
EVERY_SECONDS = 10.0


@contextmanager
def iterations(talk: Talk, most: int) -> Iterator[Callable[[Any], object]]:
    """A callback for EM that shows its iterations: live on a terminal, else a line now and then."""
    if not talk.shows_progress:
        yield _Lines(talk)
        return
    from rich.console import Console
    from rich.live import Live

    rows: list[Any] = []
    with Live(_table(rows, most), console=Console(file=sys.stderr), refresh_per_second=8, transient=True) as live:

        def show(iteration: Any) -> None:
            rows.append(iteration)
            del rows[:-SHOWN]
            live.update(_table(rows, most))

        yield show


def _table(rows: list[Any], most: int) -> Any:
    from rich import box
    from rich.table import Table

    table = Table("iteration", "log-likelihood", "gain", "time", box=box.SIMPLE_HEAD, title="EM, nats per sample")
    for column in table.columns:
        column.justify = "right"
    for row in rows:
        gain, took = f"{row.gain:.3g}", f"{1000 * row.seconds:.0f} ms"
        table.add_row(f"{row.iteration} / {most}", f"{row.log_likelihood:.6f}", gain, took)
    return table


class _Lines:
    """A line every few seconds; with --verbose the library's own log has one for every iteration."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self.last = time.monotonic()

    def __call__(self, row: Any) -> None:
        if self.talk.level == 0 and time.monotonic() - self.last > EVERY_SECONDS:
            self.last = time.monotonic()
            self.talk.say(f"iteration {row.iteration}: {row.log_likelihood:.6f} nats per sample, gain {row.gain:.3g}")


@contextmanager
def bar(talk: Talk, what: str) -> Iterator[Callable[[int, int], object]]:
    """A callback (done, of) that draws a bar on a terminal and is silent elsewhere."""
    if not talk.shows_progress:
        yield lambda done, of: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, of: progress.update(task, completed=done, total=of)


def flops() -> float:
    """Floating-point operations a second that this machine's matrix product reaches, measured at once."""
    import numpy as np

    A = np.ones((512, 512))
    A @ A
    start = time.perf_counter()
    for _ in range(4):
        A @ A
    return 4 * 2 * 512.0**3 / max(time.perf_counter() - start, 1e-9)
