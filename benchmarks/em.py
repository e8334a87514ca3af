"""Speed of an EM iteration, as ratios within one run, on one thread.

python -m benchmarks.em            everything (about three minutes)
python -m benchmarks.em --quick    without the paper's formulas at 20,000 speakers
"""

import sys
import time
import tracemalloc

import numpy as np
from benchmarks.draw import draw_parameters, draw_statistics
from benchmarks.timing import report, seconds, summary
from tests.oracles import paper
from threadpoolctl import threadpool_limits

from jointplda import Statistics
from jointplda.model.estep import e_step
from jointplda.model.interaction.cell_means import cell_means, held_cells
from jointplda.model.kappa import KappaPrior
from jointplda.model.layout import lay_out
from jointplda.model.mstep import NoiseModel, Prior, m_step
from jointplda.model.parameters import Parameters
from jointplda.model.statistics import encode_all

D, RY, RX, CHANNELS, PER_SPEAKER = 200, 100, 20, 10, 20


def iteration(statistics, parameters, within=None, kappa=0.0):
    """A function that runs one E and one M step; ``within`` is what is left beside cell means, for an interaction."""
    layout = lay_out(statistics, parameters.ranks)
    noise, prior = NoiseModel(False, 1e-6 * statistics.scales), Prior(kappa=None if within is None else KappaPrior())

    def run():
        moments, _ = e_step(layout, parameters, kappa)
        m_step(moments, parameters, layout.scatter(kappa), layout.shift, prior, noise, within, kappa)

    return run


