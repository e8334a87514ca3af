"""``jointplda convert``: its options and help."""

import glob
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import cloup

from jointplda.commands import options
from jointplda.commands.messages import Messages
from jointplda.file_kinds import FILE_KINDS, KINDS, kind_of


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
def command(messages: Messages, /, **values: Any) -> None:
    """Convert what the options name."""
    request = ConvertRequest(**values)
    kinds = KINDS[request.what]
    if request.kind is not None and request.kind not in kinds:
        raise click.UsageError(f"--to {request.kind}: {request.what} can be written as {', '.join(kinds)}.")
    options.check_new(request.target, request.force)
    options.check_new_beside(request.target, _written_beside(request), request.force)
    before = _files_of_stem(request.target)
    if request.what == "model":
        from jointplda.commands.model_conversion import convert_model as convert
    else:
        from jointplda.commands.convert_run import convert_file as convert
    text, after = convert(request), _files_of_stem(request.target)
    written = sorted(path for path, changed in after.items() if before.get(path) != changed)
    messages.info(f"{text} written to {', '.join(map(str, written)) or request.target}")


def _written_beside(request: ConvertRequest) -> tuple[str, ...]:
    """Endings of the files that a conversion writes beside its target."""
    name = request.kind or kind_of(request.what, request.target)
    return next((kind.beside for kind in FILE_KINDS[request.what] if kind.name == name), ())


def _files_of_stem(path: Path) -> dict[Path, int]:
    """Files that share a stem with the target, and when they were changed."""
    return {each: each.stat().st_mtime_ns for each in path.parent.glob(f"{glob.escape(path.stem)}*") if each.is_file()}
