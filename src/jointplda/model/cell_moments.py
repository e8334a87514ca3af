"""Covariances by the method of moments where speaker and channel interact, and kappa with a belief about it."""

from dataclasses import dataclass

import numpy as np

from jointplda._typing import Array
from jointplda.model.cell_sums import WithinCells
from jointplda.model.interaction import weighted_means, with_cell_condition
from jointplda.model.kappa import KappaPrior
from jointplda.model.moments import Covariances, design_rank, moment_covariances, residual_scatter
from jointplda.model.statistics import Statistics


@dataclass(frozen=True)
class CellResidual:
    """What is left of cell means beside a speaker's and a channel's least-squares mean.

    Attributes
    ----------
    scatter : (d, d)
        Its expectation is ``freedom`` (G G' + C ``inverse_size``).
    freedom : float
        Number of cells less the independent means: 0 where no speaker or no channel closes a circle of cells.
    inverse_size : float
        Mean of 1/n over the cells. The m cells of one speaker count as 1 - 1/m each; exact where cells are even.
    """

    scatter: Array
    freedom: float
    inverse_size: float


def cell_residual(statistics: Statistics) -> CellResidual:
    """Residual of the cell means of samples that have all labels."""
    part = next((part for pattern, part in statistics.parts.items() if all(pattern)), None)
    d = statistics.n_features
    if part is None or part.cells is None:
        return CellResidual(np.zeros((d, d)), 0.0, 1.0)
    codes, counts = part.cells.codes, part.cells.counts
    means = weighted_means(codes, part.cells.sums / counts[:, None], np.ones(len(counts)))
    freedom = float(len(counts) - design_rank(means))
    weights = 1.0 - 1.0 / np.bincount(codes[:, 0])[codes[:, 0]]
    inverse_size = float(np.average(1.0 / counts, weights=weights if freedom else None))
    return CellResidual(residual_scatter(means), freedom, inverse_size)


@dataclass(frozen=True)
class MomentKappa:
    """kappa, and the share of the belief in it: 1 where the data say nothing, 0 where only they do."""

    value: float
    believed: float


def moment_kappa(residual: CellResidual, within: WithinCells, belief: KappaPrior) -> MomentKappa:
    """Estimate kappa by moments, and draw it to the belief as by so many more degrees of freedom.

    The moment estimate is tr(residual per degree of freedom) / tr(C) - 1/n, with as many degrees of freedom as its
    numerator and denominator have together (their product over their sum).
    """
    if min(residual.freedom, within.freedom) <= 0.0:
        return MomentKappa(belief.value, 1.0)
    freedom = residual.freedom * within.freedom / (residual.freedom + within.freedom)
    ratio = np.trace(residual.scatter) / residual.freedom / (np.trace(within.scatter) / within.freedom)
    total = freedom * (float(ratio) - residual.inverse_size) + belief.weight * belief.value
    return MomentKappa(max(total / (freedom + belief.weight), 0.0), belief.weight / (freedom + belief.weight))


def cell_covariances(
    statistics: Statistics, within: WithinCells, belief: KappaPrior, kappa: float | None = None
) -> tuple[Covariances, MomentKappa]:
    """Covariances of a model with G G' = kappa C, and kappa: the given one, or that of the moments.

    A given kappa counts as believed where the cell means leave no residual.

    C is the scatter within cells and, divided by kappa + 1/n, that of the residuals of cell means, over their degrees
    of freedom.
    """
    residual = cell_residual(statistics)
    found = moment_kappa(residual, within, belief) if kappa is None else MomentKappa(kappa, float(not residual.freedom))
    kappa = found.value
    freedom = within.freedom + residual.freedom
    if freedom > 0.0:
        C = (within.scatter + residual.scatter / (kappa + residual.inverse_size)) / freedom
    else:
        C = moment_covariances(statistics).within / (1.0 + kappa)
    moments = moment_covariances(with_cell_condition(statistics), C, kappa * C)
    return Covariances(moments.between[:-1], C), found
