"""Example pages for the tests of reports, from seeded random scores."""

from dataclasses import replace

import numpy as np
from scipy.optimize import isotonic_regression

from jointplda.evaluation.evaluate import EvaluationSettings, TrialSides, evaluate
from jointplda.metrics.measure_kind import CALIBRATION_LOSS, CLLR, EER, MIN_CLLR, Estimate, Measure, MeasureKind
from jointplda.metrics.trial_types import TRIAL_TYPES
from jointplda.report.content import Channels, Curve, Distribution, OperatingPoint, Page, System, Training

PRIORS = (0.05, 0.01, 0.005, 0.001)
NAN, INF = float("nan"), float("inf")
EMPTY = Curve(np.array([]), np.array([]))


def draw_types(rng, speaker, channel, scale=1.0, n=4000):
    """Scores by type of trial: ``speaker`` sets targets apart, ``channel`` moves what shares a channel."""
    shift = {"same": channel, "cross": -channel}
    sign, size = {"target": 1.0, "non-target": -1.0}, {"target": n // 4, "non-target": n}
    wide = np.sqrt(2 * speaker)
    return {
        name: scale * rng.normal(sign[truth] * speaker + shift[where], wide, size=size[truth])
        for name, (where, truth) in TRIAL_TYPES.items()
    }


def roc(target, other):
    """Thresholds, P_fa and P_miss, from accepting all to rejecting all."""
    t = np.concatenate([np.unique(np.concatenate([target, other])), [np.inf]])
    miss = np.searchsorted(np.sort(target), t) / len(target)
    fa = 1 - np.searchsorted(np.sort(other), t) / len(other)
    return t, fa, miss


def figures(target, other, is_llr):
    _, fa, miss = roc(target, other)
    eer = float(np.min(np.maximum(fa, miss)))
    found = {EER: spread(eer)}
    for p in PRIORS:
        cost = (p * miss + (1 - p) * fa) / min(p, 1 - p)
        found[Measure(MeasureKind.MIN_DCF, p)] = spread(float(cost.min()))
        if is_llr:
            threshold = np.log((1 - p) / p)
            actual = p * np.mean(target < threshold) + (1 - p) * np.mean(other >= threshold)
            found[Measure(MeasureKind.ACT_DCF, p)] = spread(float(actual) / min(p, 1 - p))
    pav = pav_curve(target, other)
    low = cllr(np.interp(target, pav.x, np.clip(pav.y, -30, 30)), np.interp(other, pav.x, np.clip(pav.y, -30, 30)))
    if is_llr:
        found[CLLR] = spread(cllr(target, other))
    found[MIN_CLLR] = spread(low)
    if is_llr:
        found[CALIBRATION_LOSS] = spread(cllr(target, other) - low)
    return found


def spread(value):
    return Estimate(value, value * 0.86, value * 1.17)


def cllr(target, other):
    return float((np.logaddexp(0, -target).mean() + np.logaddexp(0, other).mean()) / (2 * np.log(2)))


def pav_curve(target, other):
    scores = np.concatenate([target, other])
    order = np.argsort(scores, kind="stable")
    truth = np.concatenate([np.ones(len(target)), np.zeros(len(other))])[order]
    share = isotonic_regression(truth).x
    with np.errstate(divide="ignore"):
        llr = np.log(share) - np.log1p(-share) - np.log(len(target) / len(other))
    return Curve(scores[order], llr)


def histogram(scores):
    edges = np.linspace(*np.quantile(scores, [0.0005, 0.9995]), 61)
    counts, _ = np.histogram(scores, edges)
    n = len(scores)
    density = counts / n / np.diff(edges)
    return Distribution(edges, density, float(np.mean(scores < edges[0])), float(np.mean(scores > edges[-1])), n)


def thin_roc(target, other):
    _, fa, miss = roc(target, other)
    every = max(1, len(fa) // 1500)
    return Curve(fa[::every], miss[::every])


def point(target, other, prior, is_llr):
    _, fa, miss = roc(target, other)
    best = int(np.argmin(prior * miss + (1 - prior) * fa))
    threshold = np.log((1 - prior) / prior)
    actual = (float(np.mean(other >= threshold)), float(np.mean(target < threshold))) if is_llr else None
    return OperatingPoint(prior, (float(fa[best]), float(miss[best])), actual)


def tippett(scores):
    x = np.sort(scores)
    every = max(1, len(x) // 1000)
    return Curve(x[::every], (1 - np.arange(len(x)) / len(x))[::every])


def training(seed, channels=24, iterations=35, names=None):
    rng = np.random.default_rng(seed)
    names = names or [f"{a}{b}" for a in ("land", "cell", "mic-", "room ") for b in range(1, channels // 4 + 1)]
    at = rng.normal(size=(len(names), 2)) * [3.0, 1.4]
    return Training(
        objective=-40 - 6 * 0.7 ** np.arange(iterations),
        objective_name="log-likelihood, nats per sample",
        converged=True,
        singular_values={"V": np.sort(rng.gamma(2, 1.0, 40))[::-1], "U": np.sort(rng.gamma(2, 0.8, 12))[::-1]},
        variance_shares={"speaker": 0.35, "transmission": 0.2, "interaction": 0.18, "noise": 0.27},
        channels=[Channels("transmission", names, at, rng.integers(20, 900, len(names)), (0.61, 0.22))],
    )


def system(name, speaker, channel, *, seed=0, scale=1.0, is_llr=True, trained=True, conditions=()):
    types = draw_types(np.random.default_rng(seed), speaker, channel, scale)
    parts = {"pooled": tuple(np.concatenate([types[f"{c} {k}"] for c in ("same", "cross")]) for k in KINDS)}
    for a in ("same", "cross"):
        for b in ("same", "cross"):
            parts[f"{a} / {b}"] = (types[f"{a} target"], types[f"{b} non-target"])
    for k, condition in enumerate(conditions):
        parts[condition] = tuple(scores[k :: len(conditions)] for scores in parts["pooled"])
    target, other = parts["pooled"]
    return System(
        name=name,
        metrics={part: figures(*both, is_llr) for part, both in parts.items()},
        counts={part: (len(a), len(b)) for part, (a, b) in parts.items()},
        det={part: thin_roc(*parts[part]) for part in list(parts)[:5]},
        points=[point(target, other, prior, is_llr) for prior in PRIORS],
        histograms={name: histogram(scores) for name, scores in types.items()},
        tippett={"target": tippett(target), "non-target": tippett(other)},
        pav=pav_curve(target, other),
        is_llr=is_llr,
        description=f"Trained on 2,000 recordings of 200 speakers; {name}.",
        training=training(seed) if trained else None,
    )


KINDS = ("target", "non-target")
CONDITIONS = tuple(f"language = {code}" for code in ("de", "en", "fr", "zh"))


def example(count=6, **options):
    """A page as a comparison of systems makes it."""
    plans = (
        ("Cosine", dict(speaker=3.0, channel=1.6, scale=0.06, is_llr=False, trained=False)),
        ("Cosine, centred by channel", dict(speaker=3.2, channel=0.9, scale=0.06, is_llr=False, trained=False)),
        ("PLDA", dict(speaker=3.6, channel=2.0)),
        ("PLDA, calibrated", dict(speaker=3.6, channel=1.9, scale=0.6)),
        ("Simplified PLDA", dict(speaker=3.4, channel=1.5, scale=1.3)),
        ("PLDA per condition", dict(speaker=3.8, channel=1.1)),
        ("Joint PLDA, few channels", dict(speaker=4.4, channel=0.5)),
        ("Joint PLDA", dict(speaker=4.8, channel=0.3)),
    )
    chosen = plans[-count:] if count < 4 else (*plans[: count - 1], plans[-1])
    return Page(
        title="Telephone and microphone speech, eight systems",
        summary="Trials of 40 unseen speakers over two transmission channels. Joint PLDA was told the channel of the "
        "training recordings, and nothing about the channel of the trials.",
        systems=[system(n, **p, seed=k, conditions=CONDITIONS) for k, (n, p) in enumerate(chosen)],
        facts=[
            ("Trials", "10,000, of 40 speakers"),
            ("Draws", "1,000 of speakers, seed 0"),
            ("Training file", "train.npz"),
            ("Version", "0.1.0"),
        ],
        channel="transmission",
        interval="90 %, 1,000 draws of 40 speakers",
        **options,
    )


GAPS = {"separated": 60.0, "good": 5.15, "random": 0.0, "reversed": -60.0}


def evaluated(kind, n=20_000, seed=0):
    """Scores of unit variance, 2 % of them of targets, that are separated, nearly so (EER below 1 %), or random."""
    rng = np.random.default_rng(seed)
    target = np.arange(n) % 50 == 0
    scores = rng.normal(size=n) + GAPS[kind] * target
    sides = TrialSides(same_channel=rng.integers(0, 2, n))
    return evaluate(scores, target, sides, EvaluationSettings(draws=0))


def bare(name="Bare", **changes):
    """A system of which nothing is known."""
    nothing = dict(metrics={}, counts={}, det={}, points=[], histograms={}, tippett={}, pav=EMPTY)
    return System(name=name, **{**nothing, **changes})


EDGES = {
    "no systems": Page("Nothing", "", []),
    "nothing known": Page("Bare", "", [bare()]),
    "nothing known of several": Page("Bare", "", [bare(f"Bare {i}") for i in range(10)], channel="room"),
    "NaN and infinities": Page(
        "Odd",
        "",
        [
            bare(
                metrics={
                    "pooled": {EER: Estimate(NAN), CLLR: Estimate(INF, 1.0, INF)},
                    "a = b": {EER: Estimate(0.5, NAN)},
                },
                counts={"pooled": (0, 5)},
                det={"pooled": Curve(np.array([1.0, NAN, 0.0]), np.array([0.0, NAN, 1.0]))},
                points=[OperatingPoint(0.01, (NAN, 0.0), (1.0, 0.0)), OperatingPoint(0.5, (0.0, 0.0), None)],
                histograms={"target": Distribution(np.array([0.0, 1.0]), np.array([NAN]), 0.0, 0.0, 0)},
                tippett={"target": Curve(np.array([-INF, 0.0, INF]), np.array([1.0, 0.5, NAN]))},
                pav=Curve(np.array([-1.0, 0.0, 1.0, NAN]), np.array([-INF, NAN, INF, 0.0])),
                training=Training(np.array([NAN, -INF]), "", False, {"V": np.array([NAN])}, [])
            )
        ],
    ),
    "constant scores": Page(
        "Flat",
        "",
        [
            bare(
                metrics={"pooled": {EER: Estimate(0.0, 0.0, 0.0)}},
                det={"pooled": Curve(np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0]))},
                histograms={"target": Distribution(np.array([2.0, 2.0]), np.array([1.0]), 0.0, 0.0, 3)},
                tippett={"target": Curve(np.array([2.0, 2.0]), np.array([1.0, 0.0]))},
                pav=Curve(np.array([2.0, 2.0]), np.array([0.0, 0.0])),
                training=Training(np.full(9, -3.0), "objective", True, {"V": np.zeros(2), "U": np.array([])}),
            )
        ],
    ),
    "one class absent": Page(
        "Targets only",
        "",
        [
            replace(system("PLDA", 3.0, 1.0), metrics={"pooled": {}}, det={}, points=[], pav=EMPTY,
                    histograms={"same target": system("PLDA", 3.0, 1.0).histograms["same target"]},
                    tippett={"target": system("PLDA", 3.0, 1.0).tippett["target"]}),
        ],
    ),
}  # fmt: skip
