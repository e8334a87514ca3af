"""``jointplda compare``: the same data and trials through several systems."""

from pathlib import Path
from typing import Any

import click
import numpy as np

from jointplda.commands.comparison import run_comparison
from jointplda.commands.data_input import LabelColumn, SampleReader
from jointplda.commands.messages import Messages
from jointplda.commands.options import LabelledFile
from jointplda.evaluation.protocol import held_out, trials_of
from jointplda.formats import read_embeddings


def compare(
    source: LabelledFile,
    messages: Messages,
    *,
    test: Path | None,
    split: str | None,
    test_share: float,
    trials: Path | None,
    seed: int,
    **comparison: Any,
) -> None:
    """Train, score and evaluate several systems on the data of a source and the trials that the options name."""
    reader = SampleReader(source, messages)
    table = read_embeddings(source.data, source.labels)
    samples = reader.labelled(table)
    reader.say()
    if test:
        training, tested = samples, reader.read(test)
    elif split:
        words = np.char.lower(LabelColumn(split, "--split").values(table))[table.rows(samples.ids)]
        found = set(words.tolist())
        if found - {""} != {"train", "test"}:
            raise click.ClickException(
                f"--split {split}: expected the values 'train' and 'test', got {sorted(found)[:5]}."
            )
        training, tested = samples.take(words == "train"), samples.take(words == "test")
    else:
        chosen = held_out(samples.speakers, test_share, seed)
        training, tested = samples.take(~chosen), samples.take(chosen)
    experiment = trials_of(training, tested, trials, allow_missing=source.allow_missing)
    facts = [("data", str(source.data)), *([("test data", str(test))] if test else [])]
    run_comparison(experiment, facts, messages, seed=seed, **comparison)
