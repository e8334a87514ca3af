"""The interaction of speaker and channel in EM: statistics of cell means, and starts with an interaction."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

import numpy as np

from jointplda._typing import Array, IntArray
from jointplda.errors import InputError
from jointplda.linalg import cholesky, inverse, sums_by_level, symmetric
from jointplda.model.cell_sums import CellSums, WithinCells
from jointplda.model.estep import Solution, solve
from jointplda.model.kappa import NO_BELIEF, KappaPrior
from jointplda.model.layout import Layout, lay_out
from jointplda.model.parameters import CELL, Factor, Parameters
from jointplda.model.statistics import Statistics
from jointplda.model.sums import Levels, PatternSums, summed_links


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
        means = cells.sums / cells.counts[:, None]
        for size in np.unique(cells.counts):
            rows = np.flatnonzero(cells.counts == size)
            parts[*pattern, float(size)] = weighted_means(
                cells.codes[rows], means[rows], np.ones(len(rows)), float(size)
            )
    reduced = Statistics(statistics.labels, statistics.conditions, statistics.shift, parts)  # type: ignore[arg-type]
    return reduced, within


def within_cells(statistics: Statistics) -> WithinCells:
    """What is left of the samples beside the means of their cells."""
    d = statistics.n_features
    scatter, freedom, log_counts = np.zeros((d, d)), 0.0, 0.0
    for pattern, part in statistics.parts.items():
        if all(pattern):
            cells = _cells_of(part)
            weighted = cells.sums / cells.counts[:, None] * np.sqrt(cells.counts)[:, None]
            scatter += part.scatter - weighted.T @ weighted
            freedom += part.count - len(cells.counts)
            log_counts += float(np.log(cells.counts).sum())
    return WithinCells(symmetric(scatter), freedom, log_counts)


def _cells_of(part: PatternSums) -> CellSums:
    if part.cells is None:
        problem = "hold no sums of cells, which an interaction needs; make them with cells=True."
        raise InputError(problem, parameter="statistics")
    return part.cells


def held_cells(
    statistics: Statistics, kappa: float, *, even: float, residual_share: float = 1.0
) -> tuple[Statistics, WithinCells]:
    """Statistics of cell means where G G' = kappa C and kappa is known, and what is left within cells.

    A cell mean has noise C / a with a = n / (1 + kappa n), so it counts as a samples, and EM of the paper's model runs
    on all of them as one part. The terms of log|C| and of a that this misses are added to what is left within.

    With ``even`` = 1 the degrees of freedom within cells count as rho sum a (1 - 1/n) / sum (n - 1) each, where rho is
    the share of the cell means that speakers and channels leave (``residual_share``). C is then of the shape of
    C + G G' where G G' is of another shape than C. With 0 they count as 1, which is maximum likelihood; between them
    as a mean of both.
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
        parts[pattern] = weighted_means(cells.codes, cells.sums / n[:, None], a)
        freedom += len(n) - float(a.sum())
        logs -= float(np.log(a).sum())
        if within.freedom > 0.0:
            weight = 1.0 - even + even * residual_share * float(np.sum(a * (1.0 - 1.0 / n))) / within.freedom
    freedom, logs = freedom + weight * within.freedom, logs + weight * within.log_counts
    means = Statistics(statistics.labels, statistics.conditions, statistics.shift, parts)
    return means, WithinCells(weight * within.scatter, freedom, logs)


def weighted_means(codes: IntArray, means: Array, weights: Array, size: float = 1.0) -> PatternSums:
    """Weighted sums over the means (K, d) of cells, whose levels are the rows of codes (K, factors)."""
    levels, weighted = {}, means * weights[:, None]
    for k in range(codes.shape[1]):
        index, which = np.unique(codes[:, k], return_inverse=True)
        which = which.reshape(-1)
        counts = np.bincount(which, weights, len(index)).astype(np.float64)
        levels[k] = Levels(index, counts, sums_by_level(which, weighted, len(index)))
    factors = range(codes.shape[1])
    links = {(k, j): summed_links(codes[:, k], codes[:, j], weights) for k in factors for j in factors if k < j}
    total, scatter = weighted.sum(axis=0), means.T @ weighted
    return PatternSums(float(weights.sum()), total, symmetric(scatter), levels, links, None, size)


