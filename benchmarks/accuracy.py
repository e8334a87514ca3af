"""Error rates on embeddings with two labels: every system, on the same splits and the same trials.

python -m benchmarks.accuracy FOLDER

FOLDER holds ``.npz`` files with ``embeddings``, ``speaker`` and ``channel``. Each split trains on 65 % of the speakers,
who keep one, two or all of their channels, drawn at random; test trials are all pairs of at most two samples of every
other speaker in every channel. Figures are means over splits; intervals are the 5th to the 95th percentile of draws of
test speakers, those of all splits together. Last come training sets cut to 15 and 30 speakers in one channel each.
"""

import argparse
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from benchmarks.pages import Told
from benchmarks.timing import report, summary
from examples.splits import split_by_speaker
from threadpoolctl import threadpool_limits

from jointplda import PLDA, JointPLDA, JointPLDACV
from jointplda.evaluation.protocol import LabelledSamples, trials_of
from jointplda.evaluation.systems import AUTOMATIC, ComparedSettings, run_systems
from jointplda.labels import ConditionColumns
from jointplda.metrics import CROSS_SAME, Measure, MeasureKind, bootstrap, eer, measure, type_pairs

NAMES = {
    "cosine": "cosine",
    "cosine, channel means removed": "cosine, channel means removed",
    "LDA + PLDA": "LDA + PLDA",
    "PLDA": "PLDA, maximum likelihood",
    "Joint PLDA": "Joint PLDA, maximum likelihood",
    AUTOMATIC: AUTOMATIC,
}
SAME = "PLDA, the same shrinkage"
MEASURES = ("EER", "Cllr", "minCllr", CROSS_SAME)
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


def same_shrinkage(pipe, data):
    """PLDA on the samples that the automatic model got, with the priors that it chose."""
    reduced = pipe[-1].best_estimator_[:-1]
    chosen = {name: pipe[-1].best_params_[name] for name in ("noise_prior", "speaker_prior")}
    model = PLDA(max_iter=pipe[-1].max_iter, tol=pipe[-1].tol, **chosen)
    model.fit(reduced.transform(data.train.X), data.train.speakers)
    Z = reduced.transform(data.test.X)
    return model.score_trials(Z, Z, data.pairs)


def systems_of(data, few):
    """Names, scores and whether they are log-likelihood ratios, of every system on one split."""
    wanted = ["cosine", AUTOMATIC] if few else list(NAMES)
    for system in run_systems(data.train, data.test, data.pairs, ComparedSettings(tol=1e-4), systems=wanted):
        yield NAMES[system.name], system.scores, system.is_llr
        if few and system.name == AUTOMATIC:
            yield SAME, np.asarray(same_shrinkage(system.model, data)), True


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


def one_split(path, channels, speakers, seed, draws):
    """All systems on one split: measures by system."""
    warnings.simplefilter("ignore")
    data = trials_of(*split_by_speaker(load(path), seed, channels_per_speaker=channels, speakers=speakers))
    return {
        name: figures(scores, data.target, data.sides, is_llr, draws)
        for name, scores, is_llr in systems_of(data, speakers is not None)
    }


def text(key, values, drawn):
    """A mean with its interval, shares as percentages."""
    factor, digits = (100, 2) if key in ("EER", CROSS_SAME) else (1, 3)
    if np.isnan(values).any():
        return "-"
    shown = f"{factor * np.mean(values):.{digits}f}"
    if not len(drawn):
        return shown
    low, high = np.nanquantile(factor * drawn, [0.05, 0.95])
    return f"{shown} [{low:.{digits}f}, {high:.{digits}f}]"


def table(say, first, rows):
    """Say the rows of a Markdown table; means by system and measure."""
    means = {}
    for name in rows[0]:
        cells = []
        for key in MEASURES:
            values = [row[name][0][key] for row in rows]
            drawn = np.concatenate([row[name][1].get(key, np.zeros(0)) for row in rows])
            cells.append(text(key, values, drawn))
            means[name, key] = float(np.mean(values))
        say(f"| {first} | {name} | " + " | ".join(cells) + " |")
    return means


