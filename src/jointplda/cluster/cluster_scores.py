"""Matrices of scores whose blocks the workers of a cluster compute and write."""

import hashlib
from collections.abc import Generator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from os import PathLike
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from jointplda._parallel import one_thread
from jointplda._typing import AnyArray, Names
from jointplda.cluster.connection import completed, connected, failure, shared, worker_name
from jointplda.cluster.file_shards import FileShard, file_state
from jointplda.embedding_table import EmbeddingTable
from jointplda.errors import FileError, InputError
from jointplda.estimators.pipeline import Pipeline
from jointplda.labels import ConditionColumns
from jointplda.linalg import spans
from jointplda.passes.readers import check_shards, shard_name
from jointplda.progress import ProgressCallback
from jointplda.score_stores.block_writing import BlockTarget, Makers, in_this_process, write_blocks
from jointplda.score_stores.score_blocks import ScoreBlocks
from jointplda.score_stores.stores import MatrixNames


def score_on_cluster(
    out: str | PathLike[str],
    model: str | PathLike[str],
    enroll: Sequence[FileShard],
    test: Sequence[FileShard] | None,
    cluster: Any,
    *,
    resume: bool = False,
    callback: ProgressCallback | None = None,
    **settings: Any,
) -> None:
    """Score all pairs of samples on the workers of a Dask cluster, into a Zarr folder.

    Workers read the rows that a block needs, compute it, and write it. Blocks are those of
    ``score_stores.block_writing``: an interrupted run leaves what is finished, and another goes on with it. Scores do
    not depend on the number of workers, nor on which of them does what or is lost on the way.

    Parameters
    ----------
    out : path
        The Zarr folder, on a file system that all workers share.
    model : path
        A model file, under the path by which all workers know it.
    enroll, test : sequence of FileShard
        The samples of the rows and of the columns, such as ``file_shards`` makes; ``test=None`` is the same samples.
        Where a shard names channels, these columns are the known channels of its samples; its speakers do not matter.
    cluster : str, distributed.Client or None
        The address of a scheduler, or a client of it. None has this process compute the same blocks.
    resume : bool
        Whether to go on with what an interrupted run has left of ``out``.
    callback : callable, optional
        Called with a ``Progress`` after every block; its detail is the address of the worker.
    settings : keyword arguments
        Those of ``score_blocks`` of models that are numbers or words: ``same_channel``, ``calibrated``, ``dtype`` ...
    """
    test = enroll if test is None else test
    check_shards([*enroll, *test])
    pairs = FilePairs(str(Path(model).resolve()), _hash(Path(model)), tuple(enroll), tuple(test), settings)
    blocks, names = pairs.blocks(), MatrixNames(_ids(enroll), _ids(test), np.zeros((0, 2), dtype=np.int64))
    with nullcontext() if cluster is None else connected(cluster) as client:
        makers: Makers = in_this_process if client is None else partial(_on_workers, client)
        write_blocks(out, blocks, names, kind="zarr", resume=resume, callback=callback, makers=makers)


@dataclass(frozen=True)
class FilePairs:
    """All pairs of the samples of two sides, which are read from files where they are scored.

    Attributes
    ----------
    model : str
        A model file.
    content : str
        The hash of its bytes.
    enroll, test : tuple of FileShard
    settings : dict
        Keyword arguments of ``score_blocks``.
    """

    model: str
    content: str
    enroll: tuple[FileShard, ...]
    test: tuple[FileShard, ...]
    settings: dict[str, Any] = field(hash=False)

    def blocks(self) -> ScoreBlocks:
        """The scores as blocks, whose origin are the model and the state of the files."""
        pipe = _loaded(self.model, self.content)
        if pipe.n_features_in_ != self.enroll[0].n_features:
            raise InputError(
                f"{self.model} was trained on {pipe.n_features_in_} dimensions, and {shard_name(self.enroll[0], 0)} "
                f"has {self.enroll[0].n_features}; use embeddings of the same extractor."
            )
        types = [np.result_type(*(shard.stream.dtype for shard in side)) for side in (self.enroll, self.test)]
        origin = pipe.score_blocks(*(np.zeros((1, pipe.n_features_in_), each) for each in types), **self.settings)
        own = {
            f"the files of the {name} side": [(vars(shard), file_state(shard.path)) for shard in side]
            for name, side in (("enrollment", self.enroll), ("test", self.test))
        }
        shape = (sum(_lengths(self.enroll)), sum(_lengths(self.test)))
        return ScoreBlocks(shape, origin.dtype, self.scores, {**origin.origin, **own})

    def scores(self, rows: slice, columns: slice) -> AnyArray:
        """The scores of a block, which do not depend on other blocks."""
        pipe = _loaded(self.model, self.content)
        E, T = (_read(*_pieces(side, part)) for side, part in ((self.enroll, rows), (self.test, columns)))
        known = {"enroll_channels": _channels(E), "test_channels": _channels(T)}
        with one_thread():  # the same to the bit on any number of cores
            block = pipe.score_blocks(E.X, T.X, threads=1, **{**known, **self.settings})
            return block.compute(*(slice(0, length) for length in block.shape))


