"""Speed of metrics, as ratios within one run over ``np.sort`` of the same scores.

np.sort runs on one thread; ``measure`` computes Cllr on a second while it sorts. The products of draws run on one.

python -m benchmarks.metrics
"""

import subprocess
import sys

import numpy as np
from benchmarks.timing import report, seconds, summary

from jointplda.metrics import bootstrap, measure


def four(scores, target):
    """EER, minDCF, Cllr and minCllr (and the actual cost, which comes with them)."""
    return measure(scores, target, priors=(0.01,))


def ten_million(rng):
    n = 10_000_000
    for share in (0.5, 0.01):
        target = rng.random(n) < share
        scores = rng.normal(size=n) + 2.0 * target
        sort, ours = seconds(lambda s=scores: np.sort(s), lambda s=scores, t=target: four(s, t), rounds=5)
        print(f"\n10,000,000 trials, {100 * share:g} % targets: sort {1e3 * sort:.0f} ms, measures {1e3 * ours:.0f} ms")
        report(f"EER, minDCF, Cllr and minCllr over np.sort, {100 * share:g} % targets", ours / sort, 3)
    return sort


def draws(rng, sort_of_ten_million):
    n = 1_000_000
    for speakers in (100, 1000):
        first = rng.integers(0, speakers, n)
        target = rng.random(n) < 0.05
        second = np.where(target, first, (first + rng.integers(1, speakers, n)) % speakers)
        scores = rng.normal(size=n) + 3.0 * target
        sort, ours = seconds(
            lambda s=scores: np.sort(s),
            lambda s=scores, t=target, a=first, b=second: bootstrap(s, t, a, b, draws=1000),
            rounds=3,
        )
        print(f"\n1,000 draws of 1,000,000 trials, {speakers} speakers: {1e3 * ours:.0f} ms")
        print(f"     over np.sort of these 1,000,000 ({1e3 * sort:.0f} ms): {ours / sort:.0f}")
        report(f"1,000 draws over np.sort of 10,000,000, {speakers} speakers", ours / sort_of_ten_million, 60)


def start():
    command = [sys.executable, "-m", "jointplda", "--help"]
    numpy = [sys.executable, "-c", "import numpy"]
    bare, ours = seconds(
        lambda: subprocess.run(numpy, check=True),
        lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL),
        rounds=11,
    )
    print(f"\nimport numpy {1e3 * bare:.0f} ms, jointplda --help {1e3 * ours:.0f} ms")
    report("jointplda --help over python -c 'import numpy'", ours / bare, 3)


def main():
    rng = np.random.default_rng(0)
    print("np.sort and bootstrap on one thread, measure on two")
    draws(rng, ten_million(rng))
    start()
    return summary()


if __name__ == "__main__":
    sys.exit(main())
