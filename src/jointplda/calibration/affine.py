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
        Target prior the fit was weighted to.
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
    doubt: float = 0.0,
) -> AffineCalibration:
    """Fit scale a and offset b.

    Minimises p mean_tar ln(1 + e^-(a s + b + l)) + (1 - p) mean_non ln(1 + e^(a s + b + l)), l = log p/(1 - p), by
    Newton's method: at p = 1/2 this is Cllr itself.

    Parameters
    ----------
    scores : array-like, shape (n,)
        Infinite ones are left out of the fit, with a warning.
    target : array-like of bool, shape (n,)
    prior : float
        Target prior p to be best at.
    weights : array-like, shape (n,), optional
        Weight of each trial within its class.
    doubt : float
        Share of every label that is given to the other class. With 1 / (n + 2), the rule of succession for n
        independent cases, log-likelihood ratios stay within what n cases can support.

    Returns
    -------
    AffineCalibration

    Notes
    -----
    Where a threshold parts all targets from all non-targets no finite scale is best. Each class is then given the
    rule-of-succession share of the other, (n + 1) / (n + 2) against 1 / (n + 2), and a warning says so.
    """
    if not 0 < prior < 1:
        raise InputError(f"prior should lie between 0 and 1, got {prior!r}.")
    if not 0 <= doubt < 0.5:
        raise InputError(f"doubt should be at least 0 and below 1/2, got {doubt!r}.")
    values, mask = finite_trials(scores, target)
    share = np.ones(len(values)) if weights is None else _finite_weights(scores, target, weights)
    centre, spread = float(values.mean()), float(values.std())
    if spread <= 1e-12 * max(abs(centre), 1e-300):
        raise InputError("all scores are equal, so that nothing can be calibrated.")
    z = (values - centre) / spread
    truth = np.where(mask, 1.0 - doubt, doubt)
    if not doubt and _parted(values, mask):
        warn(
            "a threshold parts all targets from all non-targets: the scale of the calibration is a guess from "
            "the number of trials alone. Calibrate on more, or harder, trials."
        )
        targets, nontargets = np.count_nonzero(mask), np.count_nonzero(~mask)
        truth = np.where(mask, (targets + 1) / (targets + 2), 1 / (nontargets + 2))
    weight = share * np.where(mask, prior / share[mask].sum(), (1 - prior) / share[~mask].sum())
    a, b = _newton(z, truth, weight, float(np.log(prior / (1 - prior))))
    if a <= 0:
        warn(
            "targets score lower than non-targets on average, so that the calibration turns scores round. Check the "
            "key, and that higher scores mean the same speaker."
        )
    return AffineCalibration(a / spread, b - a * centre / spread, prior)


def _parted(values: Array, mask: BoolArray) -> bool:
    """Whether a threshold parts all targets from all non-targets."""
    return bool(values[mask].min() >= values[~mask].max() or values[mask].max() <= values[~mask].min())


def _finite_weights(scores: ArrayLike, target: ArrayLike, weights: ArrayLike) -> Array:
    """Weights of the trials with finite scores."""
    values, mask = as_trials(scores, target)
    share, finite = as_weights(weights, mask), np.isfinite(values)
    as_weights(share[finite], mask[finite])
    return share[finite]


def _newton(z: Array, truth: Array, weight: Array, shift: float) -> tuple[float, float]:
    """Newton's method with halved steps on the two parameters; the cost is convex."""
    parameters, value = np.array([0.0, 0.0]), np.inf
    step = np.zeros(2)
    for _ in range(_ITERATIONS):
        trial = parameters - step
        logit = trial[0] * z + trial[1] + shift
        cost = float(weight @ (np.logaddexp(0.0, logit) - truth * logit))
        if cost > value:
            if np.abs(step).max() < 1e-9 * max(1.0, float(np.abs(parameters).max())):
                break  # Newton's steps shrink quadratically: what such a one would gain is rounding
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


def finite_trials(scores: ArrayLike, target: ArrayLike) -> tuple[Array, BoolArray]:
    """Trials with finite scores, of both classes."""
    values, mask = as_trials(scores, target)
    finite = np.isfinite(values)
    if finite.all():
        return values, mask
    left = int(len(values) - np.count_nonzero(finite))
    if not mask[finite].any() or mask[finite].all():
        raise InputError(f"{left:,} of {len(values):,} scores are infinite and leave only one class to calibrate on.")
    warn(f"{left:,} of {len(values):,} scores are infinite and were left out of the calibration.")
    return values[finite], mask[finite]
