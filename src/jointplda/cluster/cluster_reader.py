"""Passes over shards on the workers of a cluster, and the tree in which workers merge what they made."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import uuid4

from jointplda.cluster.connection import Failure, completed, failure, shared, worker_name
from jointplda.passes.readers import Pass, ShardReader, read_shard, shard_name
from jointplda.passes.sources import SampleSource
from jointplda.progress import Progress

Part = TypeVar("Part")


@dataclass(frozen=True)
class ClusterReader(ShardReader):
    """Has workers read shards, one task for each, and merge what a pass makes of them.

    The parts are merged pairwise, neighbours first: the result does not depend on which worker did what, nor on workers
    that were lost, whose tasks others do again. It is that of ``ShardReader``, to the bit.

    Attributes
    ----------
    shards : sequence of SampleSource
    callback : callable or None
        Called with a ``Progress`` after every shard, counted in shards; its detail is the address of the worker.
    client : distributed.Client
    """

    client: Any = field(kw_only=True)

    def made(self, one: Pass[Part]) -> Part:
        """What a pass makes of all samples."""
        notes, whole, names = self._submitted(one)
        done = 0
        try:
            for future, found in completed(self.client, [*notes, whole], names):
                if future.key == whole.key:
                    result: Part = found
                    continue
                done += 1
                if self.callback is not None:
                    self.callback(Progress(one.stage, done, len(notes), found))
            return result
        finally:
            self.client.cancel([*notes, whole])  # no worker goes on with what nobody awaits

    def _submitted(self, one: Pass[Any]) -> tuple[list[Any], Any, dict[str, str]]:
        """Tasks that tell who read each shard, the task of the whole, and the names of the tasks that read, by key.

        The parts are not held here, so that workers drop them as soon as they are merged.
        """
        name = f"jointplda {one.stage} {uuid4().hex}"

        def submit(what: str, work: Callable[..., Any], *given: Any, urgent: int = 1) -> Any:
            return self.client.submit(work, *given, key=f"{name} {what}", priority=urgent)

        passes = shared(self.client, one, f"{name} pass")
        level = [
            submit(f"shard {i}", _part, passes[i % len(passes)], shard, i, urgent=0)
            for i, shard in enumerate(self.shards)
        ]
        notes = [submit(f"note {i}", _note, part) for i, part in enumerate(level)]
        called, depth = [shard_name(shard, i) for i, shard in enumerate(self.shards)], 0
        names = {task.key: what for tasks in (level, notes) for task, what in zip(tasks, called, strict=True)}
        while len(level) > 1:
            depth, pairs = depth + 1, zip(level[::2], level[1::2], strict=False)
            merged = [submit(f"merge {depth} {i}", _merged, passes[0], *pair) for i, pair in enumerate(pairs)]
            level = merged + level[len(merged) * 2 :]
        return notes, level[0], names


def _part(one: Pass[Any], shard: SampleSource, number: int) -> Any:
    """What a pass makes of a shard."""
    try:
        return read_shard(one, shard, number)
    except Exception as error:
        return failure(error, shard_name(shard, number))


def _note(part: Any) -> Any:
    """The worker that made a part, or its failure."""
    return part if isinstance(part, Failure) else worker_name()


def _merged(one: Pass[Any], first: Any, second: Any) -> Any:
    """The part of two runs of neighbouring shards, or the first failure."""
    for part in (first, second):
        if isinstance(part, Failure):
            return part
    try:
        return one.merged(first, second)
    except Exception as error:
        return failure(error, "merging")
