"""``jointplda calibrate``: options and help of ``train`` and ``apply``."""

from pathlib import Path
from typing import Any

import click
import cloup

from jointplda.commands import options
from jointplda.commands.messages import Messages
from jointplda.file_kinds import FILE_KINDS

FULL = ("npy", "zarr")  # matrices that hold all pairs


@cloup.group("calibrate", short_help="Calibrate scores: train and apply.")
def command() -> None:
    """Turn scores into calibrated log-likelihood ratios.

    \b
    Example:
      jointplda calibrate train dev-scores.txt --key dev.trials \\
          --out calibration.safetensors
      jointplda calibrate apply calibration.safetensors scores.txt --out llrs.txt
    """  # noqa: D301


@command.command("train", short_help="Fit a calibration on scores with a key.")
@cloup.argument("scores", type=options.IN_FILE)
@cloup.option_group("Data", options.key, options.allow_missing)
@cloup.option_group(
    "Result",
    cloup.option("--out", type=options.OUT_FILE, required=True, help="Calibration file to write (safetensors)."),
    options.force,
    options.as_json,
)
@cloup.option_group(
    "Advanced",
    cloup.option("--method", type=click.Choice(["affine", "pav"]), default="affine", show_default=True,
                 help="affine: scale and offset by prior-weighted logistic regression; pav: isotonic regression."),
    cloup.option("--prior", type=options.PRIOR, metavar="P", default=0.5, show_default=True,
                 help="Target prior of the logistic regression."),
)  # fmt: skip
@options.common
def train(messages: Messages, /, out: Path, force: bool, **values: Any) -> None:
    """Fit a calibration on SCORES of trials with a key, and write it to a file.

    \b
    Example:
      jointplda calibrate train dev-scores.txt --key dev.trials \\
          --out calibration.safetensors

    Use scores of speakers that are neither in the training of the model nor in the later test.
    """  # noqa: D301
    options.check_new(out, force)
    from jointplda.commands.calibrate_run import fit

    fit(out=out, **values)


@command.command("apply", short_help="Apply a calibration to scores.")
@cloup.argument("calibration", type=options.IN_FILE)
@cloup.argument("scores", type=options.IN_FILE)
@cloup.option_group(
    "Result",
    cloup.option("--out", type=options.OUT_FILE, required=True, help="Score file to write."),
    cloup.option("--format", "kind", type=click.Choice([kind for kind in FILE_KINDS["scores"] if kind not in FULL]),
                 show_default="by the suffix of --out, else kaldi", help="Format of --out."),
    options.force,
)  # fmt: skip
@options.common
def apply(messages: Messages, /, calibration: Path, scores: Path, out: Path, kind: str | None, force: bool) -> None:
    """Apply a CALIBRATION file to SCORES.

    \b
    Example:
      jointplda calibrate apply calibration.safetensors scores.txt --out llrs.txt
    """  # noqa: D301
    options.check_new(out, force)
    from jointplda.commands.calibrate_run import calibrate

    calibrate(calibration, scores, out, kind, messages)
