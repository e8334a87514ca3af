"""A calibration fitted to the scores of held-out training speakers, and what it promises."""

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
    """Raw scores of held-out pairs, which are targets, their weights, and the fold of each."""

    scores: Array
    target: BoolArray
    weights: Array
    fold: IntArray


@dataclass(frozen=True)
class Checked:
    """How the chosen settings did on training speakers that the models scoring them had not seen.

    Cllr is in bits, same- and cross-channel trials counting alike.

    Attributes
    ----------
    raw_cllr : float
        Cllr of the model's own log-likelihood ratios; above 1 they are worse than none.
    calibrated_cllr : float
        Cllr after the calibration, on the trials it was fitted to.
    min_cllr : float
        Cllr after the best calibration possible.
    speakers, trials : int
    cross_channel_targets : bool
        Whether enough speakers were heard in two channels. If not, targets were moved to other channels by rule.
    """

    raw_cllr: float
    calibrated_cllr: float
    min_cllr: float
    speakers: int
    trials: int
    cross_channel_targets: bool

    @property
    def overconfident(self) -> bool:
        """Whether the raw log-likelihood ratios cost 0.1 bits more than they need."""
        return self.raw_cllr > self.min_cllr + OVERCONFIDENT

    def __str__(self) -> str:
        return (
            f"Cllr of held-out training speakers: {self.raw_cllr:.3g} bits raw, {self.calibrated_cllr:.3g} calibrated, "
            f"{self.min_cllr:.3g} at best"
        )


def calibrate_held_out(
    trials: CalibrationTrials, speakers: int, *, confounded: bool
) -> tuple[AffineCalibration | None, Checked]:
    """Fit a calibration to the pairs of held-out speakers, and measure what it was good for.

    Labels are smoothed by 1 / (speakers + 2), the rule of succession; not smoothed where speakers are crossed with
    channels, there are 20 or more of them, and held-out folds favour that. The calibration is None where targets do
    not score higher than non-targets.
    """
    scores, target, weights, _ = trials
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        smoothing = 1.0 / (speakers + 2)
        if not confounded and speakers >= FEW_SPEAKERS:
            smoothing = min((0.0, smoothing), key=lambda share: _cost_of_smoothing(trials, share))
        fitted = fit_affine(scores, target, weights=weights, label_smoothing=smoothing)
    calibration = fitted if fitted.scale > 0 else None
    after = scores if calibration is None else calibration.apply(scores)
    checked = Checked(
        raw_cllr=cllr(scores, target, weights),
        calibrated_cllr=cllr(after, target, weights),
        min_cllr=min_cllr(scores, target, weights),
        speakers=speakers,
        trials=len(target),
        cross_channel_targets=not confounded,
    )
    return calibration, checked


def _cost_of_smoothing(trials: CalibrationTrials, share: float) -> float:
    """Mean over folds of the Cllr of a fold after a calibration fitted to the others with such a label smoothing.

    Of many trials all targets are taken, and a part of the non-targets.
    """
    costs = []
    others = np.flatnonzero(~trials.target)
    thinned = others[:: 1 + len(others) // ENOUGH_TRIALS]
    scores, target, weights, fold = (
        each[np.sort(np.concatenate([np.flatnonzero(trials.target), thinned]))] for each in trials
    )
    for i in np.unique(fold):
        rest, own = fold != i, fold == i
        fitted = fit_affine(scores[rest], target[rest], weights=weights[rest], label_smoothing=share)
        costs.append(cllr(fitted.apply(scores[own]), target[own], weights[own]))
    return float(np.mean(costs))
