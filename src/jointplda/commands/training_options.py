"""Options that ``train`` and ``tune`` share: labelled embeddings, and preprocessing in the order given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
import cloup

from jointplda.commands import options

F = TypeVar("F", bound=Callable[..., Any])
Step = tuple[str, Any]
STEPS = "jointplda.steps"


def data_group() -> Callable[[F], F]:
    """--labels, --speaker, --channel and --allow-missing."""
    return cloup.option_group(
        "Data",
        options.labels,
        options.speaker,
        cloup.option(
            "--channel", "channels", multiple=True, metavar="COL|FILE",
            help="Channels of a condition such as language or microphone: a label column, or a file such as utt2lang; "
            "may be repeated, once per condition. Without it the model is ordinary PLDA.",
        ),
        options.allow_missing,
    )  # fmt: skip


def preprocessing_group() -> Callable[[F], F]:
    """--center, --length-norm, --pca and --lda."""
    settings: dict[str, Any] = {"callback": _remember, "expose_value": False}
    return cloup.option_group(
        "Preprocessing, applied in the order given",
        cloup.option("--center", is_flag=True, help="Subtract the training mean.", **settings),
        cloup.option("--length-norm", is_flag=True, help="Scale every embedding to length one.", **settings),
        options.count("--pca", "Keep N dimensions by PCA.", **settings),
        options.count("--lda", "Keep N dimensions by LDA.", **settings),
    )


def _remember(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Note a preprocessing step; click calls this in the order of the command line."""
    if value:
        ctx.meta.setdefault(STEPS, []).append((param.name, value))


def steps_of(ctx: click.Context) -> tuple[Step, ...]:
    """The preprocessing steps of the command line, each with its value."""
    return tuple(ctx.meta.get(STEPS, ()))


def step_objects(steps: tuple[Step, ...]) -> list[Any]:
    """The preprocessing steps as estimators."""
    from jointplda.preprocessing import LDA, PCA, Center, LengthNorm

    make: dict[str, Callable[[Any], Any]] = {
        "center": lambda _: Center(),
        "length_norm": lambda _: LengthNorm(),
        "pca": PCA,
        "lda": LDA,
    }
    return [make[name](value) for name, value in steps]
