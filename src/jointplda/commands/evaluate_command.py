"""``jointplda evaluate``: its options and help."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import cloup

from jointplda.commands import options
from jointplda.commands.messages import Messages


@dataclass(frozen=True, kw_only=True)
class EvaluateRequest(options.EvaluationOptions):
    """Options of ``jointplda evaluate``."""

    scores: tuple[Path, ...]
    key: Path | None
    labels: Path | None
    speaker: str | None
    channels: tuple[str, ...]
    by: tuple[str, ...]
    models: Path | None
    not_llr: bool
    model: Path | None
    report: Path | None
    allow_missing: bool
    force: bool
    as_json: bool


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
def command(messages: Messages, /, **values: Any) -> None:
    """Evaluate SCORES (one file, or several side by side) against a key.

    \b
    Example:
      jointplda evaluate scores.txt --key trials.txt --labels test.npz \\
          --speaker speaker --channel language --report report.html

    Prints EER, minimum and actual detection costs, Cllr and minCllr with 90 % speaker-bootstrap intervals: pooled, by
    same and cross channel (with --channel), and by label (with --by).
    """  # noqa: D301
    request = EvaluateRequest(**values)
    if len(request.channels) > 1:
        raise click.UsageError("the types of trials are of one --channel; use --by for other conditions.")
    options.check_new(request.report, request.force)
    from jointplda.commands.evaluate_run import evaluate_files

    evaluate_files(request, messages)
