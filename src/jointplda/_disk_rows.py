"""Rows of numbers that are kept in a file where they would not fit into memory, and read a slice at a time."""

import shutil
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from jointplda._typing import Array
from jointplda.errors import FileError

NUMBERS_AT_ONCE = 2**21  # 16 MiB of double precision


class Scratch:
    """A folder for temporary files, which is removed with the last of the rows that are in it.

    ``folder`` is where it is made; by default the system's folder for temporary files (``TMPDIR``).
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        try:
            self.folder = Path(tempfile.mkdtemp(prefix="jointplda-", dir=folder))
        except OSError as error:
            raise FileError(
                f"{folder or tempfile.gettempdir()}: no temporary files can be written ({error})."
            ) from None
        self.number = 0
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    def new(self) -> Path:
        """The name of a file that does not exist yet."""
        self.number += 1
        return self.folder / f"{self.number}.rows"

    def append(self, path: Path, values: Array) -> None:
        """Write numbers at the end of a file."""
        try:
            with open(path, "ab") as stream:
                np.ascontiguousarray(values).tofile(stream)
        except OSError as error:
            problem = f"{path}: could not write temporary numbers ({error}). Free some space there, or set TMPDIR."
            raise FileError(problem) from None


@dataclass(frozen=True)
class DiskRows:
    """A matrix (n, d) of double precision in a file; a slice of its rows is read when it is asked for.

    Attributes
    ----------
    path : Path
    shape : (n, d)
    scratch : Scratch or None
        The folder of the file, which stays as long as these rows do; None for a file that is no temporary one.
    offset : int
        Bytes before the first row.
    """

    path: Path
    shape: tuple[int, int]
    scratch: Scratch | None = None
    offset: int = 0

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> Array:
        start, stop, _ = rows.indices(self.shape[0])
        number, width = max(stop - start, 0), self.shape[1]
        if not number:
            return np.zeros((0, width))
        values = np.fromfile(self.path, np.float64, number * width, offset=self.offset + 8 * start * width)
        if values.size != number * width:
            raise FileError(f"{self.path}: the file was cut short while it was in use.")
        return values.reshape(number, width)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self[:], dtype=dtype)


Rows: TypeAlias = Array | DiskRows
"""A matrix in memory or in a file; slices of rows are arrays."""


class Collector:
    """Takes blocks of rows one after the other: in memory, or to a file if the rows ``like`` them are in one."""

    def __init__(self, like: Rows) -> None:
        self._like, self._number = like, 0
        self._blocks: list[Array] = []
        self._scratch = (like.scratch or Scratch()) if isinstance(like, DiskRows) else None
        self._path = None if self._scratch is None else self._scratch.new()

    def add(self, block: Array) -> None:
        """Take the next rows (n, d)."""
        self._number += len(block)
        if self._path is None or self._scratch is None:
            self._blocks.append(block)
        else:
            self._scratch.append(self._path, block)

    def rows(self) -> Rows:
        """All rows."""
        width = self._like.shape[1]
        if self._path is not None:
            return DiskRows(self._path, (self._number, width), self._scratch)
        return self._blocks[0] if len(self._blocks) == 1 else np.concatenate([np.zeros((0, width)), *self._blocks])


def row_slices(number: int, width: int) -> Iterator[slice]:
    """Consecutive slices of so many rows, each of which holds a bounded quantity of numbers; at least one."""
    step = max(1, NUMBERS_AT_ONCE // max(width, 1))
    for start in range(0, max(number, 1), step):
        yield slice(start, min(start + step, number))
