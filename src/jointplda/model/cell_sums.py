"""Cells: the samples of one speaker in one channel of every condition, and statistics of their means.

With an interaction of speaker and channel the samples of a cell share a deviation G w ~ N(0, G G') of their own:

    m_i = mean + V y_s + U x_c + G w_sc + e_i,      e ~ N(0, C)

A cell of n samples with mean m_k and scatter S_k around it has the density

    log p = log N(m_k; mean + V y + U x, G G' + C / n) - (n - 1)/2 log|2 pi C| - 1/2 tr(D S_k) - d/2 log n

so EM runs on cell means, one part of the statistics for each size n, and the scatter within cells is one matrix in all.
A sample that lacks the label of some condition is a cell of its own.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from jointplda._disk_rows import Collector, Rows, row_slices
from jointplda._typing import Array, IntArray
from jointplda.linalg import sums_by_level


@dataclass(frozen=True)
class CellSums:
    """Number and sum of the samples of every cell.

    Attributes
    ----------
    codes : (K, factors) int64
        Levels of each cell, of the factors that its samples have labels of, in the order of the factors; rows sorted.
    counts : (K,)
        n_k, the number (or weight) of samples.
    sums : (K, d)
        Sum of (m_i - shift); in a file where they do not fit into memory.
    """

    codes: IntArray
    counts: Array
    sums: Rows

    def blocks(self) -> Iterator[slice]:
        """Consecutive slices of a bounded size; all cells of a speaker are in one of them."""
        speakers, stop = self.codes[:, 0], 0
        for piece in row_slices(len(speakers), self.sums.shape[1]):
            start, stop = stop, max(stop, piece.stop)
            if stop < len(speakers):
                stop = int(np.searchsorted(speakers, speakers[stop - 1], side="right"))
            if stop > start or not len(speakers):
                yield slice(start, stop)

    def means(self, cells: slice = slice(None)) -> Array:
        """Mean of (m_i - shift) of these cells, (k, d)."""
        return self.sums[cells] / self.counts[cells, None]

    def moved(self, step: Array) -> "CellSums":
        """Return the sums after ``step`` (d,) is added to every sample."""
        sums = Collector(self.sums)
        for at in self.blocks():
            sums.add(self.sums[at] + self.counts[at, None] * step)
        return CellSums(self.codes, self.counts, sums.rows())

    def relabelled(self, factors: list[int], new_index: Callable[[int], IntArray]) -> "CellSums":
        """Return the same cells with level b of factor k renamed ``new_index(k)[b]``."""
        codes = np.stack([new_index(k)[self.codes[:, i]] for i, k in enumerate(factors)], axis=1)
        if all(keeps_order(self.codes[:, i], new_index(k)) for i, k in enumerate(factors)):
            return CellSums(codes, self.counts, self.sums)
        return CellSums(*merged(codes, self.counts, np.asarray(self.sums)))

    def only(self, factors: list[int], kept: Mapping[int, int]) -> "CellSums":
        """Return the cells of the same samples with only these factors, renumbered (old number: new number).

        The speaker stays the first of them, so that the cells of a block make cells of their own.
        """
        columns = [i for _, i in sorted((kept[k], i) for i, k in enumerate(factors) if k in kept)]
        codes, counts, sums = [], [], Collector(self.sums)
        for at in self.blocks():
            fewer = merged(self.codes[at, columns], self.counts[at], self.sums[at])
            codes.append(fewer[0])
            counts.append(fewer[1])
            sums.add(fewer[2])
        return CellSums(np.concatenate(codes), np.concatenate(counts), sums.rows())

    def __add__(self, other: "CellSums") -> "CellSums":
        codes = np.concatenate([self.codes, other.codes])
        counts = np.concatenate([self.counts, other.counts])
        return CellSums(*merged(codes, counts, np.concatenate([np.asarray(self.sums), np.asarray(other.sums)])))


def merged(codes: IntArray, counts: Array, sums: Array) -> tuple[IntArray, Array, Array]:
    """Add up the counts and sums of equal codes (n,), or of equal rows of codes (n, k), which come out sorted."""
    distinct, which = np.unique(codes, return_inverse=True) if codes.ndim == 1 else numbered_rows(codes)
    totals = np.bincount(which, counts, len(distinct)).astype(np.float64)
    return distinct, totals, sums_by_level(which, sums, len(distinct))


def keeps_order(index: IntArray, new_index: IntArray) -> bool:
    """Whether levels ``index`` (n,) stay apart and in order when level b is renamed ``new_index[b]``."""
    return bool(np.all(np.diff(new_index[np.unique(index)]) > 0))


def numbered_rows(codes: IntArray) -> tuple[IntArray, IntArray]:
    """The distinct rows of codes (n, k), in order, and the position of each among them."""
    if not len(codes):
        return codes, np.zeros(0, dtype=np.int64)
    sizes = tuple((codes.max(axis=0) + 1).tolist())
    if math.prod(sizes) > np.iinfo(np.int64).max:
        distinct, which = np.unique(codes, axis=0, return_inverse=True)
        return distinct, which.reshape(-1)
    keys, which = np.unique(np.ravel_multi_index(tuple(codes.T), sizes), return_inverse=True)
    return np.stack(np.unravel_index(keys, sizes), axis=1).astype(np.int64), which.reshape(-1)


@dataclass(frozen=True)
class WithinCells:
    """What is left of the samples beside the means of their cells.

    Attributes
    ----------
    scatter : (d, d)
        Sum of S_k, the scatter of each cell around its mean.
    freedom : float
        Sum of (n_k - 1).
    log_counts : float
        Sum of log n_k.
    """

    scatter: Array
    freedom: float
    log_counts: float

    def log_likelihood(self, D: Array, log_determinant: float) -> float:
        """Log-density of the samples given their cell means, for noise D^-1 of log-determinant log |C|."""
        d = len(D)
        constant = d * float(np.log(2.0 * np.pi)) + log_determinant
        return -0.5 * (float(np.vdot(D, self.scatter)) + self.freedom * constant + d * self.log_counts)
