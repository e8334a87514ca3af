"""Write the command reference from the commands themselves: python docs/make_commands.py docs/commands.md."""

import sys
from pathlib import Path

import click
import cloup

from jointplda.commands import app

WIDTH = 100
INTRODUCTION = """# Commands

The help of every command, as `--help` prints it. Results go to standard output, progress and messages to standard
error. The exit code is 0 on success, 1 after an error and 2 after wrong usage. Every command takes `--config FILE`, a
TOML file with a table of options for each command, such as `[train]` or `[calibrate.train]`; the command line overrides
it.

After the following line, which belongs into `~/.bashrc`, the Tab key completes commands and options in bash (write
`zsh_source` or `fish_source` for another shell):

    eval "$(_JOINTPLDA_COMPLETE=bash_source jointplda)"

This page is made by `make docs`.
"""


def reference() -> str:
    """The page as Markdown."""
    return "\n".join([INTRODUCTION, *_sections(app, "jointplda", None)])


def _sections(command: click.Command, name: str, parent: click.Context | None) -> list[str]:
    settings = cloup.HelpFormatter.settings(width=WIDTH)
    context = command.context_class(
        command, info_name=name, parent=parent, **(command.context_settings | {"formatter_settings": settings})
    )
    sections = [f"## {context.command_path}\n\n```text\n{command.get_help(context).rstrip()}\n```\n"]
    if isinstance(command, click.Group):
        for below, found in command.commands.items():
            sections += _sections(found, below, context)
    return sections


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(reference(), encoding="utf-8")
