"""``jointplda demo``: systems compared on the bundled voices, and the voices as files."""

from pathlib import Path
from typing import Any

import click
import numpy as np

from jointplda.commands.comparison import run_comparison
from jointplda.commands.messages import Messages
from jointplda.datasets import load_voices
from jointplda.embedding_table import EmbeddingTable
from jointplda.evaluation.protocol import LabelledSamples, all_pairs, trials_of
from jointplda.formats import write_embeddings, write_trials
from jointplda.labels import ConditionColumns
from jointplda.trial_list import Trials

EXPORTED_TRIALS = 40_000


def compare_voices(messages: Messages, **comparison: Any) -> None:
    """Compare the systems on the voices, with the options of a comparison."""
    voices = load_voices()
    train, test = (
        LabelledSamples(part.ids, part.X, part.voice, ConditionColumns(("transmission",), (part.transmission,)))
        for part in (voices.train(), voices.test())
    )
    messages.info(
        f"training: {len(train.ids):,} recordings of {len(set(train.speakers.tolist()))} synthetic voices; "
        f"test: {len(test.ids):,} of {len(set(test.speakers.tolist()))} other voices"
    )
    facts = [("data", "voices that come with jointplda (synthetic; see the data card)")]
    run_comparison(trials_of(train, test), facts, messages, "Joint PLDA on the bundled voices", **comparison)


def export_voices(folder: Path, messages: Messages) -> None:
    """Write the voices: train.npz, and for two halves of the test voices an npz file and a list of trials each."""
    voices = load_voices()
    test = voices.test()
    half = np.isin(test.voice, np.unique(test.voice)[::2])
    sets = {"train": voices.train(), "calibration": test.where(half), "test": test.where(~half)}
    targets = [folder / f"{name}.npz" for name in sets] + [folder / f"{name}.trials" for name in list(sets)[1:]]
    for path in targets:
        if path.exists():
            raise click.ClickException(f"{path}: exists already. Choose another folder.")
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    for name, part in sets.items():
        columns = {"voice": part.voice, "language": part.language, "transmission": part.transmission}
        write_embeddings(EmbeddingTable(ids=part.ids, X=part.X, columns=columns), folder / f"{name}.npz")
        if name == "train":
            continue
        pairs = all_pairs(len(part.ids))
        pairs = pairs[np.sort(rng.choice(len(pairs), EXPORTED_TRIALS, replace=False))]
        target = (part.voice[pairs[:, 0]] == part.voice[pairs[:, 1]]).astype(np.int8)
        write_trials(Trials(part.ids, part.ids, pairs[:, 0], pairs[:, 1], target), folder / f"{name}.trials", "kaldi")
    messages.info(f"written: {', '.join(str(path) for path in targets)}")
