"""``jointplda demo``: its options and help."""

from pathlib import Path
from typing import Any

import click
import cloup

from jointplda.commands import options
from jointplda.commands.messages import Messages
from jointplda.commands.training_options import COMPARED, DEFAULTS, comparison, given_settings


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
def command(messages: Messages, /, export: Path | None, report: Path, as_json: bool, **values: Any) -> None:
    """Train and compare systems on the voices that come with jointplda, and write a page.

    \b
    Example:
      jointplda demo --report report.html

    Training voices were recorded through one or two transmissions each, test voices through many. PLDA takes the
    transmission for a part of the voice; Joint PLDA models it as a condition of its own.
    """  # noqa: D301
    from jointplda.commands.demo_run import compare_voices, export_voices

    if export is not None:
        export_voices(export, messages)
        return
    options.check_new(report, True)
    settings = DEFAULTS | given_settings(values, COMPARED)
    compare_voices(messages, settings=settings, report=report, as_json=as_json, **values)
    click.echo(f"Open {report.resolve()} in a browser.", err=as_json)
