"""``jointplda variance``: its options and help."""

from typing import Any

import click
import cloup

from jointplda.commands import options
from jointplda.commands.messages import Messages
from jointplda.commands.training_options import given_steps, preprocessing

DETAILS = """Shares of the traces of covariances, by the method of moments. kappa is the interaction over the noise. The
90 % intervals come from leaving out speakers, and channels, in turn. Samples without a channel are left out. Without
preprocessing options, embeddings are centered and scaled to length one."""


@cloup.command(
    "variance", short_help="Share of the variance due to speaker, channel, their interaction and noise.", epilog=DETAILS
)
@cloup.argument("data", type=options.IN_FILE)
@options.training_data()
@cloup.option_group("Result", options.as_json)
@preprocessing("whiten", "lda")
@options.common
def command(messages: Messages, /, as_json: bool, **values: Any) -> None:
    """Print the shares of the variance of the embeddings DATA due to speaker, channel, their interaction and noise.

    \b
    Example:
      jointplda variance train.npz --speaker speaker --channel language

    """  # noqa: D301
    source = options.LabelledFile(**values)
    if not source.channels:
        raise click.UsageError("Missing option '--channel'.")
    from jointplda.commands.variance_run import variance

    variance(source, given_steps(), messages, as_json=as_json)
