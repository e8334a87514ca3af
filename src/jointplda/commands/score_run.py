"""``jointplda score``: from a model and embeddings to log-likelihood ratios."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import click
import numpy as np

from jointplda._identifiers import as_names, listed, positions
from jointplda._typing import Array, IntArray, Names
from jointplda.calibration import load_calibration
from jointplda.calibration.calibration_file import Calibration
from jointplda.cluster import score_on_cluster
from jointplda.commands.cluster_input import shards_of
from jointplda.commands.data_input import LabelColumn, conditions_of
from jointplda.commands.messages import Messages
from jointplda.commands.model_facts import scoring_model, training_channels
from jointplda.commands.options import LabelOptions
from jointplda.commands.progress_display import bar
from jointplda.embedding_table import EmbeddingTable
from jointplda.estimators.pipeline import Pipeline
from jointplda.file_kinds import MATRICES
from jointplda.formats import match_ids, read_embeddings, read_enrollment, read_trials, write_scores
from jointplda.formats.matrix_lists import write_matrix_list
from jointplda.labels import ConditionColumns
from jointplda.score_stores.block_writing import (
    discard_unfinished,
    finished_blocks,
    listed_scores,
    row_bands,
    write_blocks,
)
from jointplda.score_stores.score_blocks import ScoreBlocks
from jointplda.score_stores.stores import MatrixNames
from jointplda.trial_list import ScoreTable, Trials

ENROLLED = "the embeddings of the enrollment side"


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
    kind: str
    allow_missing: bool
    force: bool
    resume: bool
    scheduler: str | None

    def write(self) -> None:
        """Score the trials of a list, or all pairs, and write the scores."""
        if self.scheduler is not None:
            self._write_on_cluster(self.scheduler)
            return
        stored = scoring_model(self._pipe).calibration_
        if self._calibration is not None and stored is not None and not self.raw:
            text = "the calibration stored in the model is applied before --calibration; --raw leaves it out."
            self.messages.info(text)
        self._say_unknown_channels()
        if self.trials is None:
            number = self._write_all()
        else:
            trials = self._listed_trials(self.trials)
            scores = self._trial_scores(trials)
            scores = scores if self._calibration is None else self._calibration.apply(scores)
            write_scores(ScoreTable(trials, scores), self.out, self.kind)
            number = len(trials)
        self.messages.info(f"{number:,} scores written to {self.out}")

    def _write_all(self) -> int:
        """Write the scores of all pairs, block by block, and return how many there are."""
        names = MatrixNames(self._names, self._sides[-1].ids, self._own_pairs())
        blocks = self._blocks() if self._calibration is None else self._blocks().calibrated(self._calibration)
        with bar(self.messages, "scoring") as callback:
            if self.kind not in MATRICES:
                bands = row_bands(blocks, self.out, callback)
                return write_matrix_list(names.models, names.samples, names.left_out, bands, self.out, self.kind)
            if self.force and not self.resume:
                discard_unfinished(self.out)
            try:
                write_blocks(self.out, blocks, names, kind=self.kind, resume=self.resume, callback=callback)
            except KeyboardInterrupt:
                finished = finished_blocks(self.out)
                if not finished:
                    raise
                text = f"interrupted; --resume goes on with the {finished:,} finished blocks of {self.out}."
                raise click.ClickException(text) from None
        left_out = len(names.left_out) if self.kind == "bosaris" else 0
        return len(names.models) * len(names.samples) - left_out

    def _write_on_cluster(self, scheduler: str) -> None:
        """Have the workers of a cluster write the scores of all pairs of samples."""
        labels = LabelOptions(labels=self.labels, speaker="", channels=self.channels, allow_missing=self.allow_missing)
        enroll = shards_of([self.enroll], labels)
        test = enroll if self.test is None else shards_of([self.test], labels)
        if self.force and not self.resume:
            discard_unfinished(self.out)
        settings = {"resume": self.resume, **self._settings}
        with bar(self.messages, "scoring") as callback:
            score_on_cluster(self.out, self.model, enroll, test, scheduler, callback=callback, **settings)
        self.messages.info(f"scores written to {self.out}")

    @cached_property
    def _calibration(self) -> Calibration | None:
        """The calibration of a file, if there is one."""
        return None if self.calibration is None else load_calibration(self.calibration)

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

    def _own_pairs(self) -> IntArray:
        """Pairs (k, 2) of a sample and itself, or of a sample and a model that it enrolls, which are no trials."""
        names, tests = self._names, self._sides[-1].ids
        own = [self._samples.get(str(name), [str(name)]) for name in names]
        rows = np.repeat(np.arange(len(names)), [len(samples) for samples in own])
        columns = positions([sample for samples in own for sample in samples], tests)
        return np.unique(np.stack([rows, columns], axis=1)[columns >= 0], axis=0)

    def _blocks(self, names: Names | None = None) -> ScoreBlocks:
        """Scores of the samples of the enrollment side, or of its models (of some ``names``), against all tests."""
        enroll, test = self._sides[0], self._sides[-1]
        if self.models is None:
            return self._pipe.score_blocks(enroll.X, test.X, **self._settings, **self._known)
        own = {str(name): self._samples[str(name)] for name in (self._names if names is None else names)}
        owners, samples = np.repeat(list(own), list(map(len, own.values()))), list(chain(*own.values()))
        rows = match_ids(samples, enroll.ids, "enrollment samples", str(self.models), self.allow_missing)
        enrolled, owners = enroll.take(rows[rows >= 0]), owners[rows >= 0]
        enrollment = self._pipe.enroll(enrolled.X, owners.tolist(), _channels(enrolled))
        order = np.argsort(positions(map(str, enrollment.models), list(own)), kind="stable")
        blocks = self._pipe.enrollment_blocks(
            enrollment.take(order), test.X, test_channels=_channels(test), **self._settings
        )
        sources = {"the enrolled models": (owners, _channels(enrolled)), ENROLLED: enrolled.X}
        return replace(blocks, origin={**blocks.origin, **sources})

    def _trial_scores(self, trials: Trials) -> Array:
        if self.models is None:
            pairs = np.stack((trials.enroll, trials.test), axis=1)
            X, Y = self._sides[0].X, self._sides[-1].X
            return np.asarray(self._pipe.score_trials(X, Y, pairs, **self._settings, **self._known), dtype=np.float64)
        enrolled, row = np.unique(trials.enroll, return_inverse=True)
        blocks = self._blocks(trials.models[enrolled])
        with bar(self.messages, "scoring") as callback:
            return listed_scores(blocks, row, trials.test, callback)

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
