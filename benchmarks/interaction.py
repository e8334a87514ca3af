"""What the interaction of speaker and channel is worth on sets of your own: raw Cllr, minCllr and EER side by side.

python -m benchmarks.interaction FOLDER --splits 5

Every .npz of the folder has embeddings, speaker and channel. Settings are fixed (priors of noise, speaker and channel
of strength 1, no calibration), so that the models differ in the interaction alone. Finished splits are kept in a file
(--kept) and are not computed again.
"""

import argparse
import json
import sys
import warnings
from pathlib import Path

import numpy as np
from examples.splits import split_by_speaker

from jointplda import JointPLDA, make_pipeline
from jointplda.evaluation.labelled_samples import LabelledSamples
from jointplda.labels import ConditionColumns
from jointplda.metrics import cllr, eer, min_cllr
from jointplda.preprocessing import Center, LengthNorm, Reduce
from jointplda.selection.fold_trials import cell_weights

FORMS = {"without": 0.0, "proportional": "proportional", "full": "full"}


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


def figures(train, test, form):
    model = JointPLDA(
        noise_prior=1.0, speaker_prior=1.0, channel_prior=1.0, interaction=FORMS[form], max_iter=25, tol=1e-3
    )
    pipe = make_pipeline(Center(), LengthNorm(), Reduce(), model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipe.fit(train.X, train.speakers, channels=train.channels)
    scores = pipe.score_matrix(test.X, test.X)
    first, second = np.triu_indices(len(test.X), 1)
    channel = test.channels.values[0]
    target, same = test.speakers[first] == test.speakers[second], channel[first] == channel[second]
    values, weights = scores[first, second], cell_weights(target, same)
    measured = cllr(values, target, weights), min_cllr(values, target, weights), 100 * eer(values, target)
    return [*map(float, measured), float(pipe[-1].interaction_)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--kept", type=Path, default=Path("interaction-splits.json"))
    arguments = parser.parse_args()
    kept = json.loads(arguments.kept.read_text()) if arguments.kept.exists() else {}
    print("| set | channels per training speaker, test channels | model | kappa | raw Cllr | minCllr | EER % |")
    print("|---|---|---|---|---|---|---|")
    for path in sorted(arguments.folder.glob("*.npz")):
        samples = samples_of(path)
        for per_speaker in (2, None):
            for new in (False, True):
                for form in FORMS:
                    rows = []
                    for seed in range(arguments.splits):
                        key = f"{path.stem} {per_speaker} {new} {form} {seed}"
                        if key not in kept:
                            kept[key] = figures(*split(samples, seed, per_speaker, new), form)
                            arguments.kept.write_text(json.dumps(kept))
                        rows.append(kept[key])
                    raw, least, error, kappa = np.mean(rows, axis=0)
                    where = f"{per_speaker or 'all'}, {'new' if new else 'known'}"
                    print(f"| {path.stem} | {where} | {form} | {kappa:.2f} | {raw:.3f} | {least:.3f} | {error:.2f} |")
                    sys.stdout.flush()


if __name__ == "__main__":
    main()
