"""A calibration fitted to the scores of held-out training speakers, and their Cllr."""

import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from jointplda._typing import Array, BoolArray, IntArray
from jointplda.calibration.affine import AffineCalibration, fit_affine
from jointplda.errors import DataWarning
from jointplda.metrics import cllr, min_cllr

OVERCONFIDENT = 0.1  # bits of Cllr above the best
ENOUGH_TRIALS = 20_000
FEW_SPEAKERS = 20


class CalibrationTrials(NamedTuple):
    """Held-out pairs: their raw scores, whether they are targets, their weights and their folds."""

    scores: Array
    target: BoolArray
    weights: Array
    fold: IntArray


@dataclass(frozen=True)
class HeldOutCllr:
    """Cllr of the chosen settings on held-out training speakers, in bits.

    Same- and cross-channel trials have equal weight.

    Attributes
    ----------
    raw_cllr : float
        Cllr of the log-likelihood ratios of the model; above 1 they are worse than none.
    calibrated_cllr : float
        Cllr after the calibration, on the trials that it was fitted to.
    min_cllr : float
        Cllr after the best possible calibration.
    speakers, trials : int
    cross_channel_targets : bool
        Whether enough speakers were heard in two channels; if not, target samples were moved to other channels.
    separable : bool
        Whether every target scores higher than every non-target, so that the trials do not show how far scores may go.
    """

    raw_cllr: float
    calibrated_cllr: float
    min_cllr: float
    speakers: int
    trials: int
    cross_channel_targets: bool
    separable: bool = False

    @property
    def overconfident(self) -> bool:
        """Whether Cllr of the raw log-likelihood ratios is more than 0.1 bits above minCllr."""
        return self.raw_cllr > self.min_cllr + OVERCONFIDENT

    def __str__(self) -> str:
        return (
            f"Cllr of held-out training speakers: {self.raw_cllr:.3g} bits raw, {self.calibrated_cllr:.3g} calibrated, "
            f"{self.min_cllr:.3g} at best"
        )


def calibrate_held_out(
    trials: CalibrationTrials, speakers: int, *, confounded: bool
) -> tuple[AffineCalibration | None, HeldOutCllr]:
    """Fit a calibration to the pairs of held-out speakers, and measure Cllr before and after it.

    Label smoothing of 1 / (speakers + 2), the rule of succession, keeps scores within what so many speakers support. If
    speakers and channels are confounded it stays; if they are crossed and there are 20 or more speakers, there is none
    where that gives a lower Cllr on held-out folds.

    Trials that contradict the raw log-likelihood ratios nowhere do not say how far these may go. Where a threshold
    separates the trials, labels are smoothed towards the ratios themselves; and ratios of crossed speakers that cost
    less than one error in as many speakers stay as they are. The calibration is None if targets do not score higher
    than non-targets.
    """
    scores, target, weights, _ = trials
    raw, smoothing = cllr(scores, target, weights), 1.0 / (speakers + 2)
    separable = bool(scores[target].min() > scores[~target].max())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        if not confounded and raw <= -np.log2(1.0 - smoothing):
            fitted = AffineCalibration(1.0, 0.0)
        elif separable:
            fitted = fit_affine(scores, target, weights=weights, label_smoothing=smoothing, towards_scores=True)
        else:
            if not confounded and speakers >= FEW_SPEAKERS:
                smoothing = min((0.0, smoothing), key=lambda candidate: _held_out_cllr(trials, candidate))
            fitted = fit_affine(scores, target, weights=weights, label_smoothing=smoothing)
    calibration = fitted if fitted.scale > 0 else None
    after = scores if calibration is None else calibration.apply(scores)
    checked = HeldOutCllr(
        raw_cllr=raw,
        calibrated_cllr=cllr(after, target, weights),
        min_cllr=min_cllr(scores, target, weights),
        speakers=speakers,
        trials=len(target),
        cross_channel_targets=not confounded,
        separable=separable,
    )
    return calibration, checked


def _held_out_cllr(trials: CalibrationTrials, label_smoothing: float) -> float:
    """Mean over folds of the Cllr of a fold after a calibration fitted to the other folds.

    Where there are many non-targets, only some of them are used.
    """
    cllrs = []
    others = np.flatnonzero(~trials.target)
    thinned = others[:: 1 + len(others) // ENOUGH_TRIALS]
    rows = np.sort(np.concatenate([np.flatnonzero(trials.target), thinned]))
    scores, target, weights, fold = (column[rows] for column in trials)
    for i in np.unique(fold):
        rest, own = fold != i, fold == i
        fitted = fit_affine(scores[rest], target[rest], weights=weights[rest], label_smoothing=label_smoothing)
        cllrs.append(cllr(fitted.apply(scores[own]), target[own], weights[own]))
    return float(np.mean(cllrs))
