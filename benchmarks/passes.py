"""Models of a file that is read in passes, within several memories, and of the whole file: what new speakers cost.

python -m benchmarks.passes     200,000 samples x 256 of 20,000 speakers, of whom 1,000 are kept for the test

Prints Cllr on new speakers, of all pairs of 3,000 samples, and with equal weights of same- and cross-channel trials, as
the model promises it.
"""

import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from benchmarks.large import draw

from jointplda import JointPLDACV
from jointplda.formats import read_embeddings
from jointplda.metrics import cllr
from jointplda.passes import ArraySource, fit_in_passes
from jointplda.selection.fold_trials import type_weights

SAMPLES, D, SPEAKERS, TRAINED, TESTED = 200_000, 256, 20_000, 19_000, 3_000
MEMORIES = (0.15e9, 0.3e9, 1e9, 4e9)


def main():
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "drawn.npz"
        draw(path, SAMPLES, D, SPEAKERS)
        table = read_embeddings(path)
    s, c = table.columns["speaker"], table.columns["channel"]
    train = np.array([int(name[1:]) for name in s]) < TRAINED
    test = np.flatnonzero(~train)[:TESTED]
    rows = np.triu_indices(len(test), 1)
    target, shared = (labels[test][rows[0]] == labels[test][rows[1]] for labels in (s, c))
    X, weights = table.X[test], type_weights(target, shared)

    def show(name, fit):
        began = time.perf_counter()
        model = fit()
        seconds = time.perf_counter() - began
        scores = model.score_matrix(X, X)[rows].astype(np.float64)
        promise, settings = model.held_out_cllr_, model.best_params_
        print(
            f"| {name} | {settings['noise_prior']:g}, {settings['speaker_prior']:g} | {promise.calibrated_cllr:.3f} | "
            f"{cllr(scores, target, weights):.3f} | {cllr(scores, target):.3f} | {seconds:.0f} s |",
            flush=True,
        )

    print("| memory | priors | promised | equal weights | all pairs | time |\n|---|---|---|---|---|---|")
    source = ArraySource(table.X[train], s[train], c[train])
    for memory in MEMORIES:
        show(f"{memory / 1e9:g} GB", lambda memory=memory: fit_in_passes(JointPLDACV(), source, memory=memory))
    show("in one piece", lambda: JointPLDACV().fit(table.X[train], s[train], channels=c[train]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
