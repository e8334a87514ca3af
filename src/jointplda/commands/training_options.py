"""Options that are settings of a model: preprocessing in the order given, ranks, priors, interaction and EM."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
import cloup

from jointplda.commands import options

F = TypeVar("F", bound=Callable[..., Any])
Step = tuple[str, Any]
STEPS = "jointplda.steps"

CHOSEN = ("speaker_rank", "channel_rank", "noise_prior", "speaker_prior", "channel_share", "cell_share")
"""Settings that the automatic search chooses; giving one of them turns it off."""
PER_CONDITION = ("channel_rank", "channel_share", "channel_prior")
"""Settings of which there is one value, or one for every --channel."""
GIVEN = ("noise", "max_iter", "tol", "channel_prior", "interaction")
"""Settings that the automatic search takes as they are given."""
STORED = (*CHOSEN, "channel_prior", "interaction", "noise", "center", "length_norm", "pca", "lda", "seed")
"""Settings that --resume takes from the model file."""
RECIPE = (
    "pca", "lda", "speaker_rank", "channel_rank", "noise_prior", "speaker_prior", "max_iter", "tol", "same_channel",
)  # fmt: skip
"""Settings that all systems of a comparison share."""
DEFAULTS: dict[str, Any] = {"noise_prior": 1.0, "speaker_prior": 1.0, "max_iter": 200}
"""Settings of a comparison that differ from the defaults of the recipe: covariances of few speakers are shrunk."""

EACH = "one number, or one per --channel"
SUPPORTED = "as many as the speakers support"


def preprocessing(*, lda: bool = True) -> Callable[[F], F]:
    """--center, --length-norm, --pca and --lda."""
    settings: dict[str, Any] = {"callback": _remember, "expose_value": False}
    steps = [
        cloup.option("--center", is_flag=True, help="Subtract the training mean.", **settings),
        cloup.option("--length-norm", is_flag=True, help="Scale every embedding to length one.", **settings),
        options.count("--pca", "Keep N dimensions by PCA.", **settings),
        options.count("--lda", "Keep N dimensions by LDA.", **settings),
    ]
    return cloup.option_group("Preprocessing, applied in the order given", *steps[: 4 if lda else 3])


def _remember(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Note a preprocessing step; click calls this in the order of the command line."""
    if value:
        ctx.meta.setdefault(STEPS, []).append((param.name, value))


def steps_of(ctx: click.Context) -> tuple[Step, ...]:
    """The preprocessing steps of the command line, each with its value."""
    return tuple(ctx.meta.get(STEPS, ()))


class Interaction(click.ParamType):  # type: ignore[type-arg]
    """A form of the interaction, or kappa."""

    name = "interaction"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | str:
        """The number, or the word."""
        if isinstance(value, str) and value.lower() in ("proportional", "full", "split"):
            return value.lower()
        try:
            return float(value)
        except ValueError:
            self.fail(f"{value!r} is not proportional, full, split or a number.", param, ctx)


MODEL = (
    options.count("--speaker-rank", "Columns of V.", SUPPORTED),
    options.count("--channel-rank", f"Columns of U: {EACH}.", "as many as the channels support", multiple=True),
    options.real("--noise-prior", "Strength of the prior that shrinks the noise covariance D^-1.", "0 with --no-auto"),
    options.real("--speaker-prior", "Strength of the prior that shrinks V V'.", "0 with --no-auto"),
    options.real("--channel-prior", f"Strength of the prior that shrinks U U': {EACH}.", "chosen, or 0 with --no-auto",
                 multiple=True),
    options.probability("--channel-share", "Share of the variance between channels that U keeps, while V takes the "
                        f"rest: {EACH}.", "1", multiple=True),
    cloup.option("--interaction", type=Interaction(), metavar="FORM|KAPPA", show_default="chosen, or 0 with --no-auto",
                 help="Speaker-by-channel interaction: 0 (none), a number (kappa), proportional, full or split."),
    options.probability("--cell-share", "Share of the interaction that scores take two samples of one speaker in one "
                        "channel to have in common; the rest is noise.", "1"),
    cloup.option("--noise", type=click.Choice(["full", "diagonal"]), show_default="full",
                 help="Noise covariance: full or diagonal."),
    options.count("--max-iter", "EM iterations at most.", "25, or 100 with --no-auto"),
    options.real("--tol", "Stop EM when an iteration gains less, in nats per sample.",
                 "0.001, or 1e-06 with --no-auto"),
)  # fmt: skip
"""Settings of the model that ``train`` makes."""


def given_settings(values: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Take the settings of these names out of the values of the options: those that the user gave, as arguments of an
    estimator. A setting that may be repeated is a number, or a list of several.
    """
    given = {name: value for name in names if (value := values.pop(name)) not in (None, ())}
    for name in set(given) & set(PER_CONDITION):
        if isinstance(given[name], tuple):
            given[name] = given[name][0] if len(given[name]) == 1 else list(given[name])
    return given


def comparison() -> Callable[[F], F]:
    """Settings that all systems of a comparison share, and of their evaluation."""
    return cloup.option_group(
        "Advanced",
        options.count("--pca", "Dimensions of PCA.", "60"),
        options.count("--lda", "Dimensions of LDA, for LDA + PLDA.", SUPPORTED),
        options.count("--speaker-rank", "Columns of V.", f"{SUPPORTED}; all with a --speaker-prior"),
        options.count("--channel-rank", "Columns of U.", "as many as the channels support"),
        options.real("--noise-prior", "Strength of the prior that shrinks D^-1 of every model.", "1"),
        options.real("--speaker-prior", "Strength of the prior that shrinks V V' of every model.", "1"),
        options.count("--max-iter", "EM iterations at most.", "200"),
        options.real("--tol", "Stop EM when an iteration gains less, in nats per sample.", "1e-05"),
        options.probability("--same-channel", "Prior probability that both sides share their channel, for Joint PLDA.",
                            "0.5"),
        options.priors,
        options.draws,
        options.seed,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ComparisonOptions(options.EvaluationOptions):
    """Options that ``compare`` and ``demo`` share.

    Attributes
    ----------
    recipe : dict
        The settings of ``Recipe`` that the user gave.
    report : Path or None
        Page to write.
    as_json : bool
        Print the result as JSON.
    systems : tuple of str
        Systems to compare; without any, all of them.
    """

    recipe: Mapping[str, Any]
    report: Path | None
    as_json: bool
    systems: tuple[str, ...] = ()
