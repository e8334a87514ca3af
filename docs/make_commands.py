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
    return "\n".join([INTRODUCTION, *_sections(app, "jointplda", None)])


def _sections(command: click.Command, name: str, parent: click.Context | None) -> list[str]:
    context = click.Context(
        command, parent, name, terminal_width=100, max_content_width=100, **command.context_settings
    )
    sections = [f"## {context.command_path}\n\n```text\n{command.get_help(context)}\n```\n"]
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            assert found is not None
            sections += _sections(found, below, context)
    return sections


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(reference(), encoding="utf-8")
