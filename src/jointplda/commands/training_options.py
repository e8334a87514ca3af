"""Options that are settings of a model: preprocessing in the order given, ranks, priors, interaction and EM."""

from collections.abc import Callable, Iterable
from dataclasses import Field, fields
from typing import Any, TypeVar

import click
import cloup

from jointplda.commands import options
from jointplda.model.settings import AUTOMATIC, RULES, ModelSettings

F = TypeVar("F", bound=Callable[..., Any])
Step = tuple[str, Any]
GIVEN_STEPS = "jointplda.steps"

SUPPORTED = "as many as the speakers support"
SHARED = {
    "speaker_rank": f"{SUPPORTED}; all with a --speaker-prior", "channel_rank": "as many as the channels support",
    "noise_prior": "1", "speaker_prior": "1", "max_iter": "200", "tol": "1e-05",
}  # fmt: skip
"""Settings of the model that all systems of a comparison share, and what the help says of their defaults."""
COMPARED = ("pca", "lda", *SHARED, "same_channel")
"""Settings of a comparison."""
DEFAULTS: dict[str, Any] = {"noise_prior": 1.0, "speaker_prior": 1.0, "max_iter": 200}
"""Settings of a comparison that differ from those of ``ComparedSettings``: covariances of few speakers are shrunk."""

EACH = "for all conditions, or repeated for each --channel"


def _remember(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Note a preprocessing step; click calls this in the order of the command line."""
    if value is not None and param.name is not None:
        ctx.meta.setdefault(GIVEN_STEPS, []).append((param.name, value))


_NOTED: dict[str, Any] = {"callback": _remember, "expose_value": False}
STEP_OPTIONS = {
    "center": cloup.option("--center", is_flag=True, default=None, help="Subtract the training mean.", **_NOTED),
    "length_norm": cloup.option("--length-norm/--no-length-norm", default=None,
                                help="Scale to length one; or the default without.", **_NOTED),
    "whiten": cloup.option("--whiten", is_flag=True, default=None, help="Whiten the covariance within speakers.",
                           **_NOTED),
    "pca": options.count("--pca", "Keep N dimensions by PCA.", **_NOTED),
    "lda": options.count("--lda", "Keep N dimensions by LDA.", **_NOTED),
}  # fmt: skip
"""Options of preprocessing by their names; each names a class of ``jointplda.preprocessing``."""


def preprocessing(*left_out: str) -> Callable[[F], F]:
    """The options of preprocessing, except some."""
    steps = [option for name, option in STEP_OPTIONS.items() if name not in left_out]
    return cloup.option_group("Preprocessing, applied in the order given", *steps)


def given_steps() -> tuple[Step, ...]:
    """The preprocessing steps that the user of the running command gave, each with its value."""
    return tuple(click.get_current_context().meta.get(GIVEN_STEPS, ()))


class NumberOrWord(click.ParamType):  # type: ignore[type-arg]
    """A number, or one of some words."""

    name = "number or word"

    def __init__(self, words: tuple[str, ...]) -> None:
        self.words = words

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | str:
        """The number, or the word."""
        if isinstance(value, str) and value.lower() in self.words:
            return value.lower()
        try:
            return float(value)
        except ValueError:
            self.fail(f"{value!r} is not {', '.join(self.words)} or a number.", param, ctx)


def _model_option(setting: Field[Any], default: str, *, repeated: bool = True) -> Callable[[F], F]:
    """The option of a setting of the model; ``default`` is what the help says of its default, and ``repeated`` says
    whether a setting per condition may be given once for each.
    """
    name, rule = f"--{setting.name.replace('_', '-')}", RULES[setting.name]
    repeated = repeated and rule.per_condition
    text = f"{rule.help[:-1]}: {EACH}." if repeated else rule.help
    if rule.choices:
        both = isinstance(setting.default, float)
        kind: Any = NumberOrWord(rule.choices) if both else click.Choice(rule.choices)
        return cloup.option(name, type=kind, metavar="WORD|X" if both else None, show_default=default, help=text)
    if isinstance(setting.default, tuple):
        return cloup.option(name, type=(float, float), metavar="X W", show_default=default, help=text)
    option = options.count if rule.whole else options.probability if rule.most == 1.0 else options.real
    return option(name, text, default, multiple=repeated)


def _shown_default(setting: Field[Any]) -> str:
    """What the help says of the default of a setting."""
    rule, default = RULES[setting.name], setting.default
    if setting.name in AUTOMATIC:
        return f"{AUTOMATIC[setting.name]:g}, or {default:g} with --no-auto"
    if default is None:
        ranks = {"speaker_rank": SUPPORTED, "channel_rank": "as many as the channels support"}
        return ranks.get(setting.name, "the dimension")
    values = default if isinstance(default, tuple) else (default,)
    text = " ".join(value if isinstance(value, str) else f"{value:g}" for value in values)
    return f"chosen, or {text} with --no-auto" if rule.searched else text


MODEL = tuple(_model_option(setting, _shown_default(setting)) for setting in fields(ModelSettings))
"""Options of the model that ``train`` makes: one for every setting."""


def given_settings(values: dict[str, Any], names: Iterable[str] = RULES) -> dict[str, Any]:
    """Take the settings of these names out of the values of the options: those that the user gave, as arguments of an
    estimator. A setting that may be repeated is a number, or a list of several.
    """
    given = {name: value for name in names if (value := values.pop(name)) not in (None, ())}
    for name, value in given.items():
        if name in RULES and RULES[name].per_condition and isinstance(value, tuple):
            given[name] = value[0] if len(value) == 1 else list(value)
    return given


def comparison() -> Callable[[F], F]:
    """Settings that all systems of a comparison share, and of their evaluation."""
    return cloup.option_group(
        "Advanced",
        options.count("--pca", "Dimensions of PCA.", "60"),
        options.count("--lda", "Dimensions of LDA, for LDA + PLDA.", SUPPORTED),
        *(_model_option(setting, SHARED[setting.name], repeated=False) for setting in fields(ModelSettings)
          if setting.name in SHARED),
        options.probability("--same-channel", "Prior probability that both sides share their channel, for Joint PLDA.",
                            "0.5"),
        options.priors,
        options.draws,
        options.seed,
    )  # fmt: skip
