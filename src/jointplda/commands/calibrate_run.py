"""``jointplda calibrate``: a calibration fitted to scores with a key, and applied to other scores."""

from pathlib import Path
from typing import Any

import numpy as np

from jointplda.calibration import fit_affine, fit_pav, load_calibration, save_calibration
from jointplda.commands.console import print_facts, print_json
from jointplda.commands.messages import Messages
from jointplda.evaluation.join import with_truth
from jointplda.formats import read_scores, read_trials, write_scores
from jointplda.metrics import cllr, min_cllr
from jointplda.metrics.measure_kind import CLLR, MIN_CLLR
from jointplda.trial_list import ScoreTable


def fit(
    *, scores: Path, key: Path | None, method: str, prior: float, out: Path, allow_missing: bool, as_json: bool
) -> None:
    """Fit a calibration, write it, and print what it does to the scores it was fitted to."""
    table, target = with_truth(
        read_scores(scores),
        None if key is None else read_trials(key),
        where=str(scores),
        key_where=str(key),
        allow_missing=allow_missing,
    )
    affine = method == "affine"
    calibration: Any = fit_affine(table.values, target, prior=prior) if affine else fit_pav(table.values, target)
    save_calibration(calibration, out)
    finite = np.isfinite(table.values)
    values, truth = table.values[finite], target[finite]
    before, after = cllr(values, truth), cllr(calibration.apply(values), truth)
    result: dict[str, Any] = {"calibration": str(out), "method": method}
    result |= {"scale": calibration.scale, "offset": calibration.offset} if affine else {}
    result |= {"cllr_before": before, "cllr_after": after, "min_cllr": min_cllr(table.values, target)}
    if as_json:
        print_json(result)
        return
    print_facts(f"{method} calibration written to {out}", [
        *((("llr", f"{calibration.scale:.6g} s {calibration.offset:+.6g}"),) if affine else ()),
        ("Cllr", f"{CLLR.text(before)} before, {CLLR.text(after)} after, on the scores it was fitted to"),
        ("minCllr", MIN_CLLR.text(result["min_cllr"])),
    ])  # fmt: skip


def calibrate(calibration: Path, scores: Path, out: Path, kind: str | None, messages: Messages) -> None:
    """Apply a calibration file to scores."""
    table = read_scores(scores)
    calibrated = load_calibration(calibration).apply(table.values)
    write_scores(ScoreTable(table.trials, calibrated), out, kind)
    messages.info(f"{len(table.values):,} calibrated scores written to {out}")
