"""Error rates, costs and their intervals. Scores are natural-log likelihood ratios; accept if s >= t."""

from jointplda.metrics.convex_hull import Hull, hull
from jointplda.metrics.measure_kind import Measure, MeasureKind
from jointplda.metrics.measures import PRIORS, Measures, act_dcf, bayes_threshold, cllr, eer, measure, min_cllr, min_dcf
from jointplda.metrics.sorted_trials import roc
from jointplda.metrics.speaker_bootstrap import Bootstrap, bootstrap
from jointplda.metrics.trial_types import CROSS_SAME, TRIAL_TYPES, TYPE_PAIRS, type_pairs

__all__ = [
    "CROSS_SAME",
    "PRIORS",
    "TRIAL_TYPES",
    "TYPE_PAIRS",
    "Bootstrap",
    "Hull",
    "Measure",
    "MeasureKind",
    "Measures",
    "act_dcf",
    "bayes_threshold",
    "bootstrap",
    "cllr",
    "eer",
    "hull",
    "measure",
    "min_cllr",
    "min_dcf",
    "roc",
    "type_pairs",
]
