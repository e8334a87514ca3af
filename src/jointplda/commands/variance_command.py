"""``jointplda variance``: its options and help."""

from dataclasses import dataclass
from typing import Any, ClassVar

import click
import cloup

from jointplda.commands import options
from jointplda.commands.messages import Messages
from jointplda.commands.training_options import Step, preprocessing, steps_of

DETAILS = """Shares of the traces of covariances, by the method of moments. kappa is the interaction over the noise. The
90 % intervals come from leaving out speakers, and channels, in turn. Samples without a channel are left out. Without
preprocessing options, embeddings are centered and scaled to length one."""


@dataclass(frozen=True, kw_only=True)
class VarianceRequest(options.SampleSource):
    """Options of ``jointplda variance``."""

    leaves_out_missing_channels: ClassVar[bool] = True

    steps: tuple[Step, ...]
    as_json: bool


@cloup.command(
    "variance", short_help="Share of the variance due to speaker, channel, their interaction and noise.", epilog=DETAILS
)
@cloup.argument("data", type=options.IN_FILE)
@options.training_data()
@cloup.option_group("Result", options.as_json)
@preprocessing(lda=False)
@options.common
@click.pass_context
def command(ctx: click.Context, messages: Messages, /, **values: Any) -> None:
    """Print the shares of the variance of the embeddings DATA due to speaker, channel, their interaction and noise.

    \b
    Example:
      jointplda variance train.npz --speaker speaker --channel language

    """  # noqa: D301
    request = VarianceRequest(**values, steps=steps_of(ctx))
    if not request.channels:
        raise click.UsageError("Missing option '--channel'.")
    from jointplda.commands.variance_run import variance

    variance(request, messages)
