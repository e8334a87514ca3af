"""Error rates on embeddings with two labels: every system, on the same splits and the same trials.

python -m benchmarks.accuracy FOLDER

FOLDER holds ``.npz`` files with ``embeddings``, ``speaker`` and ``channel``. Each split trains on 65 % of the speakers,
who keep one, two or all of their channels, drawn at random; test trials are all pairs of at most two samples of every
other speaker in every channel. The channels of the test are those of training, or others. Figures are means over
splits; intervals are the 5th to the 95th percentile of draws of test speakers, those of all splits together. Last come
training sets cut to 15 and 30 speakers in one channel each.

What is finished is kept in a file, and not computed again as long as neither the set nor the package changes, so that
the command can be stopped and goes on where it was.
"""

import argparse
import hashlib
import json
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache, partial
from itertools import chain
from pathlib import Path

import numpy as np
from benchmarks.pages import Told
from benchmarks.timing import report, summary
from examples.splits import split_by_speaker
from threadpoolctl import threadpool_limits

import jointplda
from jointplda.evaluation.protocol import LabelledSamples, trials_of
from jointplda.evaluation.systems import AUTOMATIC, AUTOMATIC_PLAIN, ComparedSettings, run_systems
from jointplda.labels import ConditionColumns
from jointplda.metrics import CROSS_SAME, Measure, MeasureKind, bootstrap, cllr, eer, measure, min_cllr, type_pairs
from jointplda.selection.fold_trials import type_weights

MEANS_REMOVED = "cosine, channel means removed"
NAMES = {
    "cosine": "cosine",
    MEANS_REMOVED: MEANS_REMOVED,
    "LDA + PLDA": "LDA + PLDA",
    "PLDA": "PLDA, maximum likelihood",
    "Joint PLDA": "Joint PLDA, maximum likelihood",
    AUTOMATIC_PLAIN: AUTOMATIC_PLAIN,
    AUTOMATIC: AUTOMATIC,
}
FEW = ("cosine", AUTOMATIC_PLAIN, AUTOMATIC)
PROMISED, GOT, BEST = "promised", "got", "at best"
MEASURES = ("EER", CROSS_SAME, "Cllr", "minCllr", PROMISED, GOT, BEST)
CUTS = (15, 30)


def load(path):
    """A set of embeddings as samples with one condition."""
    with np.load(path, allow_pickle=False) as stored:
        speakers, channels = (stored[name].astype(str) for name in ("speaker", "channel"))
        names = np.arange(len(speakers)).astype(str)
        return LabelledSamples(names, stored["embeddings"], speakers, ConditionColumns(("channel",), (channels,)))


def sets_in(folder):
    """The sets of a folder, or an end with a sentence."""
    paths = sorted(folder.glob("*.npz"))
    if not paths:
        sys.exit(f"{folder}: no .npz files with embeddings, speaker and channel")
    return paths


def on_one_thread():
    """For every worker: one thread of BLAS, so that splits at once do not get in each other's way."""
    threadpool_limits(1)


@cache
def digest(path):
    """What a set, or the package, is now."""
    parts = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return hashlib.sha256(b"".join(part.read_bytes() for part in parts)).hexdigest()[:16]


def figures(scores, target, sides, is_llr, draws):
    """The measures of one split, and of draws of its test speakers."""
    found = measure(scores, target, (0.05,), is_llr=is_llr)
    hard = type_pairs(target, sides.same_channel == 1)[CROSS_SAME]
    drawn = {}
    if draws:
        pooled = bootstrap(scores, target, sides.enroll_speakers, sides.test_speakers, draws=draws, is_llr=is_llr)
        first, second = sides.enroll_speakers[hard], sides.test_speakers[hard]
        crossed = bootstrap(scores[hard], target[hard], first, second, draws=draws, is_llr=False)
        drawn = {str(name): values for name, values in pooled.draws.items() if str(name) in MEASURES}
        drawn[CROSS_SAME] = crossed.draws[Measure(MeasureKind.EER)]
    values = {"EER": found.eer, "Cllr": found.cllr, "minCllr": found.min_cllr}
    return values | {CROSS_SAME: eer(scores[hard], target[hard])}, drawn


