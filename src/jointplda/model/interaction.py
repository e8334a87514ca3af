"""The interaction of speaker and channel in EM: statistics of cell means, and starts with an interaction."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

import numpy as np

from jointplda._typing import Array, IntArray
from jointplda.errors import InputError
from jointplda.linalg import cholesky, inverse, sums_by_level, symmetric
from jointplda.model.cell_sums import CellSums, WithinCells
from jointplda.model.estep import solve
from jointplda.model.kappa import NO_BELIEF, KappaPrior
from jointplda.model.layout import lay_out
from jointplda.model.parameters import Parameters
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
    share : float
        How far scoring counts on it; EM does not look at this.
    """

    form: str = "none"
    kappa: float = 0.0
    rank: int = 0
    prior: KappaPrior = NO_BELIEF
    share: float = 1.0

    @property
    def in_em(self) -> bool:
        """Whether EM has an interaction."""
        return self.form not in ("none", "split")

    def start(self, parameters: Parameters, kappa: float) -> Parameters:
        """Parameters without an interaction as a start of EM with one."""
        if self.form != "full":
            return Parameters(parameters.mean, parameters.loadings, parameters.noise, kappa)
        values, vectors = np.linalg.eigh(parameters.noise)
        G = (vectors * np.sqrt(kappa * values))[:, -self.rank :]
        return Parameters(parameters.mean, (*parameters.loadings, G), parameters.noise)


NO_INTERACTION = InteractionSettings()


@dataclass(frozen=True)
class CellProblem:
    """Statistics and parameters as EM takes them: cell means, with G as the loading of one more factor.

    Every cell mean has a level of its own of that factor, which is therefore absorbed into its noise.
    """

    statistics: Statistics
    within: WithinCells | None

    @classmethod
    def of(cls, statistics: Statistics, *, interacting: bool, full: bool) -> CellProblem:
        """The same statistics, or those of cell means."""
        if not interacting:
            return cls(statistics, None)
        means, within = cell_means(statistics)
        if full:
            labels, names = (*means.labels, ()), (*means.conditions, "interaction")
            means = Statistics(labels, names, means.shift, means.parts)
        return cls(means, within)

    def log_likelihood(self, parameters: Parameters) -> float:
        """Exact log p of the samples, all latents integrated out."""
        value = solve(lay_out(self.statistics, parameters.ranks), parameters).log_likelihood
        return value if self.within is None else value + self.within.log_likelihood(*inverse(parameters.noise))


def without_loading(parameters: Parameters, factors: int) -> tuple[Parameters, Array]:
    """Parameters of the first factors, and G: the last loading if there are more, else a root of kappa C."""
    if len(parameters.loadings) > factors:
        G = parameters.loadings[-1]
        return Parameters(parameters.mean, parameters.loadings[:-1], parameters.noise), G
    if not parameters.kappa:
        return parameters, np.zeros((len(parameters.mean), 0))
    return parameters, np.sqrt(parameters.kappa) * cholesky(parameters.noise)


def with_loading(parameters: Parameters, G: Array | None) -> Parameters:
    """Parameters with G as a last loading, if there is one."""
    if G is None:
        return parameters
    return Parameters(parameters.mean, (*parameters.loadings, G), parameters.noise, parameters.kappa)
