"""Options that several commands share: declared, read from a file, as records; checks of the files to be written."""

import glob
import inspect
import re
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click
import cloup

from jointplda.commands.messages import command_messages
from jointplda.file_kinds import kind_of_record

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")
Command = Callable[..., None]

IN_FILE = click.Path(exists=True, path_type=Path)
OUT_FILE = click.Path(dir_okay=False, path_type=Path)
OUT_PATH = click.Path(path_type=Path)  # of a file, or of a folder such as those of Zarr
PRIOR = click.FloatRange(0, 1, min_open=True, max_open=True)
UNITS = {"": 1.0, "B": 1.0, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KIB": 2.0**10, "MIB": 2.0**20, "GIB": 2.0**30}


def count(name: str, help: str, default: str | None = None, **settings: Any) -> Callable[[F], F]:
    """An option whose value is a whole number from 1 on; ``default`` is what the help says of its default."""
    return cloup.option(name, type=click.IntRange(1), metavar="N", show_default=default, help=help, **settings)


def real(name: str, help: str, default: str | None = None, **settings: Any) -> Callable[[F], F]:
    """An option whose value is a number from 0 on."""
    return cloup.option(name, type=click.FloatRange(0), metavar="X", show_default=default, help=help, **settings)


def probability(name: str, help: str, default: str | None = None, **settings: Any) -> Callable[[F], F]:
    """An option whose value is a probability."""
    return cloup.option(name, type=click.FloatRange(0, 1), metavar="P", show_default=default, help=help, **settings)


class Size(click.ParamType[float]):
    """A quantity of memory such as 2GB or 500 MB, in bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number of bytes."""
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", str(value))
        if found is None or found[2].upper() not in UNITS:
            self.fail(f"expected a size such as 2GB or 500MB, got {value!r}.", param, ctx)
        return float(found[1]) * UNITS[found[2].upper()]


def _read_configuration(ctx: click.Context, param: click.Parameter, value: Path | None) -> None:
    """Make the values in the running command's table of a TOML file its defaults; the command line overrides them.

    The file has one table per command, such as ``[train]`` or ``[calibrate.train]``.
    """
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
        commands = group.list_commands(ctx)
        for key, entry in table.items():
            if not isinstance(entry, dict):
                message = f"{value}: {key!r} is in no table; options belong below [{'.'.join(path)}]."
                raise click.UsageError(message, ctx)
            if key not in commands:
                raise click.NoSuchCommand(key, f"{value}: [{key}] is no command.", commands, ctx)
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


def common(function: Command) -> Command:
    """Add --config, --quiet, --verbose and --debug, which every command has, and hand it its messages."""

    @wraps(function)
    def command(*arguments: Any, quiet: bool, verbose: bool, **values: Any) -> None:
        with command_messages(quiet, verbose) as messages:
            function(*arguments, messages, **values)

    for option in (
        cloup.option("--debug", is_flag=True, expose_value=False, help="Show the Python traceback of an error."),
        cloup.option("--verbose", "-v", is_flag=True, help="Print more messages."),
        cloup.option("--quiet", "-q", is_flag=True, help="Print no messages but errors."),
        cloup.option(
            "--config", type=click.Path(exists=True, dir_okay=False, path_type=Path), is_eager=True,
            expose_value=False, callback=_read_configuration,
            help="TOML file with a table of options for each command, such as [train].",
        ),
    ):  # fmt: skip
        command = option(command)
    return command


as_json = cloup.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
force = cloup.option("--force", is_flag=True, help="Overwrite existing files.")
allow_missing = cloup.option(
    "--allow-missing", is_flag=True, help="Leave out ids, labels and trials without a match, instead of stopping."
)
seed = cloup.option("--seed", type=int, default=0, show_default=True, help="Seed of the random numbers.")
budget = cloup.option(
    "--budget", type=click.FloatRange(1), metavar="SECONDS", show_default="40",
    help="Time that the fits of the search may take: with many channels it decides how many columns of U are tried.",
)  # fmt: skip
memory = cloup.option(
    "--memory", type=Size(), metavar="SIZE", show_default="half of what is free",
    help="Memory that the work may take, such as 2GB. What needs more is read in passes; settings are then chosen "
    "on a sample of their speakers.",
)  # fmt: skip
scheduler = cloup.option(
    "--dask", "scheduler", metavar="ADDRESS",
    help="Scheduler of a Dask cluster, such as tcp://10.0.0.1:8786, whose workers read the files.",
)  # fmt: skip
draws = cloup.option(
    "--draws", type=click.IntRange(0), metavar="N", default=1000, show_default=True,
    help="Bootstrap draws of speakers for the intervals; 0 for no intervals.",
)  # fmt: skip
priors = cloup.option(
    "--prior", "priors", type=PRIOR, metavar="P", multiple=True,
    default=(0.05, 0.01, 0.005, 0.001), show_default=True, help="Target prior of a detection cost; may be repeated.",
)  # fmt: skip
report = cloup.option("--report", type=OUT_FILE, help="HTML page to write, with tables and plots.")
key = cloup.option(
    "--key", type=IN_FILE, help="Trial list that says which trials are targets; not needed if the score file does."
)
labels = cloup.option(
    "--labels", type=IN_FILE, help="Labels by id: a CSV, TSV or Parquet table, or embeddings with label columns."
)
SPEAKER: dict[str, Any] = {"metavar": "COL|FILE", "help": "Speakers: a label column, or a file such as utt2spk."}
speaker = cloup.option("--speaker", required=True, **SPEAKER)
speaker_of_embeddings = cloup.option("--speaker", default="", show_default=False, **SPEAKER)


def training_data(speaker: Callable[[Any], Any] = speaker) -> Callable[[F], F]:
    """Options of labelled embeddings to train on; ``speaker`` is the one for them."""
    channels = cloup.option(
        "--channel", "channels", multiple=True, metavar="COL|FILE",
        help="Channels of a condition such as language or microphone: a label column, or a file such as utt2lang; may "
        "be repeated, once per condition. Without it the model is ordinary PLDA.",
    )  # fmt: skip
    return cloup.option_group("Data", labels, speaker, channels, allow_missing)


@dataclass(frozen=True, kw_only=True)
class LabelOptions:
    """Where the labels of embeddings come from; ``speaker`` and each of ``channels`` name a label column or a file."""

    labels: Path | None
    speaker: str
    channels: tuple[str, ...]
    allow_missing: bool


@dataclass(frozen=True, kw_only=True)
class LabelledFile(LabelOptions):
    """A file of labelled embeddings."""

    data: Path


def taken(kind: type[R], values: dict[str, Any]) -> R:
    """A record of options, whose fields are taken out of the values of all options."""
    return kind(**{name: values.pop(name) for name in inspect.signature(kind).parameters})


def are_sums(paths: Iterable[Path], speaker: str) -> bool:
    """Whether files hold statistics; raises if some do and some do not, or if embeddings come without a speaker."""
    kinds = {path: kind_of_record(path) == "statistics" for path in paths}
    if len(set(kinds.values())) > 1:
        mixed = next(path for path, found in kinds.items() if found)
        raise click.UsageError(
            f"{mixed}: holds statistics, and other files do not. Sum these first, or name them apart."
        )
    found = any(kinds.values())
    if not found and not speaker:
        raise click.UsageError("Missing option '--speaker'.")
    if found and speaker:
        raise click.UsageError("--speaker: statistics know the speakers of their samples; leave it out.")
    return found


def check_new(path: Path | None, overwrite: bool, beside: Iterable[str] = ()) -> None:
    """Raise before any work is done if a file would be overwritten, or if its folder does not exist.

    The endings ``beside`` are those of files that are written beside it, such as the names of a matrix's rows.
    """
    if path is None:
        return
    for each in (path, *(other for ending in beside for other in path.parent.glob(glob.escape(path.stem) + ending))):
        if each.exists() and not overwrite:
            raise click.ClickException(f"{each}: exists already. Choose another name, or use --force.")
    if not path.absolute().parent.is_dir():
        raise click.ClickException(f"{path}: the folder {path.absolute().parent} does not exist; create it first.")
