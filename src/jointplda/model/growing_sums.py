"""Statistics of samples that come a chunk at a time; sums that do not fit into memory go to files."""

from collections.abc import Hashable, Iterator
from pathlib import Path

import numpy as np

from jointplda._disk_rows import Collector, DiskRows, Rows, Scratch
from jointplda._typing import Array, IntArray
from jointplda.errors import InputError
from jointplda.linalg import add_by_level, sums_by_level, symmetric
from jointplda.model.cell_sums import CellSums, merged
from jointplda.model.row_sums import patterns
from jointplda.model.statistics import Pattern, Statistics
from jointplda.model.sums import Levels, PatternSums, summed_links

RANGE_SHARE = 0.25  # of the room: what the cells of one range of speakers take, which are merged in memory


class GrowingSums:
    """Sums by cell, level and in all, of chunks of samples whose labels are known beforehand.

    The sums of the channels stay in memory, and those of speakers and cells as long as they take less than ``room``
    bytes. Beyond that they go to files by ranges of speakers, and come back range by range, so that the result is that
    of memory, whatever the order of the samples.

    Parameters
    ----------
    labels : tuple of tuples
        All labels of the speakers, then of each condition, as in ``Statistics``.
    conditions : tuple of str
    shift : (d,)
        What samples are summed around, near their mean.
    cells : bool
        Whether sums by cell are kept, which a fit with an interaction needs.
    room : float
        Bytes for sums of speakers and cells.
    samples : int
        Number of samples that are to come, or more.
    folder : path, optional
        Where temporary files are made.
    """

    def __init__(
        self,
        labels: tuple[tuple[Hashable, ...], ...],
        conditions: tuple[str, ...],
        shift: Array,
        *,
        cells: bool = False,
        room: float = np.inf,
        samples: int = 0,
        folder: Path | None = None,
    ) -> None:
        self._labels, self._conditions, self._shift, self._cells = labels, conditions, shift, cells
        self._room, self._samples, self._folder = room, samples, folder
        self._parts: dict[Pattern, _Part] = {}
        self._scratch: Scratch | None = None

    def add(self, X: Array, codes: IntArray) -> None:
        """Add samples X (n, d) whose labels have these codes (n, 1 + conditions), -1 where a channel is missing."""
        values = np.asarray(X, dtype=np.float64) - self._shift
        for pattern, rows in patterns(codes[:, 1:]):
            part, own = self._part(pattern, values.shape[1]), slice(None) if len(rows) == len(codes) else rows
            part.add(values[own], codes[own][:, part.factors])
        self._make_room()

    def add_statistics(self, statistics: Statistics) -> None:
        """Add the sums of other samples, whose labels are among those of these sums, under the same conditions."""
        numbers = [{label: i for i, label in enumerate(labels)} for labels in self._labels]
        places = [
            np.fromiter((numbers[k][label] for label in labels), np.int64, len(labels))
            for k, labels in enumerate(statistics.labels)
        ]
        step = statistics.shift - self._shift
        for pattern, part in statistics.parts.items():
            own = self._part(pattern, len(step))
            own.add_sums(part, step, [places[k] for k in own.factors])
            for block, cells in _cells_of(part):
                codes = np.stack([places[k][cells.codes[block, i]] for i, k in enumerate(own.factors)], axis=1)
                moved = cells.sums[block] + cells.counts[block, None] * step
                own.keep(merged(codes, cells.counts[block], moved))
                self._make_room()

    def _part(self, pattern: Pattern, d: int) -> "_Part":
        if pattern not in self._parts:
            factors = [0, *(k + 1 for k, observed in enumerate(pattern) if observed)]
            self._parts[pattern] = _Part(factors, [len(self._labels[k]) for k in factors], d)
        return self._parts[pattern]

    def _make_room(self) -> None:
        """Merge cells where they take too much room, and write them to files where that is not enough."""
        if sum(part.bytes for part in self._parts.values()) > self._room:
            for part in self._parts.values():
                part.merge()
            if sum(part.bytes for part in self._parts.values()) > 0.5 * self._room:
                self._spill()

    def _spill(self) -> None:
        if self._scratch is None:
            self._scratch = Scratch(self._folder)
        for part in self._parts.values():
            part.spill(self._scratch, self._ranges(part))

    def _ranges(self, part: "_Part") -> int:
        """Number of ranges of speakers whose cells fit into memory, even if no two samples share a cell."""
        whole = 8.0 * self._samples * part.width
        return int(np.clip(np.ceil(whole / (RANGE_SHARE * self._room)), 4, 4096))

    def statistics(self) -> Statistics:
        """The statistics of all samples that were added. Nothing can be added afterwards.

        Where there is a limit to the room, sums of speakers and cells are in files in the end, so that what follows
        takes no more of them into memory than it needs at a time.
        """
        if np.isfinite(self._room):
            self._spill()
        parts = {pattern: part.sums(self._scratch, self._cells) for pattern, part in self._parts.items()}
        return Statistics(self._labels, self._conditions, self._shift, parts)


