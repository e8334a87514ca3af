"""What a command says on standard error: messages and progress, and the warnings and errors of the library."""

import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click

from jointplda.commands.error_text import error_text
from jointplda.errors import Explained

QUIET, NORMAL, VERBOSE = -1, 0, 1


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
    handler.setFormatter(logging.Formatter("%(message)s"))
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
