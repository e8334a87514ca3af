"""Listed pairs of samples as entries of the matrix of their distinct samples."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from jointplda._parallel import COLUMNS, ROWS, Fill, in_pieces
from jointplda._typing import AnyArray, IntArray


@dataclass(frozen=True)
class ListedPairs:
    """Pairs of rows of two sides.

    Attributes
    ----------
    rows, columns : (n,), (m,) int64
        The distinct rows of either side.
    places : (pairs, 2) int64
        Position of each pair among these: its place in their matrix.
    """

    rows: IntArray
    columns: IntArray
    places: IntArray

    @classmethod
    def of(cls, pairs: IntArray) -> Self:
        """From pairs (n, 2) of rows."""
        (rows, i), (columns, j) = (_distinct(side) for side in pairs.T)
        return cls(rows, columns, np.stack([i, j], axis=1))

    @property
    def share(self) -> float:
        """Number of pairs over the size of the matrix."""
        return len(self.places) / max(1, len(self.rows) * len(self.columns))

    def fill(self, fill: Fill, out: AnyArray, threads: int | None = None) -> None:
        """Write the value of every pair, from the pieces of the matrix that hold some; memory is that of a piece."""
        pieces = self.places // (ROWS, COLUMNS)
        across = -(-len(self.columns) // COLUMNS)
        codes = pieces[:, 0] * across + pieces[:, 1]
        order = np.argsort(codes, kind="stable")
        ends = np.searchsorted(codes[order], np.arange(across * -(-len(self.rows) // ROWS) + 1))

        def work(each: slice) -> None:
            for code in range(each.start, each.stop):
                members = order[ends[code] : ends[code + 1]]
                if len(members):
                    top, left = code // across * ROWS, code % across * COLUMNS
                    rows, columns = self.rows[top : top + ROWS], self.columns[left : left + COLUMNS]
                    piece = np.empty((len(rows), len(columns)), dtype=out.dtype)
                    fill(rows, columns, piece)
                    i, j = self.places[members].T
                    out[members] = piece[i - top, j - left]

        in_pieces(work, len(ends) - 1, 1, threads)


def _distinct(side: IntArray) -> tuple[IntArray, IntArray]:
    """The distinct numbers of a side, sorted, and the position of each number among them."""
    present = np.zeros(int(side.max(initial=-1)) + 1, dtype=np.bool_)
    present[side] = True
    position = np.cumsum(present) - 1
    return np.flatnonzero(present), position[side]
