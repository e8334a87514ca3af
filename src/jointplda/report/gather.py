"""What a report shows, made of evaluations and models: curves thinned to what a plot can show."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from jointplda._typing import AnyArray, Array
from jointplda.calibration.pav import pav_curve
from jointplda.evaluation.evaluate import POOLED, Evaluation, Part
from jointplda.metrics.cells import cell_parts
from jointplda.metrics.convex_hull import hull
from jointplda.metrics.measures import PRIORS, bayes_threshold
from jointplda.metrics.roc_curve import roc_at
from jointplda.report.content import (
    CELLS,
    Attempt,
    Channels,
    Curve,
    Distribution,
    OperatingPoint,
    System,
    Training,
    Value,
)

BINS = 80
CURVE_POINTS = 400
_GRID = 60.0  # points per unit of a probit axis
_EDGE = 1e-5


def system_of(name: str, result: Evaluation, *, description: str = "", model: Any = None) -> System:
    """One system's results, ready to be drawn.

    Parameters
    ----------
    name, description : str
    result : Evaluation
    model : PLDA, JointPLDA or Pipeline, optional
        Adds how it was trained.

    Returns
    -------
    System
    """
    parts = {part: found for part, found in result.parts.items() if found.measures is not None}
    return System(
        name=name,
        metrics={part: _values(found) for part, found in parts.items()},
        counts={part: (found.targets, found.nontargets) for part, found in result.parts.items()},
        det=_det_curves(result),
        points=_points(result),
        cells=_distributions(result),
        tippett=_tippett(result),
        pav=_pav(result),
        is_llr=result.is_llr,
        description=description,
        training=None if model is None else training_of(model),
    )


def training_of(model: Any) -> Training:
    """How a fitted model came about: EM's trace, singular values of V and U, where its channels sit."""
    fitted = model[-1] if hasattr(model, "steps") else model
    conditions = list(fitted.training_.get("conditions", ())) if hasattr(fitted, "training_") else []
    ranks = [int(rank) for rank in fitted.channel_ranks_]
    names = conditions if len(conditions) == len(ranks) else [f"channel {k + 1}" for k in range(len(ranks))]
    ends = np.cumsum([0, *ranks])
    loadings = {name: fitted.U_[:, ends[k] : ends[k + 1]] for k, name in enumerate(names) if ranks[k]}
    singular = {"V": _singular_values(fitted.V_)}
    for name, U in loadings.items():
        singular["U" if len(loadings) == 1 else f"U ({name})"] = _singular_values(U)
    settings = getattr(fitted, "settings_", None) or fitted.get_params(deep=False)
    penalised = settings["noise_prior"] > 0 or settings["speaker_prior"] > 0
    return Training(
        objective=np.asarray(fitted.log_likelihoods_, dtype=np.float64),
        objective_name="log-likelihood with priors" if penalised else "log-likelihood",
        converged=bool(fitted.converged_),
        singular_values=singular,
        channels=_channels(loadings, getattr(fitted, "seen_", None)),
        attempts=[_attempt(one) for one in getattr(fitted, "tried_", ())],
    )


def _attempt(tried: Any) -> Attempt:
    one = tried.candidate
    channels = "".join(
        f", U {prior:g} (rank {rank})" if rank else ", no U"
        for rank, prior in zip(one.channel_ranks, one.channel_priors, strict=True)
    )
    name = f"noise {one.noise_prior:g}, speaker {one.speaker_prior:g}{channels}"
    return Attempt(name, tried.criterion, tried.error, tried.chosen)


def _channels(loadings: Mapping[str, AnyArray], seen: Any) -> list[Channels]:
    """Posterior means of the training channels, U x along U's two longest axes."""
    if seen is None or len(seen.channels) != len(loadings):
        return []
    found, start = [], 0
    for (name, U), labels, counts in zip(loadings.items(), seen.channels, seen.channel_counts, strict=True):
        size = len(labels) * U.shape[1]
        x = np.asarray(seen.channel_means[start : start + size]).reshape(len(labels), U.shape[1])
        start += size
        _, lengths, axes = np.linalg.svd(U, full_matrices=False)
        at = x @ axes.T * lengths
        shares = np.append(lengths**2 / np.sum(lengths**2), 0.0)
        at = at[:, :2] if at.shape[1] > 1 else np.column_stack((at, np.zeros(len(at))))
        numbers = np.asarray(counts).astype(np.int64)
        found.append(
            Channels(name, [str(label) for label in labels], at, numbers, (float(shares[0]), float(shares[1])))
        )
    return found


