"""The report page of a command."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jointplda.evaluation.evaluate import Evaluation


def write_report(
    path: Path,
    title: str,
    systems: Sequence[Any],
    results: Sequence[Evaluation],
    channel: str,
    facts: Sequence[tuple[str, str]],
    summary: str = "",
) -> None:
    """Write the page of some systems."""
    from jointplda.commands.result_tables import interval_text
    from jointplda.report.content import Page
    from jointplda.report.page import write_page

    intervals = interval_text(results)
    pooled = results[-1].pooled
    told = f"{pooled.targets:,} target and {pooled.nontargets:,} non-target trials."
    listed = [
        *facts,
        ("trials", told.removesuffix(".")),
        ("intervals", intervals or "none"),
        ("jointplda", version("jointplda")),
    ]
    write_page(Page(title, summary or told, systems, listed, channel, intervals), path)