def one_split(path, channels, new, speakers, seed, draws):
    """All systems on one split: measures, and draws of them, by system."""
    warnings.simplefilter("ignore")
    samples, each = load(path), {"channels_per_speaker": channels, "speakers": speakers, "new_channels": new}
    data = trials_of(*split_by_speaker(samples, seed, **each))
    weights = type_weights(data.target, data.sides.same_channel == 1)
    wanted, rows = FEW if speakers else [name for name in NAMES if not (new and name == MEANS_REMOVED)], {}
    for system in run_systems(data.train, data.test, data.pairs, ComparedSettings(tol=1e-4), systems=wanted):
        values, drawn = figures(system.scores, data.target, data.sides, system.is_llr, draws)
        if system.name in (AUTOMATIC, AUTOMATIC_PLAIN):
            values[PROMISED] = system.model[-1].held_out_cllr_.calibrated_cllr
            values[GOT] = cllr(system.scores, data.target, weights)
            values[BEST] = min_cllr(system.scores, data.target, weights)
        rows[NAMES[system.name]] = values, {name: np.round(draw, 5).tolist() for name, draw in drawn.items()}
    return rows


class Kept:
    """Finished splits in a file of one JSON line each."""

    def __init__(self, path):
        self.path, self.rows = path, {}
        for line in path.read_text().splitlines() if path.exists() else ():
            try:
                stored = json.loads(line)
            except json.JSONDecodeError:  # the last line of a run that was stopped
                continue
            self.rows[tuple(stored["key"])] = stored["rows"]

    def key(self, path, *job):
        """Name of a split of a set, as the set and the package are now."""
        return (path.stem, digest(path), digest(Path(jointplda.__file__).parent), *job)

    def add(self, key, rows):
        """Keep a finished split."""
        with open(self.path, "a") as file:
            file.write(json.dumps({"key": key, "rows": rows}) + "\n")
        self.rows[key] = rows


def computed(kept, jobs, workers):
    """Compute the splits that are not kept yet, and keep each as it is done."""
    missing = [job for job in jobs if kept.key(*job) not in kept.rows]
    print(f"{len(jobs) - len(missing)} of {len(jobs)} splits are kept in {kept.path}", file=sys.stderr)
    with ProcessPoolExecutor(workers, initializer=on_one_thread) as pool:
        running = {pool.submit(one_split, *job): job for job in missing}
        for number, future in enumerate(as_completed(running), 1):
            kept.add(kept.key(*running[future]), future.result())
            print(f"{number} of {len(missing)}: {running[future]}", file=sys.stderr, flush=True)


def text(key, values, drawn):
    """A mean with its interval, shares as percentages."""
    factor, digits = (100, 2) if key in ("EER", CROSS_SAME) else (1, 3)
    if np.isnan(values).any():
        return "-"
    shown = f"{factor * np.mean(values):.{digits}f}"
    if not len(drawn):
        return shown
    low, high = np.nanquantile(factor * np.asarray(drawn), [0.05, 0.95])
    return f"{shown} [{low:.{digits}f}, {high:.{digits}f}]"


def table(say, first, rows):
    """Say the rows of a Markdown table; means by system and measure."""
    means = {}
    for name in rows[0]:
        cells = []
        for key in MEASURES:
            values = [row[name][0].get(key, np.nan) for row in rows]
            cells.append(text(key, values, list(chain.from_iterable(row[name][1].get(key, []) for row in rows))))
            means[name, key] = float(np.mean(values))
        say(f"| {first} | {name} | " + " | ".join(cells) + " |")
    return means


def check_full(name, channels, means):
    """What is asked of the automatic model on a whole training set."""
    errors = {system: means[system, "EER"] for system, key in means if key == "EER"}
    best = min(errors[system] for system in errors if system != AUTOMATIC)
    report(f"{name}, {channels}: pooled EER, automatic / best other", errors[AUTOMATIC] / best, 1.02)
    if channels.startswith("1"):
        hard = means[AUTOMATIC, CROSS_SAME] / means["cosine", CROSS_SAME]
        report(f"{name}, {channels}: cross / same EER, automatic / cosine", hard, 0.9)
        report(f"{name}, {channels}: Cllr, automatic", means[AUTOMATIC, "Cllr"], 1.0)
    else:
        report(f"{name}, {channels}: Cllr - minCllr, automatic", means[AUTOMATIC, GOT] - means[AUTOMATIC, BEST], 0.1)


