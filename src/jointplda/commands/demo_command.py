"""``jointplda demo``: its options and help."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import cloup

from jointplda.commands import options
from jointplda.commands.messages import Messages
from jointplda.commands.training_options import DEFAULTS, RECIPE, ComparisonOptions, comparison, given_settings


@dataclass(frozen=True, kw_only=True)
class DemoRequest(ComparisonOptions):
    """Options of ``jointplda demo``."""

    export: Path | None


@cloup.command("demo", short_help="Compare systems on the bundled voices and write a page.")
@cloup.option_group(
    "Result",
    cloup.option("--report", type=options.OUT_FILE, default=Path("report.html"), show_default=True,
                 help="HTML page to write; an existing one is replaced."),
    cloup.option("--export", type=click.Path(file_okay=False, path_type=Path),
                 help="Folder to write the voices to as files, for the other commands; nothing is compared."),
    options.as_json,
)  # fmt: skip
@comparison()
@options.common
def command(messages: Messages, /, **values: Any) -> None:
    """Train and compare systems on the voices that come with jointplda, and write a page.

    \b
    Example:
      jointplda demo --report report.html

    Training voices were recorded through one or two transmissions each, test voices through many. PLDA takes the
    transmission for a part of the voice; Joint PLDA models it as a condition of its own.
    """  # noqa: D301
    request = DemoRequest(recipe=DEFAULTS | given_settings(values, RECIPE), **values)
    from jointplda.commands.demo_run import compare_voices, export_voices

    if request.export is not None:
        export_voices(request.export, messages)
        return
    assert request.report is not None
    options.check_new(request.report, True)
    compare_voices(request, messages)
    click.echo(f"Open {request.report.resolve()} in a browser.", err=request.as_json)
