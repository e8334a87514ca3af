"""Affine calibration, llr = a s + b, by prior-weighted logistic regression."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from jointplda._typing import Array, BoolArray
from jointplda.errors import InputError, warn
from jointplda.metrics._checks import as_scores, as_trials, as_weights

_ITERATIONS = 100


@dataclass(frozen=True)
class AffineCalibration:
    """llr = scale s + offset.

    Parameters
    ----------
    scale, offset : float
    prior : float
        Target prior that the two classes were weighted to in the fit.
    """

    scale: float
    offset: float
    prior: float = 0.5

    def apply(self, scores: ArrayLike) -> Array:
        """Calibrated log-likelihood ratios of scores, shape (n,)."""
        return self.scale * as_scores(scores) + self.offset


def fit_affine(
    scores: ArrayLike,
    target: ArrayLike,
    *,
    prior: float = 0.5,
    weights: ArrayLike | None = None,
    label_smoothing: float = 0.0,
    towards_scores: bool = False,
) -> AffineCalibration:
    """Fit scale a and offset b.

    They minimise p mean_tar ln(1 + e^-(a s + b + l)) + (1 - p) mean_non ln(1 + e^(a s + b + l)), l = log p/(1 - p), by
    Newton's method: at p = 1/2 this is Cllr itself.

    Parameters
    ----------
    scores : array-like, shape (n,)
        Infinite scores are left out of the fit, with a warning.
    target : array-like of bool, shape (n,)
    prior : float
        Target prior p that the calibration is optimised for.
    weights : array-like, shape (n,), optional
        Weight of each trial within its class.
    label_smoothing : float
        Label smoothing: targets are fitted as 1 - s, non-targets as s. With s = 1 / (n + 2), the rule of succession
        for n independent cases, log-likelihood ratios stay within what n cases can support.
    towards_scores : bool
        Smooth labels towards what the scores say as they are: a label t is fitted as (1 - s) t + s / (1 + e^-(score +
        l)). Log-likelihood ratios that the trials do not contradict then stay as they are.

    Notes
    -----
    Where a threshold separates all targets from all non-targets, no finite scale is best. The labels of each class
    are then smoothed by the rule of succession, with s = 1 / (n + 2) for its n trials, and a warning is given.
    """
    if not 0 < prior < 1:
        raise InputError(f"expected a number between 0 and 1, got {prior!r}.", parameter="prior")
    if not 0 <= label_smoothing < 0.5:
        raise InputError(
            f"expected a number from 0 to below 1/2, got {label_smoothing!r}.", parameter="label_smoothing"
        )
    values, mask, share = finite_trials(scores, target, weights)
    centre, spread = float(values.mean()), float(values.std())
    if spread <= 1e-12 * max(abs(centre), 1e-300):
        raise InputError("all scores are equal, so that no calibration can be fitted.", parameter="scores")
    z = (values - centre) / spread
    shift = float(np.log(prior / (1 - prior)))
    truth = _smoothed(values, mask, label_smoothing, shift if towards_scores else None)
    weight = share * np.where(mask, prior / share[mask].sum(), (1 - prior) / share[~mask].sum())
    a, b = _newton(z, truth, weight, shift)
    if a <= 0:
        warn(
            "targets score lower than non-targets, so that the calibration reverses the order of scores. Check the "
            "key, and that higher scores mean the same speaker."
        )
    return AffineCalibration(a / spread, b - a * centre / spread, prior)


def _smoothed(values: Array, mask: BoolArray, smoothing: float, towards: float | None) -> Array:
    """Labels to fit: smoothed towards 1/2, or towards the scores with log prior odds ``towards``."""
    if towards is not None:
        return np.asarray((1.0 - smoothing) * mask + smoothing * expit(values + towards))
    separated = values[mask].min() >= values[~mask].max() or values[mask].max() <= values[~mask].min()
    if not separated or smoothing:
        return np.where(mask, 1.0 - smoothing, smoothing)
    warn(
        "a threshold separates all targets from all non-targets, so that the scale of the calibration follows from "
        "the number of trials alone. Calibrate on more, or on harder, trials."
    )
    targets, nontargets = np.count_nonzero(mask), np.count_nonzero(~mask)
    return np.where(mask, (targets + 1) / (targets + 2), 1 / (nontargets + 2))


def _newton(z: Array, truth: Array, weight: Array, shift: float) -> tuple[float, float]:
    """Minimise the convex cost over scale and offset by Newton's method with step halving."""
    parameters, value = np.array([0.0, 0.0]), np.inf
    step = np.zeros(2)
    for _ in range(_ITERATIONS):
        trial = parameters - step
        logit = trial[0] * z + trial[1] + shift
        cost = float(weight @ (np.logaddexp(0.0, logit) - truth * logit))
        if cost > value:
            if np.abs(step).max() < 1e-9 * max(1.0, float(np.abs(parameters).max())):
                break  # Newton's steps shrink quadratically: so small a step gains no more than rounding
            step /= 2
            continue
        gain, parameters, value = value - cost, trial, cost
        share = expit(logit)
        residual, curvature = weight * (share - truth), weight * share * (1 - share)
        gradient = np.array([residual @ z, residual.sum()])
        cross = curvature @ z
        hessian = np.array([[curvature @ z**2, cross], [cross, curvature.sum()]])
        step = np.linalg.solve(hessian + 1e-15 * np.eye(2) * np.trace(hessian), gradient)
        if gain <= 1e-16 * value and np.abs(gradient).max() < 1e-12:
            break
    return float(parameters[0]), float(parameters[1])


def finite_trials(
    scores: ArrayLike, target: ArrayLike, weights: ArrayLike | None = None
) -> tuple[Array, BoolArray, Array]:
    """Trials with finite scores, of both classes, and their weights."""
    values, mask = as_trials(scores, target)
    share = np.ones(len(values)) if weights is None else as_weights(weights, mask)
    finite = np.isfinite(values)
    if finite.all():
        return values, mask, share
    infinite = f"{np.count_nonzero(~finite):,} of {len(values):,} scores are infinite"
    if not mask[finite].any() or mask[finite].all():
        raise InputError(f"{infinite}; the finite ones are all of one class.", parameter="scores")
    warn(f"{infinite} and were left out of the calibration.")
    return values[finite], mask[finite], as_weights(share[finite], mask[finite])
