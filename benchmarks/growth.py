"""How time and memory grow with speakers, channels, ranks, counts and conditions, on one thread.

python -m benchmarks.growth            all parts that have limits (some minutes)
python -m benchmarks.growth PART ...   some of: search, fit, uneven, missing, single
python -m benchmarks.growth --plot growth.svg
"""

import resource
import subprocess
import sys
import time
import tracemalloc
import warnings

import numpy as np
from benchmarks.draw import draw_parameters, draw_statistics
from benchmarks.timing import report, seconds, summary
from threadpoolctl import threadpool_limits

from jointplda import JointPLDA, JointPLDACV, Statistics
from jointplda.model.estep import e_step
from jointplda.model.layout import lay_out
from jointplda.model.mstep import NoiseModel, Prior, m_step
from jointplda.model.parameters import Parameters
from jointplda.model.plan import make_plan

D = 60
SQUARE = np.random.default_rng(0).normal(size=(1000, 1000))


def product():
    """One product of two 1000 x 1000 matrices."""
    return SQUARE @ SQUARE


def one_iteration(layout, statistics, parameters):
    """One E and one M step."""
    noise = NoiseModel(False, 1e-6 * statistics.scales)
    moments, _ = e_step(layout, parameters)
    m_step(moments, parameters, layout.scatter(), layout.shift, Prior(), noise)


def measured(statistics, parameters, rounds=5, solver="auto", most=np.inf):
    """The plan of an iteration; its time, in products of 1000 x 1000 matrices; and its peak memory in bytes.

    Raises MemoryError if the plan has more than ``most`` operations.
    """
    if make_plan(statistics, parameters.ranks, solver=solver).work > most:
        raise MemoryError
    tracemalloc.start()
    layout = lay_out(statistics, parameters.ranks, solver=solver)
    one_iteration(layout, statistics, parameters)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    took, unit = seconds(lambda: one_iteration(layout, statistics, parameters), product, rounds=rounds)
    return layout.plan, took / unit, peak


def iteration(name, statistics, parameters):
    """Print the cost of an iteration beside what the plan says."""
    plan, products, peak = measured(statistics, parameters)
    planned = plan.work / 2e9
    print(f"\n{name}: {products:.2f} products of 1000 x 1000, {peak / 1e6:.0f} MB ({plan.solver}: {plan.reason})")
    text = f"plan {planned:.2f} products, {plan.memory / 1e6:.0f} MB"
    report(f"{text}: time, over or under", max(planned / products, products / planned), 2.0)
    report(f"{text}: memory, over or under", max(plan.memory / peak, peak / plan.memory), 2.0)
    return products, peak


def search():
    """The whole default search over 600 speakers x 10 samples, in all of 10 and in 3 of 100 and 1,000 channels."""
    times = {}
    for channels in (10, 100, 1_000):
        rng = np.random.default_rng(channels)
        parameters = draw_parameters(rng, D, 30, min(channels - 1, 30))
        s = np.repeat(np.arange(600), 10)
        heard = np.stack([rng.permutation(channels)[: 10 if channels == 10 else 3] for _ in range(600)])
        c = heard[s, rng.integers(0, heard.shape[1], len(s))]
        V, U = parameters.loadings
        X = (rng.normal(size=(600, V.shape[1])) @ V.T)[s] + (rng.normal(size=(channels, U.shape[1])) @ U.T)[c]
        X += rng.normal(size=X.shape) @ np.linalg.cholesky(parameters.noise).T
        began = time.perf_counter()
        model = JointPLDACV(n_jobs=1).fit(X, s, channels=c)
        times[channels] = time.perf_counter() - began
        ranks = sorted({rank for one in model.candidates_ for rank in one.candidate.channel_rank})
        found = f"{len(model.candidates_)} candidates with ranks {ranks}, {model.best_params_['channel_rank']} chosen"
        print(f"{channels:,} channels: {times[channels]:.1f} s, {found}", flush=True)
    report("search over 100 channels over 10", times[100] / times[10], 5)
    report("search over 1,000 channels over 10", times[1_000] / times[10], 12)


