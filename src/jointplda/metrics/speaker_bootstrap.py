"""Bootstrap intervals over speakers: speakers are drawn with replacement, and trials follow their speakers.

A draw gives speaker i the weight w_i, the number of times it was drawn. A trial between speakers i and j has the
weight w_i w_j, a trial within speaker i the weight w_i. Scores are never copied: trials are counted once by pair of
speakers and by score bin, and all draws come from products of that sparse table with the weights of the pairs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csc_array
from scipy.special import ndtr, ndtri

from jointplda._typing import Array, BoolArray, IntArray
from jointplda.errors import InputError
from jointplda.labels import encode
from jointplda.metrics._checks import as_trials
from jointplda.metrics.convex_hull import pool
from jointplda.metrics.measure_kind import Measure
from jointplda.metrics.measures import PRIORS, Measures, bayes_threshold, cost_in_bits, trial_costs
from jointplda.metrics.sorted_trials import spread_ranks
from jointplda.progress import Progress, ProgressCallback

EXACT_BINS = 4096
"""Up to this number of distinct scores, each is a bin of its own and draws are exact."""

_FINE, _COARSE = 1.02, 1.05
_DRAWS_AT_ONCE = 128
_PAIRS_AT_ONCE = 16384
_INFINITE = 1e30


@dataclass(frozen=True)
class Bootstrap:
    """Measures of every draw.

    Parameters
    ----------
    draws : dict of Measure to ndarray, each of shape (draws,)
        NaN where a draw has no target or no non-target.
    estimates : dict of Measure to float
        The same measures with every speaker drawn once.
    level : float
        Coverage of ``interval``.
    speakers : int
        Number of speakers that draws are made from.
    """

    draws: dict[Measure, Array]
    estimates: dict[Measure, float]
    level: float
    speakers: int

    def interval(self, measure: Measure | str, *, correct_bias: bool = True) -> tuple[float, float]:
        """Percentile interval of a measure (or its name): from (1 - level) / 2 to (1 + level) / 2 of its draws.

        Measures at the best threshold, or after the best calibration, are optimistic on a finite set, and more so on
        a draw from it. ``correct_bias`` moves both percentiles by the bias that the draws show: with z0 the normal
        deviate of the share of draws below the estimate, Phi(2 z0 - z) and Phi(2 z0 + z) in place of
        Phi(-z) and Phi(z). Without bias z0 is 0, and these are the plain percentiles.
        """
        key = next((each for each in self.draws if measure in (each, str(each))), None)
        if key is None:
            raise InputError(
                f"expected {', '.join(repr(str(each)) for each in self.draws)}, got {str(measure)!r}.",
                parameter="measure",
            )
        values = self.draws[key]
        values = values[~np.isnan(values)]
        if not len(values):
            return float("nan"), float("nan")
        ends = np.array([(1 - self.level) / 2, (1 + self.level) / 2])
        if correct_bias:
            estimate = self.estimates[key]
            below = (np.mean(values < estimate) + np.mean(values <= estimate)) / 2
            margin = 1 / (2 * len(values))
            ends = ndtr(2 * ndtri(np.clip(below, margin, 1 - margin)) + ndtri(ends))
        low, high = np.quantile(values, ends, method="closest_observation")
        return float(low), float(high)


def bootstrap(
    scores: ArrayLike,
    target: ArrayLike,
    enroll_speakers: ArrayLike,
    test_speakers: ArrayLike,
    *,
    draws: int = 1000,
    level: float = 0.9,
    priors: Sequence[float] = PRIORS,
    is_llr: bool = True,
    seed: int = 0,
    callback: ProgressCallback | None = None,
) -> Bootstrap:
    """Draw speakers with replacement and measure each draw.

    Parameters
    ----------
    scores : array-like, shape (n,)
        Natural-log likelihood ratios.
    target : array-like of bool, shape (n,)
    enroll_speakers, test_speakers : array-like, shape (n,)
        Speakers on both sides of each trial: hashable labels, or integers.
    draws : int
        Number of draws.
    level : float
        Coverage of the intervals.
    priors : sequence of float
        Target priors of the detection costs.
    is_llr : bool
        False for scores that are not log-likelihood ratios.
    seed : int
        Seed of the draws. They depend on it and on the number of speakers alone, so that systems scored on the same
        trials share them.
    callback : callable, optional
        Called with a ``Progress`` of stage "bootstrap" as draws are done.

    Notes
    -----
    More than ``EXACT_BINS`` distinct scores are binned by rank, with bins that grow by 2 % from low targets and high
    non-targets, where the thresholds are. The rates of a draw are exact at the edges of bins, and the Bayes thresholds
    of ``priors`` are edges. Costs at the best threshold may then be up to 0.5 % high.
    """
    values, mask = as_trials(scores, target)
    if draws < 1:
        raise InputError(f"expected a number of at least 1, got {draws!r}.", parameter="draws")
    if not 0 < level < 1:
        raise InputError(f"expected a number between 0 and 1, got {level!r}.", parameter="level")
    first, second, count = speaker_codes(enroll_speakers, test_speakers, len(values))
    edges = _edges(values, mask, [bayes_threshold(prior) for prior in priors])
    bins = np.searchsorted(edges, values, side="right")
    costs = np.minimum(trial_costs(values, mask), _INFINITE) if is_llr else np.zeros(len(values))
    classes = [
        _Class(bins[kind], len(edges) + 1, first[kind], second[kind], count, costs[kind]) for kind in (mask, ~mask)
    ]
    accepted = {prior: int(np.searchsorted(edges, bayes_threshold(prior))) + 1 for prior in priors}
    rng = np.random.default_rng(seed)
    estimates = _measure_draws(classes, np.ones((count, 1), dtype=np.float32), accepted, is_llr)[0]
    results: list[dict[Measure, float]] = []
    while len(results) < draws:
        size = min(_DRAWS_AT_ONCE, draws - len(results))
        weights = rng.multinomial(count, np.full(count, 1 / count), size=size).T.astype(np.float32)
        results += _measure_draws(classes, weights, accepted, is_llr)
        if callback is not None:
            callback(Progress("bootstrap", len(results), draws))
    drawn = {measure: np.array([each.get(measure, np.nan) for each in results]) for measure in estimates}
    return Bootstrap(drawn, estimates, level, count)


def _measure_draws(
    classes: "Sequence[_Class]", weights: NDArray[np.float32], accepted: Mapping[float, int], is_llr: bool
) -> list[dict[Measure, float]]:
    """Measures of draws from speakers' weights (speakers, draws), with the first bin above each prior's threshold."""
    (targets, target_costs), (nontargets, nontarget_costs) = (each.draw(weights) for each in classes)
    measured: list[dict[Measure, float]] = []
    for t, n, target_cost, nontarget_cost in zip(targets.T, nontargets.T, target_costs, nontarget_costs, strict=True):
        if not t.any() or not n.any():
            measured.append({})
            continue
        rates = {p: (t[:first].sum() / t.sum(), 1.0 - n[:first].sum() / n.sum()) for p, first in accepted.items()}
        cost = cost_in_bits(nontarget_cost / n.sum(), target_cost / t.sum())
        cost = np.inf if cost > _INFINITE / 1e10 else cost
        of_ratios = (cost, rates) if is_llr else ()
        measured.append(Measures.of(pool(t, n), accepted, *of_ratios).figures())
    return measured


class _Class:
    """Trials of one class, counted by bin (rows) and by pair of speakers (columns); (i, j) and (j, i) are one pair."""

    def __init__(
        self, bins: IntArray, n_bins: int, first: IntArray, second: IntArray, speakers: int, costs: Array
    ) -> None:
        pair, codes = _dense_codes(np.minimum(first, second) * speakers + np.maximum(first, second))
        self.table = csc_array((np.ones(len(bins), dtype=np.float32), (bins, codes)), shape=(n_bins, len(pair)))
        self.first, self.second = pair // speakers, pair % speakers
        self.costs = np.bincount(codes, costs, len(pair)).astype(np.float32)

    def draw(self, weights: NDArray[np.float32]) -> tuple[Array, Array]:
        """Weighted counts by bin, shape (bins, draws), and weighted costs, shape (draws,), of speakers' weights."""
        counts = np.zeros((self.table.shape[0], weights.shape[1]))
        costs = np.zeros(weights.shape[1])
        for start in range(0, len(self.first), _PAIRS_AT_ONCE):
            piece = slice(start, start + _PAIRS_AT_ONCE)
            first, second = self.first[piece], self.second[piece]
            pairs, others = weights[first], weights[second]
            others[first == second] = 1
            pairs *= others
            counts += self.table[:, piece] @ pairs
            costs += self.costs[piece] @ pairs
        return counts, costs


