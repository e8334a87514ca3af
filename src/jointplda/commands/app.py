"""The ``jointplda`` command: its subcommands by name, and what happens to errors."""

import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

import click
import cloup

from jointplda.errors import JointPLDAError

COMMANDS = ("demo", "variance", "tune", "train", "score", "calibrate", "evaluate", "compare", "info", "convert")


class LazyCommands(cloup.Group):
    """A group whose commands are modules that are imported when they are asked for, listed in the order of use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the commands in the order in which they are used."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, or None."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"jointplda.commands.{cmd_name}_command").command
        return command

    def list_sections(self, ctx: click.Context, include_default_section: bool = True) -> list[cloup.Section]:
        """All commands as one section of the help."""
        commands = {name: self.get_command(ctx, name) for name in COMMANDS}
        return [cloup.Section("Commands", {name: found for name, found in commands.items() if found is not None})]

    def handle_bad_command_name(
        self, bad_name: str, valid_names: list[str], error: click.UsageError
    ) -> click.UsageError:
        """An error with a suggestion, from the names of all commands rather than of those imported so far."""
        return super().handle_bad_command_name(bad_name, list(COMMANDS), error)


@cloup.group(
    cls=LazyCommands,
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


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line: exit code 0 on success, 1 after an error, 2 after wrong usage."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        app(args=words, prog_name="jointplda", standalone_mode=False)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.UsageError as error:
        error.show()
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        _fail("interrupted; nothing was written.", words)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (click.ClickException, JointPLDAError, OSError, MemoryError) as error:
        _fail(_text(error), words)
    sys.exit(0)


def _text(error: BaseException) -> str:
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."
    return str(error) or type(error).__name__


def _fail(message: str, words: Sequence[str]) -> NoReturn:
    if "--debug" in words:
        traceback.print_exc()
    click.echo(f"{click.style('error:', fg='red', bold=True)} {message}", err=True)
    sys.exit(1)
