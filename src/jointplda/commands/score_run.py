"""``jointplda score``: from a model and embeddings to log-likelihood ratios."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from jointplda._identifiers import as_names, listed, positions
from jointplda._typing import Array, IntArray, Names
from jointplda.calibration import load_calibration
from jointplda.commands.data_input import LabelColumn, conditions_of
from jointplda.commands.messages import Messages
from jointplda.commands.model_facts import Model, input_dimension, scoring_model, training_channels
from jointplda.commands.progress_display import bar
from jointplda.commands.score_command import ScoreRequest
from jointplda.embedding_table import EmbeddingTable
from jointplda.estimators.pipeline import Pipeline
from jointplda.formats import match_ids, read_embeddings, read_enrollment, read_trials, write_scores
from jointplda.formats.score_files import write_matrix
from jointplda.labels import ConditionColumns
from jointplda.progress import Progress
from jointplda.trial_list import ScoreTable, Trials

TESTS_AT_ONCE = 4096
Models = Mapping[str, Sequence[str]]
"""Names of models, with the ids of their samples."""


@dataclass(frozen=True)
class Side:
    """Embeddings of one side of the trials, and their channels where these are known."""

    table: EmbeddingTable
    channels: ConditionColumns | None

    def take(self, rows: IntArray) -> "Side":
        """The samples of these rows."""
        channels = self.channels and ConditionColumns(
            self.channels.names, tuple(column[rows] for column in self.channels.values)
        )
        return Side(self.table.take(rows), channels)


def score(request: ScoreRequest, messages: Messages) -> None:
    """Score the trials of a list, or all pairs, and write the scores."""
    pipe = Pipeline.load(request.model)
    model = scoring_model(pipe)
    calibration = None if request.calibration is None else load_calibration(request.calibration)
    if calibration is not None and model.calibration_ is not None and not request.raw:
        messages.info("the calibration stored in the model is applied before --calibration; --raw leaves it out.")
    enroll, test = _sides(pipe, request)
    _say_unknown_channels(model, [enroll] if test is enroll else [enroll, test], messages)
    models = None if request.models is None else read_enrollment(request.models)
    names = enroll.table.ids if models is None else _usable_models(models, enroll.table, request, messages)
    scoring = Scoring(pipe, enroll, test, models, request, messages)
    if request.trials is None:
        matrix = scoring.matrix(names)
        trials = None if request.writes_matrix else _all_pairs(names, test.table, models)
        scores = matrix.ravel() if trials is None else matrix[trials.enroll, trials.test]
    else:
        trials = _listed_trials(request.trials, names, test.table, request, messages)
        scores = scoring.trials(trials)
    scores = scores if calibration is None else calibration.apply(scores)
    if trials is None:
        write_matrix(names, test.table.ids, scores.reshape(len(names), -1), request.out)
    else:
        write_scores(ScoreTable(trials, scores), request.out, request.kind)
    messages.info(f"{len(scores):,} scores written to {request.out}")


def _sides(pipe: Pipeline, request: ScoreRequest) -> tuple[Side, Side]:
    """Both sides; where there is no other file for the tests, they are the same object."""
    channels = tuple(map(LabelColumn, request.channels))
    expected, sides = input_dimension(pipe), []
    paths = [request.enroll] if request.test in (None, request.enroll) else [request.enroll, request.test]
    tables = [(path, read_embeddings(path, request.labels)) for path in paths if path is not None]
    for path, table in tables:
        if table.X.shape[1] != expected:
            raise click.ClickException(
                f"{path}: has {table.X.shape[1]} dimensions, but the model was trained on {expected}. "
                "Use embeddings of the same extractor."
            )
        sides.append(Side(table, conditions_of(table, channels) if channels else None))
    return sides[0], sides[-1]


def _listed_trials(path: Path, names: Names, test: EmbeddingTable, request: ScoreRequest, messages: Messages) -> Trials:
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


def _all_pairs(names: Names, test: EmbeddingTable, models: Models | None) -> Trials:
    """All pairs but those of a sample and itself, or of a sample and a model that it enrolls."""
    wanted = np.ones((len(names), len(test.ids)), dtype=np.bool_)
    own = [[str(name)] if models is None else models[str(name)] for name in names]
    rows = np.repeat(np.arange(len(names)), [len(samples) for samples in own])
    columns = positions([sample for samples in own for sample in samples], test.ids)
    wanted[rows[columns >= 0], columns[columns >= 0]] = False
    first, second = (index.astype(np.int64) for index in np.nonzero(wanted))
    return Trials(names, test.ids, first, second)


def _usable_models(models: Models, enroll: EmbeddingTable, request: ScoreRequest, messages: Messages) -> Names:
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


def _say_unknown_channels(model: Model, sides: Sequence[Side], messages: Messages) -> None:
    """Say how many samples have no channel, and whether training had none of the channels."""
    known = training_channels(model)
    columns = [side.channels for side in sides if side.channels is not None]
    for k, name in enumerate(columns[0].names if columns else ()):
        labels = [str(label) for channels in columns for label in channels.values[k]]
        missing = labels.count("")
        if missing:
            messages.info(f"{missing:,} of {len(labels):,} samples have no {name}: their scores average over it.")
        new, trained = set(labels) - {""}, known.get(name, [*known.values()][k] if k < len(known) else [])
        if trained and new and not new & set(trained):
            messages.info(
                f"none of the {len(new)} channels of {name} was in training, which had "
                f"{', '.join(sorted(trained)[:5])}{', ...' if len(trained) > 5 else ''}: is it the right column?"
            )


@dataclass(frozen=True)
class Scoring:
    """A model, both sides, and the models that samples of the first side enroll; None if they stand for themselves."""

    pipe: Pipeline
    enroll: Side
    test: Side
    models: Models | None
    request: ScoreRequest
    messages: Messages

    def matrix(self, names: Names) -> Array:
        """Scores of all samples or models of these names against all test samples."""
        if self.models is None:
            with bar(self.messages, "scoring") as callback:
                scores = self.pipe.score_matrix(
                    self.enroll.table.X, self.test.table.X, callback=callback, **self._settings, **self._channels
                )
            return np.asarray(scores, dtype=np.float64)
        scores = np.empty((len(names), len(self.test.table.ids)))
        for chosen, block in self._blocks(names, np.arange(scores.shape[1])):
            scores[:, chosen] = block
        return scores

    def trials(self, trials: Trials) -> Array:
        """Scores of listed trials."""
        if self.models is None:
            pairs = np.stack((trials.enroll, trials.test), axis=1)
            X, Y = self.enroll.table.X, self.test.table.X
            scores = self.pipe.score_trials(X, Y, pairs, **self._settings, **self._channels)
            return np.asarray(scores, dtype=np.float64)
        scores, order = np.empty(len(trials)), np.argsort(trials.test, kind="stable")
        enrolled, row = np.unique(trials.enroll, return_inverse=True)
        for chosen, block in self._blocks(trials.models[enrolled], np.unique(trials.test)):
            low, high = np.searchsorted(trials.test[order], [chosen[0], chosen[-1] + 1])
            members = order[low:high]
            scores[members] = block[row[members], np.searchsorted(chosen, trials.test[members])]
        return scores

    def _blocks(self, names: Names, tests: IntArray) -> Iterator[tuple[IntArray, Array]]:
        """Scores of models against test samples, and which samples these are, ``TESTS_AT_ONCE`` at a time."""
        models: Models = self.models or {}
        samples = [sample for name in names for sample in models[str(name)]]
        owners = np.repeat(names, [len(models[str(name)]) for name in names])
        where, allow = str(self.request.models), self.request.allow_missing
        rows = match_ids(samples, self.enroll.table.ids, "enrollment samples", where, allow)
        enrolled = self.enroll.take(rows[rows >= 0])
        enrollment = self.pipe.enroll(enrolled.table.X, owners[rows >= 0].tolist(), enrolled.channels)
        with bar(self.messages, "scoring") as callback:
            for start in range(0, len(tests), TESTS_AT_ONCE):
                chosen = tests[start : start + TESTS_AT_ONCE]
                block = self.test.take(chosen)
                settings = {"test_channels": block.channels, "models": names.tolist(), **self._settings}
                yield chosen, self.pipe.score_enrollment(enrollment, block.table.X, **settings)
                callback(Progress("scores", min(start + TESTS_AT_ONCE, len(tests)), len(tests)))

    @property
    def _settings(self) -> dict[str, Any]:
        """Whether scores are calibrated, and the prior of a shared channel, if it was given and there are channels."""
        prior, has_channels = self.request.same_channel, bool(scoring_model(self.pipe).channel_ranks_)
        settings: dict[str, Any] = {} if prior is None or not has_channels else {"same_channel": prior}
        return {"calibrated": not self.request.raw, **settings}

    @property
    def _channels(self) -> dict[str, Any]:
        return {"enroll_channels": self.enroll.channels, "test_channels": self.test.channels}