class _Part:
    """Sums of the samples with one missing-label pattern, of factors with so many levels each."""

    def __init__(self, factors: list[int], sizes: list[int], d: int) -> None:
        self.factors, self.sizes, self.width = factors, sizes, len(factors) + 1 + d
        self.count, self.total, self.scatter, self.weighted = 0.0, np.zeros(d), np.zeros((d, d)), False
        self.level_sums = [np.zeros((size, d)) for size in sizes[1:]]
        self.places = [np.zeros(size, dtype=np.int64) for size in sizes[1:]]
        self.cells: list[tuple[IntArray, Array, Array]] = []
        self.bytes = 0
        self.files: list[Path] = []

    def add(self, values: Array, codes: IntArray) -> None:
        """Add samples around the shift (n, d), with codes (n, factors)."""
        self.count += len(values)
        self.total += values.sum(axis=0)
        self.scatter += values.T @ values
        for k, sums in enumerate(self.level_sums):
            add_by_level(sums, codes[:, k + 1], values, self.places[k])
        self.keep(merged(codes, np.ones(len(codes)), values))

    def add_sums(self, part: PatternSums, step: Array, places: list[IntArray]) -> None:
        """Add the sums of other samples, moved by ``step`` (d,), but for those of their cells.

        ``places`` has the level here of every level of each factor there.
        """
        cross = np.outer(part.total, step)
        self.count += part.count
        self.total += part.total + part.count * step
        self.scatter += part.scatter + cross + cross.T + part.count * np.outer(step, step)
        self.weighted |= part.weighted
        for k, place, sums in zip(self.factors[1:], places[1:], self.level_sums, strict=True):
            own = part.levels[k].moved(step)
            sums[place[own.index]] += own.sums

    def keep(self, cells: tuple[IntArray, Array, Array]) -> None:
        self.cells.append(cells)
        self.bytes += 8 * self.width * len(cells[0])

    def merge(self) -> None:
        """Bring together what belongs to one cell."""
        if len(self.cells) > 1:
            codes, counts, sums = (np.concatenate(column) for column in zip(*self.cells, strict=True))
            self.cells, self.bytes = [], 0
            self.keep(merged(codes, counts, sums))

    def spill(self, scratch: Scratch, ranges: int) -> None:
        """Write the cells to the files of their ranges of speakers, as rows of codes, count and sums."""
        if not self.files:
            self.files = [scratch.new() for _ in range(ranges)]
        width = -(-self.sizes[0] // len(self.files))
        self.merge()
        for codes, counts, sums in self.cells:
            ends = np.searchsorted(codes[:, 0], width * np.arange(len(self.files) + 1))
            for path, start, stop in zip(self.files, ends[:-1], ends[1:], strict=True):
                own = slice(start, stop)
                if stop > start:
                    scratch.append(path, np.concatenate([codes[own], counts[own, None], sums[own]], axis=1))
        self.cells, self.bytes = [], 0

    def _ranges(self, scratch: Scratch | None) -> Iterator[tuple[IntArray, Array, Array]]:
        """The merged cells, by ranges of speakers."""
        if scratch is None or not self.files:
            self.merge()
            yield from self.cells
            return
        k = len(self.factors)
        for path in self.files:
            if path.exists():
                rows = DiskRows(path, (path.stat().st_size // (8 * self.width), self.width), scratch)[:]
                path.unlink()
                yield merged(rows[:, :k].astype(np.int64), rows[:, k], rows[:, k + 1 :])

    def sums(self, scratch: Scratch | None, keep_cells: bool) -> PatternSums:
        """All sums, in files if some went there."""
        d, like = len(self.total), np.zeros((0, len(self.total)))
        kind: Rows = like if scratch is None else DiskRows(scratch.new(), (0, d), scratch)
        of_cells, of_speakers = Collector(kind), Collector(kind)
        codes, counts, speakers = [], [], []
        numbers: list[Array] = []
        for own, number, sums in self._ranges(scratch):
            codes.append(own)
            counts.append(number)
            index, which = np.unique(own[:, 0], return_inverse=True)
            speakers.append(index)
            numbers.append(np.bincount(which, number, len(index)).astype(np.float64))
            of_speakers.add(sums_by_level(which, sums, len(index)))
            if keep_cells:
                of_cells.add(sums)
        all_codes, weights = np.concatenate(codes), np.concatenate(counts)
        levels = {0: Levels(np.concatenate(speakers), np.concatenate(numbers), of_speakers.rows())}
        for i, k in enumerate(self.factors[1:], start=1):
            own_counts = np.bincount(all_codes[:, i], weights, self.sizes[i]).astype(np.float64)
            used = np.flatnonzero(own_counts)
            levels[k] = Levels(used, own_counts[used], self.level_sums[i - 1][used])
        links = {
            (k, j): summed_links(all_codes[:, a], all_codes[:, b], weights)
            for a, k in enumerate(self.factors)
            for b, j in enumerate(self.factors)
            if a < b
        }
        cells = CellSums(all_codes, weights, of_cells.rows()) if keep_cells else None
        scatter = symmetric(self.scatter)
        return PatternSums(self.count, self.total, scatter, levels, links, cells, weighted=self.weighted)


def _cells_of(part: PatternSums) -> Iterator[tuple[slice, CellSums]]:
    """The cells of a part, a block at a time; its speakers where it has no other factor."""
    cells = part.cells
    if cells is None and len(part.levels) == 1:
        cells = CellSums(part.levels[0].index[:, None], part.levels[0].counts, part.levels[0].sums)
    if cells is None:
        problem = "hold no sums of cells, without which sums of several files cannot be kept small; make them anew."
        raise InputError(problem, parameter="statistics")
    for block in cells.blocks():
        yield block, cells