def _values(part: Part) -> dict[str, Value]:
    assert part.measures is not None
    return {
        name: Value(value, *part.intervals.get(name, (float("nan"), float("nan"))))
        for name, value in part.measures.named().items()
    }


def _det_curves(result: Evaluation) -> dict[str, Curve]:
    """Steps of the ROC, pooled and in the cells, at the resolution of a plot."""
    curves = {POOLED: _det(result.scores, result.target)}
    if result.same_channel is not None:
        known = result.same_channel >= 0
        for name, members in cell_parts(result.target, result.same_channel == 1).items():
            part = result.parts.get(name)
            if part is not None and part.measures is not None:
                curves[name] = _det(result.scores[members & known], result.target[members & known])
    return curves


def _det(scores: Array, target: NDArray[np.bool_]) -> Curve:
    _, p_miss, p_fa = roc_at(scores, target)
    grid = np.stack([np.round(ndtri(np.clip(p, _EDGE, 1 - _EDGE)) * _GRID) for p in (p_miss, p_fa)])
    moved = np.any(grid[:, 1:] != grid[:, :-1], axis=0)
    kept = np.concatenate(([True], moved)) | np.concatenate((moved, [True]))
    return Curve(p_fa[kept], p_miss[kept])


def _points(result: Evaluation) -> list[OperatingPoint]:
    """Where the usual operating points fall on the pooled curve."""
    outline = hull(result.scores, result.target)
    measures = result.pooled.measures
    points = []
    for prior in measures.min_dcf if measures is not None else PRIORS:
        best = int(np.argmin(prior * outline.p_miss + (1 - prior) * outline.p_fa))
        actual = _rates(result, bayes_threshold(prior)) if result.is_llr else None
        points.append(OperatingPoint(prior, (float(outline.p_fa[best]), float(outline.p_miss[best])), actual))
    return points


def _rates(result: Evaluation, threshold: float) -> tuple[float, float]:
    """(P_fa, P_miss) at a threshold."""
    accepted = result.scores >= threshold
    return float(np.mean(accepted[~result.target])), float(np.mean(~accepted[result.target]))


def _distributions(result: Evaluation) -> dict[str, Distribution]:
    """Histograms by truth and shared channel, on common edges."""
    finite = result.scores[np.isfinite(result.scores)]
    if not len(finite):
        return {}
    low, high = np.quantile(finite, [0.002, 0.998])
    high = max(high, low + 1e-9 * max(1.0, abs(low)))
    edges = np.linspace(low, high, BINS + 1)
    return {
        name: _distribution(result.scores[members], edges) for name, members in _cell_members(result) if members.any()
    }


def _cell_members(result: Evaluation) -> list[tuple[str, NDArray[np.bool_]]]:
    if result.same_channel is None:
        return [("target", result.target), ("non-target", ~result.target)]
    by_name = {"same": result.same_channel == 1, "cross": result.same_channel == 0}
    truth = {"target": result.target, "non-target": ~result.target}
    return [(cell, by_name[cell.split()[0]] & truth[cell.split()[1]]) for cell in CELLS]


def _distribution(scores: Array, edges: Array) -> Distribution:
    counts, _ = np.histogram(scores[np.isfinite(scores)], edges)
    width = edges[1] - edges[0]
    n = len(scores)
    return Distribution(
        edges, counts / (n * width), float(np.mean(scores < edges[0])), float(np.mean(scores > edges[-1])), n
    )


def _tippett(result: Evaluation) -> dict[str, Curve]:
    """Share of targets, and of non-targets, whose score is at least x."""
    curves = {}
    for name, members in (("target", result.target), ("non-target", ~result.target)):
        ordered = np.sort(result.scores[members])
        rank = np.unique(np.linspace(0, len(ordered) - 1, CURVE_POINTS).astype(np.int64))
        curves[name] = Curve(ordered[rank], 1.0 - rank / len(ordered))
    return curves


def _pav(result: Evaluation) -> Curve:
    finite = np.isfinite(result.scores)
    if len(np.unique(result.target[finite])) < 2:
        return Curve(np.zeros(0), np.zeros(0))
    return Curve(*pav_curve(result.scores[finite], result.target[finite]))


def _singular_values(loading: AnyArray) -> Array:
    return np.asarray(np.linalg.svd(loading, compute_uv=False), dtype=np.float64)
