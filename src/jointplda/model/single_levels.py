"""Channels of one sample, such as a session label for every recording, as channels without a label.

The model is the same: a latent that belongs to one sample is absorbed into its noise, at no cost in size.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from jointplda._disk_rows import DiskRows
from jointplda._typing import Array, IntArray
from jointplda.model.cell_sums import CellSums
from jointplda.model.statistics import Statistics
from jointplda.model.sums import Levels, Links, PatternSums, sums_of_means


def single_levels(statistics: Statistics, k: int) -> IntArray:
    """Levels of condition k (1 or more) that one sample carries; none where samples are weighted, or sums in files."""
    parts = statistics.parts.values()
    if not statistics.labels[k] or any(part.weighted or isinstance(part.levels[0].sums, DiskRows) for part in parts):
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero(statistics.level_counts(k) == 1.0)


def without_single_levels(statistics: Statistics) -> Statistics:
    """Statistics of the same samples, which lack a label of each condition whose level no other sample carries."""
    single = {k: single_levels(statistics, k) for k in range(1, len(statistics.labels))}
    if not any(len(levels) for levels in single.values()):
        return statistics
    parts: dict[tuple[bool, ...], PatternSums] = {}
    for pattern, part in statistics.parts.items():
        for to, moved in _divided(part, single):
            key = tuple(has_label and k not in to for k, has_label in enumerate(pattern, start=1))
            parts[key] = parts[key] + moved if key in parts else moved
    kept = {k: np.delete(np.arange(len(labels)), single.get(k, [])) for k, labels in enumerate(statistics.labels)}
    new_index = {k: _new_index(kept[k], len(labels)) for k, labels in enumerate(statistics.labels)}
    labels = tuple(tuple(of[b] for b in kept[k]) for k, of in enumerate(statistics.labels))
    parts = {key: part.relabelled(new_index.__getitem__) for key, part in parts.items()}
    return replace(statistics, labels=labels, parts=parts)


def _new_index(kept: IntArray, levels: int) -> IntArray:
    index = np.full(levels, -1)
    index[kept] = np.arange(len(kept))
    return index


def _divided(part: PatternSums, single: dict[int, IntArray]) -> list[tuple[tuple[int, ...], PatternSums]]:
    """The samples of a part by the conditions whose levels they carry alone, without these conditions."""
    factors = sorted(part.levels)
    codes, samples = _samples_alone(part, single, factors)
    if not len(codes):
        return [((), part)]
    alone = np.stack([np.isin(codes[:, i], single.get(k, [])) for i, k in enumerate(factors)], axis=1)
    result: list[tuple[tuple[int, ...], PatternSums]] = []
    rest = part + _sums(codes, samples, -1.0, factors, cells=part.cells is not None)
    if rest.count > 0.5:
        result.append(((), _without_empty(rest)))
    for pattern in np.unique(alone, axis=0):
        rows = np.flatnonzero((alone == pattern).all(axis=1))
        to = tuple(k for k, is_alone in zip(factors, pattern, strict=True) if is_alone)
        sums = _sums(codes[rows], samples[rows], 1.0, factors, cells=part.cells is not None)
        result.append((to, sums.only({k: k for k in factors if k not in to})))
    return result


def _samples_alone(part: PatternSums, single: dict[int, IntArray], factors: list[int]) -> tuple[IntArray, Array]:
    """Levels (n, factors) and vectors (n, d) of the samples that carry some level alone."""
    codes, samples = [np.zeros((0, len(factors)), dtype=np.int64)], [np.zeros((0, len(part.total)))]
    for k in factors:
        own = part.levels[k]
        rows = np.flatnonzero(np.isin(own.index, single.get(k, [])))
        code = np.empty((len(rows), len(factors)), dtype=np.int64)
        for j, m in enumerate(factors):
            code[:, j] = own.index[rows] if m == k else _partners(part.links, k, m, own.index[rows])
        codes.append(code)
        samples.append(np.asarray(own.sums)[rows])
    distinct, first = np.unique(np.concatenate(codes), axis=0, return_index=True)
    return distinct, np.concatenate(samples)[first]


def _partners(links: Mapping[tuple[int, int], Links], k: int, m: int, levels: IntArray) -> IntArray:
    """The one level of factor m that shares a sample with each of these levels of factor k."""
    pairs = links[min(k, m), max(k, m)]
    own, other = (pairs.rows, pairs.columns) if k < m else (pairs.columns, pairs.rows)
    order = np.argsort(own, kind="stable")
    return other[order[np.searchsorted(own[order], levels)]]


def _sums(codes: IntArray, samples: Array, sign: float, factors: list[int], *, cells: bool) -> PatternSums:
    """Sums over these samples, each counted ``sign`` times."""
    weights = np.full(len(codes), sign)
    of_columns = sums_of_means(CellSums(codes, np.ones(len(codes)), samples), weights)
    sums = of_columns.only(dict(enumerate(factors)))
    return replace(sums, cells=CellSums(codes, weights, sign * samples) if cells else None)


def _without_empty(part: PatternSums) -> PatternSums:
    """The same sums without levels, pairs and cells of no sample."""

    def levels(v: Levels) -> Levels:
        used = v.counts > 0.5
        return Levels(v.index[used], v.counts[used], np.asarray(v.sums)[used])

    def links(v: Links) -> Links:
        used = v.counts > 0.5
        return Links(v.rows[used], v.columns[used], v.counts[used])

    cells = part.cells
    if cells is not None:
        used = cells.counts > 0.5
        cells = CellSums(cells.codes[used], cells.counts[used], np.asarray(cells.sums)[used])
    return replace(
        part,
        levels={k: levels(v) for k, v in part.levels.items()},
        links={pair: links(v) for pair, v in part.links.items()},
        cells=cells,
    )
