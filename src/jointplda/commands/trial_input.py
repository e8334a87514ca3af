"""The trials that ``score`` scores: those of a list, or all pairs."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import click
import numpy as np

from jointplda._identifiers import as_names, listed, positions
from jointplda._typing import Names
from jointplda.commands.messages import Messages
from jointplda.commands.score_command import ScoreRequest
from jointplda.embedding_table import EmbeddingTable
from jointplda.formats import match_ids, read_trials
from jointplda.trial_list import Trials

Models = Mapping[str, Sequence[str]]
"""Names of models, with the ids of their samples."""


def listed_trials(path: Path, names: Names, test: EmbeddingTable, request: ScoreRequest, messages: Messages) -> Trials:
    """The trials of a list between enrolled names and test samples; ``--allow-missing`` leaves out the others."""
    trials = read_trials(path)
    what, among = ("enrollment ids", "the embeddings") if request.models is None else ("models", f"{request.models}")
    left = match_ids(trials.models, names, what, str(path), request.allow_missing, among)
    right = match_ids(trials.samples, test.ids, "test ids", str(path), request.allow_missing)
    first, second = left[trials.enroll], right[trials.test]
    kept = np.flatnonzero((first >= 0) & (second >= 0))
    if len(kept) < len(trials):
        left_out = len(trials) - len(kept)
        messages.info(f"{left_out:,} of {len(trials):,} trials are left out: their ids have no embeddings.")
    if not len(kept):
        raise click.ClickException(f"{path}: no trial is left to score.")
    stated = trials.take(kept)
    return Trials(names, test.ids, first[kept], second[kept], stated.target, stated.columns)


def all_pairs(names: Names, test: EmbeddingTable, models: Models | None) -> Trials:
    """All pairs but those of a sample and itself, or of a sample and a model that it enrolls."""
    wanted = np.ones((len(names), len(test.ids)), dtype=np.bool_)
    own = [[str(name)] if models is None else models[str(name)] for name in names]
    rows = np.repeat(np.arange(len(names)), [len(samples) for samples in own])
    columns = positions([sample for samples in own for sample in samples], test.ids)
    wanted[rows[columns >= 0], columns[columns >= 0]] = False
    first, second = (index.astype(np.int64) for index in np.nonzero(wanted))
    return Trials(names, test.ids, first, second)


def usable_models(models: Models, enroll: EmbeddingTable, request: ScoreRequest, messages: Messages) -> Names:
    """Names of the models with at least one sample that has an embedding."""
    embedded = set(enroll.ids.tolist())
    empty = {name: None for name, samples in models.items() if not embedded & set(samples)}
    if empty and not request.allow_missing:
        raise click.ClickException(
            f"{request.models}: no sample of these models has an embedding: {listed(empty)}. --allow-missing leaves "
            "them out."
        )
    if empty:
        messages.info(f"{len(empty):,} models without any sample are left out.")
    return as_names(name for name in models if name not in empty)
