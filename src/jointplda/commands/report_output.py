"""The HTML page of a command."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jointplda.evaluation.evaluate import Evaluation
    from jointplda.report.content import System


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
    from jointplda.commands.result_tables import interval_text
    from jointplda.report.content import Page
    from jointplda.report.page import write_page

    intervals = interval_text(results)
    pooled = results[-1].pooled
    trials = f"{pooled.targets:,} target and {pooled.nontargets:,} non-target trials"
    listed = [
        *facts,
        ("trials", trials),
        ("intervals", intervals or "none"),
        ("jointplda", version("jointplda")),
    ]
    write_page(Page(title, summary or f"{trials}.", systems, listed, channel, intervals), path)
