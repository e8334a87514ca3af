"""Write the command reference from the commands themselves: python docs/make_commands.py docs/commands.md."""

import sys
from pathlib import Path

import click

from jointplda.commands import app

INTRODUCTION = """# Commands

What each command says with `--help`. Every command also takes `--config FILE`, a TOML file with values for any of its
options (plain keys, or a table named after the command, such as `[train]`); the command line goes before it. Results go
to standard output, progress and messages to standard error. Exit codes: 0 well, 1 an error, 2 wrong usage. This page is
made by `make docs`.
"""


def reference() -> str:
    """The page as Markdown."""
    parts = [INTRODUCTION, *(_section(names, command) for names, command in _commands(app, ("jointplda",)))]
    return "\n".join(parts)


def _commands(command: click.Command, names: tuple[str, ...]) -> list[tuple[tuple[str, ...], click.Command]]:
    found = [(names, command)]
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            found += _commands(below, (*names, name))
    return found


def _section(names: tuple[str, ...], command: click.Command) -> str:
    context = click.Context(command, info_name=" ".join(names), terminal_width=100, max_content_width=100)
    return f"## {' '.join(names)}\n\n```text\n{command.get_help(context)}\n```\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(reference(), encoding="utf-8")
