"""Progress on standard error: a live table of EM iterations, a status line of a search, bars for long work."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jointplda.commands.messages import Messages
    from jointplda.model.em import Iteration
    from jointplda.progress import Progress, ProgressCallback
    from jointplda.selection.candidates import Candidate

ROWS_SHOWN = 8
SECONDS_BETWEEN_LINES = 10.0


@contextmanager
def em_progress(messages: Messages) -> Iterator[ProgressCallback]:
    """A callback for EM: a live table of the last iterations on a terminal, else a line every few seconds."""
    if not messages.shows_progress:
        yield _IterationLines(messages)
        return
    from rich.console import Console
    from rich.live import Live

    rows: list[Progress] = []
    with Live(_iteration_table(rows), console=Console(file=sys.stderr), refresh_per_second=8, transient=True) as live:

        def show(progress: Progress) -> None:
            rows.append(progress)
            del rows[:-ROWS_SHOWN]
            live.update(_iteration_table(rows))

        yield show


def _iteration_table(rows: list[Progress]) -> Any:
    from rich import box
    from rich.table import Table

    table = Table("iteration", "log-likelihood", "gain", "time", box=box.SIMPLE_HEAD, title="EM, nats per sample")
    for column in table.columns:
        column.justify = "right"
    for row in rows:
        iteration: Iteration = row.detail
        gain, took = f"{iteration.gain:.3g}", f"{1000 * iteration.seconds:.0f} ms"
        table.add_row(f"{row.done} / {row.total}", f"{iteration.log_likelihood:.6f}", gain, took)
    return table


class _IterationLines:
    """A line every few seconds. With --verbose the log of the library has a line for every iteration instead."""

    def __init__(self, messages: Messages) -> None:
        self.messages = messages
        self.last = time.monotonic()

    def __call__(self, progress: Progress) -> None:
        if self.messages.level == 0 and time.monotonic() - self.last > SECONDS_BETWEEN_LINES:
            self.last = time.monotonic()
            step: Iteration = progress.detail
            self.messages.info(
                f"iteration {progress.done}: {step.log_likelihood:.6f} nats per sample, gain {step.gain:.3g}"
            )


@contextmanager
def search_progress(messages: Messages) -> Iterator[ProgressCallback]:
    """A callback for the search for settings: the number of candidates evaluated, and the best criterion so far."""
    if not messages.shows_progress:

        def say(progress: Progress) -> None:
            result = progress.detail
            messages.detail(
                f"candidate {progress.done}: {candidate_text(result.candidate)}, held-out minCllr "
                f"{result.criterion:.4f}"
            )

        yield say
        return
    from rich.console import Console

    best = float("inf")
    with Console(file=sys.stderr).status("choosing settings") as status:

        def show(progress: Progress) -> None:
            nonlocal best
            best = min(best, progress.detail.criterion)
            status.update(
                f"choosing settings: {progress.done} candidates, best held-out minCllr {best:.4f} (Ctrl-C takes it)"
            )

        yield show


def candidate_text(candidate: Candidate) -> str:
    """A candidate of the search in a few words."""
    ranks = "".join(
        f", U of rank {rank}" + (f" with prior {prior:g}" if prior else "")
        for rank, prior in zip(candidate.channel_ranks, candidate.channel_priors, strict=True)
    )
    form = interaction_text(candidate.interaction, candidate.cell_share)
    interaction = f", interaction {form}" if candidate.interaction else ""
    return f"noise prior {candidate.noise_prior:g}, speaker prior {candidate.speaker_prior:g}{ranks}{interaction}"


def interaction_text(interaction: float | str, cell_share: float) -> str:
    """The form of an interaction (or kappa), and how far scores count on it where that is not all the way."""
    form = interaction if isinstance(interaction, str) else f"{interaction:g}"
    return form if cell_share == 1.0 or not interaction else f"{form}, cell share {cell_share:g}"


@contextmanager
def bar(messages: Messages, what: str) -> Iterator[ProgressCallback]:
    """A callback that draws a bar on a terminal and does nothing elsewhere."""
    if not messages.shows_progress:
        yield lambda progress: None
        return
    from rich import progress as rich_progress
    from rich.console import Console

    columns = (
        rich_progress.TextColumn("{task.description}"),
        rich_progress.BarColumn(),
        rich_progress.TaskProgressColumn(),
        rich_progress.TimeRemainingColumn(),
    )
    with rich_progress.Progress(*columns, console=Console(file=sys.stderr), transient=True) as display:
        task = display.add_task(what, total=None)
        yield lambda progress: display.update(task, completed=progress.done, total=progress.total)
