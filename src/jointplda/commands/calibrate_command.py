"""``jointplda calibrate``: fit a calibration on scores with a key, and apply it to others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from jointplda.commands import options


@click.group("calibrate", short_help="Calibrate scores: train and apply.")
def command() -> None:
    """Turn scores into log-likelihood ratios that mean what they say."""


@command.command("train")
@click.argument("scores", type=options.IN_FILE)
@click.option("--key", type=options.IN_FILE, help="Which trials are targets; not needed if the scores say so.")
@click.option("--method", type=click.Choice(["affine", "pav"]), default="affine", show_default=True,
              help="affine: a s + b by prior-weighted logistic regression; pav: the best rising map.")  # fmt: skip
@click.option("--prior", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.5, show_default=True,
              help="Target prior that an affine calibration is best at.")  # fmt: skip
@click.option("--out", type=options.OUT_FILE, required=True, help="Calibration file to write (safetensors).")
@options.allow_missing
@options.force
@options.as_json
@options.common
def train(quiet: bool, verbose: bool, **given: Any) -> None:
    """Fit a calibration on SCORES whose truth is known, and write it to a file.

    Use scores of speakers that are neither in the model's training nor in the later test.
    """
    options.check_new(given["out"], given["force"])
    with options.talking(quiet, verbose):
        import numpy as np

        from jointplda.calibration import fit_affine, fit_pav, save_calibration
        from jointplda.commands.console import number, print_facts, print_json
        from jointplda.commands.result_tables import scored_with_truth
        from jointplda.metrics import cllr, min_cllr

        table, target = scored_with_truth(given["scores"], given["key"], given["allow_missing"])
        affine = given["method"] == "affine"
        found: Any = fit_affine(table.values, target, prior=given["prior"]) if affine else fit_pav(table.values, target)
        save_calibration(found, given["out"])
        finite = np.isfinite(table.values)
        values, truth = table.values[finite], target[finite]
        before, after = cllr(values, truth), cllr(found.apply(values), truth)
        result: dict[str, Any] = {"calibration": str(given["out"]), "method": given["method"]}
        result |= {"scale": found.scale, "offset": found.offset} if affine else {}
        result |= {"cllr_before": before, "cllr_after": after, "min_cllr": min_cllr(table.values, target)}
        if given["as_json"]:
            print_json(result)
            return
        print_facts(f"{given['method']} calibration written to {given['out']}", [
            *((("llr", f"{found.scale:.6g} s {found.offset:+.6g}"),) if affine else ()),
            ("Cllr", f"{number(before)} before, {number(after)} after, on the scores it was fitted to"),
            ("minCllr", number(result["min_cllr"])),
        ])  # fmt: skip


@command.command("apply")
@click.argument("calibration", type=options.IN_FILE)
@click.argument("scores", type=options.IN_FILE)
@click.option("--out", type=options.OUT_FILE, required=True, help="Score file to write.")
@click.option("--format", "kind", type=click.Choice(["kaldi", "wespeaker", "nist", "bosaris"]),
              help="Format of --out; default: by its suffix, else Kaldi.")  # fmt: skip
@options.force
@options.common
def apply(
    calibration: Path, scores: Path, out: Path, kind: str | None, force: bool, quiet: bool, verbose: bool
) -> None:
    """Apply a CALIBRATION file to SCORES."""
    options.check_new(out, force)
    with options.talking(quiet, verbose) as talk:
        from jointplda.calibration import load_calibration
        from jointplda.formats import read_scores, write_scores
        from jointplda.trial_list import ScoreTable

        found = load_calibration(calibration)
        table = read_scores(scores)
        write_scores(ScoreTable(table.trials, found.apply(table.values)), out, kind)
        talk.say(f"{len(table.values):,} calibrated scores written to {out}")
