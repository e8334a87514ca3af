"""The search for settings on held-out training speakers: pipeline, fit with progress, and results as table and JSON."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from rich.console import Console

from jointplda.commands.data_input import step_objects
from jointplda.commands.messages import Messages
from jointplda.commands.training_options import Step
from jointplda.estimators.automatic import JointPLDACV
from jointplda.estimators.pipeline import Pipeline, make_pipeline
from jointplda.evaluation.protocol import LabelledSamples
from jointplda.preprocessing import Center, LengthNorm
from jointplda.preprocessing.front_ends import AUTO, GIVEN, learns_from_speakers
from jointplda.progress import Progress, ProgressCallback
from jointplda.selection.candidates import CandidateResult

HEADER = [
    "front end", "noise prior", "speaker prior", "rank of U", "share", "prior of U", "interaction", "held-out minCllr",
    "raw Cllr", "time", "",
]  # fmt: skip


def search_pipeline(steps: tuple[Step, ...], **settings: Any) -> Pipeline:
    """A model that chooses its settings, with the front end of the options, as a pipeline of one step."""
    return make_pipeline(JointPLDACV(front_end=_front_end(steps) if steps else "auto", **settings))


def _front_end(steps: tuple[Step, ...]) -> list[Any]:
    """The steps given, where the user says where centring or length normalisation come; else these stay around them.

    Samples are scaled to length one before PCA, and after what learns from the speakers, unless that is turned off.
    """
    found = step_objects(steps, AUTO[0].steps)
    if ("center", True) in steps or ("length_norm", True) in steps or all(value is False for _, value in steps):
        return found
    if ("length_norm", False) not in steps:
        learned = [i for i, step in enumerate(found, 1) if learns_from_speakers(step)]
        found.insert(learned[-1] if learned else 0, LengthNorm())
    return [Center(), *found]


def fit_search(pipe: Pipeline, samples: LabelledSamples, messages: Messages) -> None:
    """Choose the settings of the pipeline's model and fit it, with progress."""
    with searching(pipe, messages):
        pipe.fit(samples.X, samples.speakers, **channel_arguments(samples))


@contextmanager
def searching(pipe: Pipeline, messages: Messages) -> Iterator[None]:
    """Show the progress of the search of the pipeline's model."""
    with search_progress(messages) as callback:
        pipe[-1].set_params(callback=callback)
        try:
            yield
        finally:
            pipe[-1].set_params(callback=None)


def channel_arguments(samples: LabelledSamples) -> dict[str, Any]:
    """The argument ``channels`` of a fit, where there are conditions."""
    return {"channels": samples.channels} if samples.channels.names else {}


@contextmanager
def search_progress(messages: Messages) -> Iterator[ProgressCallback]:
    """A callback for the search for settings: the number of candidates evaluated, and the best criterion so far."""
    if not messages.shows_progress:

        def say(progress: Progress) -> None:
            result = progress.detail
            messages.detail(
                f"candidate {progress.done}: {candidate_text(result)}, held-out minCllr {result.criterion:.4f}"
            )

        yield say
        return
    best = float("inf")
    status = Console(file=sys.stderr).status("choosing settings")

    def show(progress: Progress) -> None:
        nonlocal best
        best = min(best, progress.detail.criterion)
        status.update(
            f"choosing settings: {progress.done} candidates, best held-out minCllr {best:.4f} (Ctrl-C takes it)"
        )
        status.start()  # with the first candidate, since passes over the samples may come before it

    try:
        yield show
    finally:
        status.stop()


def candidate_text(result: CandidateResult) -> str:
    """A candidate of the search in a few words."""
    candidate, front_end = result.candidate, f"front end {result.front_end}, " if result.front_end != GIVEN else ""
    ranks = "".join(
        f", U of rank {rank}" + (f" with prior {prior:g}" if prior else "")
        for rank, prior in zip(candidate.channel_rank, candidate.channel_prior, strict=True)
    )
    form = interaction_text(candidate.interaction, candidate.cell_share)
    interaction = f", interaction {form}" if candidate.interaction else ""
    priors = f"noise prior {candidate.noise_prior:g}, speaker prior {candidate.speaker_prior:g}"
    return f"{front_end}{priors}{ranks}{interaction}"