def check_cut(name, speakers, means):
    """What is asked of it on a few speakers."""
    best = min(means["cosine", "EER"], means[AUTOMATIC_PLAIN, "EER"])
    report(f"{name}, {speakers} speakers: pooled EER, automatic / better of two", means[AUTOMATIC, "EER"] / best, 1.02)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--channels", nargs="*", default=["1", "2", "all"])
    parser.add_argument("--cuts", nargs="*", type=int, default=CUTS, help="numbers of training speakers")
    parser.add_argument("--jobs", type=int, default=2, help="splits at once")
    parser.add_argument("--kept", type=Path, default=Path("accuracy.jsonl"), help="file of finished splits")
    parser.add_argument("--page", type=Path, help="put the tables into this page, between its marks")
    parser.add_argument("--example", help="set to show in --readme, with one channel per training speaker")
    parser.add_argument("--readme", type=Path, help="put that table into this page, between its marks")
    arguments = parser.parse_args()
    paths, kept, seeds = sets_in(arguments.folder), Kept(arguments.kept), range(arguments.splits)
    warnings.simplefilter("ignore")
    counts = {name: None if name == "all" else int(name) for name in arguments.channels}
    designs = [(path, name, new) for new in (False, True) for path in paths for name in counts]
    cuts = [(path, number) for path in paths for number in arguments.cuts]
    full = {d: [(d[0], counts[d[1]], d[2], None, seed, arguments.draws) for seed in seeds] for d in designs}
    few = {cut: [(cut[0], 1, False, cut[1], seed, arguments.draws) for seed in seeds] for cut in cuts}
    computed(kept, list(chain(*full.values(), *few.values())), arguments.jobs)
    head, told, checks = " | ".join(("system", *MEASURES)), Told(), []
    say = {part: partial(told.say, part) for part in ("sets", "new channels", "cuts")}
    for part in say.values():
        part(f"{arguments.splits} splits; EER and cross / same in %, Cllr in bits, [5th, 95th percentile of draws].")
    for part in ("sets", "new channels"):
        say[part](f"\n| set | channels per training speaker | {head} |\n" + "|---" * 10 + "|")
    say["cuts"](f"\n| set | training speakers, one channel each | {head} |\n" + "|---" * 10 + "|")
    for (path, name, new), jobs in full.items():
        rows = [kept.rows[kept.key(*job)] for job in jobs]
        means = table(say["new channels" if new else "sets"], f"{path.stem} | {name}", rows)
        checks.append((check_full, path.stem, f"{name} channel(s){', test channels new' if new else ''}", means))
    for (path, number), jobs in few.items():
        means = table(say["cuts"], f"{path.stem} | {number}", [kept.rows[kept.key(*job)] for job in jobs])
        checks.append((check_cut, path.stem, number, means))
    print()
    for check, *given in checks:
        check(*given)
    if arguments.page is not None:
        told.write(arguments.page)
    if arguments.readme is not None:
        shown = Told()
        shown.say("example", "| system | EER, % | cross / same, % | Cllr, bits |\n" + "|---" * 4 + "|")
        for (path, name, new), jobs in full.items():
            if (path.stem, name, new) == (arguments.example, "1", False):
                rows = [kept.rows[kept.key(*job)] for job in jobs]
                for system in rows[0]:
                    values = {key: [row[system][0].get(key, np.nan) for row in rows] for key in MEASURES}
                    cells = [text(key, values[key], []) for key in ("EER", CROSS_SAME, "Cllr")]
                    shown.say("example", f"| {system} | " + " | ".join(cells) + " |")
        shown.write(arguments.readme)
    return summary()


if __name__ == "__main__":
    sys.exit(main())
