"""Writing a matrix of scores block by block, from the beginning or from where an earlier run was stopped."""

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from jointplda._atomic import checked_target
from jointplda._typing import AnyArray, Array, IntArray
from jointplda.errors import FileError, InputError, Remedy
from jointplda.formats import hdf5, zarr_matrix
from jointplda.progress import Progress, ProgressCallback
from jointplda.score_stores.journal import Journal
from jointplda.score_stores.origin import digests
from jointplda.score_stores.score_blocks import Grid, ScoreBlocks
from jointplda.score_stores.stores import MatrixNames, ScoreStore, matrix_kind, store_in

BAND_NUMBERS = 2**23
WRITERS = 2  # one waits for the disk while the other copies


@dataclass(frozen=True)
class BlockTarget:
    """Where blocks are written, by this process or by others.

    Attributes
    ----------
    path : Path
        The file or folder that they are to become.
    store : ScoreStore
    journal : Journal
    """

    path: Path
    store: ScoreStore
    journal: Journal

    def write(self, number: int, block: AnyArray) -> None:
        """Write a block, and mark it when it is on disk."""
        check_scores(block, self.path)
        self.store.write(number, block)
        self.journal.mark(number)


Makers = Callable[[ScoreBlocks, BlockTarget, Sequence[int]], Generator[Any]]
"""Computes and writes the blocks of some numbers, and gives a detail for reports of progress after each."""


def in_this_process(blocks: ScoreBlocks, target: BlockTarget, numbers: Sequence[int]) -> Generator[None]:
    """Compute blocks one after the other; some are still being written when the next is computed."""
    pending: deque[Future[None]] = deque()
    with ThreadPoolExecutor(WRITERS) as pool:
        for number in numbers:
            block = blocks.compute(*target.store.grid.slices(number))
            if len(pending) == WRITERS:
                pending.popleft().result()
            pending.append(pool.submit(target.write, number, block))
            yield None
        for each in pending:
            each.result()


def write_blocks(
    path: str | PathLike[str],
    blocks: ScoreBlocks,
    names: MatrixNames | None = None,
    *,
    kind: str | None = None,
    resume: bool = False,
    callback: ProgressCallback | None = None,
    makers: Makers = in_this_process,
) -> None:
    """Compute a matrix of scores and write it block by block.

    Until it is finished, the matrix is in the folder ``path`` + ".unfinished", with an empty file for every block that
    is on disk. Then it takes its place, together with its names.

    Parameters
    ----------
    path : path
        What is there is replaced at the end.
    blocks : ScoreBlocks
        The scores.
    names : MatrixNames, optional
        Names of the rows and columns, which readers of score files need.
    kind : {"npy", "bosaris", "zarr"}, optional
        By default, from the name: ``.npy`` npy, ``.h5`` and ``.hdf5`` bosaris, ``.zarr`` zarr.
    resume : bool
        Whether to go on with an unfinished matrix, if there is one. Its finished blocks are not computed again. It is
        refused if it was begun with another model, other samples or other settings.
    callback : callable, optional
        Called after every block with a ``jointplda.Progress``, counted in blocks.
    makers : callable
        Who computes and writes the blocks; by default this process.
    """
    kind = kind or matrix_kind(Path(path))
    target = checked_target(path, folder=kind == "zarr")
    journal, grid = Journal.beside(target), Grid.of(blocks.shape, whole_rows=kind != "zarr")
    store = store_in(journal.folder, target, kind, grid, blocks.dtype)
    with _explained(target, journal):
        _begin(journal, store, kind, blocks, names, resume=resume)
        finished = journal.finished()
        todo = [number for number in range(len(grid)) if number not in finished]

        with closing(makers(blocks, BlockTarget(target, store, journal), todo)) as made:
            for done, detail in enumerate(made, len(finished)):
                if callback is not None:
                    callback(Progress("scores", done + 1, len(grid), detail))
        store.publish(target)
        journal.discard()


