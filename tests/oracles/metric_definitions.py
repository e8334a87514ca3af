"""Measures by their definitions, slowly: thresholds between distinct scores, every pair of ROC points, plain sums."""

import itertools

import numpy as np


def rates(scores, target, weights=None):
    """(P_miss, P_fa) at every threshold between distinct scores, accept-all and reject-all included."""
    scores, target = np.asarray(scores, float), np.asarray(target, bool)
    weights = np.ones(len(scores)) if weights is None else np.asarray(weights, float)
    points = []
    for threshold in [*sorted(set(scores.tolist())), None]:
        accepted = scores >= threshold if threshold is not None else np.zeros(len(scores), bool)
        miss = weights[target & ~accepted].sum() / weights[target].sum()
        false_alarm = weights[~target & accepted].sum() / weights[~target].sum()
        points.append((miss, false_alarm))
    return points


def rates_at(scores, target, threshold):
    scores, target = np.asarray(scores, float), np.asarray(target, bool)
    return np.mean(scores[target] < threshold), np.mean(scores[~target] >= threshold)


def eer(scores, target, weights=None):
    """Least P_miss = P_fa reached on a line between any two ROC points."""
    best = 1.0
    for (m0, f0), (m1, f1) in itertools.combinations_with_replacement(rates(scores, target, weights), 2):
        d0, d1 = m0 - f0, m1 - f1
        if d0 == d1 == 0:
            best = min(best, m0, m1)
        elif d0 * d1 <= 0:
            share = d0 / (d0 - d1)
            best = min(best, m0 + share * (m1 - m0))
    return best


def dcf(p_miss, p_fa, prior, cost_miss=1.0, cost_fa=1.0):
    normaliser = min(cost_miss * prior, cost_fa * (1 - prior))
    return (cost_miss * prior * p_miss + cost_fa * (1 - prior) * p_fa) / normaliser


def min_dcf(scores, target, prior, cost_miss=1.0, cost_fa=1.0, weights=None):
    return min(dcf(m, f, prior, cost_miss, cost_fa) for m, f in rates(scores, target, weights))


def act_dcf(scores, target, prior, cost_miss=1.0, cost_fa=1.0):
    threshold = np.log(cost_fa * (1 - prior) / (cost_miss * prior))
    scores, target = np.asarray(scores, float), np.asarray(target, bool)
    return dcf(np.mean(scores[target] < threshold), np.mean(scores[~target] >= threshold), prior, cost_miss, cost_fa)


def cllr(scores, target, weights=None):
    scores, target = np.asarray(scores, float), np.asarray(target, bool)
    weights = np.ones(len(scores)) if weights is None else np.asarray(weights, float)
    of_target = np.average(np.logaddexp(0, -scores[target]), weights=weights[target])
    of_nontarget = np.average(np.logaddexp(0, scores[~target]), weights=weights[~target])
    return (of_target + of_nontarget) / (2 * np.log(2))


def pav(scores, target, weights=None):
    """Share of targets after pooling, one per trial in the order given: plain pool-adjacent-violators over ties."""
    scores, target = np.asarray(scores, float), np.asarray(target, bool)
    weights = np.ones(len(scores)) if weights is None else np.asarray(weights, float)
    blocks = []
    for value in sorted(set(scores.tolist())):
        members = np.flatnonzero(scores == value)
        if weights[members].sum() == 0:
            continue
        blocks.append([weights[members[target[members]]].sum(), weights[members].sum(), list(members)])
        while len(blocks) > 1 and blocks[-2][0] * blocks[-1][1] >= blocks[-1][0] * blocks[-2][1]:
            t, n, m = blocks.pop()
            blocks[-1][0] += t
            blocks[-1][1] += n
            blocks[-1][2] += m
    shares = np.full(len(scores), np.nan)
    for t, n, members in blocks:
        shares[members] = t / n
    return shares


def min_cllr(scores, target, weights=None):
    target = np.asarray(target, bool)
    weights = np.ones(len(target)) if weights is None else np.asarray(weights, float)
    shares = pav(scores, target, weights)
    odds = weights[target].sum() / weights[~target].sum()
    with np.errstate(divide="ignore"):
        llrs = np.log(shares) - np.log1p(-shares) - np.log(odds)
    used = ~np.isnan(shares)
    return cllr(llrs[used], target[used], weights[used])
