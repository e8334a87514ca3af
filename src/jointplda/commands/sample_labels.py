"""Labels of the samples behind trials, where trials may name models of several samples."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jointplda._typing import Names
    from jointplda.embedding_table import LabelTable
    from jointplda.trial_list import Trials


@dataclass(frozen=True)
class SampleLabels:
    """The samples of a trial list, their label columns, and which samples each model has."""

    trials: Trials
    table: LabelTable
    models: Mapping[str, Sequence[str]]

    @classmethod
    def read(cls, trials: Trials, labels: Path | None, models: Path | None) -> SampleLabels:
        """Gather labels by sample id from a labels file (or an embeddings file), and models from theirs."""
        import numpy as np

        from jointplda.commands.data_input import label_table
        from jointplda.embedding_table import LabelTable
        from jointplda.formats import read_enrollment

        found = {} if models is None else read_enrollment(models)
        own = [sample for name in trials.models for sample in found.get(str(name), [str(name)])]
        ids = list(dict.fromkeys([*own, *map(str, trials.samples)]))
        names = np.array(ids, dtype=np.str_)
        columns = {} if labels is None else _columns(label_table(labels), names, labels)
        return cls(trials, LabelTable(names, columns), found)

    def name(self, given: str) -> str:
        """What to call a column or file."""
        from jointplda.commands.data_input import column_name

        return column_name(given, self.table)

    def both(self, given: str, option: str) -> tuple[list[set[str]], Names]:
        """Labels of models (those of all their samples) and of test samples, in the order of the trials' names."""
        import numpy as np

        from jointplda.commands.data_input import column
        from jointplda.evaluation.join import model_labels

        values = column(self.table, given, option)
        of_sample = dict(zip(self.table.ids.tolist(), values.tolist(), strict=True))
        test = np.array([of_sample.get(str(name), "") for name in self.trials.samples], dtype=np.str_)
        return model_labels(of_sample, self.models, self.trials.models), test

    def speakers(self, given: str | None, allow_missing: bool) -> tuple[Any, Any]:
        """A whole number for the speaker of each model and of each test sample."""
        import numpy as np

        from jointplda._identifiers import listed
        from jointplda.evaluation.join import speakers_from_targets

        if given is None:
            left, right = speakers_from_targets(self.trials, self.models)
        else:
            enroll, right = self.both(given, "--speaker")
            mixed = [str(name) for name, each in zip(self.trials.models, enroll, strict=True) if len(each) > 1]
            if mixed:
                raise click.ClickException(f"models with samples of several speakers: {listed(mixed)}.")
            left = np.array([next(iter(each), "") for each in enroll], dtype=np.str_)
            missing = [str(n) for n, s in zip(self.trials.models, left, strict=True) if not s]
            missing += [str(n) for n, s in zip(self.trials.samples, right, strict=True) if not s]
            if missing and not allow_missing:
                raise click.ClickException(
                    f"--speaker {given}: no speaker for {listed(missing)}. Are they models of several samples? Then "
                    "give --models. With --allow-missing each counts as a speaker."
                )
            own = np.array([f"model {n}" if str(n) in self.models else f"sample {n}" for n in self.trials.models])
            left = np.where(left == "", own, left)
            right = np.where(right == "", np.char.add("sample ", self.trials.samples), right)
        _, codes = np.unique(np.concatenate((left, right)), return_inverse=True)
        return codes[: len(left)], codes[len(left) :]


def _columns(labels: LabelTable, ids: Names, path: Path) -> dict[str, Names]:
    import numpy as np

    from jointplda._identifiers import listed, positions

    rows = positions(ids, labels.ids)
    if len(rows) and (rows < 0).all():
        raise click.ClickException(
            f"{path}: none of its ids is in the trials; there they are like {listed(ids)}, here like "
            f"{listed(labels.ids)}."
        )
    return {name: np.where(rows >= 0, values[np.maximum(rows, 0)], "") for name, values in labels.columns.items()}
