"""``jointplda compare``: the same data and trials through several systems."""

import click
import numpy as np

from jointplda._identifiers import positions
from jointplda.commands.compare_command import CompareRequest
from jointplda.commands.comparison import run_comparison
from jointplda.commands.data_input import LabelColumn, SampleReader
from jointplda.commands.messages import Messages
from jointplda.evaluation.protocol import Experiment, held_out, trials_of
from jointplda.formats import read_embeddings


def compare(request: CompareRequest, messages: Messages) -> None:
    """Train, score and evaluate several systems on the data of the request."""
    facts = [("data", str(request.data)), *([("test data", str(request.test))] if request.test else [])]
    run_comparison(request, _experiment(request, messages), facts, messages)


def _experiment(request: CompareRequest, messages: Messages) -> Experiment:
    """Training samples and test trials, as the options say."""
    reader = SampleReader(request, messages)
    table = read_embeddings(request.data, request.labels)
    samples = reader.labelled(table)
    if request.test:
        train, test = samples, reader.read(request.test)
    elif request.split:
        words = np.char.lower(LabelColumn(request.split, "--split").values(table))[positions(samples.ids, table.ids)]
        unknown = set(words.tolist()) - {"train", "test", ""}
        if unknown or not (words == "train").any() or not (words == "test").any():
            raise click.ClickException(
                f"--split {request.split}: expected the values 'train' and 'test', got "
                f"{sorted(set(words.tolist()))[:5]}."
            )
        train, test = samples.take(words == "train"), samples.take(words == "test")
    else:
        chosen = held_out(samples.speakers, request.test_share, request.seed)
        train, test = samples.take(~chosen), samples.take(chosen)
    return trials_of(train, test, request.trials, allow_missing=request.allow_missing)
