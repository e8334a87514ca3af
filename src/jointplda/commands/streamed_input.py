"""Labelled embeddings of files, read a chunk at a time."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from jointplda._identifiers import hashes, no_duplicates, repeated
from jointplda._memory import free_memory
from jointplda.commands.console import bytes_text
from jointplda.commands.data_input import SampleReader, are_row_numbers
from jointplda.evaluation.protocol import LabelledSamples
from jointplda.formats import open_embeddings
from jointplda.labels import ConditionColumns
from jointplda.passes.sources import LabelledChunk
from jointplda.passes.training import LEAST_MEMORY

FREE_SHARE = 0.5


def given_memory(memory: float | None) -> float:
    """The memory that the user allows, in bytes, or half of what is free."""
    if memory is None:
        return FREE_SHARE * free_memory()
    if memory < LEAST_MEMORY:
        least, given = bytes_text(LEAST_MEMORY), bytes_text(memory)
        raise click.ClickException(f"--memory: expected at least {least}, got {given}. Sizes have units, as 2GB has.")
    return memory


class FileSource:
    """The samples of one file or several, one after the other; a ``SampleSource``."""

    def __init__(self, paths: Sequence[Path], reader: SampleReader) -> None:
        self._streams = [open_embeddings(path, reader.source.labels) for path in paths]
        self._reader, self._is_told = reader, False
        for stream in self._streams:
            if stream.n_features != self.n_features:
                raise click.ClickException(
                    f"{stream.path}: has {stream.n_features} dimensions, and {paths[0]} has {self.n_features}. Use "
                    "embeddings of one extractor."
                )

    @property
    def n_features(self) -> int:
        """Dimension d of the embeddings."""
        return self._streams[0].n_features

    @property
    def n_samples(self) -> int | None:
        """Number of samples, those without a speaker included; None where only a pass tells."""
        numbers = [stream.n_samples for stream in self._streams]
        return None if None in numbers else sum(number or 0 for number in numbers)

    @property
    def numbers(self) -> float:
        """About how many numbers the embeddings hold."""
        sizes = [
            float(stream.n_samples * stream.n_features)
            if stream.n_samples is not None
            else stream.path.stat().st_size / stream.dtype.itemsize
            for stream in self._streams
        ]
        return sum(sizes)

    def chunks(self) -> Iterator[LabelledChunk]:
        """All samples with a speaker. What lacks a label is said after the first pass, which also compares the ids."""
        numbers: list[NDArray[np.uint64]] = []
        for stream in self._streams:
            first = 0
            for table in stream.chunks():
                if not self._is_told and len(self._streams) > 1 and not are_row_numbers(table.ids, first):
                    numbers.append(hashes(table.ids))
                first += len(table.ids)
                samples = self._reader.labelled(table, is_part=True, path=stream.path)
                if len(samples.X):
                    yield LabelledChunk(samples.X, samples.speakers, samples.channels)
        if not self._is_told:
            self._refuse_repeated(numbers)
            self._reader.say()
            self._is_told = True

    def _refuse_repeated(self, numbers: Sequence[NDArray[np.uint64]]) -> None:
        """Refuse ids that several files share, given a number for each id, which different ids may share."""
        again = repeated(np.concatenate([np.empty(0, np.uint64), *numbers]))
        if len(again):
            ids = (labels.ids for stream in self._streams for labels in stream.columns())
            found = np.concatenate([own[np.isin(hashes(own), again)] for own in ids])
            no_duplicates(found, "ids", " and ".join(str(stream.path) for stream in self._streams))

    def without_embeddings(self) -> LabelledSamples:
        """Labels of all samples; their embeddings are zeros that take no memory."""
        found = []
        for stream in self._streams:
            for labels in stream.columns():
                X = np.broadcast_to(np.zeros(self.n_features), (len(labels.ids), self.n_features))
                found.append(self._reader.labelled(labels.with_embeddings(X), is_part=True, path=stream.path))
        self._reader.say()
        ids, speakers = (np.concatenate([getattr(one, name) for one in found]) for name in ("ids", "speakers"))
        names = found[0].channels.names
        columns = tuple(np.concatenate([one.channels.values[k] for one in found]) for k in range(len(names)))
        X = np.broadcast_to(np.zeros(self.n_features), (len(ids), self.n_features))
        return LabelledSamples(ids, X, speakers, ConditionColumns(names, columns))
