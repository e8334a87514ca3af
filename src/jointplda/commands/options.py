"""Options that several commands share, and settings from a TOML file."""

import glob
import logging
import re
import sys
import tomllib
import warnings
from collections.abc import Callable, Iterable, Iterator
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
            click.echo(f"{click.style('warning:', fg='yellow')} {spoken(str(message))}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("once")
        warnings.showwarning = show
        try:
            yield Talk(level)
        finally:
            logger.removeHandler(handler)


SPOKEN = {
    r"\bn_components\b": "the number of dimensions (--pca, --lda)",
    r"\bwarm_start=True another fit goes on\b": "--resume another run goes on",
    r"\bchannel_(prior|share) ?= ?": r"--channel-\1 ",
    r"\bchannel_(prior|share)\b": r"--channel-\1",
    r"\bpredict and channel_posterior have nothing to go by\b": "the speakers and channels of training are not kept",
    r"\b(speaker|noise)_prior ?([=>]) ?": r"--\1-prior \2 ",
    r"\b(speaker|noise)_prior\b": r"--\1-prior",
    r"\b(speaker|channel)_rank ?= ?": r"--\1-rank ",
    r"\b(speaker|channel)_rank\b": r"--\1-rank",
    r"\bmax_iter\b": "--max-iter",
    r"\bUse JointPLDA with settings of your own\b": "Use --no-auto",
    r"\bLeave calibrate=True, or calibrate scores\b": "Calibrate scores (jointplda calibrate)",
    r"\bkind='(\w+)'": r"--to \1 (or --format \1)",
    r"\ballow_missing\b": "--allow-missing",
    r"\bIs y the speaker\b": "Is --speaker the speaker",
    r"\bchannels=": "--channel",
    r"\bAbsorb it into\b": "Absorb it (--absorb-channel) into",
}


def spoken(message: str) -> str:
    """A message of the library with the names that the command line has for its settings."""
    for pattern, replacement in SPOKEN.items():
        message = re.sub(pattern, replacement, message)
    return message


def common(function: F) -> F:
    """--config, --quiet, --verbose and --debug, which every command has."""
    for option in (
        click.option("--debug", is_flag=True, expose_value=False, help="Show where in the program an error arose."),
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
    "--labels",
    type=IN_FILE,
    help="Labels by id: CSV, TSV or Parquet with a header, or a file of embeddings that has them.",
)


def check_new(path: Path | None, overwrite: bool) -> None:
    """Refuse to overwrite, and refuse a folder that is not there, before any work is done."""
    if path is None:
        return
    if path.exists() and not overwrite:
        raise click.ClickException(f"{path}: is there already. Choose another name, or give --force.")
    if not path.absolute().parent.is_dir():
        raise click.ClickException(f"{path}: the folder {path.absolute().parent} does not exist; create it first.")


def check_new_beside(path: Path, endings: Iterable[str], overwrite: bool) -> None:
    """Refuse to overwrite the files that come beside ``path``, such as the names of a matrix's rows."""
    for ending in endings:
        for beside in path.parent.glob(glob.escape(path.stem) + ending):
            if beside != path:
                check_new(beside, overwrite)


def _read_config(ctx: click.Context, param: click.Parameter, value: Path | None) -> None:
    """Take values for options from a TOML file; the command line goes before them."""
    if value is None:
        return
    try:
        data = tomllib.loads(value.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{value}: not a TOML file ({error}).") from None
    names = _command_names(ctx)
    _refuse_unknown(data, ctx.find_root().command, str(value))
    plain = {key: entry for key, entry in data.items() if not isinstance(entry, dict)}
    table: Any = data
    for name in names:
        table = table.get(name, {})
    own = {key: entry for key, entry in table.items() if not isinstance(entry, dict)} if table is not data else {}
    known = _known_options(ctx.command)
    values = {}
    for key, entry in (plain | own).items():
        parameter = known.get(_spelled(key))
        if parameter is not None and parameter.name is not None:
            values[parameter.name] = [entry] if parameter.multiple and not isinstance(entry, list) else entry
    ctx.default_map = {**values, **(ctx.default_map or {})}


def _refuse_unknown(table: dict[str, Any], command: click.Command, where: str, name: str = "jointplda") -> None:
    """Keys that no command below knows, and tables that are not named after one."""
    below = {}
    if isinstance(command, click.Group):
        context = click.Context(command)
        below = {each: command.get_command(context, each) for each in command.list_commands(context)}
    known = set(_known_options(command))
    for each in _all_commands(command):
        known |= set(_known_options(each))
    for key, entry in table.items():
        if isinstance(entry, dict):
            found = below.get(key)
            if found is None:
                offered = ", ".join(below) or "no tables"
                raise click.ClickException(f"{where}: [{key}] is not a command of {name}; there are: {offered}.")
            _refuse_unknown(entry, found, where, key)
        elif _spelled(key) not in known:
            offered = ", ".join(sorted(each.replace("_", "-") for each in known))
            raise click.ClickException(f"{where}: {name} has no option {key!r}; there are: {offered}.")


def _all_commands(command: click.Command) -> list[click.Command]:
    if not isinstance(command, click.Group):
        return [command]
    context = click.Context(command)
    found = [command.get_command(context, name) for name in command.list_commands(context)]
    return [each for one in found if one is not None for each in _all_commands(one)]


def _command_names(ctx: click.Context) -> list[str]:
    names = []
    here: click.Context | None = ctx
    while here is not None and here.parent is not None:
        names.append(here.info_name or "")
        here = here.parent
    return names[::-1]


def _known_options(command: click.Command) -> dict[str, click.Parameter]:
    """Parameters by the name of their long option, or of the argument."""
    known: dict[str, click.Parameter] = {}
    for parameter in command.params:
        long = [part for part in parameter.opts if part.startswith("--") or isinstance(parameter, click.Argument)]
        for spelling in long:
            if spelling not in ("--config", "--help", "--version"):
                known[_spelled(spelling.lstrip("-"))] = parameter
    return known


def _spelled(key: str) -> str:
    return key.replace("-", "_").lower()
