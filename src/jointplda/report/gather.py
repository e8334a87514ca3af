"""From evaluations and models to the contents of a report: curves thinned to the resolution of a plot."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import ndtri

from jointplda._typing import AnyArray, Array
from jointplda.calibration.pav import pav_curve
from jointplda.evaluation.evaluate import POOLED, Evaluation
from jointplda.metrics.measures import bayes_threshold
from jointplda.metrics.sorted_trials import SortedTrials, roc_for_drawing
from jointplda.metrics.trial_types import CROSS, SAME, TRIAL_TYPES, TYPE_PAIRS
from jointplda.report.content import Channels, Curve, Distribution, OperatingPoint, System, Training

BINS = 10, 80  # fewest and most bins of a histogram; between them 2 n^(1/3), the rule of Rice
CURVE_POINTS = 400
_OUTSIDE = 0.001  # share of the scores that its histogram may leave out at either end
_GRID = 120.0  # points per unit of a probit axis
_EDGE = 1e-5


def system_of(name: str, result: Evaluation, *, description: str = "", model: Any = None) -> System:
    """The results of one system, ready to be drawn; with a ``model`` also how that was trained."""
    order = np.argsort(result.scores)
    trials = SortedTrials(result.scores[order], result.target[order])
    truth = {"target": trials.target, "non-target": ~trials.target}
    det, types = {POOLED: _det(trials)}, truth
    if result.same_channel is not None:
        where = {SAME: result.same_channel[order] == 1, CROSS: result.same_channel[order] == 0}
        types = {each: where[channel] & truth[kind] for each, (channel, kind) in TRIAL_TYPES.items()}
        for part, (first, second) in TYPE_PAIRS.items():
            if result.parts[part].measures is not None:
                det[part] = _det(trials.take(types[f"{first} target"] | types[f"{second} non-target"]))
    histograms = {each: _distribution(trials.scores[mask]) for each, mask in types.items()}
    return System(
        name=name,
        metrics={part: each.estimates for part, each in result.parts.items() if each.measures is not None},
        counts={part: (each.targets, each.nontargets) for part, each in result.parts.items()},
        det=det,
        points=_points(trials, result),
        histograms={each: histogram for each, histogram in histograms.items() if histogram is not None},
        tippett={"target": _tippett(trials.targets), "non-target": _tippett(trials.nontargets)},
        pav=_pav(trials),
        is_llr=result.is_llr,
        description=description,
        training=None if model is None else training_of(model),
    )


def training_of(model: Any) -> Training:
    """How a fitted model was trained: the trace of EM, shares of variance, singular values, positions of channels."""
    estimator = model[-1] if hasattr(model, "steps") else model
    candidates, best = getattr(estimator, "candidates_", ()), getattr(estimator, "best_estimator_", None)
    fitted = (estimator if best is None else best[-1]).fitted_
    loadings = {factor.name: factor.loading for factor in fitted.channel_factors if factor.rank}
    spectra = {"V": np.linalg.svd(fitted.factors[0].loading, compute_uv=False)}
    for name, U in loadings.items():
        spectra["U" if len(loadings) == 1 else f"U ({name})"] = np.linalg.svd(U, compute_uv=False)
    return Training(
        objective=fitted.trace.log_likelihoods,
        objective_name="log-likelihood with priors" if fitted.trace.penalised else "log-likelihood",
        converged=fitted.trace.converged,
        singular_values=spectra,
        variance_shares=fitted.variance_shares,
        channels=_channels(loadings, fitted.training),
        attempts=candidates,
    )


def _channels(loadings: Mapping[str, AnyArray], training: Any) -> list[Channels]:
    """Posterior means of the training channels: U x along the two longest axes of U."""
    if training is None or len(training.channels) != len(loadings):
        return []
    positions, start = [], 0
    for (name, U), labels, counts in zip(loadings.items(), training.channels, training.channel_counts, strict=True):
        size = len(labels) * U.shape[1]
        x = np.asarray(training.channel_means[start : start + size]).reshape(len(labels), U.shape[1])
        start += size
        _, lengths, axes = np.linalg.svd(U, full_matrices=False)
        at = np.pad(x @ axes.T * lengths, ((0, 0), (0, 1)))[:, :2]
        first, second = np.append(lengths**2 / np.sum(lengths**2), 0.0)[:2].tolist()
        numbers = np.asarray(counts).astype(np.int64)
        positions.append(Channels(name, [str(label) for label in labels], at, numbers, (first, second)))
    return positions


def _det(trials: SortedTrials) -> Curve:
    """Steps of the ROC, as many as the axes of a DET plot resolve."""
    _, p_miss, p_fa = roc_for_drawing(trials)
    grid = np.stack([np.round(ndtri(np.clip(p, _EDGE, 1 - _EDGE)) * _GRID) for p in (p_miss, p_fa)])
    moved = np.any(grid[:, 1:] != grid[:, :-1], axis=0)
    kept = np.concatenate(([True], moved)) | np.concatenate((moved, [True]))
    return Curve(p_fa[kept], p_miss[kept])


def _points(trials: SortedTrials, result: Evaluation) -> list[OperatingPoint]:
    """Error rates at the best and at the Bayes threshold of every prior, on all trials."""
    measures = result.pooled.measures
    if measures is None or measures.hull is None:
        return []
    outline, points = measures.hull, []
    for prior in measures.min_dcf:
        best = int(np.argmin(prior * outline.p_miss + (1 - prior) * outline.p_fa))
        p_miss, p_fa = map(float, trials.rates(np.asarray(bayes_threshold(prior))))
        actual = (p_fa, p_miss) if result.is_llr else None
        points.append(OperatingPoint(prior, (float(outline.p_fa[best]), float(outline.p_miss[best])), actual))
    return points


def _distribution(ordered: Array) -> Distribution | None:
    """Histogram over the range of these scores, ascending; at most ``_OUTSIDE`` of them are outside at either end."""
    finite = ordered[np.isfinite(ordered)]
    if not len(finite):
        return None
    skipped = int(_OUTSIDE * (len(finite) - 1))
    low, high = finite[skipped], finite[len(finite) - 1 - skipped]
    bins = int(np.clip(2 * len(finite) ** (1 / 3), *BINS))
    edges = np.linspace(low, max(high, low + 1e-9 * max(1.0, abs(low))), bins + 1)
    places = np.searchsorted(finite, edges)
    places[-1] = np.searchsorted(finite, edges[-1], side="right")
    counts = np.diff(places)
    n = len(ordered)
    below, above = float(np.mean(ordered < edges[0])), float(np.mean(ordered > edges[-1]))
    return Distribution(edges, counts / (n * (edges[1] - edges[0])), below, above, n)


def _tippett(ordered: Array) -> Curve:
    """Share of the scores that are at least x."""
    rank = np.unique(np.linspace(0, len(ordered) - 1, CURVE_POINTS).astype(np.int64))
    return Curve(ordered[rank], 1.0 - rank / len(ordered))


def _pav(trials: SortedTrials) -> Curve:
    finite = trials.take(np.isfinite(trials.scores))
    one_class = finite.target.all() or not finite.target.any()
    return Curve(np.zeros(0), np.zeros(0)) if one_class else Curve(*pav_curve(finite))
