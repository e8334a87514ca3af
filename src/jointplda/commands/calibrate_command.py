"""``jointplda calibrate``: fit a calibration on scores with a key, and apply it to other scores."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import cloup

from jointplda.commands import options
from jointplda.commands.messages import command_messages
from jointplda.file_kinds import KINDS


@dataclass(frozen=True)
class CalibrationRequest:
    """Options of ``jointplda calibrate train``."""

    scores: Path
    key: Path | None
    method: str
    prior: float | None
    out: Path
    allow_missing: bool
    force: bool
    as_json: bool


@dataclass(frozen=True)
class ApplyRequest:
    """Options of ``jointplda calibrate apply``."""

    calibration: Path
    scores: Path
    out: Path
    kind: str | None
    force: bool


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
    cloup.option("--prior", type=options.PRIOR, metavar="P", show_default="0.5",
                 help="Target prior of the logistic regression."),
)  # fmt: skip
@options.common
def train(quiet: bool, verbose: bool, **values: Any) -> None:
    """Fit a calibration on SCORES of trials with a key, and write it to a file.

    \b
    Example:
      jointplda calibrate train dev-scores.txt --key dev.trials \\
          --out calibration.safetensors

    Use scores of speakers that are neither in the training of the model nor in the later test.
    """  # noqa: D301
    request = CalibrationRequest(**values)
    options.check_new(request.out, request.force)
    with command_messages(quiet, verbose):
        _train(request)


def _train(request: CalibrationRequest) -> None:
    import numpy as np

    from jointplda.calibration import fit_affine, fit_pav, save_calibration
    from jointplda.commands.console import number, print_facts, print_json
    from jointplda.commands.result_tables import scored_with_truth
    from jointplda.metrics import cllr, min_cllr

    table, target = scored_with_truth(request.scores, request.key, request.allow_missing)
    affine = request.method == "affine"
    settings = {} if request.prior is None else {"prior": request.prior}
    calibration: Any = fit_affine(table.values, target, **settings) if affine else fit_pav(table.values, target)
    save_calibration(calibration, request.out)
    finite = np.isfinite(table.values)
    values, truth = table.values[finite], target[finite]
    before, after = cllr(values, truth), cllr(calibration.apply(values), truth)
    result: dict[str, Any] = {"calibration": str(request.out), "method": request.method}
    result |= {"scale": calibration.scale, "offset": calibration.offset} if affine else {}
    result |= {"cllr_before": before, "cllr_after": after, "min_cllr": min_cllr(table.values, target)}
    if request.as_json:
        print_json(result)
        return
    print_facts(f"{request.method} calibration written to {request.out}", [
        *((("llr", f"{calibration.scale:.6g} s {calibration.offset:+.6g}"),) if affine else ()),
        ("Cllr", f"{number(before)} before, {number(after)} after, on the scores it was fitted to"),
        ("minCllr", number(result["min_cllr"])),
    ])  # fmt: skip


@command.command("apply", short_help="Apply a calibration to scores.")
@cloup.argument("calibration", type=options.IN_FILE)
@cloup.argument("scores", type=options.IN_FILE)
@cloup.option_group(
    "Result",
    cloup.option("--out", type=options.OUT_FILE, required=True, help="Score file to write."),
    cloup.option("--format", "kind", type=click.Choice([kind for kind in KINDS["scores"] if kind != "npy"]),
                 show_default="by the suffix of --out, else kaldi", help="Format of --out."),
    options.force,
)  # fmt: skip
@options.common
def apply(quiet: bool, verbose: bool, **values: Any) -> None:
    """Apply a CALIBRATION file to SCORES.

    \b
    Example:
      jointplda calibrate apply calibration.safetensors scores.txt --out llrs.txt
    """  # noqa: D301
    request = ApplyRequest(**values)
    options.check_new(request.out, request.force)
    with command_messages(quiet, verbose) as messages:
        from jointplda.calibration import load_calibration
        from jointplda.formats import read_scores, write_scores
        from jointplda.trial_list import ScoreTable

        table = read_scores(request.scores)
        calibrated = load_calibration(request.calibration).apply(table.values)
        write_scores(ScoreTable(table.trials, calibrated), request.out, request.kind)
        messages.info(f"{len(table.values):,} calibrated scores written to {request.out}")
