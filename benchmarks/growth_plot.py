"""The picture of docs/many-channels.md: time and memory of an iteration as one size grows, and what the plan said."""

import matplotlib
import numpy as np
from benchmarks.draw import draw_parameters, draw_statistics
from benchmarks.growth import D, measured, several

matplotlib.use("svg")
matplotlib.rcParams |= {
    "svg.hashsalt": "jointplda",
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
from matplotlib import pyplot as plt  # noqa: E402

MOST_WORK = 4e11  # operations of an iteration that are worth waiting for
COLOURS = {"exact": "#b5541c", "sampled": "#20639b"}


def world(speakers=2_000, channels=100, rank=20, counts=1, heard=3):
    """Statistics and parameters; ``counts`` is the number of distinct sample counts of the speakers."""
    rng = np.random.default_rng(0)
    parameters = draw_parameters(rng, D, 40, rank)
    return draw_statistics(rng, parameters, 10 + np.arange(speakers) % counts, channels, heard), parameters


def conditions(number):
    """Statistics and parameters of so many conditions of 20 channels, a tenth of whose labels are missing."""
    return several(np.random.default_rng(0), 2_000, 10, 20, number, 0.1)


PANELS = {
    "speakers": ((500, 2_000, 8_000, 32_000, 128_000), lambda n: world(speakers=n)),
    "channels, 3 for each speaker": ((10, 30, 100, 300, 1_000, 3_000), lambda n: world(channels=n)),
    "columns of U": ((2, 5, 10, 20, 40), lambda n: world(rank=n)),
    "distinct sample counts": ((1, 10, 100, 1_000), lambda n: world(channels=40, counts=n)),
    "conditions, 10 % of labels missing": ((1, 2, 3), conditions),
}


def curve(sizes, make, solver):
    """Rows of size, products, planned products, MB and planned MB, as far as they are worth waiting for."""
    rows = []
    for size in sizes:
        statistics, parameters = make(size)
        try:
            plan, products, peak = measured(statistics, parameters, rounds=3, solver=solver, most=MOST_WORK)
        except MemoryError:
            break
        rows.append((size, products, plan.work / 2e9, peak / 1e6, plan.memory / 1e6))
        print(f"{solver} {size}: {products:.2f} products (plan {rows[-1][2]:.2f}), {peak / 1e6:.0f} MB", flush=True)
    return np.array(rows)


def plot(path):
    """Measure everything, and write the picture."""
    figure, axes = plt.subplots(2, len(PANELS), figsize=(13, 5), sharey="row", layout="constrained")
    for (name, (sizes, make)), column in zip(PANELS.items(), axes.T):
        print(f"\n{name}")
        for solver, colour in COLOURS.items():
            rows = curve(sizes, make, solver)
            for axis, at in zip(column, (1, 3)):
                axis.loglog(rows[:, 0], rows[:, at], "o-", color=colour, label=solver, markersize=3)
                axis.loglog(rows[:, 0], rows[:, at + 1], ":", color=colour, label=f"{solver}, planned")
        column[1].set_xlabel(name)
        for axis in column:
            axis.minorticks_off()
            axis.set_xticks(sizes, [f"{size:,}" for size in sizes], fontsize=6)
    axes[0, 0].set_ylabel("products of 1000 x 1000")
    axes[1, 0].set_ylabel("MB")
    axes[0, 0].legend(frameon=False, fontsize=6)
    figure.savefig(path, metadata={"Date": None})
