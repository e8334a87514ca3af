"""``jointplda evaluate``: its options and help."""

from pathlib import Path
from typing import Any

import click
import cloup

from jointplda.commands import options
from jointplda.commands.messages import Messages


@cloup.command("evaluate", short_help="Error rates and costs of scores, with intervals and a page.")
@cloup.argument("scores", type=options.IN_FILE, nargs=-1, required=True)
@cloup.option_group(
    "Data",
    options.key,
    options.labels,
    cloup.option("--speaker", metavar="COL|FILE", show_default="inferred from the target trials",
                 help="Speakers of the samples, for the intervals."),
    cloup.option("--channel", "channels", multiple=True, metavar="COL|FILE",
                 help="Channels of the samples: adds results by same and cross channel."),
    cloup.option("--by", multiple=True, metavar="COL|FILE",
                 help="Label column of the key or of the samples: adds results by its values; may be repeated."),
    cloup.option("--models", type=options.IN_FILE, help="Samples of each enrolled model, where trials name models."),
    options.allow_missing,
)  # fmt: skip
@cloup.option_group("Result", options.report, options.force, options.as_json)
@cloup.option_group(
    "Advanced",
    options.priors,
    options.draws,
    options.seed,
    cloup.option("--not-llr", is_flag=True,
                 help="The scores are no log-likelihood ratios: omit Cllr and actual costs."),
    cloup.option("--model", type=options.IN_FILE, help="Model file whose training is added to the page."),
)  # fmt: skip
@options.common
def command(messages: Messages, /, report: Path | None, force: bool, **values: Any) -> None:
    """Evaluate SCORES (one file, or several side by side) against a key.

    \b
    Example:
      jointplda evaluate scores.txt --key trials.txt --labels test.npz \\
          --speaker speaker --channel language --report report.html

    Prints EER, minimum and actual detection costs, Cllr and minCllr with 90 % speaker-bootstrap intervals: pooled, by
    same and cross channel (with --channel), and by label (with --by).
    """  # noqa: D301
    if len(values["channels"]) > 1:
        raise click.UsageError("the types of trials are of one --channel; use --by for other conditions.")
    options.check_new(report, force)
    from jointplda.commands.evaluate_run import FileEvaluation

    FileEvaluation(messages=messages, report=report, **values).show()