def _edges(scores: Array, target: BoolArray, thresholds: Sequence[float]) -> Array:
    """Lower edges of bins, ascending: every distinct score if there are few, else by rank from either end."""
    distinct = np.unique(scores)
    if len(distinct) > EXACT_BINS:
        targets, nontargets = np.sort(scores[target]), np.sort(scores[~target])
        lower = targets[spread_ranks(len(targets), _FINE, _COARSE)]
        distinct = np.union1d(lower, nontargets[spread_ranks(len(nontargets), _COARSE, _FINE)])
    return np.union1d(distinct, thresholds)


def speaker_codes(enroll: ArrayLike, test: ArrayLike, n: int) -> tuple[IntArray, IntArray, int]:
    """Speakers of both sides as codes with one numbering, and the number of speakers."""
    sides = [np.asarray(side) for side in (enroll, test)]
    for side, name in zip(sides, ("enroll_speakers", "test_speakers"), strict=True):
        if side.shape != (n,):
            raise InputError(
                f"expected one label for each of the {n:,} scores, got shape {side.shape}.", parameter=name
            )
    both = np.concatenate(sides)
    if both.dtype.kind in "iu" and both.min(initial=0) >= 0:
        levels, codes = _dense_codes(both.astype(np.int64))
        count = len(levels)
    else:
        codes, names = encode(both, what="speakers")
        count = len(names)
        if (codes < 0).any():
            raise InputError("every trial needs a speaker on both sides; labels are missing.", parameter="speakers")
    return codes[:n], codes[n:], count


def _dense_codes(values: IntArray) -> tuple[IntArray, IntArray]:
    """Distinct non-negative integers and the position of each value among them; without a sort where they are small."""
    largest = int(values.max(initial=0))
    if largest > 4 * len(values) + 1024:
        levels, codes = np.unique(values, return_inverse=True)
        return levels, codes.reshape(-1)
    there = np.zeros(largest + 1, dtype=np.bool_)
    there[values] = True
    return np.flatnonzero(there), (np.cumsum(there) - 1)[values]
