"""Warnings after a fit: about the end of EM, and about what the data do not determine."""

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from jointplda.errors import Advice, DataWarning, MildWarning, warn
from jointplda.model.fitted import FitNotes, FittedModel
from jointplda.model.resolve import supported_rank
from jointplda.model.settings import ModelSettings
from jointplda.model.statistics import Statistics
from jointplda.model.training_posterior import posterior_fits_in_memory
from jointplda.selection.design import Design, linked_levels

MOSTLY = 0.5
VANISHED = 0.25
FROM_PRIOR = "kappa comes mostly from its prior"


class NotConverged(DataWarning, ConvergenceWarning):  # type: ignore[misc]
    """EM did not converge in the iterations it was given."""


def warn_of_ranks(given: ModelSettings, resolved: ModelSettings, statistics: Statistics) -> None:
    """Warn of ranks above what the data support, and of conditions that are left out."""
    supported = supported_rank(statistics, 0)
    if resolved.speaker_rank is not None and resolved.speaker_rank > supported and not resolved.speaker_prior:
        problem = f"{resolved.speaker_rank} is more than {statistics.n_speakers} speakers support ({supported})."
        warn(problem, parameter="speaker_rank")
    for k, (name, labels) in enumerate(zip(statistics.conditions, statistics.labels[1:], strict=True)):
        rank, most = resolved.channel_rank[k], supported_rank(statistics, 1 + k)
        if not labels and resolved.noise == "full":
            if rank:
                warn("With full noise and a channel per sample, U U' and D^-1 are confounded; use diagonal noise.")
        elif rank > most:
            warn(f"{rank} is more than the channels of {name!r} support ({most}).", parameter="channel_rank")
        if rank == 0 and given.channel_rank is None and resolved.channel_share[k]:
            warn(f"The condition {name!r} has fewer than two channels: it is left out (rank 0).")


def warn_of_fit(fitted: FittedModel, statistics: Statistics) -> None:
    """Warn of confounded labels, of noise at its floor, of EM that did not converge, and of what is not kept.

    ``statistics`` have the conditions of rank above 0.
    """
    notes = fitted.notes
    assert notes is not None
    _warn_of_labels(statistics)
    _warn_of_kappa(fitted, notes)
    _warn_of_floor(fitted, notes, statistics)
    _warn_of_end(fitted, notes)
    is_free = notes.form in ("full", "split")
    if fitted.training is None and posterior_fits_in_memory(statistics, fitted.settings.ranks, cell_is_free=is_free):
        warn(
            f"{sum(statistics.n_channels)} training channels are too many to keep with the model, since the prior "
            f"gives U {len(fitted.mean)} columns: they are scored as new channels, and the speakers and channels of "
            "training cannot be predicted. If you need them, use no channel prior, or fewer dimensions (PCA).",
            parameter="channel_prior",
        )


def _warn_of_labels(statistics: Statistics) -> None:
    names = ("speaker", *statistics.conditions)
    for k, name in enumerate(names):
        for j in range(k + 1, len(names)):
            linked = linked_levels(statistics, k, j)
            if 0 < linked.shape[1] == len(np.unique(linked[0])) == len(np.unique(linked[1])):
                warn(
                    f"The labels of {name!r} and {names[j]!r} always go together: they are confounded, and each gets a "
                    f"share of the variance. Is {names[j]!r} the right column?"
                )


def _warn_of_kappa(fitted: FittedModel, notes: FitNotes) -> None:
    if notes.prior_share >= MOSTLY:
        warn(
            f"{FROM_PRIOR}: too few speakers have two samples in each of two channels. Add such speakers, or set 0.",
            parameter="interaction",
        )
    elif notes.form == "proportional" and fitted.used.kappa < VANISHED * notes.moment_kappa:
        warn(
            f"Maximum likelihood finds a kappa of {fitted.used.kappa:.2g} where the moments of the data say "
            f"{notes.moment_kappa:.2g}: with few speakers for the dimension V takes the interaction. Use priors "
            "of the noise and of the speaker, or reduce the dimension (PCA).",
            parameter="interaction",
        )


def _warn_of_floor(fitted: FittedModel, notes: FitNotes, statistics: Statistics) -> None:
    constant = np.flatnonzero(statistics.constant).tolist()
    constant_text = f"Column(s) {constant[:5]}{'...' if len(constant) > 5 else ''} are constant. " if constant else ""
    if notes.at_floor:
        warn(
            f"The noise covariance is at its floor ({fitted.settings.noise_floor:g} of the total variance) in "
            f"{notes.at_floor} of {statistics.n_features} directions: there the {statistics.n_samples:g} "
            f"samples of {statistics.n_speakers} speakers hardly vary within speakers and channels. {constant_text}"
            "Reduce the dimension (PCA), or use a noise prior."
        )
    elif constant:
        warn(f"{constant_text}Leave them out.", MildWarning)


def _warn_of_end(fitted: FittedModel, notes: FitNotes) -> None:
    trace, tol = fitted.trace, fitted.settings.tol
    n_iter = len(trace.log_likelihoods)
    if trace.interrupted:
        warn(f"EM was interrupted after {n_iter} iteration(s); the model so far is kept.", ConvergenceWarning)
    elif notes.stuck:
        remedy = "Raise the noise floor, use a noise prior, or reduce the dimension (PCA)."
        cause = "rounding" if trace.solver == "exact" else "the draws of the sampled solver"
        problem = f"EM stopped after {n_iter} iteration(s): the next one would have lost likelihood to {cause}."
        warn(
            f"{problem} {remedy if trace.solver == 'exact' else 'The exact solver has none, and takes longer.'}",
            ConvergenceWarning,
        )
    elif not trace.converged:
        gain = float(np.diff([notes.start, *trace.log_likelihoods])[-1])
        doubt = ", but the draws of the sampled solver leave that uncertain" if gain < tol else ""
        warn(
            f"EM did not converge in {n_iter} iterations: the last one gained {gain:.2g} nats per sample "
            f"(the limit is {tol:g}{doubt}).",
            NotConverged,
            remedy=Advice(
                "Raise max_iter or tol; with warm_start=True another fit goes on from here.",
                "Raise --max-iter or --tol.",
            ),
        )


def warn_of_design(design: Design, statistics: Statistics) -> None:
    """Warn of conditions whose channels are confounded with the speakers."""
    for k, (number, test) in enumerate(zip(design.crossed, design.tests, strict=True)):
        if test is None:
            if len(statistics.labels[1 + k]) < 2:
                warn(f"The condition {statistics.conditions[k]!r} has fewer than two channels: it is left out.")
            continue
        heard = "No speaker was" if not number else f"Only {number} speaker(s) were"
        if np.isnan(test.ratio):
            warn(
                f"{heard} heard in two channels of {test.condition!r}, and none of its channels has two speakers, so "
                f"channels and speakers cannot be separated: {test.condition!r} is left out, as in PLDA."
            )
        elif not test.matters:
            warn(
                f"{heard} heard in two channels of {test.condition!r}, and speakers of different channels differ no "
                f"more than chance allows (p = {test.p_value:.2g}): {test.condition!r} is left out, as in PLDA."
            )
        else:
            warn(
                f"{heard} heard in two channels of {test.condition!r}: the data show that channels differ "
                f"(F = {test.ratio:.3g}, p = {test.p_value:.2g}), but not how a channel changes a speaker. "
                f"{100 * test.share:.0f} % of the variance between channels is left to them, kappa is that of "
                "its prior, and the calibration is a cautious guess. A few speakers in two channels "
                "would help."
            )