def interaction_text(interaction: float | str, cell_share: float) -> str:
    """The form of an interaction (or kappa), and how far scores count on it where that is not all the way."""
    form = interaction if isinstance(interaction, str) else f"{interaction:g}"
    return form if cell_share == 1.0 or not interaction else f"{form}, cell share {cell_share:g}"


def candidate_rows(model: JointPLDACV) -> list[list[str]]:
    """Rows of the table of candidates, best first."""
    rows = []
    for result in sorted(model.candidates_, key=lambda result: result.criterion):
        candidate = result.candidate
        rows.append([
            result.front_end, f"{candidate.noise_prior:g}", f"{candidate.speaker_prior:g}",
            " + ".join(map(str, candidate.channel_rank)) or "-",
            " + ".join(f"{share:.2f}" for share in candidate.channel_share) or "-",
            " + ".join(f"{prior:g}" for prior in candidate.channel_prior) or "-",
            interaction_text(candidate.interaction, candidate.cell_share),
            f"{result.criterion:.4f} ± {result.error:.4f}", f"{sum(result.cllrs) / len(result.cllrs):.3f}",
            f"{result.seconds:.1f} s", "chosen" if result.chosen else "",
        ])  # fmt: skip
    return rows


def search_facts(model: JointPLDACV) -> list[tuple[str, str]]:
    """The chosen settings, the tests of the conditions, and Cllr of held-out speakers before and after calibration."""
    chosen = next(result for result in model.candidates_ if result.chosen)
    count = len(model.candidates_)
    facts = [("settings", f"{candidate_text(chosen)}; chosen among {count} on held-out training speakers")]
    for test in model.design_.tests:
        if test is not None:
            facts.append((
                f"test of {test.condition}",
                f"F {test.ratio:.3g}, p {test.p_value:.2g} ({test.speakers} speakers, {test.channels} channels)",
            ))  # fmt: skip
    held_out = model.held_out_cllr_
    raw = f"{held_out.raw_cllr:.3f} bits raw"
    if held_out.raw_cllr > 1:
        raw += " (overconfident: worse than no score at all)"
    elif held_out.overconfident:
        raw += " (overconfident)"
    text = f"{raw}, {held_out.calibrated_cllr:.3f} calibrated, {held_out.min_cllr:.3f} at best, on trials of training "
    if not model.design_.crossed:
        text += "speakers who were held out"
    elif held_out.cross_channel_targets:
        text += "speakers who were held out, in channels of training; expect more in channels not seen there"
    else:
        text += "speakers who were held out; too few were recorded in two channels, so expect worse across channels"
    facts.append(("held-out Cllr", text))
    if held_out.separable:
        facts.append(("", "a threshold separates these trials, so the calibration leaves scores near raw"))
    if model.selection_.stretch > 1.0:
        far = f"{model.selection_.stretch:g} times as far from their speaker's mean"
        facts.append(("", f"candidates were compared on harder trials, of samples {far}"))
    calibration = model.calibration_
    if calibration is not None:
        facts.append(("calibration", f"llr = {calibration.scale:.4g} s {calibration.offset:+.4g}, part of the model"))
    return facts


def search_result(model: JointPLDACV) -> dict[str, Any]:
    """The search for JSON."""
    calibration = model.calibration_
    return {
        "chosen": {"front_end": model.selection_.chosen.front_end, **model.best_params_},
        "candidates": [
            {"front_end": result.front_end, **result.candidate.searched, "criterion": result.criterion,
             "error": result.error, "min_cllrs": list(result.min_cllrs), "cllrs": list(result.cllrs),
             "seconds": result.seconds, "chosen": result.chosen}
            for result in model.candidates_
        ],
        "design": asdict(model.design_),
        "held_out": asdict(model.held_out_cllr_),
        "calibration": None if calibration is None else asdict(calibration),
    }  # fmt: skip