def fit():
    """One fit of many channels, in a process of its own."""
    (unit,) = seconds(product)
    for speakers, channels in ((20_000, 3_000), (200_000, 10_000)):
        command = [sys.executable, "-m", "benchmarks.growth", "--fit", speakers, channels]
        out = subprocess.run([*map(str, command)], check=True, capture_output=True, text=True).stdout
        text, took, peak = out.rsplit(" ", 2)
        products, peak = float(took) / unit, float(peak)
        print(f"\n{text}\n{float(took):.1f} s and {products:.0f} products of 1000 x 1000 an iteration, {peak:.2f} GB")
        if channels == 3_000:
            report("peak of the process, statistics included, in GB", peak, 2.0)
            report("products of 1000 x 1000 an iteration", products, 60.0)


def one_fit(speakers, channels):
    """Six iterations; prints the plan, the time of an iteration in seconds, and the peak of the process in GB."""
    rng, took = np.random.default_rng(0), []
    statistics = draw_statistics(rng, draw_parameters(rng, D, 40, 20), np.full(speakers, 10), channels, each=3)
    model = JointPLDA(speaker_rank=40, channel_rank=20, max_iter=6, callback=lambda p: took.append(p.detail.seconds))
    model.fit_statistics(statistics)
    error = f"standard error of the log-likelihood {model.fitted_.trace.standard_error:.1g} nats per sample"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{model.plan_}; {error} {np.median(took)} {peak}")


def uneven():
    """Every speaker with the same number of samples, with one of ten numbers, and with one of its own."""
    times = []
    for low, high in ((10, 20), (10, 3_010)):
        rng = np.random.default_rng(0)
        parameters = draw_parameters(rng, D, 40, 20)
        statistics = draw_statistics(rng, parameters, rng.integers(low, high, 5_000), 40)
        products, _ = iteration(f"5,000 speakers, 40 channels, {low} to {high - 1} samples", statistics, parameters)
        times.append(products)
    report("uneven over even counts", times[1] / times[0], 2.5)


def several(rng, speakers, each, channels, conditions, missing):
    """Statistics and parameters of several conditions, with a share of their labels missing."""
    s = np.repeat(np.arange(speakers), each)
    c = rng.integers(0, channels, (len(s), conditions)).astype(object)
    c[rng.random(c.shape) < missing] = None
    V, *U = (draw_parameters(rng, D, 40, channels - 1).loadings[k > 0] for k in range(1 + conditions))
    noise = draw_parameters(rng, D, 1, 1).noise
    return Statistics.from_samples(rng.normal(size=(len(s), D)), s, c), Parameters.of(np.zeros(D), [V, *U], noise)


def missing():
    """Three conditions, each of which a fifth of the samples have no label of."""
    statistics, parameters = several(np.random.default_rng(0), 2_000, 10, 10, 3, 0.2)
    products, peak = iteration("2,000 x 10, three conditions of 10 channels, 20 % missing each", statistics, parameters)
    report("three conditions, 20 % missing each, in products of 1000 x 1000", products, 5)
    report("three conditions, 20 % missing each, in MB", peak / 1e6, 500)


def single():
    """A channel of its own for every sample, with and without a label."""
    rng = np.random.default_rng(0)
    s, times = np.repeat(np.arange(5_000), 10), {}
    X, own, none = rng.normal(size=(len(s), D)), np.arange(len(s)), np.full((len(s), 1), None, dtype=object)
    for name, labels in (("no labels of channels", none), ("a labelled channel per sample", own)):
        took = times[name] = []
        model = JointPLDA(speaker_rank=40, channel_rank=20, noise="diagonal", max_iter=15, tol=0.0)
        model.set_params(callback=lambda progress, took=took: took.append(progress.detail.seconds))
        model.fit(X, s, channels=labels)
        print(f"5,000 x 10, {name}: {1e3 * np.median(took):.1f} ms an iteration; {model.plan_}")
    absent, labelled = (float(np.median(took)) for took in times.values())
    report("a labelled channel per sample over missing labels", labelled / absent, 1.5)


PARTS = {"search": search, "fit": fit, "uneven": uneven, "missing": missing, "single": single}


def main(arguments):
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        if arguments[:1] == ["--fit"]:
            one_fit(*map(int, arguments[1:]))
            return 0
        if arguments[:1] == ["--plot"]:
            from benchmarks.growth_plot import plot

            plot(arguments[1])
            return 0
        for name in arguments or PARTS:
            print(f"\n{name}: {PARTS[name].__doc__}")
            PARTS[name]()
    return summary()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
