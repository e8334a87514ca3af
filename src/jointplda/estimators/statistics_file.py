"""Files of statistics, which also say what front end the samples went through before they were summed."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np

from jointplda.errors import FileError
from jointplda.estimators.model_file import StepDescription, described_steps, restored_steps
from jointplda.model.growing_sums import GrowingSums
from jointplda.model.statistics import Statistics
from jointplda.storage.records import read_record, write_record

KIND = "statistics"


@dataclass(frozen=True)
class FileOfSums(Statistics):
    """The contents of a file: statistics, and the fitted steps that came before them."""

    front_end: tuple[StepDescription, ...] = ()


def write_statistics(path: str | PathLike[str], statistics: Statistics, steps: Sequence[tuple[str, Any]] = ()) -> None:
    """Write statistics of samples after these fitted steps, each with its name; ``Statistics.load`` reads them too."""
    fields = (statistics.labels, statistics.conditions, statistics.shift, statistics.parts)
    write_record(path, KIND, FileOfSums(*fields, front_end=described_steps(steps)))


def read_statistics(
    paths: Sequence[str | PathLike[str]], room: float = np.inf
) -> tuple[Statistics, list[tuple[str, Any]]]:
    """The sum of the statistics of some files, and the fitted steps that came before all of them.

    Sums of speakers and cells that take more than ``room`` bytes go to temporary files.
    """
    files = [read_record(path, KIND, FileOfSums, rows_in_file=True) for path in paths]
    first = files[0]
    for path, other in zip(paths, files, strict=True):
        if len(other.shift) != len(first.shift) or set(other.conditions) != set(first.conditions):
            raise FileError(
                f"{path}: holds sums of {_words(other)}, and {paths[0]} of {_words(first)}; they do not add up."
            )
        if not _same(first.front_end, other.front_end):
            raise FileError(
                f"{path}: its samples went through another front end than those of {paths[0]}; sum both with the same "
                "--front-end."
            )
    steps = restored_steps(first.front_end)
    if len(files) == 1:
        return first, steps
    ordered = [one.with_conditions([one.conditions.index(name) for name in first.conditions]) for one in files]
    labels = tuple(
        tuple(dict.fromkeys(label for one in ordered for label in one.labels[k])) for k in range(len(first.labels))
    )
    samples = int(sum(one.n_samples for one in ordered))
    cells = bool(first.conditions)
    sums = GrowingSums(labels, first.conditions, first.shift, cells=cells, room=room, samples=samples)
    for one in ordered:
        sums.add_statistics(one)
    return sums.statistics(), steps


def _words(statistics: Statistics) -> str:
    names = ", ".join(statistics.conditions) or "no condition"
    return f"{len(statistics.shift)} dimensions and {names}"


def _same(a: tuple[StepDescription, ...], b: tuple[StepDescription, ...]) -> bool:
    """Whether two front ends are the same to the last digit."""

    def equal(one: Any, other: Any) -> bool:
        if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
            return np.array_equal(one, other)
        return bool(one == other)

    return len(a) == len(b) and all(
        one.transformer == other.transformer
        and one.attributes.keys() == other.attributes.keys()
        and all(equal(value, other.attributes[name]) for name, value in one.attributes.items())
        for one, other in zip(a, b, strict=True)
    )
