"""``jointplda variance``: how much of the variance is the speaker's, the channel's, of the two together, and noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import click
import cloup

from jointplda.commands import options
from jointplda.commands.data_input import SampleSource
from jointplda.commands.messages import command_messages
from jointplda.commands.training_options import Step, data_group, preprocessing_group, step_objects, steps_of

if TYPE_CHECKING:
    from jointplda.commands.messages import Messages
    from jointplda.model.variance_shares import VarianceShares

SMALL_KAPPA = 0.1
DETAILS = """Shares of the traces of covariances, by the method of moments. kappa is the interaction over the noise. The
90 % intervals come from leaving out speakers, and channels, in turn. Samples without a channel are left out. Without
preprocessing options, embeddings are centered and scaled to length one."""


@dataclass(frozen=True, kw_only=True)
class VarianceRequest(SampleSource):
    """Options of ``jointplda variance``."""

    leaves_out_missing_channels: ClassVar[bool] = True

    steps: tuple[Step, ...]
    as_json: bool


@cloup.command("variance", short_help="Shares of speaker, channel, both together, and noise.", epilog=DETAILS)
@cloup.argument("data", type=options.IN_FILE)
@data_group()
@cloup.option_group("Result", options.as_json)
@preprocessing_group()
@options.common
@click.pass_context
def command(ctx: click.Context, /, quiet: bool, verbose: bool, **values: Any) -> None:
    """Print how the variance of the embeddings DATA divides among speaker, channel, both together, and noise.

    \b
    Example:
      jointplda variance train.npz --speaker speaker --channel language

    """  # noqa: D301
    request = VarianceRequest(**values, steps=steps_of(ctx))
    if not request.channels:
        raise click.UsageError("Missing option '--channel'.")
    if any(name == "lda" for name, _ in request.steps):
        raise click.UsageError("--lda: fitted to the same speakers, it removes the very variance that is measured.")
    with command_messages(quiet, verbose) as messages:
        _variance(request, messages)


def _variance(request: VarianceRequest, messages: Messages) -> None:
    import numpy as np

    from jointplda.commands.console import print_facts, print_json, print_table
    from jointplda.commands.data_input import read_samples
    from jointplda.commands.progress_display import bar
    from jointplda.model.statistics import encode_all
    from jointplda.model.variance_shares import variance_shares
    from jointplda.preprocessing import Center, LengthNorm

    samples = read_samples(request, messages)
    codes, _, names = encode_all(samples.speakers, samples.channels, len(samples.X))
    labelled = (codes >= 0).all(axis=1)
    X: Any = np.asarray(samples.X, dtype=np.float64)[labelled]
    for step in step_objects(request.steps) or [Center(), LengthNorm()]:
        X = step.fit(X, samples.speakers[labelled]).transform(X)
    with bar(messages, "leaving out speakers and channels") as progress:
        found = variance_shares(X, codes[labelled], names, callback=progress)
    if request.as_json:
        result: dict[str, Any] = {"samples": int(labelled.sum()), "kappa": found.kappa}
        result["kappa_interval"] = [end if np.isfinite(end) else None for end in found.kappa_interval.tolist()]
        result["shares"] = dict(zip(found.names, found.shares.tolist(), strict=True))
        result["intervals"] = dict(zip(found.names, found.intervals.tolist(), strict=True))
        print_json(result)
        return
    rows = [
        [name, f"{100 * share:.1f} %", f"{100 * low:.1f} to {100 * high:.1f}"]
        for name, share, (low, high) in zip(found.names, found.shares, found.intervals, strict=True)
    ]
    print_table("Of the variance", ["", "share", "90 % interval"], rows)
    print_facts("", [("kappa", _kappa_text(found)), ("meaning", _meaning(found))])


def _kappa_text(found: VarianceShares) -> str:
    low, high = found.kappa_interval
    return f"{found.kappa:.2f} (90 %: {low:.2f} to {high:.2f}), the interaction over the noise"


def _meaning(found: VarianceShares) -> str:
    low, high = found.kappa_interval
    if high == float("inf"):
        return "one speaker or channel decides alone: there are too few to tell"
    if high < SMALL_KAPPA:
        return "speaker and channel hardly interact: the model without it (train --interaction 0) will do"
    if low == 0:
        return "whether speaker and channel interact is not certain from these data; train decides by itself"
    if found.kappa < SMALL_KAPPA:
        return "speaker and channel interact, but little; train takes it into account by itself"
    return "speaker and channel interact; train takes it into account by itself (--interaction 0 leaves it out)"
