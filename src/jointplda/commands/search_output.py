"""The search for settings on held-out training speakers: its pipeline, and its results as table, facts and JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from jointplda.commands.training_options import Step, step_objects

if TYPE_CHECKING:
    from jointplda.estimators.automatic import JointPLDACV
    from jointplda.estimators.pipeline import Pipeline

HEADER = [
    "noise prior", "speaker prior", "rank of U", "share", "prior of U", "interaction", "held-out minCllr", "raw Cllr",
    "time", "",
]  # fmt: skip


def search_pipeline(steps: tuple[Step, ...], **settings: Any) -> Pipeline:
    """The preprocessing steps, or the usual ones if there are none, before a model that chooses its settings."""
    from jointplda.estimators.automatic import JointPLDACV
    from jointplda.estimators.pipeline import automatic_pipeline, make_pipeline

    return make_pipeline(*step_objects(steps), JointPLDACV(**settings)) if steps else automatic_pipeline(**settings)


def candidate_rows(model: JointPLDACV) -> list[list[str]]:
    """Rows of the table of candidates, best first."""
    from jointplda.commands.progress_display import interaction_text

    rows = []
    for result in sorted(model.candidates_, key=lambda result: result.criterion):
        candidate = result.candidate
        rows.append([
            f"{candidate.noise_prior:g}", f"{candidate.speaker_prior:g}",
            " + ".join(map(str, candidate.channel_ranks)) or "-",
            " + ".join(f"{share:.2f}" for share in candidate.channel_shares) or "-",
            " + ".join(f"{prior:g}" for prior in candidate.channel_priors) or "-",
            interaction_text(candidate.interaction, candidate.cell_share),
            f"{result.criterion:.4f} ± {result.error:.4f}", f"{sum(result.cllrs) / len(result.cllrs):.3f}",
            f"{result.seconds:.1f} s", "chosen" if result.chosen else "",
        ])  # fmt: skip
    return rows


def search_facts(model: JointPLDACV) -> list[tuple[str, str]]:
    """The chosen settings, the tests of the conditions, and Cllr of held-out speakers before and after calibration."""
    from jointplda.commands.progress_display import candidate_text

    chosen = next(result for result in model.candidates_ if result.chosen)
    count = len(model.candidates_)
    facts = [("settings", f"{candidate_text(chosen.candidate)}; chosen among {count} on held-out training speakers")]
    for test in model.design_.tests:
        if test is not None:
            facts.append((
                f"test of {test.condition}",
                f"F {test.ratio:.3g}, p {test.p_value:.2g} ({test.speakers} speakers, {test.channels} channels)",
            ))  # fmt: skip
    held_out = model.checked_
    raw = f"{held_out.raw_cllr:.3f} bits raw"
    if held_out.raw_cllr > 1:
        raw += " (overconfident: worse than no score at all)"
    elif held_out.overconfident:
        raw += " (overconfident)"
    text = f"{raw}, {held_out.calibrated_cllr:.3f} calibrated, {held_out.min_cllr:.3f} at best"
    if not held_out.cross_channel_targets:
        text += "; no speaker was recorded in two channels, so expect worse across channels"
    facts.append(("held-out Cllr", text))
    calibration = model.calibration_
    if calibration is not None:
        facts.append(("calibration", f"llr = {calibration.scale:.4g} s {calibration.offset:+.4g}, part of the model"))
    return facts


def search_result(model: JointPLDACV) -> dict[str, Any]:
    """The search for JSON."""
    calibration = model.calibration_
    return {
        "chosen": model.best_params_,
        "candidates": [
            {**asdict(result.candidate), "criterion": result.criterion, "error": result.error,
             "min_cllrs": list(result.min_cllrs), "cllrs": list(result.cllrs), "seconds": result.seconds,
             "chosen": result.chosen}
            for result in model.candidates_
        ],
        "design": asdict(model.design_),
        "held_out": asdict(model.checked_),
        "calibration": None if calibration is None else asdict(calibration),
    }  # fmt: skip
