"""How much is left for Joint PLDA to mend as training speakers are heard in more channels.

The same training speakers are heard in one, in two and in all channels (languages, say). PLDA and Joint PLDA get the
dimensions and the shrinkage that the automatic model chose, so that they differ in the model of the channel alone.
One split of the speakers is one draw: try other seeds before believing small differences.
At the end the last automatic model is saved, loaded, and scores the same.

    python examples/recipe_voices.py FILE [--seed 0]

FILE is an .npz with embeddings (n, d), speaker (n,), channel (n,); speakers in several channels.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import sets
from jointplda import JointPLDACV
from jointplda._typing import AnyArray
from jointplda.evaluation.protocol import Experiment

HEARD = {"one channel": 1, "two channels": 2, "all channels": None}


def save_and_load(model: JointPLDACV, data: Experiment, scores: AnyArray) -> None:
    """Write the model to a file, read it, and compare."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        model.save(path)
        kilobytes = path.stat().st_size / 1000
        loaded = JointPLDACV.load(path)
    again = loaded.score_trials(data.test.X, data.test.X, data.pairs)
    sets.print_text(
        f"Saved with its front end, settings and calibration ({kilobytes:.0f} kB) and loaded: the scores of "
        f"{len(scores):,} trials are {'the same' if np.array_equal(scores, again) else 'NOT the same'}, the largest "
        f"difference is {np.abs(scores - again).max():g}. It still knows "
        f"the {len(loaded.candidates_)} candidates tried."
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Train on the same speakers in more and more channels."""
    given = sets.arguments(__doc__).parse_args(argv)
    samples = sets.load(given.file)
    rows, gains = [], []
    for heard, channels in HEARD.items():
        data = sets.trials(samples, given.seed, channels, each=1)
        sets.print_text(f"Heard in {heard}: {sets.size(data)}.")
        with sets.readable_warnings():
            model = JointPLDACV().fit(data.train.X, data.train.speakers, channels=data.train.channels)
        scores = model.score_trials(data.test.X, data.test.X, data.pairs)
        systems = {**sets.same_shrinkage(model, data), "automatic, calibrated": scores}
        found = {name: sets.figures(one, data) for name, one in systems.items()}
        rows += [{"heard in": heard, "system": name, **values} for name, values in found.items()]
        gains.append({"heard in": heard, **sets.avoided(found["PLDA"], found["Joint PLDA"])})
    print("\nTest speakers, one sample in every channel; PLDA and Joint PLDA with the same shrinkage\n")
    sets.print_table(rows)
    print("By how much Joint PLDA is below PLDA, % of PLDA's figure\n")
    sets.print_table(gains)
    sets.print_text(sets.LEGEND)
    print()
    save_and_load(model, data, scores)


if __name__ == "__main__":
    main()
