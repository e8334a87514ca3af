"""``jointplda compare``: its options and help."""

from typing import Any

import click
import cloup

from jointplda.commands import options
from jointplda.commands.messages import Messages
from jointplda.commands.training_options import COMPARED, DEFAULTS, comparison, given_settings


@cloup.command(
    "compare", short_help="Several systems on the same data: one table, one page.",
    epilog="The systems are cosine (of embeddings centered on the training mean), LDA + PLDA and PLDA, each also with "
    "the means of the known channels removed, Joint PLDA with the same settings as PLDA, and Joint PLDA with settings "
    "chosen on training speakers, calibrated. Training and test speakers are never the same.",
)  # fmt: skip
@cloup.argument("data", type=options.IN_FILE)
@cloup.option_group(
    "Data",
    options.labels,
    options.speaker,
    cloup.option("--channel", "channels", multiple=True, required=True, metavar="COL|FILE",
                 help="Channels of a condition such as language: a label column or a file; may be repeated. The first "
                 "condition makes the types of trials."),
    cloup.option("--test", type=options.IN_FILE, show_default="held-out speakers of DATA",
                 help="Embeddings of test speakers."),
    cloup.option("--split", metavar="COL", help="Label column of DATA with the values 'train' and 'test'."),
    cloup.option("--test-share", type=options.PRIOR, metavar="P", default=0.35, show_default=True,
                 help="Share of the speakers to hold out, without --test and --split."),
    cloup.option("--trials", type=options.IN_FILE, show_default="every pair of test samples",
                 help="Trials of test samples, with labels."),
    cloup.option("--system", "systems", multiple=True, metavar="NAME", help="Only this system; may be repeated."),
    options.allow_missing,
)  # fmt: skip
@cloup.option_group("Result", options.report, options.force, options.as_json)
@comparison()
@options.common
def command(messages: Messages, /, **values: Any) -> None:
    """Train and score several systems on the same DATA, and print one table.

    \b
    Example:
      jointplda compare train.npz --test test.npz --speaker speaker \\
          --channel language --report comparison.html
    """  # noqa: D301
    values["settings"] = DEFAULTS | given_settings(values, COMPARED)
    options.check_new(values["report"], values.pop("force"))
    if values["split"] and values["test"]:
        raise click.UsageError("use --test or --split, not both.")
    from jointplda.commands.compare_run import compare

    compare(options.taken(options.LabelledFile, values), messages, **values)
