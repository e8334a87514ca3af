"""Labelled embeddings of files, read a chunk at a time."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import numpy as np

from jointplda._memory import free_memory
from jointplda.commands.data_input import SampleReader
from jointplda.evaluation.protocol import LabelledSamples
from jointplda.formats import open_embeddings
from jointplda.labels import ConditionColumns
from jointplda.passes.sources import LabelledChunk

FREE_SHARE = 0.5


def given_memory(memory: float | None) -> float:
    """The memory that the user allows, in bytes, or half of what is free."""
    return FREE_SHARE * free_memory() if memory is None else memory


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
        """All samples with a speaker. What lacks a label is said after the first pass."""
        for stream in self._streams:
            for table in stream.chunks():
                samples = self._reader.labelled(table, is_part=True)
                if len(samples.X):
                    yield LabelledChunk(samples.X, samples.speakers, samples.channels)
        if not self._is_told:
            self._reader.say()
            self._is_told = True

    def without_embeddings(self) -> LabelledSamples:
        """Labels of all samples; their embeddings are zeros that take no memory."""
        found = []
        for stream in self._streams:
            for labels in stream.columns():
                X = np.broadcast_to(np.zeros(self.n_features), (len(labels.ids), self.n_features))
                found.append(self._reader.labelled(labels.with_embeddings(X), is_part=True))
        self._reader.say()
        ids, speakers = (np.concatenate([getattr(one, name) for one in found]) for name in ("ids", "speakers"))
        names = found[0].channels.names
        columns = tuple(np.concatenate([one.channels.values[k] for one in found]) for k in range(len(names)))
        X = np.broadcast_to(np.zeros(self.n_features), (len(ids), self.n_features))
        return LabelledSamples(ids, X, speakers, ConditionColumns(names, columns))
