"""``jointplda statistics``: its options and help."""

from pathlib import Path
from typing import Any

import click
import cloup

from jointplda.commands import options
from jointplda.commands.messages import Messages


@cloup.command(
    "statistics", short_help="Sum embeddings into statistics, which train reads.",
    epilog="Statistics are all that a fit needs of its samples. They add up over files and machines, and are smaller "
    "than the samples where speakers have many in a channel. A search for settings needs embeddings.",
)  # fmt: skip
@cloup.argument("data", type=options.IN_FILE, nargs=-1, required=True)
@options.training_data(options.speaker_of_embeddings)
@cloup.option_group(
    "Result",
    cloup.option("--out", type=options.OUT_FILE, required=True, help="File of statistics to write (safetensors)."),
    options.force,
    options.as_json,
)
@cloup.option_group(
    "Advanced",
    cloup.option("--front-end", type=options.IN_FILE, metavar="MODEL",
                 help="Model file whose preprocessing the embeddings go through first; it is stored with the sums."),
    options.memory,
    options.scheduler,
)  # fmt: skip
@options.common
def command(messages: Messages, /, out: Path, force: bool, **values: Any) -> None:
    """Sum the embeddings DATA by speaker and channel, and write the sums.

    \b
    Example:
      jointplda statistics part1.npz part2.npz --speaker speaker \\
          --channel language --out sums.safetensors
      jointplda train sums.safetensors --no-auto --out model.safetensors

    DATA may also be files of statistics, which are added up.
    """  # noqa: D301
    options.check_new(out, force)
    of_sums = options.are_sums(values["data"], values["speaker"])
    if of_sums and (values["labels"] or values["channels"] or values["front_end"] or values["scheduler"]):
        raise click.UsageError("--labels, --channel, --front-end, --dask: are for embeddings; DATA holds statistics.")
    from jointplda.commands.statistics_run import sum_up

    sum_up(options.taken(options.LabelOptions, values), messages, out=out, of_sums=of_sums, **values)
