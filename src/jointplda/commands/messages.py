"""What a command says on standard error: messages, and the warnings and errors of the library in its own words."""

import logging
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click

from jointplda.errors import Advice, Explained, Remedy

QUIET, NORMAL, VERBOSE = -1, 0, 1
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


@dataclass(frozen=True)
class Messages:
    """Messages on standard error, as many as the user wants to see."""

    level: int = NORMAL

    def info(self, text: str) -> None:
        """Print one line, unless the command is quiet."""
        if self.level >= NORMAL:
            click.echo(text, err=True)

    def detail(self, text: str) -> None:
        """Print one line if the command is verbose."""
        if self.level >= VERBOSE:
            click.echo(text, err=True)

    def warning(self, text: str) -> None:
        """Print one line that starts with "warning:", unless the command is quiet."""
        self.info(f"{click.style('warning:', fg='yellow')} {text}")

    @property
    def shows_progress(self) -> bool:
        """Whether bars and live tables are drawn: on a terminal, unless the command is quiet."""
        return self.level >= NORMAL and sys.stderr.isatty()


@contextmanager
def command_messages(quiet: bool, verbose: bool) -> Iterator[Messages]:
    """Show what the library logs and warns of while a command runs, and turn its errors into those of the command."""
    context = click.get_current_context()
    messages = Messages(QUIET if quiet else VERBOSE if verbose else NORMAL)
    handler = logging.StreamHandler(sys.stderr)
    logger = logging.getLogger("jointplda")
    logger.addHandler(handler)
    logger.setLevel(logging.ERROR if quiet else logging.INFO if verbose else logging.WARNING)

    def show(message: Warning | str, *rest: Any, **more: Any) -> None:
        messages.warning(error_text(message, context) if isinstance(message, Explained) else str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("once")
        warnings.showwarning = show
        try:
            yield messages
        except Explained as error:
            raise click.ClickException(error_text(error, context)) from error
        finally:
            logger.removeHandler(handler)


def error_text(error: Explained, context: click.Context) -> str:
    """The text of an error or warning, for the command that is running.

    The option of the parameter at fault stands before the problem, and the option of the remedy begins the advice. A
    parameter without an option is not named, and advice that names an option which the command lacks is left out.
    """
    option = option_of(error.parameter, context)
    text = error.problem if option is None else f"{option}: {error.problem}"
    advice = _advice(error.remedy, context)
    return f"{text} {advice}" if advice else text


def _advice(remedy: Remedy | Advice | None, context: click.Context) -> str:
    """What to try, in words of the running command; empty where it has no such option."""
    if isinstance(remedy, Remedy):
        option = option_of(remedy.parameter, context)
        value = "" if remedy.value is True else f" {remedy.value}"
        return "" if option is None else f"{option}{value} {remedy.effect}."
    known = {name for option in context.command.params for name in (*option.opts, *option.secondary_opts)}
    text = "" if remedy is None else remedy.command_line
    return text if set(re.findall(r"--[a-z-]+", text)) <= known else ""


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
