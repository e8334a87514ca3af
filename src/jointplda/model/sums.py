"""Sums over the samples with one missing-label pattern: those that have labels of the same factors."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import coo_array, csr_array

from jointplda._typing import Array, IntArray
from jointplda.linalg import symmetric
from jointplda.model.cell_sums import CellSums, merged

Pair = tuple[int, int]


@dataclass(frozen=True)
class Links:
    """Number of samples that carry each pair of levels of two factors: sparse, as triples sorted by (row, column)."""

    rows: IntArray
    columns: IntArray
    counts: Array


@dataclass(frozen=True)
class Levels:
    """Number and sum of the samples of each level of a factor, for the levels that occur.

    Attributes
    ----------
    index : (l,) int64
        Levels that occur, increasing.
    counts : (l,)
        n_b, the number (or weight) of the samples of each level.
    sums : (l, d)
        f_b, the sum of (m_i - shift) over the samples of each level.
    """

    index: IntArray
    counts: Array
    sums: Array


@dataclass(frozen=True)
class PatternSums:
    """What EM needs of the samples with one missing-label pattern.

    Attributes
    ----------
    count : float
        N, the number (or weight) of samples.
    total : (d,)
        sum of (m_i - shift).
    scatter : (d, d)
        S = sum of (m_i - shift)(m_i - shift)'.
    levels : dict of Levels
        By factor (0 is the speaker), for the factors that these samples have labels of.
    links : dict of Links
        By pair (k, l) of these factors, k < l.
    cells : CellSums or None
        Sums by cell, where an interaction of speaker and channel may be asked for.
    cell_size : float
        n, where these are not samples but the means of cells of n samples each.
    weighted : bool
        Whether some sample counts as more or fewer than one.
    """

    count: float
    total: Array
    scatter: Array
    levels: Mapping[int, Levels]
    links: Mapping[Pair, Links]
    cells: CellSums | None = None
    cell_size: float = 1.0
    weighted: bool = False

    def link_tables(self) -> dict[Pair, csr_array]:
        """Links as sparse tables between the levels that occur, by pair of factors."""
        tables = {}
        for (k, j), links in self.links.items():
            ends = [np.searchsorted(self.levels[f].index, at) for f, at in ((k, links.rows), (j, links.columns))]
            shape = (len(self.levels[k].index), len(self.levels[j].index))
            tables[k, j] = coo_array((links.counts, tuple(ends)), shape=shape).tocsr()
        return tables

    def moved(self, step: Array) -> "PatternSums":
        """Return the sums of the same samples after ``step`` (d,) is added to each; this is exact."""
        if not step.any():
            return self
        cross = np.outer(self.total, step)
        return replace(
            self,
            total=self.total + self.count * step,
            scatter=self.scatter + cross + cross.T + self.count * np.outer(step, step),
            levels={k: Levels(v.index, v.counts, v.sums + v.counts[:, None] * step) for k, v in self.levels.items()},
            cells=None if self.cells is None else self.cells.moved(step),
        )

    def relabelled(self, new_index: Callable[[int], IntArray]) -> "PatternSums":
        """Return the sums of the same samples, with level b of factor k renamed ``new_index(k)[b]``."""
        levels = {k: Levels(*merged(new_index(k)[v.index], v.counts, v.sums)) for k, v in self.levels.items()}
        links = {
            (k, j): summed_links(new_index(k)[v.rows], new_index(j)[v.columns], v.counts)
            for (k, j), v in self.links.items()
        }
        cells = None if self.cells is None else self.cells.relabelled(sorted(self.levels), new_index)
        return replace(self, levels=levels, links=links, cells=cells)

    def only(self, factors: Mapping[int, int]) -> "PatternSums":
        """Return the sums of the same samples with only these factors, renumbered (old number: new number)."""
        links = {}
        for (k, j), v in self.links.items():
            if k in factors and j in factors:
                a, b = factors[k], factors[j]
                links[min(a, b), max(a, b)] = v if a < b else summed_links(v.columns, v.rows, v.counts)
        levels = {factors[k]: v for k, v in self.levels.items() if k in factors}
        cells = None if self.cells is None else self.cells.only(sorted(self.levels), factors)
        return replace(self, levels=levels, links=links, cells=cells)

    def __add__(self, other: "PatternSums") -> "PatternSums":
        return replace(
            self,
            count=self.count + other.count,
            total=self.total + other.total,
            scatter=self.scatter + other.scatter,
            levels={k: _joined(v, other.levels[k]) for k, v in self.levels.items()},
            links={
                pair: summed_links(
                    np.concatenate([v.rows, other.links[pair].rows]),
                    np.concatenate([v.columns, other.links[pair].columns]),
                    np.concatenate([v.counts, other.links[pair].counts]),
                )
                for pair, v in self.links.items()
            },
            cells=None if self.cells is None or other.cells is None else self.cells + other.cells,
            weighted=self.weighted or other.weighted,
        )


def sums_of_cells(codes: IntArray, means: Array, weights: Array, size: float = 1.0) -> PatternSums:
    """Weighted sums over the means (K, d) of cells, or over samples; the rows of codes (K, factors) are levels."""
    weighted = means * weights[:, None]
    factors = range(codes.shape[1])
    levels = {k: Levels(*merged(codes[:, k], weights, weighted)) for k in factors}
    links = {(k, j): summed_links(codes[:, k], codes[:, j], weights) for k in factors for j in factors if k < j}
    total, scatter = weighted.sum(axis=0), means.T @ weighted
    return PatternSums(float(weights.sum()), total, symmetric(scatter), levels, links, None, size)


def summed_links(rows: IntArray, columns: IntArray, counts: Array) -> Links:
    """Add up the counts of equal (row, column) pairs."""
    if len(rows) == 0:
        return Links(rows, columns, counts)
    shape = (int(rows.max()) + 1, int(columns.max()) + 1)
    table = coo_array((counts, (rows, columns)), shape=shape).tocsr()
    table.sum_duplicates()
    merged = table.tocoo()
    return Links(merged.row.astype(np.int64), merged.col.astype(np.int64), merged.data)


def _joined(a: Levels, b: Levels) -> Levels:
    index, counts = np.concatenate([a.index, b.index]), np.concatenate([a.counts, b.counts])
    return Levels(*merged(index, counts, np.concatenate([a.sums, b.sums])))
