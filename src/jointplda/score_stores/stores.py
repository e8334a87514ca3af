"""Files of full matrices of scores that are written block by block, in any order.

A store is made in a folder beside its target, and its blocks become files of that folder; ``publish`` puts them in
their place. Writers in several processes may write different blocks of one store at the same time.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np

from jointplda._atomic import sync_folder
from jointplda._typing import AnyArray, IntArray, Names
from jointplda.errors import InputError
from jointplda.file_kinds import MATRICES, kind_of
from jointplda.formats import hdf5, zarr_matrix
from jointplda.formats.score_files import names_beside
from jointplda.score_stores.score_blocks import Grid


@dataclass(frozen=True)
class MatrixNames:
    """The names of the rows and columns of a matrix of scores.

    Attributes
    ----------
    models, samples : (n,), (m,) ndarray of str
        Names of the rows and of the columns, each name once.
    left_out : (k, 2) int64
        Pairs that are no trials, such as those of a sample and itself: lists do not have them, and the mask of a
        BOSARIS matrix marks them. Default: none.
    """

    models: Names
    samples: Names
    left_out: IntArray = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int64))


class ScoreStore(Protocol):
    """A matrix of scores that is being written at a ``path``, in the blocks of a ``grid``."""

    @property
    def path(self) -> Path:
        """The file or folder that is being written."""

    @property
    def grid(self) -> Grid:
        """The blocks of the matrix."""

    def create(self, names: MatrixNames | None) -> None:
        """Make the matrix, still to be filled, with the names of its rows and columns if there are any."""

    def write(self, number: int, block: AnyArray) -> None:
        """Write a block, and return when it is on disk."""

    def publish(self, target: Path) -> None:
        """Put the matrix, of which all blocks are written, and its names in their place."""


def store_in(folder: Path, target: Path, kind: str, grid: Grid, dtype: Any) -> ScoreStore:
    """The store in a folder of the matrix of a ``kind`` that is to become ``target``."""
    if kind == "zarr":
        return ZarrStore(folder / target.name, grid, np.dtype(dtype))
    return FlatStore(folder / target.name, grid, np.dtype(dtype), kind)


def matrix_kind(target: Path) -> str:
    """The kind of matrix that a name asks for."""
    kind = kind_of("scores", target)
    if kind not in MATRICES:
        raise InputError(f"{target}: a matrix is written as .npy, .h5, .hdf5 or .zarr; end the name in one of these.")
    return kind


@dataclass(frozen=True)
class FlatStore:
    """One file that holds the numbers row by row after a header: NumPy's .npy, or BOSARIS HDF5."""

    path: Path
    grid: Grid
    dtype: Any
    kind: str

    def create(self, names: MatrixNames | None) -> None:
        """Write the header, and take the room for the numbers, in one piece where the disk can do that."""
        shape = self.grid.shape
        if self.kind == "npy":
            with open(self.path, "wb") as file:
                header = {"descr": np.lib.format.dtype_to_descr(self.dtype), "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(file, header)
                file.truncate(file.tell() + shape[0] * shape[1] * self.dtype.itemsize)
            if names is not None:
                with names_beside(names.models, names.samples, self.path):
                    pass
        else:
            none = np.zeros((0, 2), dtype=np.int64)
            texts = {} if names is None else {"modelset": names.models, "segset": names.samples}
            left_out = none if names is None else names.left_out
            hdf5.create_matrix(self.path, "scores", shape, self.dtype, "score_mask", left_out, texts)
        with open(self.path, "r+b") as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, os.path.getsize(self.path))
            os.fsync(file.fileno())

    def write(self, number: int, block: AnyArray) -> None:
        """Write the rows of a block where they belong."""
        rows, columns = self.grid.slices(number)
        width, size = self.grid.shape[1], self.dtype.itemsize
        pieces = block[None] if block.shape[1] == width else block
        begin, stride = self._offset + (rows.start * width + columns.start) * size, width * size
        with open(self.path, "r+b", buffering=0) as file:
            for i, piece in enumerate(pieces):
                _write_at(file, begin + i * stride, np.ascontiguousarray(piece, dtype=self.dtype))
            os.fsync(file.fileno())

    def publish(self, target: Path) -> None:
        """Rename the files of the names, then that of the matrix."""
        for beside in (".rows", ".columns") if self.kind == "npy" else ():
            if self.path.with_suffix(beside).exists():
                os.replace(self.path.with_suffix(beside), target.with_suffix(beside))
        os.replace(self.path, target)
        sync_folder(target.parent)

    @property
    def _offset(self) -> int:
        """The byte at which the numbers begin."""
        if self.kind == "npy":
            with open(self.path, "rb") as file:
                np.lib.format.read_magic(file)
                np.lib.format.read_array_header_1_0(file)
                return file.tell()
        return hdf5.offset_of(self.path, "scores")


@dataclass(frozen=True)
class ZarrStore:
    """A Zarr folder, whose chunks are the blocks."""

    path: Path
    grid: Grid
    dtype: Any

    def create(self, names: MatrixNames | None) -> None:
        """Write the names and the description of the matrix."""
        pair = None if names is None else (names.models, names.samples)
        zarr_matrix.create_matrix(self.path, self.grid.shape, self.dtype, self.grid.block, pair)

    def write(self, number: int, block: AnyArray) -> None:
        """Write a block as the file of its chunk."""
        zarr_matrix.opened_matrix(self.path, for_writing=True)[self.grid.slices(number)] = block
        chunk = zarr_matrix.chunk_file(self.path, self.grid.place(number))
        with open(chunk, "rb") as file:
            os.fsync(file.fileno())
        for folder in (chunk.parent, chunk.parent.parent):
            sync_folder(folder)

    def publish(self, target: Path) -> None:
        """Put the folder in its place."""
        zarr_matrix.publish(self.path, target)


def _write_at(file: Any, offset: int, numbers: AnyArray) -> None:
    """Write all bytes of an array at a place in a file."""
    file.seek(offset)
    rest: Any = memoryview(cast(Any, numbers)).cast("B")
    while len(rest):
        rest = rest[file.write(rest) :]
