"""Few training speakers: what the automatic model tried, what it chose, and what calibration is worth.

First every training speaker is heard in two channels: enough to try settings on pairs of held-out training speakers,
and to fit a calibration to them. Then a few speakers are left, in one channel each, and the choice must be careful:
no pair shows what another channel does, so the strongest shrinkage is taken that is not clearly worse than the best.

    python examples/recipe_digits.py FILE [--few 15] [--seed 0]

FILE is an .npz with embeddings (n, d), speaker (n,), channel (n,); speakers in several channels, of which the training
speakers keep two, then one.
"""

from collections.abc import Sequence

import numpy as np

import sets
from jointplda import JointPLDACV
from jointplda.evaluation.protocol import Experiment
from jointplda.evaluation.systems import run_systems


def tried(model: JointPLDACV) -> list[dict[str, object]]:
    """Every candidate with its result on held-out training speakers, the best first."""
    rows: list[dict[str, object]] = []
    for one in sorted(model.candidates_, key=lambda one: one.criterion):
        rows.append(
            {
                "": "*" if one.chosen else "",
                "noise_prior": f"{one.candidate.noise_prior:g}",
                "speaker_prior": f"{one.candidate.speaker_prior:g}",
                "rank of U": one.candidate.channel_rank[0],
                "held-out minCllr": one.criterion,
                "standard error": float(np.std(one.min_cllrs, ddof=1) / np.sqrt(len(one.min_cllrs))),
                "raw Cllr": float(np.mean(one.cllrs)),
            }
        )
    return rows


def story(data: Experiment) -> None:
    """Train, show what was tried and chosen, and score with and without the calibration."""
    sets.print_text(f"{sets.size(data)}.")
    with sets.readable_warnings():
        model = JointPLDACV().fit(data.train.X, data.train.speakers, channels=data.train.channels)
    test = data.test
    print()
    sets.print_design(model.design_)
    print("\nTried on pairs of held-out training speakers (* chosen; standard errors over folds)\n")
    sets.print_table(tried(model))
    sets.print_chosen(model)
    checked = model.held_out_cllr_
    sets.print_text(
        f"On {checked.trials:,} trials of {checked.speakers} training speakers, held out: "
        f"Cllr {checked.raw_cllr:.2f} raw, {checked.calibrated_cllr:.2f} calibrated, {checked.min_cllr:.2f} at best"
        + ("." if checked.cross_channel_targets else "; there targets were moved to other channels by rule.")
    )
    (cosine,) = run_systems(data.train, test, data.pairs, systems=["cosine"])
    found = {"cosine": sets.figures(cosine.scores, data, is_llr=False)}
    for calibrated in (False, True):
        scores = model.score_trials(test.X, test.X, data.pairs, calibrated=calibrated)
        found[f"automatic, calibrated={calibrated}"] = sets.figures(scores, data)
    print("\nTest speakers\n")
    sets.print_table([{"scores": name, **values} for name, values in found.items()])
    _, raw, done = found.values()
    sets.print_text(
        f"Raw scores lose {raw[sets.CLLR] - raw[sets.MIN_CLLR]:.2f} bits for want of calibration, calibrated ones "
        f"{done[sets.CLLR] - done[sets.MIN_CLLR]:.2f}."
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Tell the story with two channels a speaker, then with few speakers in one."""
    parser = sets.arguments(__doc__)
    parser.add_argument("--few", type=int, default=15, help="training speakers of the second part")
    given = parser.parse_args(argv)
    samples = sets.load(given.file)
    print("TWO CHANNELS A SPEAKER\n")
    story(sets.trials(samples, given.seed, channels=2))
    print(f"\n\n{given.few} SPEAKERS, ONE CHANNEL EACH\n")
    story(sets.trials(samples, given.seed, channels=1, speakers=given.few))
    print()
    sets.print_text(sets.LEGEND)


if __name__ == "__main__":
    main()
