"""Where Joint PLDA gives nothing, shown on your own embeddings.

Joint PLDA helps where training takes the channel for the speaker. That needs embeddings that carry the channel, and
training speakers who were heard in few channels each. This shows the case where both hold, and then takes away one
after the other:

- every training speaker in every channel: PLDA sees for itself what the channel does, and little is left to mend;
- the channel removed from the embeddings, as by an extractor trained to be blind to it: the directions in which the
  means of channels differ (those of the training speakers in all their channels) are projected out. Joint PLDA can then
  only take differences between speakers for channels; the automatic model tests first, and falls back on PLDA.

PLDA and Joint PLDA are both automatic: shrinkage chosen on training speakers held out in turn, and calibrated. Joint
PLDA, untested, has the latter's priors for speaker and noise and one of strength 1 for U, but puts all that it finds
between channels down to them, and its scores are raw. Figures are means over splits.

    python examples/where_not_to_use.py FILE [--splits 3] [--seed 0]

FILE is an .npz with embeddings (n, d), speaker (n,), channel (n,); speakers in all channels, or nearly.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.linalg import null_space

import sets
from jointplda import JointPLDA, JointPLDACV, make_pipeline
from jointplda._typing import Array
from jointplda.evaluation.protocol import Experiment, LabelledSamples
from jointplda.selection.design import Design

UNTESTED = "Joint PLDA, untested"


def blind_directions(data: Experiment) -> Array:
    """Orthonormal columns in which the means of channels do not differ, speakers being taken out first."""
    X, channels = np.asarray(data.train.X, dtype=np.float64), data.train.channels.values[0]
    speakers, codes = np.unique(data.train.speakers, return_inverse=True)
    means = np.array([X[codes == i].mean(axis=0) for i in range(len(speakers))])
    rest = X - means[codes]
    shifts = np.array([rest[channels == level].mean(axis=0) for level in np.unique(channels)])
    found = null_space(shifts - shifts.mean(axis=0), rcond=1e-6)
    if not found.size:
        sys.exit(f"{X.shape[1]} dimensions are too few to remove {len(shifts)} channels from them")
    return found


def situations(samples: LabelledSamples, seed: int) -> dict[str, Experiment]:
    """The same training and test speakers: in one channel, in all, and in one with the channel removed."""
    crossed = sets.trials(samples, seed, channels=None)
    blind = replace(samples, X=samples.X @ blind_directions(crossed))
    return {
        "one channel each": sets.trials(samples, seed, channels=1),
        "all channels": crossed,
        "one each, channel removed": sets.trials(blind, seed, channels=1),
    }


def run(data: Experiment, *, warn: bool) -> tuple[dict[str, dict[str, float]], Design]:
    """Figures of the three systems, and what was found about the channels."""
    X, speakers, channels = data.train.X, data.train.speakers, data.train.channels
    with sets.readable_warnings(show=False):
        plain = JointPLDACV().fit(X, speakers)
    with sets.readable_warnings(show=warn):
        joint = JointPLDACV().fit(X, speakers, channels=channels)
    chosen = joint.best_params_
    untested = JointPLDA(
        noise_prior=chosen["noise_prior"], speaker_prior=chosen["speaker_prior"], channel_prior=1.0,
        max_iter=joint.max_iter, tol=joint.tol,
    )  # fmt: skip
    with sets.readable_warnings(show=False):
        untested.fit(joint.best_estimator_[:-1].transform(X), speakers, channels=channels)
    systems = {"PLDA": plain, UNTESTED: make_pipeline(*joint.best_estimator_[:-1], untested), "Joint PLDA": joint}
    test = data.test
    return {
        name: sets.figures(pipe.score_trials(test.X, test.X, data.pairs), data) for name, pipe in systems.items()
    }, joint.design_


def mean(found: Sequence[dict[str, float]]) -> dict[str, float]:
    """Mean of every figure over splits."""
    return {name: float(np.mean([one[name] for one in found])) for name in found[0]}


def tested(designs: Sequence[Design]) -> dict[str, object]:
    """What the test of channels said on all splits; no test where speakers were heard in several channels."""
    tests = [design.tests[0] for design in designs if design.tests[0] is not None]
    if not tests:
        return {"F": "-", "p-values": "-", "channels matter": "no test needed"}
    return {
        "F": f"{np.mean([test.ratio for test in tests]):.2f}",
        "p-values": ", ".join(f"{test.p_value:.3f}" for test in tests),
        "channels matter": f"in {sum(design.shares()[0] > 0 for design in designs)} of {len(designs)} splits",
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Run all situations on all splits, and print means."""
    parser = sets.arguments(__doc__)
    parser.add_argument("--splits", type=int, default=3, help="splits to average over, with seeds that follow --seed")
    given = parser.parse_args(argv)
    samples = sets.load(given.file)
    found: dict[str, list[tuple[dict[str, dict[str, float]], Design]]] = {}
    for seed in range(given.seed, given.seed + given.splits):
        for name, data in situations(samples, seed).items():
            if seed == given.seed:
                sets.print_text(f"{name.capitalize()}: {sets.size(data)}.")
            found.setdefault(name, []).append(run(data, warn=seed == given.seed))
    rows, gains, tests = [], [], []
    for name, splits in found.items():
        means = {system: mean([figures[system] for figures, _ in splits]) for system in splits[0][0]}
        rows += [{"training": name, "system": system, **values} for system, values in means.items()]
        for system in ("Joint PLDA", UNTESTED):
            gains.append({"training": name, "system": system} | sets.avoided(means["PLDA"], means[system]))
        tests.append({"training": name, **tested([design for _, design in splits])})
    print(f"\nTest speakers, mean of {given.splits} split(s)\n")
    sets.print_table(rows)
    print("By how much it is below PLDA, % of PLDA's figure (below 0: it does harm)\n")
    sets.print_table(gains)
    print("Does the training set show that channels matter? (the automatic model's test)\n")
    sets.print_table(tests)
    sets.print_text(sets.LEGEND)


if __name__ == "__main__":
    main()