def check_full(name, channels, means):
    """What is asked of the automatic model on a whole training set."""
    errors = {system: means[system, "EER"] for system in NAMES.values()}
    best = min(errors[system] for system in errors if system != AUTOMATIC)
    where = f"{name}, {channels} channel(s):"
    report(f"{where} pooled EER, automatic / best other", errors[AUTOMATIC] / best, 1.02)
    if channels == "1":
        hard = means[AUTOMATIC, CROSS_SAME] / means["cosine", CROSS_SAME]
        report(f"{where} cross / same EER, automatic / cosine", hard, 0.9)
        report(f"{where} Cllr, automatic", means[AUTOMATIC, "Cllr"], 1.0)
    else:
        report(f"{where} Cllr - minCllr, automatic", means[AUTOMATIC, "Cllr"] - means[AUTOMATIC, "minCllr"], 0.1)


def check_cut(name, speakers, means):
    """What is asked of it on a few speakers."""
    best = min(means["cosine", "EER"], means[SAME, "EER"])
    report(f"{name}, {speakers} speakers: pooled EER, automatic / better of two", means[AUTOMATIC, "EER"] / best, 1.02)


def check_time(paths):
    """How long choosing settings takes, in plain fits of the same samples."""
    for path in paths:
        for channels in (1, 2, None):
            train, _ = split_by_speaker(load(path), 0, channels_per_speaker=channels)
            X, y, c = train.X, train.speakers, train.channels.values[0]
            times = []
            for model in (JointPLDA(), JointPLDACV(), JointPLDA()):
                began = time.perf_counter()
                model.fit(X, y, channels=c)
                times.append(time.perf_counter() - began)
            ratio = 2 * times[1] / (times[0] + times[2])
            report(f"{path.stem}, {channels or 'all'} channel(s): time of JointPLDACV / JointPLDA", ratio, 100)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--channels", nargs="*", default=["1", "2", "all"])
    parser.add_argument("--cuts", nargs="*", type=int, default=CUTS, help="numbers of training speakers")
    parser.add_argument("--jobs", type=int, default=2, help="splits at once")
    parser.add_argument("--page", type=Path, help="put the tables into this page, between its marks")
    arguments = parser.parse_args()
    paths = sets_in(arguments.folder)
    warnings.simplefilter("ignore")
    head = " | ".join(("system", *MEASURES))
    told, checks = Told(), []
    main_part, cut_part = (partial(told.say, part) for part in ("sets", "cuts"))
    main_part(f"{arguments.splits} splits; EER and cross / same in %, Cllr in bits, [5th, 95th percentile of draws].")
    with ProcessPoolExecutor(arguments.jobs, initializer=on_one_thread) as pool:

        def rows(path, channels, speakers):
            seeds = range(arguments.splits)
            jobs = [pool.submit(one_split, path, channels, speakers, seed, arguments.draws) for seed in seeds]
            return [job.result() for job in jobs]

        main_part(f"\n| set | channels per training speaker | {head} |\n" + "|---" * 7 + "|")
        for path in paths:
            for channels in arguments.channels:
                found = rows(path, None if channels == "all" else int(channels), None)
                means = table(main_part, f"{path.stem} | {channels}", found)
                checks.append((check_full, path.stem, channels, means))
        cut_part(f"\n| set | training speakers, one channel each | {head} |\n" + "|---" * 7 + "|")
        for path in paths:
            for number in arguments.cuts:
                found = rows(path, 1, number)
                means = table(cut_part, f"{path.stem} | {number}", found)
                checks.append((check_cut, path.stem, number, means))
    print()
    for check, *given in checks:
        check(*given)
    check_time(paths)
    if arguments.page is not None:
        told.write(arguments.page)
    return summary()


if __name__ == "__main__":
    sys.exit(main())
