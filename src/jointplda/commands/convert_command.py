"""``jointplda convert``: its options and help."""

import glob
from pathlib import Path

import click
import cloup

from jointplda.commands import options
from jointplda.commands.messages import Messages
from jointplda.file_kinds import FILE_KINDS, kind_of

_HELP = """Read SOURCE in any known format and write it as TARGET.

\b
Example:
  jointplda convert embeddings xvector.scp embeddings.npz

\b
Formats to write:
""" + "\n".join(f"  {what:<10}  {', '.join(names)}" for what, names in FILE_KINDS.items())


@cloup.command(
    "convert", short_help="Write files in another format.", help=_HELP,
    epilog="A jointplda model is converted from Kaldi's plda or pyannote's plda.npz. Embeddings as npy have a table of "
    "ids and labels beside them.",
)  # fmt: skip
@cloup.argument("what", type=click.Choice(tuple(FILE_KINDS)))
@cloup.argument("source", type=options.IN_FILE)
@cloup.argument("target", type=options.OUT_PATH)
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
def command(
    messages: Messages, /, what: str, source: Path, target: Path, kind: str | None, labels: Path | None,
    absorb_channel: bool, force: bool,
) -> None:  # fmt: skip
    """Convert what the options name."""
    if kind is not None and kind not in FILE_KINDS[what]:
        raise click.UsageError(f"--to {kind}: {what} can be written as {', '.join(FILE_KINDS[what])}.")
    kind = kind or kind_of(what, target)
    options.check_new(target, force, FILE_KINDS[what][kind].beside if kind else ())
    before = _files_of_stem(target)
    from jointplda.commands.convert_run import convert

    text = convert(what, source, target, kind, labels, absorb_channel=absorb_channel)
    written = sorted(path for path, changed in _files_of_stem(target).items() if before.get(path) != changed)
    messages.info(f"{text} written to {', '.join(map(str, written)) or target}")


def _files_of_stem(path: Path) -> dict[Path, int]:
    """Files that share a stem with the target, and when they were changed."""
    return {each: each.stat().st_mtime_ns for each in path.parent.glob(f"{glob.escape(path.stem)}*") if each.is_file()}
