"""What very large training sets cost, from rates measured in this run on one core.

python -m benchmarks.beyond                rates, and the table of 10 million and 1 billion samples
python -m benchmarks.beyond --rows N       measure on N samples instead of 200,000

A sample has 256 float32 numbers, which the usual front end makes 150; speakers have 20 samples in 4 of 40 channels.
Times are sums of what the passes measure, divided by the cores; what runs on one machine alone is not divided.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from benchmarks.large import draw
from threadpoolctl import threadpool_limits

from jointplda.formats import open_embeddings
from jointplda.labels import ConditionColumns
from jointplda.model.fit import fit
from jointplda.model.setting_checks import checked_settings
from jointplda.model.statistics import Statistics
from jointplda.passes.census import Census
from jointplda.passes.learned_steps import learned_front_end, summed
from jointplda.passes.readers import SourceReader
from jointplda.passes.sources import LabelledChunk
from jointplda.preprocessing.front_ends import AUTO

D, KEPT, EACH, CELLS, FEW = 256, 150, 20, 4, 0.2
PASSES = ("reading alone", "census", "sample", "front end", "statistics")


class File:
    """The drawn file as a source."""

    def __init__(self, path, share=1.0):
        self.stream = open_embeddings(path)
        self.n_features, self.n_samples = self.stream.n_features, int(share * self.stream.n_samples)

    def chunks(self):
        """All samples."""
        for table in self.stream.chunks(stop=self.n_samples):
            channels = ConditionColumns(("channel",), (table.columns["channel"],))
            yield LabelledChunk(table.X, table.columns["speaker"], channels)


def timed(call):
    began = time.perf_counter()
    result = call()
    return time.perf_counter() - began, result


def measure(rows):
    """Seconds a sample of every pass, a cell merged, and an iteration of EM; on one core."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npz"
        draw(path, rows, D, rows // EACH)
        source = File(path)
        reading, _ = timed(lambda: sum(len(chunk.X) for chunk in source.chunks()))
        reader = SourceReader(source)
        counting, census = timed(lambda: Census.of(reader))
        gathering, _ = timed(lambda: [census.codes(chunk) for chunk in source.chunks()])
        learning, steps = timed(
            lambda: learned_front_end(AUTO[0].sized(rows, D, rows // EACH, rows), reader, census, ())
        )
        summing, statistics = timed(lambda: summed(reader, census, steps, cells=True))
        few = SourceReader(File(path, FEW))
        fewer = summed(few, Census.of(few), steps, cells=True)
    cells, less = (len(one.parts[True,].cells.counts) for one in (statistics, fewer))
    names = tuple(tuple(f"x{label}" for label in labels) for labels in statistics.labels[:1])
    other = Statistics((*names, statistics.labels[1]), statistics.conditions, statistics.shift, statistics.parts)
    merging, _ = timed(lambda: statistics + other)
    settings = {"max_iter": 1, "noise_prior": 0.3, "speaker_prior": 0.3, "interaction": "proportional"}
    short, _ = timed(lambda: fit(fewer, checked_settings(settings)))
    once, _ = timed(lambda: fit(statistics, checked_settings(settings)))
    thrice, _ = timed(lambda: fit(statistics, checked_settings({**settings, "max_iter": 11, "tol": 0.0})))
    seconds = dict(zip(PASSES, (reading, counting, gathering, learning, summing)))
    iteration = (thrice - once) / 10
    return (
        {name: value / rows for name, value in seconds.items()}, merging / (2 * cells), iteration,
        max(once - short, 1e-3) / (cells - less), cells / rows,
    )  # fmt: skip


def words(seconds):
    for unit, size in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    given = parser.parse_args()
    with threadpool_limits(1):
        passes, merged, iteration, laid_out, share = measure(given.rows)
    print(f"Measured on {given.rows:,} x {D} float32 samples, one core (labels included):\n")
    for name, value in passes.items():
        print(f"  {name:<14} {1 / value:12,.0f} samples/s")
    print(f"  {'merging':<14} {1 / merged:12,.0f} cells/s (speaker x channel), {share:.2f} cells a sample here")
    print(f"  {'laying out EM':<14} {1 / laid_out:12,.0f} cells/s, then {iteration:.2f} s an iteration of any size\n")
    each = sum(passes[name] for name in PASSES[1:])
    print(
        "| samples | file | cores, machines | passes | merging | EM, 25 iterations | statistics | indices in memory |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for rows in (1e7, 1e9):
        cells = rows / EACH * CELLS
        for machines, cores in ((1, 1), (1, 16), (16, 256)):
            # A tree of shards merges every cell once a level; the last level is done by one machine.
            levels = np.log2(cores) if machines > 1 else 0.0
            joining = merged * cells * (levels / cores + 1.0 if machines > 1 else 0.0)
            em = laid_out * cells + 25 * iteration
            print(
                f"| {rows:,.0f} | {4 * D * rows / 1e9:,.0f} GB | {cores}, {machines} | {words(each * rows / cores)} | "
                f"{words(joining) if joining else '-'} | {words(em)} | {8 * KEPT * cells / 1e9:,.0f} GB | "
                f"{100 * cells / 1e9 + 120 * rows / EACH / 1e9:,.1f} GB |"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