def discard_unfinished(path: str | PathLike[str]) -> None:
    """Remove what an unfinished run has left of the matrix at ``path``."""
    Journal.beside(path).discard()


def finished_blocks(path: str | PathLike[str]) -> int:
    """How many blocks an unfinished run has left of the matrix at ``path``."""
    return len(Journal.beside(path).finished())


def row_bands(blocks: ScoreBlocks, path: Any, callback: ProgressCallback | None = None) -> Iterator[AnyArray]:
    """All scores in bands of a few rows, from the first to the last row, for files that are written in this order."""
    n, m = blocks.shape
    height = max(1, BAND_NUMBERS // m)
    for start in range(0, n, height):
        band = blocks.compute(slice(start, min(start + height, n)), slice(0, m))
        check_scores(band, path)
        yield band
        if callback is not None:
            callback(Progress("scores", min(start + height, n), n))


def listed_scores(
    blocks: ScoreBlocks, rows: IntArray, columns: IntArray, callback: ProgressCallback | None = None
) -> Array:
    """The scores at listed places (n,) of a matrix, from the blocks that hold some of them."""
    grid, scores = Grid.of(blocks.shape), np.empty(len(rows))
    number = rows // grid.block[0] * grid.across + columns // grid.block[1]
    order = np.argsort(number, kind="stable")
    ends = np.searchsorted(number[order], np.arange(len(grid) + 1))
    for at in range(len(grid)):
        members = order[ends[at] : ends[at + 1]]
        if len(members):
            top, left = grid.slices(at)
            scores[members] = blocks.compute(top, left)[rows[members] - top.start, columns[members] - left.start]
        if callback is not None:
            callback(Progress("scores", at + 1, len(grid)))
    return scores


def check_scores(scores: AnyArray, path: Any) -> None:
    """Raise if scores that are to be written are NaN."""
    bad = int(np.count_nonzero(np.isnan(scores)))
    if bad:
        raise InputError(f"{path}: {bad:,} scores of a block are NaN, which no file of scores may hold.")


def opened_scores(path: str | PathLike[str]) -> Any:
    """A matrix of scores on disk, which is read where it is indexed: a memmap, HDF5 dataset or Zarr array."""
    kind = matrix_kind(Path(path))
    if kind == "npy":
        return np.load(path, mmap_mode="r")
    return hdf5.opened_matrix(Path(path), "scores") if kind == "bosaris" else zarr_matrix.opened_matrix(Path(path))


def _begin(
    journal: Journal, store: ScoreStore, kind: str, blocks: ScoreBlocks, names: MatrixNames | None, *, resume: bool
) -> None:
    """Begin a matrix anew, or check that it can be gone on with."""
    origin = {**blocks.origin, "the names": names, "the release of jointplda": version("jointplda")}
    begun = {
        "kind": kind, "shape": list(blocks.shape), "shape of blocks": list(store.grid.block),
        "type of the scores": np.dtype(blocks.dtype).name, "origin": digests(origin),
    }  # fmt: skip
    if journal.finished() and journal.begun() is not None and store.path.exists():
        if not resume:
            journal.refuse(len(store.grid))
        journal.check(begun)
        return
    journal.discard()
    journal.folder.mkdir()
    store.create(names)
    journal.begin(begun)


@contextmanager
def _explained(target: Path, journal: Journal) -> Iterator[None]:
    """Turn errors of files into one of this package; a matrix without a finished block is not left behind."""
    try:
        yield
    except BaseException as error:
        finished = len(journal.finished())
        if not finished:
            journal.discard()
        if not isinstance(error, OSError):
            raise
        problem = f"{target}: cannot be written ({error.strerror or error})."
        if not finished:
            raise FileError(problem) from None
        done = f"goes on with the {finished:,} finished blocks in {journal.folder}, when that is repaired"
        raise FileError(problem, remedy=Remedy("resume", True, done)) from None