def with_cell_condition(statistics: Statistics) -> Statistics:
    """The same statistics with the cell as one more condition; samples that lack a label lack this one too."""
    parts: dict[tuple[bool, ...], PatternSums] = {}
    labels: tuple[Hashable, ...] = ()
    for pattern, part in statistics.parts.items():
        if not all(pattern) or part.cells is None:
            parts[*pattern, False] = part
            continue
        cells, at = part.cells, len(pattern) + 1
        index = np.arange(len(cells.counts))
        labels = tuple(map(tuple, cells.codes.tolist()))
        links = {(k, at): summed_links(cells.codes[:, k], index, cells.counts) for k in range(at)}
        levels = {**part.levels, at: Levels(index, cells.counts, cells.sums)}
        parts[*pattern, True] = PatternSums(part.count, part.total, part.scatter, levels, {**part.links, **links})
    return Statistics((*statistics.labels, labels), (*statistics.conditions, "cell"), statistics.shift, parts)


@dataclass(frozen=True)
class InteractionSettings:
    """How the interaction of speaker and channel is fitted.

    Attributes
    ----------
    form : {"none", "fixed", "proportional", "full", "split"}
        No interaction (the paper); kappa given; kappa estimated; G estimated; V V' divided after EM without one.
    kappa : float
        The value given, or believed.
    rank : int
        Columns of G in the full form.
    prior : KappaPrior
        Belief about kappa in the proportional form.
    """

    form: str = "none"
    kappa: float = 0.0
    rank: int = 0
    prior: KappaPrior = NO_BELIEF

    @property
    def in_em(self) -> bool:
        """Whether EM has an interaction."""
        return self.form not in ("none", "split")

    def start(self, parameters: Parameters, kappa: float) -> Parameters:
        """Parameters without an interaction as a start of EM with one."""
        if self.form != "full":
            return parameters
        values, vectors = np.linalg.eigh(parameters.noise)
        G = (vectors * np.sqrt(kappa * values))[:, -self.rank :]
        return with_cell(parameters, G)


NO_INTERACTION = InteractionSettings()


def with_cell(parameters: Parameters, G: Array) -> Parameters:
    """The same parameters with a cell of loading G (d, r) of any shape."""
    return replace(parameters, factors=(*parameters.factors, Factor("cell", G, CELL)))


def with_proportional_cell(parameters: Parameters, kappa: float) -> Parameters:
    """The same parameters with a cell of loading G, G G' = kappa C; without one if kappa is 0."""
    if not kappa:
        return parameters
    cell = Factor("cell", np.sqrt(kappa) * cholesky(parameters.noise), CELL, kappa)
    return replace(parameters, factors=(*parameters.factors, cell))


def with_cell_share(parameters: Parameters, share: float) -> Parameters:
    """Parameters whose cell shares only this part of G G'; the rest is noise, and a share of 0 leaves no cell."""
    if parameters.cell is None or share == 1.0:
        return parameters
    G, others = parameters.cell.loading, parameters.without_cell()
    shared = replace(parameters.cell, loading=np.sqrt(share) * G, kappa=None)
    factors = (*others.factors, shared) if share else others.factors
    return Parameters(parameters.mean, factors, parameters.noise + (1.0 - share) * (G @ G.T))


def with_cell_factor(means: Statistics) -> Statistics:
    """Statistics of cell means with the cell as one more factor, of which every mean has a level of its own.

    That factor is therefore absorbed into the noise.
    """
    return Statistics((*means.labels, ()), (*means.conditions, "interaction"), means.shift, means.parts)


@dataclass(frozen=True)
class CellProblem:
    """Samples and a model as EM takes them: the means of cells, whose noise is (1/n + kappa) C or has a factor G.

    Attributes
    ----------
    statistics : Statistics
        Of the samples, or of the means of their cells if the model has a cell.
    parameters : Parameters
        The model; without its cell where that is in proportion to the noise.
    kappa : float
    within : WithinCells or None
        What is left of the samples beside the means of their cells.
    """

    statistics: Statistics
    parameters: Parameters
    kappa: float = 0.0
    within: WithinCells | None = None

    @classmethod
    def of(cls, statistics: Statistics, parameters: Parameters) -> CellProblem:
        """The problem of these samples under a model with the same factors."""
        if parameters.cell is None:
            return cls(statistics, parameters)
        means, within = cell_means(statistics)
        if parameters.cell.kappa is not None:
            return cls(means, parameters.without_cell(), parameters.cell.kappa, within)
        return cls(with_cell_factor(means), parameters, 0.0, within)

    def solved(self, eliminated: int | None = None, *, keep_rows: bool = False) -> tuple[Layout, Solution]:
        """The layout of the samples, and the posterior of all latents that they share."""
        layout = lay_out(self.statistics, self.parameters.ranks, eliminated, keep_rows)
        return layout, solve(layout, self.parameters, self.kappa)

    def log_likelihood(self, solution: Solution) -> float:
        """Exact log p of the samples, all latents integrated out."""
        if self.within is None:
            return solution.log_likelihood
        return solution.log_likelihood + self.within.log_likelihood(*inverse(self.parameters.noise))
