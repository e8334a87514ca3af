"""``jointplda variance``: how much of the variance is due to speaker, channel, their interaction and noise."""

from typing import Any

import numpy as np

from jointplda.commands.console import print_facts, print_json, print_table
from jointplda.commands.data_input import SampleReader, step_objects
from jointplda.commands.messages import Messages
from jointplda.commands.options import LabelledFile
from jointplda.commands.progress_display import bar
from jointplda.commands.training_options import Step
from jointplda.model.statistics import encode_all
from jointplda.model.variance_shares import VarianceShares, variance_shares
from jointplda.preprocessing import Center, LengthNorm

SMALL_KAPPA = 0.1


def variance(source: LabelledFile, steps: tuple[Step, ...], messages: Messages, *, as_json: bool) -> None:
    """Estimate the shares and print them."""
    samples = SampleReader(source, messages, without_channel="left out").read(source.data)
    codes, _, names = encode_all(samples.speakers, samples.channels, len(samples.X))
    labelled = (codes >= 0).all(axis=1)
    X: Any = np.asarray(samples.X, dtype=np.float64)[labelled]
    for step in step_objects(steps, [Center(), LengthNorm()]):
        X = step.fit(X, samples.speakers[labelled]).transform(X)
    with bar(messages, "leaving out speakers and channels") as progress:
        found = variance_shares(X, codes[labelled], names, callback=progress)
    if as_json:
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
    low, high = found.kappa_interval
    kappa = f"{found.kappa:.2f} (90 %: {low:.2f} to {high:.2f}), the interaction over the noise"
    print_facts("", [("kappa", kappa), ("meaning", _meaning(found))])


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
