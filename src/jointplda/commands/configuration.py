"""Values of options from a TOML file with one table per command, such as ``[train]`` or ``[calibrate.train]``."""

import tomllib
from pathlib import Path
from typing import Any

import click


def read_configuration(ctx: click.Context, param: click.Parameter, value: Path | None) -> None:
    """Make the values in the running command's table its defaults; the command line overrides them."""
    if value is None:
        return
    try:
        table: Any = tomllib.loads(value.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{value}: not a TOML file ({error}).") from None
    path = ctx.command_path.split()[1:]
    group = ctx.find_root().command
    for name in path:
        assert isinstance(group, click.Group)
        _check_tables(table, group, value, ctx, ".".join(path))
        table = table.get(name, {})
        group = group.get_command(ctx, name) or ctx.command
    known = {name[2:]: option for option in ctx.command.params for name in option.opts if name.startswith("--")}
    values = {}
    for key, entry in table.items():
        if key not in known or key == "config":
            message = f"{value}: [{'.'.join(path)}] has no option {key!r}."
            raise click.NoSuchOption(key, message, sorted(known), ctx=ctx)
        multiple = getattr(known[key], "multiple", False)
        values[known[key].name or key] = [entry] if multiple and not isinstance(entry, list) else entry
    ctx.default_map = values


def _check_tables(table: dict[str, Any], group: click.Group, path: Path, ctx: click.Context, wanted: str) -> None:
    """Raise unless all entries are tables that are named after commands of the group."""
    commands = group.list_commands(ctx)
    for key, entry in table.items():
        if not isinstance(entry, dict):
            raise click.UsageError(f"{path}: {key!r} is in no table; options belong below [{wanted}].", ctx)
        if key not in commands:
            raise click.NoSuchCommand(key, f"{path}: [{key}] is no command.", commands, ctx)
