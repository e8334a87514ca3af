"""``jointplda completion``: shell completion."""

import click
from click.shell_completion import get_completion_class

HOW = {
    "bash": 'eval "$(jointplda completion bash)"',
    "zsh": 'eval "$(jointplda completion zsh)"',
    "fish": "jointplda completion fish | source",
}


@click.command("completion", short_help="Shell completion.")
@click.argument("shell", type=click.Choice(list(HOW)))
def command(shell: str) -> None:
    """Print the script that completes commands and options in SHELL.

    Put the following line into the shell's start-up file: for bash and zsh
    eval "$(jointplda completion bash)", for fish jointplda completion fish | source.
    """
    from jointplda.commands.app import app

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(app, {}, "jointplda", "_JOINTPLDA_COMPLETE").source())