def interaction(rng, parameters):
    """An iteration with an interaction of speaker and channel over one without, on even and on uneven cells."""
    s, c = np.repeat(np.arange(2_000), PER_SPEAKER), np.tile(np.arange(CHANNELS), 2_000 * PER_SPEAKER // CHANNELS)
    X = rng.normal(size=(len(s), D))
    kept = np.sort(rng.permutation(len(s))[: 3 * len(s) // 4])
    for name, rows, limit in (("even", slice(None), 1.5), ("uneven", kept, None)):
        statistics = Statistics.from_samples(X[rows], s[rows], c[rows], cells=True)
        means, within = cell_means(statistics)
        held, left = held_cells(statistics, 0.5, shape_weight=1.0)
        plain, interacting, holding = seconds(
            iteration(statistics, parameters),
            iteration(means, parameters, within, 0.5),
            iteration(held, parameters, left),
        )
        print(f"\n{name} cells: {1e3 * plain:.1f} ms an iteration, {1e3 * interacting:.1f} ms with an interaction")
        if limit:
            report(f"iteration with an interaction over one without, {name} cells", interacting / plain, limit)
            report(f"the same with kappa held, {name} cells", holding / plain, limit)
        else:
            print(f"     {name} cells, sizes {sorted({part.cell_size for part in means.parts.values()})}: ", end="")
            print(f"{interacting / plain:.2f} times an iteration without, {holding / plain:.2f} with kappa held")


def counts_of(rng, n_speakers, spread):
    return np.full(n_speakers, PER_SPEAKER) if not spread else rng.integers(10, 31, n_speakers)


def growth(rng, parameters, spread):
    """Iterations of PLDA and Joint PLDA at 2,000 speakers and at a hundred times as many."""
    splda = Parameters.of(parameters.mean, parameters.loadings[:1], parameters.noise)
    calls = []
    for n_speakers in (2_000, 200_000):
        statistics = draw_statistics(rng, parameters, counts_of(rng, n_speakers, spread), CHANNELS)
        calls += [iteration(statistics.without_channels(), splda), iteration(statistics, parameters)]
    square = rng.normal(size=(1000, 1000))
    splda_small, joint_small, splda_large, joint_large, product = seconds(*calls, lambda: square @ square)
    name = "10 to 30 samples a speaker" if spread else "20 samples a speaker"
    print(f"\n{name}: SPLDA {1e3 * splda_small:.1f} ms, Joint PLDA {1e3 * joint_small:.1f} ms an iteration;")
    print(f"with 100 times the speakers {1e3 * splda_large:.1f} and {1e3 * joint_large:.1f} ms; ", end="")
    print(f"one 1000 x 1000 product {1e3 * product:.1f} ms")
    report("SPLDA iteration over a 1000 x 1000 product", splda_small / product, 1.0)
    report("Joint PLDA iteration over a 1000 x 1000 product", joint_small / product, 1.5)
    report("SPLDA, 200,000 over 2,000 speakers", splda_large / splda_small, 1.25)
    report("Joint PLDA, 200,000 over 2,000 speakers", joint_large / joint_small, 1.25)


def against_the_paper(rng, parameters, n_speakers, limit):
    """The paper's formulas as written: a loop over speakers, dense H, explicit inverses."""
    V, U = parameters.loadings
    s = np.repeat(np.arange(n_speakers), PER_SPEAKER)
    c = rng.integers(0, CHANNELS, len(s))
    X = (rng.normal(size=(n_speakers, RY)) @ V.T)[s] + (rng.normal(size=(CHANNELS, RX)) @ U.T)[c]
    X += rng.normal(size=X.shape) @ np.linalg.cholesky(parameters.noise).T
    run = iteration(Statistics.from_samples(X, s, c), parameters)
    data, precision = paper.Data(X, s, c, RX), np.linalg.inv(parameters.noise)
    (ours,) = seconds(run)
    began = time.perf_counter()
    paper.em_step(data, V, U, precision)
    theirs = time.perf_counter() - began
    print(f"\n{n_speakers:,} speakers: the paper's formulas {theirs:.2f} s, here {1e3 * ours:.1f} ms an iteration")
    report(f"times faster than the paper's formulas, {n_speakers:,} speakers", theirs / ours, limit, least=True)


def memory(rng, parameters):
    """Peak memory of arranging statistics and iterating, over arrays that must not exist."""
    n_speakers = 20_000
    statistics = draw_statistics(rng, parameters, counts_of(rng, n_speakers, True), CHANNELS)
    tracemalloc.start()
    iteration(statistics, parameters)()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    print(f"\nmemory, 20,000 speakers: {peak / 1e6:.0f} MB at the peak, beside the statistics")
    report("peak over speakers x d x d", peak / (8.0 * n_speakers * D * D), 0.1)
    report("peak over (speakers Rx) x (channels Rx)", peak / (8.0 * n_speakers * RX * CHANNELS * RX), 0.5)


def reading(rng):
    """One pass over the rows, over a sum of X' X in float32 in chunks of the same size."""
    n, d = 200_000, 192
    X = rng.normal(size=(n, d)).astype(np.float32)
    codes, labels, names = encode_all(rng.permutation(n) % 20_000, rng.integers(0, CHANNELS, n), n)

    def squares():
        total = np.zeros((d, d), dtype=np.float32)
        for start in range(0, n, 4096):
            total += X[start : start + 4096].T @ X[start : start + 4096]

    bare, passed = seconds(squares, lambda: Statistics.from_codes(X, codes, labels, names), rounds=9)
    print(f"\n{n:,} x {d} float32: {n / passed / 1e6:.2f} million rows a second")
    report("statistics of 20,000 speakers and 10 channels over float32 X' X", passed / bare, 3.5)


def main():
    rng = np.random.default_rng(0)
    parameters = draw_parameters(rng, D, RY, RX)
    print(f"EM iteration: d {D}, Ry {RY}, Rx {RX}, {CHANNELS} channels, float64, one thread")
    with threadpool_limits(1):
        growth(rng, parameters, spread=False)
        growth(rng, parameters, spread=True)
        interaction(rng, parameters)
        reading(rng)
        against_the_paper(rng, parameters, 2_000, 100)
        if "--quick" not in sys.argv:
            against_the_paper(rng, parameters, 20_000, 1000)
        memory(rng, parameters)
    return summary()


if __name__ == "__main__":
    sys.exit(main())
