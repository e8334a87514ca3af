"""Error rates and costs of scored trials. Scores are natural-log likelihood ratios; accept if s >= t.

Each measure is a plain function of ``scores`` and ``target``; several at once come from ``measure``, which sorts once.
"""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jointplda._typing import Array, BoolArray
from jointplda.errors import InputError
from jointplda.metrics._checks import as_trials, as_weights
from jointplda.metrics.convex_hull import PIECE, Hull, hull, hull_of_labels, labels_in_order
from jointplda.metrics.measure_kind import CALIBRATION_LOSS, CLLR, EER, MIN_CLLR, Measure, MeasureKind

PRIORS = (0.05, 0.01, 0.005, 0.001)
"""Usual target priors of the detection cost, with both costs 1."""


@dataclass(frozen=True)
class Measures:
    """The measures of one set of trials.

    Parameters
    ----------
    eer : float
        Equal error rate, a share between 0 and 1.
    min_dcf, act_dcf : dict of float to float
        Normalised detection cost by target prior: at the best threshold, and at the Bayes threshold.
        ``act_dcf`` is empty for scores that are not log-likelihood ratios.
    cllr, min_cllr : float
        Cost of the log-likelihood ratios in bits, before and after the best monotone calibration.
        ``cllr`` is NaN for scores that are not log-likelihood ratios.
    targets, nontargets : int
        Numbers of trials.
    hull : Hull or None
        The ROC convex hull that the measures were read from.
    """

    eer: float
    cllr: float
    min_cllr: float
    min_dcf: Mapping[float, float] = field(default_factory=dict)
    act_dcf: Mapping[float, float] = field(default_factory=dict)
    targets: int = 0
    nontargets: int = 0
    hull: Hull | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        outline: Hull,
        priors: Iterable[float],
        cost: float = float("nan"),
        rates: Mapping[float, tuple[float, float]] | None = None,
    ) -> "Measures":
        """Every measure of a set of trials, from its ROC convex hull ``outline`` and target ``priors``.

        Log-likelihood ratios have Cllr too, the ``cost``, and ``rates``: P_miss and P_fa at each prior's threshold.
        """
        return cls(
            eer=hull_eer(outline),
            cllr=cost,
            min_cllr=hull_min_cllr(outline),
            min_dcf={prior: hull_min_dcf(outline, prior) for prior in priors},
            act_dcf={prior: float(_dcf(*pair, prior)) for prior, pair in (rates or {}).items()},
            targets=int(outline.targets.sum()),
            nontargets=int(outline.nontargets.sum()),
            hull=outline,
        )

    @property
    def calibration_loss(self) -> float:
        """Cllr - minCllr: the cost that a better calibration would save."""
        return self.cllr - self.min_cllr

    def figures(self) -> dict[Measure, float]:
        """Every figure that was computed: EER, detection costs by prior, Cllr, minCllr, calibration loss."""
        values = {EER: self.eer}
        values |= {Measure(MeasureKind.MIN_DCF, prior): value for prior, value in self.min_dcf.items()}
        values |= {Measure(MeasureKind.ACT_DCF, prior): value for prior, value in self.act_dcf.items()}
        if not np.isnan(self.cllr):
            return values | {CLLR: self.cllr, MIN_CLLR: self.min_cllr, CALIBRATION_LOSS: self.calibration_loss}
        return values | {MIN_CLLR: self.min_cllr}

    def named(self) -> dict[str, float]:
        """Every figure by its name in tables: "EER", "minDCF(0.05)", ..., "Cllr", "minCllr", "calibration loss"."""
        return {str(measure): value for measure, value in self.figures().items()}


def measure(scores: ArrayLike, target: ArrayLike, priors: Sequence[float] = PRIORS, *, is_llr: bool = True) -> Measures:
    """All measures of one set of trials, from one sort.

    Parameters
    ----------
    scores : array-like, shape (n,)
        Natural-log likelihood ratios; infinite ones are legal, NaN is not.
    target : array-like of bool, shape (n,)
        True for targets.
    priors : sequence of float
        Target priors of the detection costs.
    is_llr : bool
        False for scores such as cosines: no Cllr and no actual cost.

    Examples
    --------
    >>> result = measure([-2.0, -1.0, 1.0, 3.0], [False, False, True, True])
    >>> result.eer, result.min_cllr
    (0.0, 0.0)
    """
    values, mask = as_trials(scores, target)
    with ThreadPoolExecutor(1) as beside:
        cost = beside.submit(_cllr, values, mask) if is_llr else None  # while the scores are sorted
        outline = hull_of_labels(labels_in_order(values, mask))
    if cost is None:
        return Measures.of(outline, priors)
    rates = {prior: _rates(values, mask, bayes_threshold(prior)) for prior in priors}
    return Measures.of(outline, priors, cost.result(), rates)


def eer(scores: ArrayLike, target: ArrayLike) -> float:
    """Equal error rate of ``scores`` (n,), of which ``target`` (n,) says what they are: where the ROC convex hull meets
    P_miss = P_fa. A share, between 0 and 1.
    """
    return hull_eer(hull(scores, target))


def min_dcf(
    scores: ArrayLike, target: ArrayLike, prior: float = 0.01, cost_miss: float = 1.0, cost_fa: float = 1.0
) -> float:
    """Normalised detection cost at the best threshold; accepting all and rejecting all count, so it is at most 1.

    DCF = [C_miss p P_miss + C_fa (1 - p) P_fa] / min(C_miss p, C_fa (1 - p)), with p the ``prior`` of targets, C_miss
    ``cost_miss`` and C_fa ``cost_fa``; ``scores`` and ``target`` are as in ``eer``.
    """
    return hull_min_dcf(hull(scores, target), prior, cost_miss, cost_fa)


