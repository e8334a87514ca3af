"""Sums over the samples with one missing-label pattern: those that have labels of the same factors."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import coo_array

from jointplda._disk_rows import Collector, Rows, row_slices
from jointplda._typing import Array, IntArray
from jointplda.linalg import add_by_level, sums_by_level, symmetric
from jointplda.model.cell_sums import CellSums, keeps_order, merged

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
        f_b, the sum of (m_i - shift) over the samples of each level; in a file where they do not fit into memory.
    """

    index: IntArray
    counts: Array
    sums: Rows

    def moved(self, step: Array) -> "Levels":
        """Return the sums after ``step`` (d,) is added to every sample."""
        sums = Collector(self.sums)
        for at in row_slices(len(self.index), len(step)):
            sums.add(self.sums[at] + self.counts[at, None] * step)
        return Levels(self.index, self.counts, sums.rows())

    def relabelled(self, new_index: IntArray) -> "Levels":
        """Return the same sums with level b renamed ``new_index[b]``."""
        index = new_index[self.index]
        if keeps_order(self.index, new_index):
            return Levels(index, self.counts, self.sums)
        return Levels(*merged(index, self.counts, np.asarray(self.sums)))


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

    def moved(self, step: Array) -> "PatternSums":
        """Return the sums of the same samples after ``step`` (d,) is added to each; this is exact."""
        if not step.any():
            return self
        cross = np.outer(self.total, step)
        return replace(
            self,
            total=self.total + self.count * step,
            scatter=self.scatter + cross + cross.T + self.count * np.outer(step, step),
            levels={k: v.moved(step) for k, v in self.levels.items()},
            cells=None if self.cells is None else self.cells.moved(step),
        )

    def relabelled(self, new_index: Callable[[int], IntArray]) -> "PatternSums":
        """Return the sums of the same samples, with level b of factor k renamed ``new_index(k)[b]``."""
        levels = {k: v.relabelled(new_index(k)) for k, v in self.levels.items()}
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


def sums_of_means(cells: CellSums, weights: Array, size: float = 1.0) -> PatternSums:
    """Weighted sums over the means of cells; those of weight 0 are left out. ``size`` is that of a cell."""
    used, d = weights != 0.0, cells.sums.shape[1]
    codes, positions, index = cells.codes, [], []
    for column in codes.T:
        levels, at = np.unique(column[used], return_inverse=True)
        place = np.zeros(len(column), dtype=np.int64)
        place[used] = at.reshape(-1)
        index.append(levels)
        positions.append(place)
    sums = [np.zeros((len(levels), d)) for levels in index[1:]]
    places = [np.zeros(len(levels), dtype=np.int64) for levels in index[1:]]
    speakers, total, scatter = Collector(cells.sums), np.zeros(d), np.zeros((d, d))
    for block in cells.blocks():
        at = np.flatnonzero(used[block])
        if not len(at):
            continue
        means, own = cells.means(block)[at], weights[block][at, None]
        weighted = means * own
        total += weighted.sum(axis=0)
        scatter += means.T @ weighted
        for k in range(1, codes.shape[1]):
            add_by_level(sums[k - 1], positions[k][block][at], weighted, places[k - 1])
        speaker = positions[0][block][at]
        speakers.add(sums_by_level(speaker - speaker[0], weighted, int(speaker[-1] - speaker[0]) + 1))
    counts = [np.bincount(place[used], weights[used], len(own)) for place, own in zip(positions, index, strict=True)]
    rows = [speakers.rows(), *sums]
    factors = range(codes.shape[1])
    tables = {k: Levels(index[k], counts[k].astype(np.float64), rows[k]) for k in factors}
    links = {
        (k, j): summed_links(codes[used, k], codes[used, j], weights[used]) for k in factors for j in factors if k < j
    }
    return PatternSums(float(weights.sum()), total, symmetric(scatter), tables, links, None, size)


def level_sum_blocks(parts: Sequence[PatternSums], k: int, number: int) -> Iterator[tuple[slice, Array]]:
    """Sums (levels, d) over all parts for consecutive slices of the ``number`` levels of factor k."""
    d = len(parts[0].total)
    own = [part.levels[k] for part in parts if k in part.levels]
    for rows in row_slices(number, d):
        sums = np.zeros((rows.stop - rows.start, d))
        for levels in own:
            start, stop = np.searchsorted(levels.index, [rows.start, rows.stop]).tolist()
            sums[levels.index[start:stop] - rows.start] += levels.sums[start:stop]
        yield rows, sums


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
    return Levels(*merged(index, counts, np.concatenate([np.asarray(a.sums), np.asarray(b.sums)])))
