"""What a pass over samples is, and who makes it: one process, over one source or over shards one after the other."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from jointplda._pairwise import merged_pairwise
from jointplda._parallel import one_thread
from jointplda.errors import InputError, JointPLDAError
from jointplda.passes.sources import LabelledChunk, SampleSource, Without
from jointplda.progress import Progress, ProgressCallback

Part = TypeVar("Part")


class Pass(Protocol[Part]):
    """A pass over samples: what it makes of each shard of them, and how two such parts become one.

    Other processes may make it, some shards more than once. It therefore keeps nothing between two calls, and leaves
    the parts that it merges as they are.
    """

    @property
    def stage(self) -> str:
        """What the pass is for, in reports of progress."""

    def read(self, chunks: Iterator[LabelledChunk], shard: int) -> Part:
        """What it makes of the samples of the shard of this number, which come a chunk at a time."""

    def merged(self, first: Part, second: Part) -> Part:
        """The part of two runs of neighbouring shards."""


@dataclass(frozen=True)
class Room:
    """Where sums by speaker are kept.

    Attributes
    ----------
    memory : float
        Bytes of memory for them; what does not fit goes to files.
    folder : Path or None
        Where temporary files are made; by default the system's folder for them.
    """

    memory: float = np.inf
    folder: Path | None = None


class Reader(Protocol):
    """Who makes passes over samples."""

    @property
    def n_features(self) -> int:
        """Dimension d of the embeddings."""

    @property
    def n_shards(self) -> int:
        """Number of shards."""

    @property
    def room(self) -> Room | None:
        """Where the sums of all samples grow; None where each shard has sums of its own, which are merged in memory."""

    @property
    def callback(self) -> ProgressCallback | None:
        """What is called with a ``Progress``, counted in samples of one source or in shards."""

    def made(self, one: Pass[Part]) -> Part:
        """What a pass makes of all samples."""

    def without(self, speakers: frozenset[Any]) -> "Reader":
        """A reader of all samples but those of these speakers."""


@dataclass(frozen=True)
class SourceReader:
    """Reads one source in this process.

    Attributes
    ----------
    source : SampleSource
    room : Room
    callback : callable or None
        Called with a ``Progress`` after every chunk, counted in samples.
    """

    source: SampleSource
    room: Room = Room()
    callback: ProgressCallback | None = None

    n_shards = 1

    @property
    def n_features(self) -> int:
        """Dimension d of the embeddings."""
        return self.source.n_features

    def made(self, one: Pass[Part]) -> Part:
        """What a pass makes of all samples."""
        return one.read(self._counted(one.stage), 0)

    def without(self, speakers: frozenset[Any]) -> "SourceReader":
        """A reader of all samples but those of these speakers."""
        return replace(self, source=Without(self.source, speakers))

    def _counted(self, stage: str) -> Iterator[LabelledChunk]:
        done = 0
        for chunk in self.source.chunks():
            yield chunk
            done += len(chunk.X)
            if self.callback is not None:
                self.callback(Progress(stage, done, self.source.n_samples))
        if self.callback is not None and done != self.source.n_samples:
            self.callback(Progress(stage, done, done))


@dataclass(frozen=True)
class ShardReader:
    """Reads shards one after the other in this process, and merges what a pass makes of each.

    The parts are merged pairwise, neighbours first, so that the result is that of a cluster, to the bit.

    Attributes
    ----------
    shards : sequence of SampleSource
    callback : callable or None
        Called with a ``Progress`` after every shard, counted in shards.
    """

    shards: Sequence[SampleSource]
    callback: ProgressCallback | None = None

    room = None

    def __post_init__(self) -> None:
        check_shards(self.shards)

    @property
    def n_features(self) -> int:
        """Dimension d of the embeddings."""
        return self.shards[0].n_features

    @property
    def n_shards(self) -> int:
        """Number of shards."""
        return len(self.shards)

    def made(self, one: Pass[Part]) -> Part:
        """What a pass makes of all samples."""
        whole = merged_pairwise(self._parts(one), one.merged)
        assert whole is not None
        return whole

    def without(self, speakers: frozenset[Any]) -> Self:
        """A reader of all samples but those of these speakers."""
        return replace(self, shards=[Without(shard, speakers) for shard in self.shards])

    def _parts(self, one: Pass[Part]) -> Iterator[Part]:
        for number, shard in enumerate(self.shards):
            yield read_shard(one, shard, number)
            if self.callback is not None:
                self.callback(Progress(one.stage, number + 1, len(self.shards)))


def check_shards(shards: Sequence[SampleSource]) -> None:
    """Raise unless there are shards, all of one dimension."""
    if not len(shards):
        raise InputError("expected one shard or more, got none.", parameter="shards")
    for number, shard in enumerate(shards):
        if shard.n_features != shards[0].n_features:
            raise InputError(
                f"expected embeddings of one dimension, got {shards[0].n_features} in "
                f"{shard_name(shards[0], 0)} and {shard.n_features} in {shard_name(shard, number)}.",
                parameter="shards",
            )


def shard_name(shard: SampleSource, number: int) -> str:
    """What messages call a shard: its number, and what it says of itself if it has a text of its own."""
    own = type(shard).__str__ is not object.__str__
    return f"shard {number} ({shard if own else type(shard).__name__})"


def read_shard(one: Pass[Part], shard: SampleSource, number: int) -> Part:
    """What a pass makes of one shard, to the bit the same on any number of cores; errors name the shard."""
    try:
        with one_thread():
            return one.read(_checked(shard), number)
    except JointPLDAError as error:
        problem = f"{shard_name(shard, number)}: {error.problem}"
        raise type(error)(problem, remedy=error.remedy) from None


def _checked(shard: SampleSource) -> Iterator[LabelledChunk]:
    for chunk in shard.chunks():
        if chunk.X.shape[1:] != (shard.n_features,):
            raise InputError(f"expected embeddings of dimension {shard.n_features}, got shape {chunk.X.shape}.")
        yield chunk
