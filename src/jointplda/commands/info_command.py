"""``jointplda info``: its options and help."""

from pathlib import Path

import cloup

from jointplda.commands import options
from jointplda.commands.messages import Messages


@cloup.command("info", short_help="Show the contents of a model or calibration file.")
@cloup.argument("model", type=options.IN_FILE)
@cloup.option_group("Result", options.as_json)
@options.common
def command(messages: Messages, /, model: Path, as_json: bool) -> None:
    """Show the contents of MODEL, a model or calibration file: ranks, preprocessing, training, settings.

    \b
    Example:
      jointplda info model.safetensors
    """  # noqa: D301
    from jointplda.commands.info_run import info

    info(model, as_json=as_json)
