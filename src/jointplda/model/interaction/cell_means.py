"""Statistics of cell means, and of what is left within cells."""

from dataclasses import replace

import numpy as np

from jointplda.errors import InputError
from jointplda.linalg import symmetric
from jointplda.model.cell_sums import CellSums, WithinCells
from jointplda.model.statistics import Statistics
from jointplda.model.sums import PatternSums, sums_of_means


def cell_means(statistics: Statistics) -> tuple[Statistics, WithinCells]:
    """Statistics of cell means, one part for each cell size, and what is left within cells.

    Samples that lack a label are cells of their own, and stay as they are.
    """
    parts: dict[tuple[object, ...], PatternSums] = {}
    within = within_cells(statistics)
    for pattern, part in statistics.parts.items():
        if not all(pattern):
            parts[*pattern, 1.0] = part
            continue
        cells = _cells_of(part)
        for size in np.unique(cells.counts):
            chosen = (cells.counts == size).astype(np.float64)
            parts[*pattern, float(size)] = sums_of_means(cells, chosen, float(size))
    return replace(statistics, parts=parts), within  # type: ignore[arg-type]


def within_cells(statistics: Statistics) -> WithinCells:
    """What is left of the samples beside the means of their cells."""
    d = statistics.n_features
    scatter, freedom, log_counts = np.zeros((d, d)), 0.0, 0.0
    for pattern, part in statistics.parts.items():
        if all(pattern):
            cells = _cells_of(part)
            scatter += part.scatter
            for block in cells.blocks():
                scatter -= cells.means(block).T @ cells.sums[block]
            freedom += part.count - len(cells.counts)
            log_counts += float(np.log(cells.counts).sum())
    return WithinCells(symmetric(scatter), freedom, log_counts)


def _cells_of(part: PatternSums) -> CellSums:
    if part.cells is None:
        problem = "hold no sums of cells, which an interaction needs; make them with cells=True."
        raise InputError(problem, parameter="statistics")
    return part.cells


def held_cells(
    statistics: Statistics, kappa: float, *, shape_weight: float, residual_share: float = 1.0
) -> tuple[Statistics, WithinCells]:
    """Statistics of cell means where G G' = kappa C and kappa is known, and what is left within cells.

    A cell mean has noise C / a with a = n / (1 + kappa n), so it counts as a samples, and EM of the paper's model runs
    on all of them as one part. The terms of log|C| and of a that this misses are added to what is left within.

    ``shape_weight`` is 0 for maximum likelihood, and 1 where the scatter within cells is weighted down so that C takes
    the shape of C + G G' also where G G' is of another shape than C: its degrees of freedom then count as
    rho sum a (1 - 1/n) / sum (n - 1) each, with rho the share of the cell means that speakers and channels leave
    (``residual_share``). Between them they count as a mean of both.
    """
    parts: dict[tuple[bool, ...], PatternSums] = {}
    within = within_cells(statistics)
    weight, freedom, logs = 1.0, 0.0, 0.0
    for pattern, part in statistics.parts.items():
        if not all(pattern):
            parts[pattern] = replace(part, cell_size=1.0 / (1.0 + kappa))
            continue
        cells = _cells_of(part)
        n = cells.counts
        a = n / (1.0 + kappa * n)
        parts[pattern] = sums_of_means(cells, a)
        freedom += len(n) - float(a.sum())
        logs -= float(np.log(a).sum())
        if within.freedom > 0.0:
            counted = shape_weight * residual_share * float(np.sum(a * (1.0 - 1.0 / n))) / within.freedom
            weight = 1.0 - shape_weight + counted
    freedom, logs = freedom + weight * within.freedom, logs + weight * within.log_counts
    return replace(statistics, parts=parts), WithinCells(weight * within.scatter, freedom, logs)


def with_cell_factor(means: Statistics) -> Statistics:
    """Statistics of cell means with the cell as one more factor, of which every mean has a level of its own.

    That factor is therefore absorbed into the noise.
    """
    return Statistics((*means.labels, ()), (*means.conditions, "interaction"), means.shift, means.parts)
