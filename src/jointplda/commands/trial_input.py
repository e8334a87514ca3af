"""The trials that ``score`` scores: those of a list, or all pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from jointplda._typing import Names
    from jointplda.commands.messages import Messages
    from jointplda.commands.score_command import ScoreRequest
    from jointplda.embedding_table import EmbeddingTable
    from jointplda.trial_list import Trials

Models = Mapping[str, Sequence[str]]
"""Names of models, with the ids of their samples."""


def trials_to_score(
    request: ScoreRequest, enroll: EmbeddingTable, test: EmbeddingTable, models: Models | None, messages: Messages
) -> Trials:
    """The trials to score; they name exactly the ids (or models) that have embeddings."""
    import numpy as np

    from jointplda.formats import match_ids, read_trials
    from jointplda.trial_list import Trials

    names = enroll.ids if models is None else _usable_models(models, enroll, request, messages)
    if request.trials is None:
        return _all_pairs(names, test, models, with_itself=request.writes_matrix)
    trials = read_trials(request.trials)
    where, allow = str(request.trials), request.allow_missing
    what = "enrollment ids" if models is None else "models"
    among = "the embeddings" if models is None else f"{request.models}"
    left = match_ids(trials.models, names, what, where, allow, among)
    right = match_ids(trials.samples, test.ids, "test ids", where, allow)
    first, second = left[trials.enroll], right[trials.test]
    kept = np.flatnonzero((first >= 0) & (second >= 0))
    if len(kept) < len(trials):
        messages.info(
            f"{len(trials) - len(kept):,} of {len(trials):,} trials are left out: their ids have no embeddings."
        )
    if not len(kept):
        raise click.ClickException(f"{request.trials}: no trial is left to score.")
    target = None if trials.target is None else trials.target[kept]
    columns = {name: values[kept] for name, values in trials.columns.items()}
    return Trials(names, test.ids, first[kept], second[kept], target, columns)


def _all_pairs(names: Names, test: EmbeddingTable, models: Models | None, *, with_itself: bool) -> Trials:
    """All pairs, with or without those of a sample and itself (or a model that it enrolls)."""
    import numpy as np

    from jointplda._identifiers import positions
    from jointplda.trial_list import Trials

    wanted = np.ones((len(names), len(test.ids)), dtype=np.bool_)
    if not with_itself:
        own = [[str(name)] if models is None else models[str(name)] for name in names]
        rows = np.repeat(np.arange(len(names)), [len(samples) for samples in own])
        columns = positions([sample for samples in own for sample in samples], test.ids)
        wanted[rows[columns >= 0], columns[columns >= 0]] = False
    first, second = (index.astype(np.int64) for index in np.nonzero(wanted))
    return Trials(names, test.ids, first, second)


def _usable_models(models: Models, enroll: EmbeddingTable, request: ScoreRequest, messages: Messages) -> Names:
    """Names of the models with at least one sample that has an embedding."""
    import numpy as np

    from jointplda._identifiers import listed

    embedded = set(enroll.ids.tolist())
    empty = [name for name, samples in models.items() if not embedded & set(samples)]
    if empty and not request.allow_missing:
        raise click.ClickException(
            f"{request.models}: no sample of these models has an embedding: {listed(empty)}. --allow-missing leaves "
            "them out."
        )
    if empty:
        messages.info(f"{len(empty):,} models without any sample are left out.")
    return np.array([name for name in models if name not in set(empty)], dtype=np.str_)
