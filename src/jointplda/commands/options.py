"""Options that several commands share, and settings from a TOML file."""

import logging
import sys
import tomllib
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

IN_FILE = click.Path(exists=True, path_type=Path)
OUT_FILE = click.Path(dir_okay=False, path_type=Path)


@dataclass(frozen=True)
class Talk:
    """How much a command says on standard error: -1 quiet, 0 as usual, 1 more."""

    level: int = 0

    def say(self, message: str, *, least: int = 0) -> None:
        """One line on standard error, unless quieter than ``least``."""
        if self.level >= least:
            click.echo(message, err=True)

    @property
    def shows_progress(self) -> bool:
        """Whether to draw bars and live tables: on a terminal, unless quiet."""
        return self.level >= 0 and sys.stderr.isatty()


@contextmanager
def talking(quiet: bool, verbose: bool) -> Iterator[Talk]:
    """Messages and warnings of the library as lines on standard error while a command runs."""
    level = -1 if quiet else int(verbose)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger = logging.getLogger("jointplda")
    logger.addHandler(handler)
    logger.setLevel(logging.ERROR if quiet else logging.INFO if verbose else logging.WARNING)

    def show(message: Warning | str, *rest: Any, **more: Any) -> None:
        if level >= 0:
            click.echo(f"{click.style('warning:', fg='yellow')} {message}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("once")
        warnings.showwarning = show
        try:
            yield Talk(level)
        finally:
            logger.removeHandler(handler)


def common(function: F) -> F:
    """--config, --quiet, --verbose and --debug, which every command has."""
    for option in (
        click.option("--debug", is_flag=True, help="Show where in the program an error arose."),
        click.option("--verbose", "-v", is_flag=True, help="Say more on standard error."),
        click.option("--quiet", "-q", is_flag=True, help="Say nothing on standard error but errors."),
        click.option(
            "--config",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            is_eager=True,
            expose_value=False,
            callback=_read_config,
            help="TOML file with values for any option, plain or in a table named after the command.",
        ),
    ):
        function = option(function)
    return function


as_json = click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
force = click.option("--force", is_flag=True, help="Overwrite files that are there already.")
allow_missing = click.option(
    "--allow-missing", is_flag=True, help="Leave out what has no match (ids, labels, trials) instead of stopping."
)
seed = click.option("--seed", type=int, default=0, show_default=True, help="Seed of all that is random.")
draws = click.option(
    "--draws", type=click.IntRange(0), default=1000, show_default=True, help="Bootstrap draws of speakers; 0 for none."
)
priors = click.option(
    "--prior",
    "priors",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    multiple=True,
    default=(0.05, 0.01, 0.005, 0.001),
    show_default=True,
    help="Target prior of a detection cost; may be repeated.",
)
report = click.option("--report", type=OUT_FILE, help="Write a page with tables and plots to this HTML file.")
labels = click.option(
    "--labels", type=IN_FILE, help="Table of labels (CSV, TSV or Parquet with a header), joined to samples by id."
)


def check_new(path: Path | None, overwrite: bool) -> None:
    """Refuse to overwrite, and refuse a folder that is not there, before any work is done."""
    if path is None:
        return
    if path.exists() and not overwrite:
        raise click.ClickException(f"{path}: is there already. Choose another name, or give --force.")
    if not path.absolute().parent.is_dir():
        raise click.ClickException(f"{path}: the folder {path.absolute().parent} does not exist; create it first.")


def _read_config(ctx: click.Context, param: click.Parameter, value: Path | None) -> None:
    """Take values for options from a TOML file; the command line goes before them."""
    if value is None:
        return
    try:
        data = tomllib.loads(value.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{value}: not a TOML file ({error}).") from None
    names = _command_names(ctx)
    plain = {key: entry for key, entry in data.items() if not isinstance(entry, dict)}
    table: Any = data
    for name in names:
        table = table.get(name, {}) if isinstance(table, dict) else {}
    own = {key: entry for key, entry in table.items() if not isinstance(entry, dict)} if table is not data else {}
    known = _known_options(ctx.command)
    unknown = sorted(key for key in own if _spelled(key) not in known)
    if unknown:
        offered = ", ".join(sorted(key.replace("_", "-") for key in known))
        raise click.ClickException(f"{value}: {names[-1]} has no option {unknown[0]!r}; it has {offered}.")
    values = {known[_spelled(key)]: entry for key, entry in (plain | own).items() if _spelled(key) in known}
    ctx.default_map = {**values, **(ctx.default_map or {})}


def _command_names(ctx: click.Context) -> list[str]:
    names = []
    here: click.Context | None = ctx
    while here is not None and here.parent is not None:
        names.append(here.info_name or "")
        here = here.parent
    return names[::-1]


def _known_options(command: click.Command) -> dict[str, str]:
    """Parameters by every spelling they go by: the long option's name, or the argument's."""
    known: dict[str, str] = {}
    for parameter in command.params:
        if parameter.name is None or parameter.name == "config":
            continue
        for spelling in [parameter.name, *(part.lstrip("-") for part in parameter.opts if part.startswith("--"))]:
            known[_spelled(spelling)] = parameter.name
    return known


def _spelled(key: str) -> str:
    return key.replace("-", "_").lower()
