"""Covariances by the method of moments where speaker and channel interact, and kappa with a prior of it."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, diags_array, hstack

from jointplda._typing import Array, IntArray
from jointplda.linalg import spans, symmetric
from jointplda.model.cell_sums import WithinCells
from jointplda.model.interaction.cell_means import with_cell_condition
from jointplda.model.kappa import KappaPrior
from jointplda.model.moment_covariances import Covariances, moment_covariances
from jointplda.model.statistics import Statistics
from jointplda.model.sums import PatternSums, sums_of_cells

MOST_LEVELS = 2000
ROWS = 4096


@dataclass(frozen=True)
class CellResidual:
    """What is left of cell means beside a speaker's and a channel's least-squares mean.

    Attributes
    ----------
    scatter : (d, d)
        Its expectation is ``freedom`` (G G' + C ``inverse_size``).
    freedom : float
        Number of cells less the independent means: 0 where no circle of cells is closed.
    inverse_size : float
        Mean of 1/n over the cells, weighted by 1 - h with h the leverage of each cell mean.
    cells : int
        Number of cells.
    """

    scatter: Array
    freedom: float
    inverse_size: float
    cells: int

    @property
    def share(self) -> float:
        """Degrees of freedom per cell."""
        return self.freedom / max(self.cells, 1)


def cell_residual(statistics: Statistics) -> CellResidual:
    """Residual of the cell means of samples that have all labels.

    With speakers swept out, A and b the normal equations of the channels, and n~ a swept row of indicators,

        residual scatter = sum_k (m_k - mbar_s)(m_k - mbar_s)' - b' A^- b,     h_k = 1 / m_s + n~_k' A^- n~_k

    where speaker s has m_s cells. Of more than 2,000 channels those with most cells are used. A cell that has a channel
    to itself leaves no residual and no degree of freedom, so it is not looked at.
    """
    part = next((part for pattern, part in statistics.parts.items() if all(pattern)), None)
    d = statistics.n_features
    if part is None or part.cells is None or part.cells.codes.shape[1] < 2:
        return CellResidual(np.zeros((d, d)), 0.0, 1.0, 0)
    chosen, alone = _frequent(part.cells.codes)
    codes, counts = part.cells.codes[chosen], part.cells.counts[chosen]
    if not len(codes):
        return CellResidual(np.zeros((d, d)), 0.0, 1.0, alone)
    means = part.cells.means[chosen]
    sums = sums_of_cells(codes, means, np.ones(len(counts)))
    of_speakers, tables = sums.levels[0], sums.link_tables()
    table = hstack([tables[0, k] for k in range(1, codes.shape[1])], format="csr")
    inverse, rank = _swept_inverse(sums, table)
    freedom = float(len(counts) - len(of_speakers.counts) - rank)
    if freedom <= 0.0:
        return CellResidual(np.zeros((d, d)), 0.0, float(np.mean(1.0 / counts)), len(counts) + alone)
    speakers, rows = np.searchsorted(of_speakers.index, codes[:, 0]), _swept_rows(codes, of_speakers.counts, table)
    centred = means - (of_speakers.sums / of_speakers.counts[:, None])[speakers]
    b = rows.T @ centred
    left = 1.0 - 1.0 / of_speakers.counts[speakers]
    for start in range(0, len(codes), ROWS):
        block = np.asarray(rows[start : start + ROWS].todense())
        left[start : start + ROWS] -= np.sum((block @ inverse) * block, axis=1)
    scatter = centred.T @ centred - b.T @ inverse @ b
    inverse_size = float(np.maximum(left, 0.0) @ (1.0 / counts)) / freedom
    return CellResidual(symmetric(scatter), freedom, inverse_size, len(counts) + alone)


def _frequent(codes: IntArray) -> tuple[IntArray, int]:
    """Rows of cells whose channels are among those with most cells, at most ``MOST_LEVELS`` of all conditions, but for
    cells that have a channel to themselves; and the number of these.
    """
    kept, alone, most = np.ones(len(codes), dtype=bool), np.zeros(len(codes), dtype=bool), MOST_LEVELS
    for column in codes[:, 1:].T:
        _, level, sizes = np.unique(column, return_inverse=True, return_counts=True)
        frequent = np.ones(len(sizes), dtype=bool)
        if np.count_nonzero(sizes > 1) > most // (codes.shape[1] - 1):
            frequent[np.argsort(-sizes, kind="stable")[most // (codes.shape[1] - 1) :]] = False
        kept &= frequent[level.reshape(-1)]
        alone |= (sizes == 1)[level.reshape(-1)]
    return np.flatnonzero(kept & ~alone), int(np.count_nonzero(kept & alone))


def _swept_inverse(sums: PatternSums, table: csr_array) -> tuple[Array, int]:
    """Generalised inverse of A = N' N - table' diag(1 / m_s) table, N the indicators of channels, and the rank of A.

    ``table`` (speakers, levels) has the cells of each speaker in each channel. The rank is the number of independent
    channel means beside those of speakers.
    """
    gram = -np.asarray((table.T @ (diags_array(1.0 / sums.levels[0].counts) @ table)).todense(), dtype=np.float64)
    places = spans(len(sums.levels[k].index) for k in range(1, len(sums.levels)))
    for k, own in enumerate(places, start=1):
        gram[own, own] += np.diag(sums.levels[k].counts)
    for (k, j), linked in sums.link_tables().items():
        if k > 0:
            first, second = places[k - 1], places[j - 1]
            gram[first, second] += linked.todense()
            gram[second, first] += linked.todense().T
    values, vectors = np.linalg.eigh(symmetric(gram))
    kept = values > 1e-9 * max(float(np.max(np.diagonal(gram), initial=0.0)), 1e-300)
    return (vectors[:, kept] / values[kept]) @ vectors[:, kept].T, int(kept.sum())


def _swept_rows(codes: IntArray, counts: Array, table: csr_array) -> csr_array:
    """n~ of every cell: its indicators of channels less the mean of those of its speaker, sparse (K, levels)."""
    speakers, *channels = [np.unique(column, return_inverse=True)[1] for column in codes.T]
    ones, ends = np.ones(len(codes)), np.arange(len(codes) + 1)
    own = hstack([csr_array((ones, channel, ends)) for channel in channels], format="csr")
    return csr_array(own - csr_array(diags_array(1.0 / counts) @ table)[speakers])


@dataclass(frozen=True)
class MomentKappa:
    """kappa, the share of its prior in it, and the share of the cell means that speakers and channels leave.

    The prior has a share of 1 where the data say nothing about kappa, and of 0 where only they do.
    """

    value: float
    prior_share: float
    residual_share: float


def moment_kappa(residual: CellResidual, within: WithinCells, prior: KappaPrior) -> MomentKappa:
    """Estimate kappa by moments, and draw it to its prior as by so many more degrees of freedom.

    The moment estimate is tr(residual per degree of freedom) / tr(C) - 1/n, with as many degrees of freedom as its
    numerator and denominator have together (their product over their sum).
    """
    if min(residual.freedom, within.freedom) <= 0.0:
        return MomentKappa(prior.value, 1.0, residual.share)
    freedom = residual.freedom * within.freedom / (residual.freedom + within.freedom)
    ratio = np.trace(residual.scatter) / residual.freedom / (np.trace(within.scatter) / within.freedom)
    total = freedom * (float(ratio) - residual.inverse_size) + prior.weight * prior.value
    prior_share = prior.weight / (freedom + prior.weight)
    return MomentKappa(max(total / (freedom + prior.weight), 0.0), prior_share, residual.share)


def cell_covariances(
    statistics: Statistics, within: WithinCells, prior: KappaPrior, kappa: float | None = None
) -> tuple[Covariances, MomentKappa]:
    """Covariances of a model with G G' = kappa C, and kappa: the given one, or that of the moments.

    A given kappa counts as prior_share where the cell means leave no residual.

    C is the scatter within cells and, divided by kappa + 1/n, that of the residuals of cell means, over their degrees
    of freedom.
    """
    residual = cell_residual(statistics)
    found = (
        moment_kappa(residual, within, prior)
        if kappa is None
        else MomentKappa(kappa, float(not residual.freedom), residual.share)
    )
    kappa = found.value
    freedom = within.freedom + residual.freedom
    if freedom > 0.0:
        C = (within.scatter + residual.scatter / (kappa + residual.inverse_size)) / freedom
    else:
        C = moment_covariances(statistics).within / (1.0 + kappa)
    moments = moment_covariances(with_cell_condition(statistics), C, kappa * C)
    return Covariances(moments.between[:-1], C), found
