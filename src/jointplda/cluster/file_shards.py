"""Shards of samples in files, which a worker opens by path when it reads them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from jointplda._identifiers import listed
from jointplda._typing import Names
from jointplda._validation import check_number
from jointplda.embedding_table import EmbeddingTable
from jointplda.errors import FileError, InputError, Remedy
from jointplda.formats import EmbeddingStream, open_embeddings
from jointplda.formats.text import PathLikeStr
from jointplda.labels import ConditionColumns
from jointplda.passes.sources import LabelledChunk


@dataclass(frozen=True)
class FileShard:
    """Rows of a file of embeddings, with the columns that name their speakers and channels.

    Attributes
    ----------
    path : str
        The file, under the path that every worker knows it by.
    speaker : str
        The column of the speakers.
    channels : tuple of str
        The columns of the channels, one for each condition.
    labels : str or None
        A file of labels to join by id, as in ``formats.open_embeddings``.
    n_features : int
        Dimension d of the embeddings.
    start : int
        The first row.
    stop : int or None
        The row after the last; None for all that follow.
    allow_missing : bool
        Whether samples without a speaker are left out.
    """

    path: str
    speaker: str
    channels: tuple[str, ...]
    labels: str | None
    n_features: int
    start: int = 0
    stop: int | None = None
    allow_missing: bool = False

    @property
    def n_samples(self) -> int | None:
        """Number of samples; None where only a pass tells."""
        return None if self.stop is None else self.stop - self.start

    def chunks(self) -> Iterator[LabelledChunk]:
        """All samples, a chunk at a time."""
        for table in self.tables():
            speakers = self.column(table, self.speaker)
            kept = np.flatnonzero(speakers != "")
            if len(kept) < len(speakers) and not self.allow_missing:
                ids = listed(table.ids[speakers == ""])
                effect = "leaves them out"
                raise InputError(f"{self.path}: no speaker of {ids}.", remedy=Remedy("allow_missing", True, effect))
            channels = tuple(self.column(table, name)[kept] for name in self.channels)
            if len(kept):
                yield LabelledChunk(table.X[kept], speakers[kept], ConditionColumns(self.channels, channels))

    def tables(self) -> Iterator[EmbeddingTable]:
        """All rows with their ids and columns, a chunk at a time."""
        stream = self.stream
        if stream.n_features != self.n_features or (stream.n_samples or np.inf) < (self.stop or 0):
            raise FileError(
                f"{self.path}: expected at least {self.stop or 1} rows of dimension {self.n_features}, got "
                f"{stream.n_samples} of dimension {stream.n_features}; the file was changed after its shards were made."
            )
        return stream.chunks(start=self.start, stop=self.stop)

    @property
    def stream(self) -> EmbeddingStream:
        """The whole file, opened."""
        return _opened(self.path, self.labels)

    def column(self, table: EmbeddingTable, name: str) -> Names:
        """The labels of some rows in a column."""
        if name not in table.columns:
            there = ", ".join(map(repr, table.columns)) or "none"
            raise InputError(f"{self.path}: expected a label column {name!r}, got the column(s) {there}.")
        return table.columns[name]

    def __str__(self) -> str:
        return self.path if self.stop is None else f"{self.path}, rows {self.start} to {self.stop - 1}"


def file_shards(
    paths: Iterable[PathLikeStr],
    *,
    speaker: str = "speaker",
    channels: Sequence[str] = (),
    labels: PathLikeStr | None = None,
    rows: int | None = None,
    allow_missing: bool = False,
) -> list[FileShard]:
    """Divide files of embeddings into shards.

    Parameters
    ----------
    paths : iterable of paths
        Files that ``formats.open_embeddings`` reads. They are opened here for their size, and on the workers under the
        same absolute path.
    speaker : str
        The column of the speakers.
    channels : sequence of str
        The columns of the channels, one for each condition.
    labels : path, optional
        A file of labels to join by id. Every worker reads all of it; columns in the files of embeddings are faster.
    rows : int, optional
        Rows of a shard; the last shard of a file may have fewer. By default a file is a shard.
    allow_missing : bool
        Whether samples without a speaker are left out.

    Returns
    -------
    shards : list of FileShard
    """
    if rows is not None:
        check_number("rows", rows, 1, whole=True)
    if isinstance(channels, str):
        raise InputError(f"expected a sequence of column names, got the text {channels!r}.", parameter="channels")
    where = None if labels is None else str(Path(labels).resolve())
    shards: list[FileShard] = []
    for path in paths:
        absolute = str(Path(path).resolve())
        stream = _opened(absolute, where)
        if rows is not None and stream.n_samples is None:
            problem = f"{path}: only reading tells how many rows it has, so it is one shard; leave out the number."
            raise InputError(problem, parameter="rows")
        n = stream.n_samples
        starts = [0] if n is None else range(0, n, rows or n)
        stops = [None] if n is None else [min(start + (rows or n), n) for start in starts]
        columns = (speaker, tuple(channels), where, stream.n_features)
        shards += [
            FileShard(absolute, *columns, start, stop, allow_missing) for start, stop in zip(starts, stops, strict=True)
        ]
    return shards


def _opened(path: str, labels: str | None) -> EmbeddingStream:
    """A file, opened once for several of its shards as long as it does not change."""
    return _opened_once(path, labels, *(file_state(each) for each in (path, labels)))


@lru_cache(maxsize=2)
def _opened_once(path: str, labels: str | None, *states: tuple[int, int] | None) -> EmbeddingStream:
    return open_embeddings(path, labels)


def file_state(path: str | None) -> tuple[int, int] | None:
    """Size and time of the last change of a file; None where there is none."""
    try:
        found = None if path is None else Path(path).stat()
    except OSError:
        return None
    return None if found is None else (found.st_size, found.st_mtime_ns)
