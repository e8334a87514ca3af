"""The ``jointplda`` command: its subcommands by name, and what happens to errors."""

import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

import click
import cloup

from jointplda.errors import JointPLDAError

COMMANDS = (
    "demo", "variance", "tune", "train", "statistics", "score", "calibrate", "evaluate", "compare", "info", "convert",
)  # fmt: skip


@cloup.group(
    context_settings=cloup.Context.settings(
        help_option_names=["-h", "--help"],
        formatter_settings=cloup.HelpFormatter.settings(max_width=100, col1_max_width=24),
    ),
)
@click.version_option(package_name="jointplda", prog_name="jointplda")
def app() -> None:
    """Joint PLDA: are two recordings of the same speaker, when a known condition such as the language or the microphone
    shapes their embeddings too?

    Scores are natural-log likelihood ratios. Results go to standard output, progress and messages to standard error.
    Start with "jointplda demo"; "jointplda COMMAND --help" explains a command.
    """


app.section("Commands", *(import_module(f"jointplda.commands.{name}_command").command for name in COMMANDS))


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line: exit code 0 on success, 1 after an error, 2 after wrong usage."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        app(args=words, prog_name="jointplda", standalone_mode=False)
    except click.UsageError as error:
        error.show()
        sys.exit(2)
    except click.Abort:
        _fail("interrupted; nothing was written.", words)
    except (click.ClickException, JointPLDAError, OSError, MemoryError) as error:
        _fail(_text(error), words)
    sys.exit(0)


def _text(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."
    return str(error) or type(error).__name__


def _fail(message: str, words: Sequence[str]) -> NoReturn:
    if "--debug" in words:
        traceback.print_exc()
    click.echo(f"{click.style('error:', fg='red', bold=True)} {message}", err=True)
    sys.exit(1)
