"""What ``train`` and ``tune`` share: settings chosen on held-out training speakers, and how that is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from jointplda.commands.options import Talk

HEADER = [
    "noise prior", "speaker prior", "rank of U", "share", "prior of U", "held-out minCllr", "raw Cllr", "time", "",
]  # fmt: skip
PER_CHANNEL = {"channel_ranks": "channel_rank", "channel_shares": "channel_share", "channel_priors": "channel_prior"}
"""Options that may be given once, or once for every --channel, and the settings they are."""


def pipeline(steps: list[Any], **settings: Any) -> Any:
    """Given preprocessing, or the usual one, before a model that chooses its settings."""
    from jointplda.estimators.automatic import JointPLDACV
    from jointplda.estimators.pipeline import automatic_pipeline, make_pipeline

    return make_pipeline(*steps, JointPLDACV(**settings)) if steps else automatic_pipeline(**settings)


@contextmanager
def candidates(talk: Talk) -> Iterator[Callable[[Any, int], object]]:
    """A callback for the search: how many were tried, and the best so far."""
    best = [float("inf")]
    if not talk.shows_progress:

        def say(tried: Any, number: int) -> None:
            talk.say(f"tried {number}: {named(tried)}, held-out minCllr {tried.criterion:.4f}", least=1)

        yield say
        return
    import sys

    from rich.console import Console

    with Console(file=sys.stderr).status("choosing settings") as status:

        def show(tried: Any, number: int) -> None:
            best[0] = min(best[0], tried.criterion)
            status.update(f"choosing settings: {number} tried, best held-out minCllr {best[0]:.4f} (Ctrl-C takes it)")

        yield show


def fit(pipe: Any, X: Any, speakers: Any, conditions: Any, talk: Talk) -> None:
    """Fit the steps, then choose settings and fit the model, with progress."""
    for _, step in pipe.steps[:-1]:
        X = step.fit(X, speakers).transform(X)
    with candidates(talk) as callback:
        pipe[-1].set_params(callback=callback)
        try:
            pipe[-1].fit(X, speakers, channels=conditions)
        finally:
            pipe[-1].set_params(callback=None)


def named(tried: Any) -> str:
    """A candidate in a few words."""
    one = tried.candidate
    ranks = "".join(
        f", U of rank {rank}" + (f" with prior {prior:g}" if prior else "")
        for rank, prior in zip(one.channel_ranks, one.channel_priors, strict=True)
    )
    return f"noise prior {one.noise_prior:g}, speaker prior {one.speaker_prior:g}{ranks}"


def tried_rows(model: Any) -> list[list[str]]:
    """Rows of the table of what was tried, best first."""
    rows = []
    for one in sorted(model.tried_, key=lambda tried: tried.criterion):
        candidate = one.candidate
        rows.append([
            f"{candidate.noise_prior:g}", f"{candidate.speaker_prior:g}",
            " + ".join(map(str, candidate.channel_ranks)) or "-",
            " + ".join(f"{share:.2f}" for share in candidate.channel_shares) or "-",
            " + ".join(f"{prior:g}" for prior in candidate.channel_priors) or "-",
            f"{one.criterion:.4f} ± {one.error:.4f}", f"{sum(one.cllrs) / len(one.cllrs):.3f}",
            f"{one.seconds:.1f} s", "chosen" if one.chosen else "",
        ])  # fmt: skip
    return rows


def facts(model: Any) -> list[tuple[str, str]]:
    """What was chosen, and how the scores of held-out speakers fared before and after calibration."""
    chosen = next(one for one in model.tried_ if one.chosen)
    told = [("settings", f"{named(chosen)}; chosen among {len(model.tried_)} tried on held-out training speakers")]
    for test in model.design_.tests:
        if test is not None:
            told.append((
                f"test of {test.condition}",
                f"F {test.ratio:.3g}, p {test.p_value:.2g} ({test.speakers} speakers, {test.channels} channels)",
            ))  # fmt: skip
    found = model.checked_
    raw = f"{found.raw_cllr:.3f} bits raw"
    if found.raw_cllr > 1:
        raw += " (overconfident: worse than no score at all)"
    elif found.overconfident:
        raw += " (overconfident)"
    text = f"{raw}, {found.calibrated_cllr:.3f} calibrated, {found.min_cllr:.3f} at best"
    if not found.cross_channel_targets:
        text += "; without real targets across channels, so expect worse"
    told.append(("held-out Cllr", text))
    if model.calibration_ is not None:
        told.append((
            "calibration", f"llr = {model.calibration_.scale:.4g} s {model.calibration_.offset:+.4g}, kept in the model"
        ))  # fmt: skip
    return told


def as_dict(model: Any) -> dict[str, Any]:
    """The same for ``--json``."""
    from dataclasses import asdict

    return {
        "chosen": model.settings_,
        "tried": [
            {**asdict(one.candidate), "criterion": one.criterion, "error": one.error, "min_cllrs": list(one.min_cllrs),
             "cllrs": list(one.cllrs), "seconds": one.seconds, "chosen": one.chosen}
            for one in model.tried_
        ],
        "design": asdict(model.design_),
        "held_out": asdict(model.checked_),
        "calibration": None if model.calibration_ is None else asdict(model.calibration_),
    }  # fmt: skip


def check_unmixed(ctx: click.Context, automatic: bool | None) -> bool:
    """Whether settings are chosen automatically: unless --no-auto, or some that are always chosen are given."""
    source = click.core.ParameterSource.DEFAULT
    own = [
        name for name in ("speaker_rank", "noise_prior", "speaker_prior", "n_init", "channel_ranks", "channel_shares")
        if ctx.get_parameter_source(name) != source
    ]  # fmt: skip
    if automatic and own:
        raise click.UsageError(f"{', '.join(map(spelled, own))}: chosen by --auto; leave out, or leave out --auto.")
    return not own if automatic is None else automatic


def spelled(option: str) -> str:
    """An option as it is typed."""
    return "--" + PER_CHANNEL.get(option, option).replace("_", "-")
