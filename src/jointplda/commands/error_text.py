"""Errors and warnings of the library in the words of the command line: its arguments appear as options."""

import click

from jointplda.errors import Explained

OPTIONS_OF: dict[str, tuple[str, ...]] = {
    "y": ("--speaker",),
    "channels": ("--channel",),
    "enroll_channels": ("--channel",),
    "test_channels": ("--channel",),
    "kind": ("--to", "--format"),
    "cv": ("--folds",),
    "n_components": ("--pca", "--lda"),
    "priors": ("--prior",),
    "random_state": ("--seed",),
    "systems": ("--system",),
}
"""Options of the arguments that have another name on the command line; ``max_iter`` is simply ``--max-iter``."""


def error_text(error: Explained, context: click.Context) -> str:
    """The text of an error or warning, for the command that is running.

    The option of the parameter at fault stands before the problem, and the option of the remedy begins the advice. A
    parameter without an option is not named, and a remedy without an option is left out.
    """
    option = option_of(error.parameter, context)
    text = error.problem if option is None else f"{option}: {error.problem}"
    remedy = None if error.remedy is None else option_of(error.remedy.parameter, context)
    if error.remedy is None or remedy is None:
        return text
    value = "" if error.remedy.value is True else f" {error.remedy.value}"
    return f"{text} {remedy}{value} {error.remedy.effect}."


def option_of(parameter: str | None, context: click.Context) -> str | None:
    """The option of an argument of the library, or None if the running command has none.

    Where several options set the same argument, those that the user gave are named.
    """
    if parameter is None:
        return None
    names = OPTIONS_OF.get(parameter, (f"--{parameter.replace('_', '-')}",))
    options = {name: option for option in context.command.params for name in (*option.opts, *option.secondary_opts)}
    own = {name: options[name] for name in names if name in options}
    default = click.core.ParameterSource.DEFAULT
    used = [name for name, option in own.items() if context.get_parameter_source(option.name or "") != default]
    return " or ".join(used or own) or None
