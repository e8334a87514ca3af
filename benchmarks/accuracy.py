"""Error rates on embeddings with two labels: every system, on the same splits and the same trials.

python -m benchmarks.accuracy FOLDER

FOLDER holds ``.npz`` files with ``embeddings``, ``speaker`` and ``channel``. Each split holds out 35 % of the speakers;
training speakers keep one, two or all of their channels, drawn at random; test trials are all pairs of at most two
samples of every test speaker in every channel. Figures are means over splits; intervals are the 5th to the 95th
percentile of draws of test speakers, those of all splits together.
"""

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np

from jointplda.evaluation.protocol import Samples, trials_of
from jointplda.evaluation.systems import Recipe, run_systems
from jointplda.metrics import bootstrap, cell_parts, eer, measure

SYSTEMS = ["cosine", "cosine, channel means removed", "LDA + PLDA", "PLDA", "Joint PLDA"]
MEASURES = ("EER", "Cllr", "minCllr", "cross / same")
TEST_SHARE, PER_CELL = 0.35, 2


def split(data, seed, channels, speakers=None):
    """Training and test samples of one split; ``channels`` None keeps all, ``speakers`` None keeps all."""
    rng = np.random.default_rng(seed)
    names = rng.permutation(np.unique(data.speakers))
    kept = names[: round((1 - TEST_SHARE) * len(names))]
    train, test = np.isin(data.speakers, kept[:speakers]), ~np.isin(data.speakers, kept)
    where = data.channels[:, 0]
    levels = np.unique(where)
    if channels is not None:
        chosen = {name: set(rng.permutation(levels)[:channels].tolist()) for name in kept}
        train &= [c in chosen.get(s, ()) for s, c in zip(data.speakers.tolist(), where.tolist())]
    order = rng.permutation(len(where))
    cell = np.unique(np.stack((data.speakers, where)), axis=1, return_inverse=True)[1][order]
    place = np.argsort(np.argsort(cell, kind="stable")) - np.searchsorted(np.sort(cell), cell)
    few = np.zeros(len(where), dtype=bool)
    few[order[place < PER_CELL]] = True
    return data.take(train), data.take(test & few)


def systems_of(train, test):
    """Names, scores and whether they are log-likelihood ratios, of every system on one split."""
    for prior, suffix, names in ((0.0, "", SYSTEMS), (1.0, ", shrunk", SYSTEMS[3:])):
        recipe = Recipe(pca=100, noise_prior=prior, speaker_prior=prior, max_iter=100, tol=1e-4)
        for system in run_systems(train, test, recipe, systems=names):
            yield system.name + suffix, system.scores, system.is_llr


def figures(scores, target, sides, is_llr, draws):
    """The measures of one split, and of draws of its test speakers."""
    found = measure(scores, target, (0.05,), is_llr=is_llr)
    hard = cell_parts(target, sides.same_channel == 1)["cross / same"]
    drawn = {}
    if draws:
        pooled = bootstrap(scores, target, sides.enrol_speakers, sides.test_speakers, draws=draws, is_llr=is_llr)
        first, second = sides.enrol_speakers[hard], sides.test_speakers[hard]
        cell = bootstrap(scores[hard], target[hard], first, second, draws=draws, is_llr=False)
        drawn = {name: pooled.draws[name] for name in MEASURES[:3] if name in pooled.draws}
        drawn["cross / same"] = cell.draws["EER"]
    values = {"EER": found.eer, "Cllr": found.cllr, "minCllr": found.min_cllr}
    return values | {"cross / same": eer(scores[hard], target[hard])}, drawn


def run(data, channels, arguments, speakers=None):
    """Means and intervals of every system over the splits of one set."""
    values, draws = {}, {}
    for seed in range(arguments.splits):
        train, test = split(data, seed, channels, speakers)
        training, testing, sides, target = trials_of(train, test, ["channel"])
        for name, scores, is_llr in systems_of(training, testing):
            one, drawn = figures(scores, target, sides, is_llr, arguments.draws)
            for key in MEASURES:
                values.setdefault((name, key), []).append(one[key])
                draws.setdefault((name, key), []).append(drawn.get(key, np.zeros(0)))
    names = dict.fromkeys(name for name, _ in values)
    return {name: [(values[name, key], np.concatenate(draws[name, key])) for key in MEASURES] for name in names}


def text(key, values, drawn):
    """A mean with its interval, shares as percentages."""
    factor, digits = (100, 2) if key in ("EER", "cross / same") else (1, 3)
    if np.isnan(values).any():
        return "-"
    shown = f"{factor * np.mean(values):.{digits}f}"
    if not len(drawn):
        return shown
    low, high = np.nanquantile(factor * drawn, [0.05, 0.95])
    return f"{shown} [{low:.{digits}f}, {high:.{digits}f}]"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--channels", nargs="+", default=["1", "2", "all"])
    parser.add_argument("--speakers", type=int, help="train on so many speakers only")
    arguments = parser.parse_args()
    paths = sorted(arguments.folder.glob("*.npz"))
    if not paths:
        sys.exit(f"{arguments.folder}: no .npz files with embeddings, speaker and channel")
    warnings.simplefilter("ignore")
    print(f"{arguments.splits} splits; EER and cross / same in %, Cllr in bits, [5th, 95th percentile of draws]\n")
    print("| set | channels per training speaker | system | " + " | ".join(MEASURES) + " |")
    print("|---" * (3 + len(MEASURES)) + "|")
    for path in paths:
        with np.load(path, allow_pickle=False) as stored:
            columns = [stored[name].astype(str) for name in ("speaker", "channel")]
            data = Samples(
                np.arange(len(columns[0])).astype(str), stored["embeddings"], columns[0], columns[1][:, None]
            )
        for channels in arguments.channels:
            found = run(data, None if channels == "all" else int(channels), arguments, arguments.speakers)
            for name, results in found.items():
                cells = [text(key, *result) for key, result in zip(MEASURES, results)]
                print(f"| {path.stem} | {channels} | {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
