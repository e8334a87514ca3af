"""What the interaction of speaker and channel is worth on sets of your own: raw Cllr, minCllr and EER side by side.

python -m benchmarks.interaction FOLDER --splits 5

Every .npz of the folder has embeddings, speaker and channel. Settings are fixed (priors of noise, speaker and channel
of strength 1, or 3 where every training speaker is in one channel; no calibration), so that the models differ in the
interaction alone. Finished splits are kept in a file (--kept) and are not computed again. Without a folder, worlds are
drawn whose truth is known.
"""

import argparse
import json
import sys
import warnings
from pathlib import Path

import numpy as np
from examples.splits import split_by_speaker

from jointplda import JointPLDA, make_pipeline
from jointplda.evaluation.protocol import LabelledSamples
from jointplda.labels import ConditionColumns
from jointplda.metrics import cllr, eer, min_cllr
from jointplda.preprocessing import Center, LengthNorm, Reduce
from jointplda.selection.fold_trials import type_weights

FORMS = {"without": 0.0, "proportional": "proportional", "full": "full", "split": "split"}
CROSSED, CONFOUNDED = ("without", "proportional", "full"), ("without", "proportional", "split")


def samples_of(path):
    with np.load(path, allow_pickle=False) as stored:
        ids = np.arange(len(stored["speaker"])).astype(str)
        channels = ConditionColumns(("channel",), (stored["channel"],))
        return LabelledSamples(ids, stored["embeddings"].astype(np.float64), stored["speaker"], channels)


def split(samples, seed, per_speaker, new_channels):
    """Training and test samples of different speakers, in the same channels or in different halves of them."""
    if not new_channels:
        return split_by_speaker(samples, seed, channels_per_speaker=per_speaker)
    rng = np.random.default_rng(1000 + seed)
    channel = samples.channels.values[0]
    known = rng.permutation(np.unique(channel))[: len(np.unique(channel)) // 2]
    train, _ = split_by_speaker(samples.take(np.isin(channel, known)), seed, channels_per_speaker=per_speaker)
    _, test = split_by_speaker(samples.take(~np.isin(channel, known)), seed)
    return train, test


def figures(train, test, form, strength):
    model = JointPLDA(
        noise_prior=strength,
        speaker_prior=strength,
        channel_prior=strength,
        interaction=FORMS[form],
        max_iter=25,
        tol=1e-3,
    )
    pipe = make_pipeline(Center(), LengthNorm(), Reduce(), model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipe.fit(train.X, train.speakers, channels=train.channels)
    scores = pipe.score_matrix(test.X, test.X)
    first, second = np.triu_indices(len(test.X), 1)
    channel = test.channels.values[0]
    target, same = test.speakers[first] == test.speakers[second], channel[first] == channel[second]
    values, weights = scores[first, second], type_weights(target, same)
    measured = cllr(values, target, weights), min_cllr(values, target, weights), 100 * eer(values, target)
    return [*map(float, measured), float(pipe[-1].interaction_)]


def drawn_world(seed, speakers, channels, kappa, crossed=0):
    """Training samples of speakers in one channel each (``crossed`` of them in two), test samples, and the truth.

    24 dimensions, V of 12 columns, U of 4; the test has 100 other speakers in 6 other channels.
    """
    rng = np.random.default_rng([seed, 7])
    V, U = rng.normal(size=(24, 12)) / 2, rng.normal(size=(24, 4)) * rng.uniform(0.4, 1.0)
    root = np.linalg.qr(rng.normal(size=(24, 24)))[0] * rng.uniform(0.5, 1.5, 24)
    truth = JointPLDA.from_parameters(np.zeros(24), V, U, np.linalg.inv(root @ root.T), interaction=kappa)
    s = np.repeat(np.arange(speakers), 6)
    first, second = rng.integers(0, channels, (2, speakers))
    c = np.repeat(first, 6)
    again = (s < crossed) & (np.arange(len(s)) % 2 == 1)
    c[again] = np.where(second == first, (second + 1) % channels, second)[s[again]]
    test_s, test_c = np.repeat(np.arange(100), 12), np.tile(np.arange(6).repeat(2), 100)
    return (
        (truth.sample(s, channels=c, random_state=seed), s, c),
        (truth.sample(test_s, channels=test_c, random_state=seed + 1000), test_s, test_c),
        truth,
    )


def alike_cllr(model, X, s, c):
    """Cllr with same- and cross-channel trials weighted alike."""
    first, second = np.triu_indices(len(X), 1)
    target = s[first] == s[second]
    return cllr(model.score_matrix(X, X)[first, second], target, type_weights(target, c[first] == c[second]))


def worlds(number):
    """One channel per speaker, new test channels: Cllr of the truth, of maximum likelihood and of the interaction."""
    forms = {"maximum likelihood": 0.0, "proportional": "proportional"}
    titles = "true kappa", "speakers in two channels", "Cllr of the truth", "of maximum likelihood", "of proportional"
    print(f"| speakers, channels | {' | '.join(titles)} |")
    print("|---|---|---|---|---|---|")
    cases = [(500, 20, 0), (1500, 40, 0), *((1000, 30, k) for k in (0, 2, 4, 7, 8, 16, 64))]
    for speakers, channels, crossed in cases:
        for kappa in (0.0, 0.5):
            rows = []
            for seed in range(number):
                (X, s, c), test, truth = drawn_world(seed, speakers, channels, kappa, crossed)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    models = [JointPLDA(interaction=form).fit(X, s, channels=c) for form in forms.values()]
                rows.append([alike_cllr(model, *test) for model in (truth, *models)])
            shown = " | ".join(f"{value:.3f}" for value in np.mean(rows, axis=0))
            print(f"| {speakers:,}, {channels} | {kappa} | {crossed} | {shown} |", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--kept", type=Path, default=Path("interaction-splits.json"))
    arguments = parser.parse_args()
    if arguments.folder is None:
        worlds(arguments.splits)
        return
    kept = json.loads(arguments.kept.read_text()) if arguments.kept.exists() else {}
    print("| set | channels per training speaker, test channels | model | kappa | raw Cllr | minCllr | EER % |")
    print("|---|---|---|---|---|---|---|")
    for path in sorted(arguments.folder.glob("*.npz")):
        samples = samples_of(path)
        for per_speaker in (1, 2, None):
            for new in (False, True):
                for form in CONFOUNDED if per_speaker == 1 else CROSSED:
                    rows = []
                    for seed in range(arguments.splits):
                        key = f"{path.stem} {per_speaker} {new} {form} {seed}"
                        if key not in kept:
                            strength = 3.0 if per_speaker == 1 else 1.0
                            kept[key] = figures(*split(samples, seed, per_speaker, new), form, strength)
                            arguments.kept.write_text(json.dumps(kept))
                        rows.append(kept[key])
                    raw, least, error, kappa = np.mean(rows, axis=0)
                    where = f"{per_speaker or 'all'}, {'new' if new else 'known'}"
                    print(f"| {path.stem} | {where} | {form} | {kappa:.2f} | {raw:.3f} | {least:.3f} | {error:.2f} |")
                    sys.stdout.flush()


if __name__ == "__main__":
    main()