def _on_workers(client: Any, blocks: ScoreBlocks, target: BlockTarget, numbers: Sequence[int]) -> Generator[str]:
    """Have workers compute and write blocks; gives the worker of each."""
    name = f"jointplda scores {uuid4().hex}"
    begun = target.journal.begun()
    jobs = shared(client, (blocks.compute, target, begun), f"{name} job")
    futures = [
        client.submit(_written, jobs[i % len(jobs)], number, key=f"{name} block {number}")
        for i, number in enumerate(numbers)
    ]
    names = {future.key: f"block {number}" for future, number in zip(futures, numbers, strict=True)}
    try:
        for _, worker in completed(client, futures, names):
            yield worker
    finally:
        client.cancel(futures)


def _written(job: Any, number: int) -> Any:
    """Compute and write a block, and tell the worker; or tell what failed."""
    compute, target, begun = job
    try:
        block = compute(*target.store.grid.slices(number))
        if target.journal.begun() != begun:
            raise FileError(f"{target.journal.folder}: was removed, or begun anew, while its blocks were computed.")
        target.write(number, block)
        return worker_name()
    except OSError as error:
        return failure(FileError(f"{target.path}: block {number} cannot be written ({error})."), "")
    except Exception as error:
        return failure(error, f"block {number} of {target.path}")


def _hash(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error.strerror or error}).") from None


def _loaded(path: str, content: str) -> Pipeline:
    """The model of a file, read once by each worker."""
    return _loaded_once(path, content, file_state(path))


@lru_cache(maxsize=1)
def _loaded_once(path: str, content: str, state: tuple[int, int] | None) -> Pipeline:
    if _hash(Path(path)) != content:
        raise FileError(f"{path}: is another model than where the scores were asked for; copy the same file.")
    return Pipeline.load(path)


def _lengths(side: Sequence[FileShard]) -> list[int]:
    """Number of rows of each shard."""
    unknown = [shard for shard in side if shard.n_samples is None]
    if unknown:
        raise InputError(
            f"{unknown[0]}: only reading tells how many rows it has, so its scores have no place; convert it to .npy "
            "or .npz (jointplda convert)."
        )
    return [shard.n_samples or 0 for shard in side]


def _pieces(side: Sequence[FileShard], rows: slice) -> tuple[tuple[FileShard, tuple[int, int] | None], ...]:
    """The parts of shards that hold some rows of their side, and the states of their files."""
    found = []
    for shard, span in zip(side, spans(_lengths(side)), strict=True):
        start, stop = max(rows.start, span.start), min(rows.stop, span.stop)
        if start < stop:
            at = shard.start - span.start
            found.append((replace(shard, start=at + start, stop=at + stop), file_state(shard.path)))
    return tuple(found)


@lru_cache(maxsize=4)  # neighbouring blocks share rows or columns
def _read(*pieces: tuple[FileShard, tuple[int, int] | None]) -> EmbeddingTable:
    """Rows of embeddings, with their channels as columns."""
    tables = [(shard, table) for shard, _ in pieces for table in shard.tables()]
    columns = {
        name: np.concatenate([shard.column(table, name) for shard, table in tables]) for name in pieces[0][0].channels
    }
    ids, X = (np.concatenate([getattr(table, name) for _, table in tables]) for name in ("ids", "X"))
    return EmbeddingTable(ids, columns, X=X)


def _ids(side: Sequence[FileShard]) -> Names:
    """The ids of all rows."""
    found = [each.ids for shard in side for each in shard.stream.columns(start=shard.start, stop=shard.stop)]
    return np.concatenate(found)


def _channels(table: EmbeddingTable) -> ConditionColumns | None:
    """The channels of samples; None where they are not known."""
    return ConditionColumns(tuple(table.columns), tuple(table.columns.values())) if table.columns else None
