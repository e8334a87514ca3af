"""Warnings after a fit: about the end of EM, and about what the data do not determine."""

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from jointplda.errors import Advice, DataWarning, MildWarning, warn
from jointplda.model.fit import FitResult
from jointplda.model.statistics import Statistics
from jointplda.selection.design import Design

MOSTLY = 0.5
VANISHED = 0.25
BELIEVED = "How far speaker and channel interact is mostly believed"


class NotConverged(DataWarning, ConvergenceWarning):  # type: ignore[misc]
    """EM did not converge in the iterations it was given."""


def warn_of_fit(result: FitResult, statistics: Statistics, tol: float, noise_floor: float) -> None:
    """Warn of confounded labels, of noise at its floor, and of EM that did not converge."""
    _warn_of_labels(statistics)
    _warn_of_belief(result)
    _warn_of_floor(result, statistics, noise_floor)
    _warn_of_end(result, tol)


def _warn_of_labels(statistics: Statistics) -> None:
    names = ("speaker", *statistics.conditions)
    for k, name in enumerate(names):
        for j in range(k + 1, len(names)):
            pairs = [part.links[k, j] for part in statistics.parts.values() if (k, j) in part.links]
            if not pairs:
                continue
            rows = np.concatenate([links.rows for links in pairs])
            columns = np.concatenate([links.columns for links in pairs])
            linked = np.unique(np.stack([rows, columns]), axis=1).shape[1]
            if linked == len(np.unique(rows)) == len(np.unique(columns)):
                warn(
                    f"The labels of {name!r} and {names[j]!r} always go together: they are confounded, and each gets a "
                    f"share of the variance. Is {names[j]!r} the right column?"
                )


def _warn_of_belief(result: FitResult) -> None:
    if result.believed >= MOSTLY:
        warn(
            f"{BELIEVED}, not measured: hardly any speakers were heard in two channels, or hardly any twice in one. A "
            "few speakers in two channels, twice in each, would show it; 0 is the model without it.",
            parameter="interaction",
        )
    elif result.form == "proportional" and result.fit.parameters.kappa < VANISHED * result.moment_kappa:
        warn(
            f"Maximum likelihood finds a kappa of {result.fit.parameters.kappa:.2g} where the moments of the data say "
            f"{result.moment_kappa:.2g}: with few speakers for the dimension V takes the interaction. Use priors of "
            "the noise and of the speaker, or reduce the dimension (PCA).",
            parameter="interaction",
        )


def _warn_of_floor(result: FitResult, statistics: Statistics, share: float) -> None:
    constant = np.flatnonzero(statistics.constant).tolist()
    constant_text = f"Column(s) {constant[:5]}{'...' if len(constant) > 5 else ''} are constant. " if constant else ""
    if result.at_floor:
        warn(
            f"The noise covariance is at its floor ({share:g} of the total variance) in {result.at_floor} of "
            f"{statistics.n_features} directions: there the {statistics.n_samples:g} samples of "
            f"{statistics.n_speakers} speakers hardly vary within speakers and channels. {constant_text}"
            "Reduce the dimension (PCA), or use a noise prior."
        )
    elif constant:
        warn(f"{constant_text}Leave them out.", MildWarning)


def _warn_of_end(result: FitResult, tol: float) -> None:
    n_iter = len(result.fit.log_likelihoods)
    if result.interrupted:
        warn(f"EM was interrupted after {n_iter} iteration(s); the model so far is kept.", ConvergenceWarning)
    elif result.fit.stuck:
        warn(
            f"EM stopped after {n_iter} iteration(s): the next one would have lost likelihood to rounding. "
            "Raise the noise floor, use a noise prior, or reduce the dimension (PCA).",
            ConvergenceWarning,
        )
    elif not result.fit.converged:
        trace = (result.fit.start, *result.fit.log_likelihoods)
        warn(
            f"EM did not converge in {n_iter} iterations: the last one gained {trace[-1] - trace[-2]:.2g} nats per "
            f"sample (the limit is {tol:g}).",
            NotConverged,
            remedy=Advice(
                "Raise max_iter or tol; with warm_start=True another fit goes on from here.",
                "Raise --max-iter or --tol.",
            ),
        )


def warn_of_forgotten_channels(channels: int, columns: int) -> None:
    """Warn that the channels of training were too many to keep because a prior gave U many columns."""
    warn(
        f"{channels} training channels are too many to keep with the model, since the prior gives U {columns} columns: "
        "they are scored as new channels, and the speakers and channels of training cannot be predicted. If you need "
        "them, use no channel prior, or fewer dimensions (PCA).",
        parameter="channel_prior",
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
                f"{100 * test.share:.0f} % of the variance between channels is left to them, how far speaker and "
                "channel interact is believed, and the calibration is a cautious guess. A few speakers in two channels "
                "would help."
            )
