"""The ``jointplda`` command: its subcommands by name, and what happens to errors."""

import importlib
import os
import sys
import traceback
from typing import Any

import click

from jointplda.commands.options import spoken
from jointplda.errors import JointPLDAError

COMMANDS = ("demo", "tune", "train", "score", "calibrate", "evaluate", "compare", "info", "convert")


class Commands(click.Group):
    """Subcommands, each in its own module, imported when named; listed in the order of the work."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of the work."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, or None."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"jointplda.commands.{cmd_name}_command").command
        return command


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="jointplda", prog_name="jointplda")
def app() -> None:
    """Joint PLDA: is it the same identity, when a known nuisance also shapes the embeddings?

    Scores are natural-log likelihood ratios. Results go to standard output, progress and messages to standard error.
    Start with "jointplda demo"; every command explains itself with --help.
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the command line: exit code 0 if all went well, 1 for an error, 2 for wrong usage."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        app(args=arguments, prog_name="jointplda", standalone_mode=False)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.UsageError as error:
        error.show()
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        _fail("stopped; nothing was written.", given)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (click.ClickException, JointPLDAError, OSError, MemoryError) as error:
        _fail(_text(error), given)
    sys.exit(0)


def _text(error: BaseException) -> str:
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."
    return spoken(str(error)) or type(error).__name__


def _fail(message: str, arguments: Any) -> None:
    if "--debug" in arguments:
        traceback.print_exc()
    click.echo(f"{click.style('error:', fg='red', bold=True)} {message}", err=True)
    sys.exit(1)