def act_dcf(
    scores: ArrayLike, target: ArrayLike, prior: float = 0.01, cost_miss: float = 1.0, cost_fa: float = 1.0
) -> float:
    """Normalised detection cost at the Bayes threshold, log [C_fa (1 - p) / (C_miss p)].

    The arguments (``scores``, ``target``, ``prior``, ``cost_miss``, ``cost_fa``) are as in ``min_dcf``.
    """
    rates = _rates(*as_trials(scores, target), bayes_threshold(prior, cost_miss, cost_fa))
    return float(_dcf(*rates, prior, cost_miss, cost_fa))


def cllr(scores: ArrayLike, target: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Cost of log-likelihood ratios in bits: 1/(2 ln 2) [mean_tar ln(1 + e^-s) + mean_non ln(1 + e^s)].

    Infinite if a target scores -inf or a non-target +inf. With ``weights`` (n,) the means are weighted.
    """
    values, mask = as_trials(scores, target)
    if weights is None:
        return _cllr(values, mask)
    share = as_weights(weights, mask)
    used = share > 0  # 0 times infinity is 0
    share, of = share[used], mask[used]
    return cost_in_bits(*np.bincount(of, share * trial_costs(values[used], of)) / np.bincount(of, share))


def min_cllr(scores: ArrayLike, target: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Cllr after pool-adjacent-violators on the same scores: the cost that no calibration can remove.

    ``target`` and ``weights`` are as in ``cllr``.
    """
    return hull_min_cllr(hull(scores, target, weights))


def hull_eer(outline: Hull) -> float:
    """Equal error rate on the hull's segment that crosses P_miss = P_fa."""
    p_miss, p_fa = outline.p_miss, outline.p_fa
    after = int(np.argmax(p_miss >= p_fa))
    before = after - 1
    gap_before, gap_after = p_fa[before] - p_miss[before], p_miss[after] - p_fa[after]
    share = gap_before / (gap_before + gap_after)
    return float(p_miss[before] + share * (p_miss[after] - p_miss[before]))


def hull_min_dcf(outline: Hull, prior: float, cost_miss: float = 1.0, cost_fa: float = 1.0) -> float:
    """Least normalised detection cost over the hull's vertices."""
    return float(np.min(_dcf(outline.p_miss, outline.p_fa, prior, cost_miss, cost_fa)))


def hull_min_cllr(outline: Hull) -> float:
    """Cllr of the hull's own log-likelihood ratios, log (t_k / T) - log (n_k / N)."""
    t, n = outline.targets / outline.targets.sum(), outline.nontargets / outline.nontargets.sum()
    both = (t > 0) & (n > 0)
    t, n = t[both], n[both]
    return float((np.sum(t * np.log1p(n / t)) + np.sum(n * np.log1p(t / n))) / (2 * np.log(2)))


def bayes_threshold(prior: float, cost_miss: float = 1.0, cost_fa: float = 1.0) -> float:
    """Threshold of calibrated scores: log [C_fa (1 - p) / (C_miss p)], p the ``prior``, ``cost_miss``, ``cost_fa``."""
    miss, false_alarm = _costs(prior, cost_miss, cost_fa)
    return float(np.log(false_alarm / miss))


def trial_costs(scores: Array, target: BoolArray) -> Array:
    """Cost of each log-likelihood ratio in nats: ln(1 + e^-s) for a target, ln(1 + e^s) for a non-target."""
    against = np.where(target, -scores, scores)
    return np.asarray(np.log1p(np.exp(-np.abs(against))) + np.maximum(against, 0.0))


def cost_in_bits(of_nontargets: float, of_targets: float) -> float:
    """Cllr from the mean costs of non-targets and of targets."""
    return float((of_nontargets + of_targets) / (2 * np.log(2)))


def _rates(scores: Array, target: BoolArray, threshold: float) -> tuple[float, float]:
    """P_miss and P_fa at one threshold."""
    accepted = scores >= threshold
    targets = np.count_nonzero(target)
    accepted_targets = np.count_nonzero(accepted & target)
    p_fa = (np.count_nonzero(accepted) - accepted_targets) / (len(target) - targets)
    return 1.0 - accepted_targets / targets, p_fa


def _dcf(
    p_miss: ArrayLike, p_fa: ArrayLike, prior: float, cost_miss: float = 1.0, cost_fa: float = 1.0
) -> NDArray[np.float64]:
    """Normalised detection cost at each pair of error rates."""
    miss, false_alarm = _costs(prior, cost_miss, cost_fa)
    return (miss * np.asarray(p_miss) + false_alarm * np.asarray(p_fa)) / min(miss, false_alarm)


def _costs(prior: float, cost_miss: float, cost_fa: float) -> tuple[float, float]:
    """Weights of P_miss and P_fa, C_miss p and C_fa (1 - p)."""
    if not 0 < prior < 1:
        raise InputError(f"expected a number between 0 and 1, got {prior!r}.", parameter="prior")
    for name, cost in (("cost_miss", cost_miss), ("cost_fa", cost_fa)):
        if not 0 < cost < np.inf:
            raise InputError(f"expected a positive, finite number, got {cost!r}.", parameter=name)
    return cost_miss * prior, cost_fa * (1 - prior)


def _cllr(scores: Array, target: BoolArray) -> float:
    """Cllr in pieces, which stay in the cache."""
    sums = np.zeros(2)
    for start in range(0, len(scores), PIECE):
        members = target[start : start + PIECE]
        sums += np.bincount(members, trial_costs(scores[start : start + PIECE], members), 2)
    targets = np.count_nonzero(target)
    return cost_in_bits(sums[0] / (len(target) - targets), sums[1] / targets)
