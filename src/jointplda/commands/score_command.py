"""``jointplda score``: its options and help."""

from pathlib import Path
from typing import Any

import click
import cloup

from jointplda.commands import options
from jointplda.commands.messages import Messages
from jointplda.file_kinds import FILE_KINDS, MATRICES, kind_of


@cloup.command(
    "score", short_help="Score trials with a model.",
    epilog="With --all, scores are computed and written block by block, so that they may be larger than memory. A "
    "sample is not scored against itself nor against a model it enrolls, unless a full matrix (.npy, .zarr) is "
    "written; a BOSARIS matrix (.h5) marks these pairs in its mask.",
)  # fmt: skip
@cloup.argument("model", type=options.IN_FILE)
@cloup.option_group(
    "Trials",
    cloup.option("--enroll", type=options.IN_FILE, required=True, help="Embeddings of the enrollment side."),
    cloup.option("--test", type=options.IN_FILE, show_default="those of --enroll", help="Embeddings of the test side."),
    cloup.option("--trials", type=options.IN_FILE, help="Trial list: which sample or model to score against which."),
    cloup.option("--all", "all_pairs", is_flag=True, help="Score all pairs of the two sides instead of a list."),
    cloup.option("--models", type=options.IN_FILE,
                 help="Samples of each enrolled model: spk2utt, or lines 'model sample'."),
    options.allow_missing,
)  # fmt: skip
@cloup.option_group(
    "Result",
    cloup.option("--out", type=options.OUT_PATH, required=True,
                 help="Score file to write, or a .zarr folder."),
    cloup.option("--format", "kind", type=click.Choice(tuple(FILE_KINDS["scores"])),
                 show_default="by the suffix of --out, else kaldi", help="Format of --out."),
    options.force,
    cloup.option("--resume", is_flag=True,
                 help="Go on with what an interrupted run of --all has left of a matrix (.npy, .h5, .zarr) in the "
                 "folder OUT.unfinished; its finished blocks are not computed again."),
)  # fmt: skip
@cloup.option_group(
    "Channels, where they are known",
    cloup.option("--channel", "channels", multiple=True, metavar="COL|FILE",
                 help="Channels of both sides: a label column or a file, one per condition of the model. Without it "
                 "scores average over the channels."),
    cloup.option("--labels", type=options.IN_FILE, help="Labels by id, for --channel."),
)  # fmt: skip
@cloup.option_group(
    "Advanced",
    cloup.option("--same-channel", type=click.FloatRange(0, 1), metavar="P", default=0.5, show_default=True,
                 help="Prior probability that both sides share their channel, where it is not known."),
    cloup.option("--raw", is_flag=True, help="Do not apply the calibration that is stored in the model."),
    cloup.option("--calibration", type=options.IN_FILE,
                 help="Calibration file to apply (see jointplda calibrate); add --raw if it was fitted to raw scores."),
    options.scheduler,
)  # fmt: skip
@options.common
def command(
    messages: Messages, /, all_pairs: bool, out: Path, kind: str | None, force: bool, resume: bool, **values: Any
) -> None:
    """Score trials with MODEL and write natural-log likelihood ratios.

    \b
    Example:
      jointplda score model.safetensors --enroll test.npz \\
          --trials trials.txt --out scores.txt

    Ids in the trial list are samples of --enroll and --test, or models of --models.
    """  # noqa: D301
    if (values["trials"] is not None) == all_pairs:
        raise click.UsageError("use either --trials or --all.")
    kind = kind or kind_of("scores", out) or "kaldi"
    options.check_new(out, force, FILE_KINDS["scores"][kind].beside)
    if resume and (not all_pairs or kind not in MATRICES):
        raise click.UsageError(
            f"--resume: only matrices of --all can be gone on with ({', '.join(MATRICES)}), not {kind}."
        )
    if values["scheduler"] and (not all_pairs or kind != "zarr" or values["models"] or values["calibration"]):
        raise click.UsageError(
            "--dask: workers score --all pairs of samples into a .zarr folder; leave out --models and --calibration."
        )
    from jointplda.commands.score_run import Scoring

    Scoring(messages=messages, out=out, kind=kind, force=force, resume=resume, **values).write()
