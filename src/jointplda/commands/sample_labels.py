"""Labels of the samples behind trials, where trials may name models of several samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from jointplda._typing import IntArray, Names
    from jointplda.embedding_table import LabelTable
    from jointplda.trial_list import Trials


@dataclass(frozen=True)
class LabelFiles:
    """The labels by id and the samples of each model, read once for any number of trial lists."""

    labels: LabelTable | None
    models: Mapping[str, Sequence[str]]
    path: Path | None

    @classmethod
    def read(cls, labels: Path | None, models: Path | None) -> LabelFiles:
        """Read labels from a table or a file of embeddings, and models from a list such as spk2utt."""
        from jointplda.formats import read_enrollment, read_label_table

        table = None if labels is None else read_label_table(labels)
        return cls(table, {} if models is None else read_enrollment(models), labels)


@dataclass(frozen=True)
class SampleLabels:
    """The samples of a trial list with their label columns, and the samples of each model."""

    trials: Trials
    table: LabelTable
    models: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, trials: Trials, files: LabelFiles) -> SampleLabels:
        """The labels of all samples that the trials name, directly or as a part of a model."""
        import numpy as np

        from jointplda.embedding_table import LabelTable

        enrolled = [sample for name in trials.models for sample in files.models.get(str(name), [str(name)])]
        ids = np.array(list(dict.fromkeys([*enrolled, *map(str, trials.samples)])), dtype=np.str_)
        return cls(trials, LabelTable(ids, _columns(files, ids)), files.models)

    def both(self, name: str, option: str) -> tuple[list[set[str]], Names]:
        """Labels of models (those of all their samples) and of test samples, in the order of the trials' names."""
        import numpy as np

        from jointplda.commands.data_input import column
        from jointplda.evaluation.join import model_labels

        values = column(self.table, name, option)
        of_sample = dict(zip(self.table.ids.tolist(), values.tolist(), strict=True))
        test = np.array([of_sample.get(str(sample), "") for sample in self.trials.samples], dtype=np.str_)
        return model_labels(of_sample, self.models, self.trials.models), test

    def speakers(self, name: str | None, allow_missing: bool) -> tuple[IntArray, IntArray]:
        """A number for the speaker of each model and of each test sample: from labels, or from the target trials."""
        import numpy as np

        from jointplda.evaluation.join import speakers_from_targets

        if name is None:
            left, right = speakers_from_targets(self.trials, self.models)
        else:
            left, right = self._labelled_speakers(name, allow_missing)
        codes = np.unique(np.concatenate((left, right)), return_inverse=True)[1].astype(np.int64)
        return codes[: len(left)], codes[len(left) :]

    def _labelled_speakers(self, name: str, allow_missing: bool) -> tuple[Names, Names]:
        import numpy as np

        from jointplda._identifiers import listed

        enroll, right = self.both(name, "--speaker")
        mixed = [str(model) for model, labels in zip(self.trials.models, enroll, strict=True) if len(labels) > 1]
        if mixed:
            raise click.ClickException(f"--speaker {name}: models with samples of several speakers: {listed(mixed)}.")
        left = np.array([next(iter(labels), "") for labels in enroll], dtype=np.str_)
        missing = [*self.trials.models[left == ""].tolist(), *self.trials.samples[right == ""].tolist()]
        if missing and not allow_missing:
            raise click.ClickException(
                f"--speaker {name}: no speaker for {listed(missing)}. If they are models of several samples, list "
                "those with --models. With --allow-missing each counts as a speaker."
            )
        own = np.array([f"model {n}" if str(n) in self.models else f"sample {n}" for n in self.trials.models])
        samples = np.char.add("sample ", self.trials.samples)
        return np.where(left == "", own, left), np.where(right == "", samples, right)


def _columns(files: LabelFiles, ids: Names) -> dict[str, Names]:
    import numpy as np

    from jointplda._identifiers import listed, positions

    if files.labels is None:
        return {}
    rows = positions(ids, files.labels.ids)
    if len(rows) and (rows < 0).all():
        raise click.ClickException(
            f"{files.path}: none of its ids is in the trials. The trials name {listed(ids)}, the labels "
            f"{listed(files.labels.ids)}."
        )
    return {name: np.where(rows >= 0, values[np.maximum(rows, 0)], "") for name, values in files.labels.columns.items()}
