"""``jointplda convert``: the same contents in another format."""

from __future__ import annotations

import glob
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import cloup

from jointplda.commands import options
from jointplda.commands.messages import command_messages
from jointplda.file_kinds import FILE_KINDS, KINDS, kind_of

if TYPE_CHECKING:
    from jointplda.formats import KaldiPlda


@dataclass(frozen=True)
class ConvertRequest:
    """Options of ``jointplda convert``."""

    what: str
    source: Path
    target: Path
    kind: str | None
    labels: Path | None
    absorb_channel: bool
    force: bool


_HELP = """Read SOURCE in any known format and write it as TARGET.

\b
Example:
  jointplda convert embeddings xvector.scp embeddings.npz

\b
Formats to write:
""" + "\n".join(f"  {what:<10}  {', '.join(names)}" for what, names in KINDS.items())


@cloup.command(
    "convert", short_help="Write files in another format.", help=_HELP,
    epilog="A jointplda model is converted from Kaldi's plda or pyannote's plda.npz. Embeddings as npy have a table of "
    "ids and labels beside them.",
)  # fmt: skip
@cloup.argument("what", type=click.Choice(tuple(KINDS)))
@cloup.argument("source", type=options.IN_FILE)
@cloup.argument("target", type=options.OUT_FILE)
@cloup.option_group(
    "Result",
    cloup.option("--to", "kind", metavar="FORMAT", show_default="by the suffix of TARGET", help="Format to write."),
    options.force,
)
@cloup.option_group(
    "Advanced",
    options.labels,
    cloup.option("--absorb-channel", is_flag=True,
                 help="Add the channel covariance U U' to the within-speaker covariance of a Kaldi or pyannote model."),
)  # fmt: skip
@options.common
def command(quiet: bool, verbose: bool, **values: Any) -> None:
    """Convert what the options name."""
    request = ConvertRequest(**values)
    kinds = KINDS[request.what]
    if request.kind is not None and request.kind not in kinds:
        raise click.UsageError(f"--to {request.kind}: {request.what} can be written as {', '.join(kinds)}.")
    options.check_new(request.target, request.force)
    options.check_new_beside(request.target, _written_beside(request), request.force)
    with command_messages(quiet, verbose) as messages:
        before = _files_of_stem(request.target)
        text = _CONVERT[request.what](request)
        after = _files_of_stem(request.target)
        written = sorted(path for path, changed in after.items() if before.get(path) != changed)
        messages.info(f"{text} written to {', '.join(map(str, written)) or request.target}")


def _written_beside(request: ConvertRequest) -> tuple[str, ...]:
    """Endings of the files that a conversion writes beside its target."""
    name = request.kind or kind_of(request.what, request.target)
    return next((kind.beside for kind in FILE_KINDS[request.what] if kind.name == name), ())


def _files_of_stem(path: Path) -> dict[Path, int]:
    """Files that share a stem with the target, and when they were changed."""
    return {each: each.stat().st_mtime_ns for each in path.parent.glob(f"{glob.escape(path.stem)}*") if each.is_file()}


def _embeddings(request: ConvertRequest) -> str:
    from jointplda.formats import read_embeddings, write_embeddings

    table = read_embeddings(request.source, request.labels)
    write_embeddings(table, request.target, request.kind)
    columns = f", columns {', '.join(table.columns)}" if table.columns else ""
    return f"{len(table.ids):,} embeddings of {table.X.shape[1]} dimensions{columns}"


def _trials(request: ConvertRequest) -> str:
    from jointplda.formats import read_trials, write_trials

    trials = read_trials(request.source)
    write_trials(trials, request.target, request.kind)
    return f"{len(trials):,} trials"


def _scores(request: ConvertRequest) -> str:
    from jointplda.formats import read_scores, write_scores

    table = read_scores(request.source)
    write_scores(table, request.target, request.kind)
    return f"{len(table.values):,} scores"


def _enrollment(request: ConvertRequest) -> str:
    from jointplda.formats import read_enrollment, write_enrollment

    models = read_enrollment(request.source)
    write_enrollment(models, request.target, request.kind)
    return f"{len(models):,} models"


def _model(request: ConvertRequest) -> str:
    from jointplda.estimators.interchange import from_kaldi, to_kaldi
    from jointplda.estimators.pipeline import Pipeline
    from jointplda.formats import write_kaldi_plda, write_pyannote_plda

    kind = request.kind or kind_of("model", request.target)
    if kind is None:
        raise click.UsageError("the suffix of TARGET names no format; use --to jointplda, kaldi or pyannote.")
    foreign, steps = _foreign(request.source), ""
    if foreign is None:
        if kind == "jointplda":
            raise click.ClickException(f"{request.source}: is a jointplda model already; use --to kaldi or pyannote.")
        pipe = Pipeline.load(request.source)
        foreign = to_kaldi(pipe[-1], absorb_channel=request.absorb_channel)
        names = ", ".join(type(step).__name__ for _, step in pipe.steps[:-1])
        steps = f" without its preprocessing ({names}), which embeddings need first," if names else ""
    if kind == "jointplda":
        from_kaldi(foreign).save(request.target)
    elif kind == "kaldi":
        write_kaldi_plda(foreign, request.target)
    else:
        write_pyannote_plda(foreign, request.target)
    return f"a {kind} model of {len(foreign.mean)} dimensions{steps}"


def _foreign(path: Path) -> KaldiPlda | None:
    """A Kaldi or pyannote model, or None if the file is a jointplda model."""
    from jointplda.errors import FileError
    from jointplda.formats import read_kaldi_plda, read_pyannote_plda
    from jointplda.storage.tensors import read_metadata

    with path.open("rb") as file:
        start = file.read(4)
    if start.startswith(b"PK"):
        return read_pyannote_plda(path)
    try:
        read_metadata(path)
    except FileError:
        return read_kaldi_plda(path)
    return None


_CONVERT: dict[str, Callable[[ConvertRequest], str]] = {
    "embeddings": _embeddings,
    "trials": _trials,
    "scores": _scores,
    "enrollment": _enrollment,
    "model": _model,
}
