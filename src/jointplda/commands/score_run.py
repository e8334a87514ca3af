"""``jointplda score``: from a model and embeddings to log-likelihood ratios."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import click
import numpy as np

from jointplda._identifiers import as_names, listed, positions
from jointplda._typing import Array, IntArray, Names
from jointplda.calibration import load_calibration
from jointplda.commands.data_input import LabelColumn, conditions_of
from jointplda.commands.messages import Messages
from jointplda.commands.model_facts import scoring_model, training_channels
from jointplda.commands.progress_display import bar
from jointplda.embedding_table import EmbeddingTable
from jointplda.estimators.pipeline import Pipeline
from jointplda.formats import match_ids, read_embeddings, read_enrollment, read_trials, write_scores
from jointplda.formats.score_files import write_matrix
from jointplda.labels import ConditionColumns
from jointplda.progress import Progress
from jointplda.trial_list import ScoreTable, Trials

TESTS_AT_ONCE = 4096


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """The options of ``jointplda score``, and the scores that they ask for. Every file is read once."""

    messages: Messages
    model: Path
    enroll: Path
    test: Path | None
    trials: Path | None
    models: Path | None
    labels: Path | None
    channels: tuple[str, ...]
    same_channel: float
    raw: bool
    calibration: Path | None
    out: Path
    kind: str | None
    allow_missing: bool

    def write(self) -> None:
        """Score the trials of a list, or all pairs, and write the scores."""
        stored = scoring_model(self._pipe).calibration_
        calibration = None if self.calibration is None else load_calibration(self.calibration)
        if calibration is not None and stored is not None and not self.raw:
            text = "the calibration stored in the model is applied before --calibration; --raw leaves it out."
            self.messages.info(text)
        self._say_unknown_channels()
        names, tests = self._names, self._sides[-1].ids
        if self.trials is None:
            matrix = self._matrix()
            trials = None if self.kind == "npy" else self._all_pairs()
            scores = matrix.ravel() if trials is None else matrix[trials.enroll, trials.test]
        else:
            trials = self._listed_trials(self.trials)
            scores = self._trial_scores(trials)
        scores = scores if calibration is None else calibration.apply(scores)
        if trials is None:
            write_matrix(names, tests, scores.reshape(len(names), -1), self.out)
        else:
            write_scores(ScoreTable(trials, scores), self.out, self.kind)
        self.messages.info(f"{len(scores):,} scores written to {self.out}")

    @cached_property
    def _pipe(self) -> Pipeline:
        return Pipeline.load(self.model)

    @cached_property
    def _sides(self) -> list[EmbeddingTable]:
        """Enrollment and test samples, one table if they are the same; its columns are the channels, if known."""
        channels, sides = tuple(map(LabelColumn, self.channels)), []
        for path in dict.fromkeys((self.enroll, self.test or self.enroll)):
            table = read_embeddings(path, self.labels)
            if table.X.shape[1] != self._pipe.n_features_in_:
                raise click.ClickException(
                    f"{path}: has {table.X.shape[1]} dimensions, but the model was trained on "
                    f"{self._pipe.n_features_in_}. Use embeddings of the same extractor."
                )
            conditions = conditions_of(table, channels)
            sides.append(replace(table, columns=dict(zip(conditions.names, conditions.values, strict=True))))
        return sides

    def _say_unknown_channels(self) -> None:
        """Say how many samples have no channel, and whether training had none of the channels."""
        known = training_channels(scoring_model(self._pipe))
        for k, name in enumerate(self._sides[0].columns):
            labels = [str(label) for side in self._sides for label in [*side.columns.values()][k]]
            missing = labels.count("")
            if missing:
                self.messages.info(
                    f"{missing:,} of {len(labels):,} samples have no {name}: their scores average over it."
                )
            new, trained = set(labels) - {""}, known.get(name, [*known.values()][k] if k < len(known) else [])
            if trained and new and not new & set(trained):
                self.messages.info(
                    f"none of the {len(new)} channels of {name} was in training, which had "
                    f"{', '.join(sorted(trained)[:5])}{', ...' if len(trained) > 5 else ''}: is it the right column?"
                )

    @cached_property
    def _samples(self) -> Mapping[str, Sequence[str]]:
        """The samples of each model of which some have an embedding; empty if samples stand for themselves."""
        models = {} if self.models is None else read_enrollment(self.models)
        embedded = set(self._sides[0].ids.tolist())
        empty = [name for name, samples in models.items() if embedded.isdisjoint(samples)]
        if empty and not self.allow_missing:
            raise click.ClickException(
                f"{self.models}: no sample of these models has an embedding: {listed(empty)}. --allow-missing leaves "
                "them out."
            )
        if empty:
            self.messages.info(f"{len(empty):,} models without any sample are left out.")
        return {name: samples for name, samples in models.items() if not embedded.isdisjoint(samples)}

    @property
    def _names(self) -> Names:
        """The names on the enrollment side: models, or samples that stand for themselves."""
        return self._sides[0].ids if self.models is None else as_names(self._samples)

    def _listed_trials(self, path: Path) -> Trials:
        """The trials of a list between enrolled names and test samples; ``--allow-missing`` leaves out the others."""
        trials, names, tests = read_trials(path), self._names, self._sides[-1].ids
        what, among = ("models", str(self.models)) if self.models else ("enrollment ids", "the embeddings")
        left = match_ids(trials.models, names, what, str(path), self.allow_missing, among)
        right = match_ids(trials.samples, tests, "test ids", str(path), self.allow_missing)
        first, second = left[trials.enroll], right[trials.test]
        kept = np.flatnonzero((first >= 0) & (second >= 0))
        if len(kept) < len(trials):
            left_out = len(trials) - len(kept)
            self.messages.info(f"{left_out:,} of {len(trials):,} trials are left out: their ids have no embeddings.")
        if not len(kept):
            raise click.ClickException(f"{path}: no trial is left to score.")
        return replace(trials.take(kept), models=names, samples=tests, enroll=first[kept], test=second[kept])

    def _all_pairs(self) -> Trials:
        """All pairs but those of a sample and itself, or of a sample and a model that it enrolls."""
        names, tests = self._names, self._sides[-1].ids
        wanted = np.ones((len(names), len(tests)), dtype=np.bool_)
        own = [self._samples.get(str(name), [str(name)]) for name in names]
        rows = np.repeat(np.arange(len(names)), [len(samples) for samples in own])
        columns = positions([sample for samples in own for sample in samples], tests)
        wanted[rows[columns >= 0], columns[columns >= 0]] = False
        return Trials.marked(names, tests, wanted)

    def _matrix(self) -> Array:
        """Scores of all samples or models of the enrollment side against all test samples."""
        enroll, test = self._sides[0], self._sides[-1]
        if self.models is None:
            with bar(self.messages, "scoring") as callback:
                scores = self._pipe.score_matrix(enroll.X, test.X, callback=callback, **self._settings, **self._known)
            return np.asarray(scores, dtype=np.float64)
        scores = np.empty((len(self._names), len(test.ids)))
        for chosen, block in self._blocks(self._names, np.arange(len(test.ids))):
            scores[:, chosen] = block
        return scores

    def _trial_scores(self, trials: Trials) -> Array:
        if self.models is None:
            pairs = np.stack((trials.enroll, trials.test), axis=1)
            X, Y = self._sides[0].X, self._sides[-1].X
            return np.asarray(self._pipe.score_trials(X, Y, pairs, **self._settings, **self._known), dtype=np.float64)
        scores, order = np.empty(len(trials)), np.argsort(trials.test, kind="stable")
        enrolled, row = np.unique(trials.enroll, return_inverse=True)
        for chosen, block in self._blocks(trials.models[enrolled], np.unique(trials.test)):
            low, high = np.searchsorted(trials.test[order], [chosen[0], chosen[-1] + 1])
            members = order[low:high]
            scores[members] = block[row[members], np.searchsorted(chosen, trials.test[members])]
        return scores

    def _blocks(self, names: Names, tests: IntArray) -> Iterator[tuple[IntArray, Array]]:
        """Scores of models against test samples, and which samples these are, ``TESTS_AT_ONCE`` at a time."""
        own = [self._samples[str(name)] for name in names]
        owners, samples = np.repeat(names, list(map(len, own))), [sample for each in own for sample in each]
        rows = match_ids(samples, self._sides[0].ids, "enrollment samples", str(self.models), self.allow_missing)
        enrolled = self._sides[0].take(rows[rows >= 0])
        enrollment = self._pipe.enroll(enrolled.X, owners[rows >= 0].tolist(), _channels(enrolled))
        with bar(self.messages, "scoring") as callback:
            for start in range(0, len(tests), TESTS_AT_ONCE):
                chosen = tests[start : start + TESTS_AT_ONCE]
                block = self._sides[-1].take(chosen)
                settings = {"test_channels": _channels(block), "models": names.tolist(), **self._settings}
                yield chosen, self._pipe.score_enrollment(enrollment, block.X, **settings)
                callback(Progress("scores", min(start + TESTS_AT_ONCE, len(tests)), len(tests)))

    @property
    def _settings(self) -> dict[str, Any]:
        """Whether scores are calibrated, and the prior of a shared channel if the model has channels."""
        has_channels = scoring_model(self._pipe).channel_ranks_
        return {"calibrated": not self.raw, **({"same_channel": self.same_channel} if has_channels else {})}

    @property
    def _known(self) -> dict[str, Any]:
        return {"enroll_channels": _channels(self._sides[0]), "test_channels": _channels(self._sides[-1])}


def _channels(side: EmbeddingTable) -> ConditionColumns | None:
    """The channels of samples; None where they are not known."""
    return ConditionColumns(tuple(side.columns), tuple(side.columns.values())) if side.columns else None
