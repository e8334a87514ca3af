"""The figures and plots of a report explained, one sentence each."""

GLOSSARY = {
    "EER": "The equal error rate: the share of misses, and of false alarms, at the threshold where the two are "
    "equal, taken on the convex hull of the ROC.",
    "minDCF": "The detection cost at the best threshold for a given prior of targets, with both costs 1, divided by "
    "the cost of the better of accepting all and rejecting all: never above 1.",
    "actDCF": "The same cost at the threshold that Bayes’ rule prescribes for that prior, without having seen the "
    "scores; the difference from minDCF is the cost of poor calibration at this prior.",
    "Cllr": "The mean cost of the log-likelihood ratios over all priors, in bits: 0 is perfect, 1 is what a system "
    "that always answers 0 pays, and more than 1 is worse than saying nothing.",
    "minCllr": "What would be left of Cllr after the best increasing map of these very scores "
    "(pool-adjacent-violators): it measures how well the scores separate, whatever their scale.",
    "Calibration loss": "Cllr less minCllr: the part of the cost that a better map from scores to log-likelihood "
    "ratios would remove.",
    "Types of trials": "Targets whose two sides share a channel (same) or do not (cross), against non-targets that "
    "do or do not; “cross / same” puts targets recorded in two channels against non-targets recorded in one, which a "
    "system that mistakes the channel for the speaker confuses.",
    "Intervals": "Speakers, not trials, are drawn with replacement, because trials that share a speaker are not "
    "independent; the interval runs between percentiles of the figure over the draws.",
    "DET curve": "Misses against false alarms for every threshold, on axes that turn normally distributed scores "
    "into straight lines; hollow dots are the best thresholds for the priors, filled dots those of Bayes’ rule.",
    "Tippett plot": "For each value x, the share of targets and of non-targets whose log-likelihood ratio is at "
    "least x: non-targets on the right of 0 and targets on the left are misleading evidence.",
    "PAV plot": "The log-likelihood ratio that the trials support at each score: on the diagonal the scores are well "
    "calibrated; if the curve is flatter they are overconfident, if steeper underconfident, if beside it shifted.",
    "V and U": "The loadings of the speaker and of the channel in m = mean + V y + U x + noise; their singular "
    "values say in how many directions, and how strongly, each moves an embedding.",
    "Shares of the variance": "How the model divides the variance of an embedding: among the speaker, each "
    "condition, what a speaker and a channel do together (their interaction), and noise. Without channels, theirs is "
    "part of the others.",
}
