"""A matrix of scores as blocks, each of which is computed when it is asked for."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Protocol, Self

from jointplda._parallel import COLUMNS, ROWS
from jointplda._typing import AnyArray

BLOCK = 4096  # rows and columns of a block, 64 MB in float32


class Calibration(Protocol):
    """What turns scores into calibrated ones."""

    def apply(self, scores: AnyArray) -> AnyArray:
        """Calibrated scores."""


@dataclass(frozen=True)
class ScoreBlocks:
    """The scores of a model, (n, m), which are computed block by block.

    Attributes
    ----------
    shape : (int, int)
        Numbers of enrollment and of test samples, or of models and test samples.
    dtype : dtype
        Type of the scores.
    compute : callable
        (rows, columns) -> the scores of these two slices, as an array that the caller may overwrite.
    origin : mapping
        What the scores depend on, by the words that messages use: the model, embeddings and settings. An unfinished
        file is gone on with only if all of it is as before.
    """

    shape: tuple[int, int]
    dtype: Any
    compute: Callable[[slice, slice], AnyArray]
    origin: Mapping[str, Any]

    def calibrated(self, calibration: Calibration) -> Self:
        """The same scores after a further calibration."""

        def compute(rows: slice, columns: slice) -> AnyArray:
            block = self.compute(rows, columns)
            block[...] = calibration.apply(block.ravel()).reshape(block.shape)
            return block

        return replace(self, compute=compute, origin={**self.origin, "the calibration applied last": calibration})


@dataclass(frozen=True)
class Grid:
    """The blocks of a matrix, numbered row by row.

    Attributes
    ----------
    shape : (int, int)
        Shape of the matrix.
    block : (int, int)
        Shape of a block; those at the lower and right edge may be smaller.
    """

    shape: tuple[int, int]
    block: tuple[int, int]

    @classmethod
    def of(cls, shape: tuple[int, int], *, whole_rows: bool = False) -> Self:
        """Blocks of a size that suits memory and files, made of whole pieces of ``fill_matrix``.

        With ``whole_rows`` they are as wide as the matrix, unless that leaves them few rows.
        """
        rows = BLOCK * BLOCK // shape[1] // ROWS * ROWS
        if whole_rows and rows:
            return cls(shape, (min(rows, shape[0]), shape[1]))
        return cls(shape, (_side(shape[0], ROWS), _side(shape[1], COLUMNS)))

    def __len__(self) -> int:
        return ceil(self.shape[0] / self.block[0]) * self.across

    @property
    def across(self) -> int:
        """Number of blocks side by side."""
        return ceil(self.shape[1] / self.block[1])

    def place(self, number: int) -> tuple[int, int]:
        """Row and column of a block among the blocks."""
        return divmod(number, self.across)

    def slices(self, number: int) -> tuple[slice, slice]:
        """Rows and columns of a block in the matrix."""
        rows, columns = (
            slice(at * size, min((at + 1) * size, end))
            for at, size, end in zip(self.place(number), self.block, self.shape, strict=True)
        )
        return rows, columns


def _side(length: int, piece: int) -> int:
    """Length of the blocks of a side: equal ones of whole pieces, up to ``BLOCK``; all of it if that is shorter."""
    equal = ceil(length / ceil(length / BLOCK))
    return min(length, ceil(equal / piece) * piece)
