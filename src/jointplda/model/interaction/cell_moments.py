"""Covariances by the method of moments where speaker and channel interact, and kappa with a prior of it."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, diags_array, hstack

from jointplda._typing import Array, IntArray
from jointplda.linalg import sums_by_level, symmetric
from jointplda.model.cell_sums import WithinCells
from jointplda.model.kappa import KappaPrior
from jointplda.model.moment_covariances import Covariances, moment_covariances
from jointplda.model.statistics import Statistics
from jointplda.model.swept_levels import generalised_inverse, swept_gram

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
    numbers = [np.unique(column, return_inverse=True, return_counts=True)[1:] for column in codes.T]
    speakers, per_speaker = numbers[0][0].reshape(-1), numbers[0][1].astype(np.float64)
    rows, A = _swept_rows(numbers), _swept_gram(numbers)
    inverse, rank = generalised_inverse(A)
    freedom = float(len(counts) - len(per_speaker) - rank)
    if freedom <= 0.0:
        return CellResidual(np.zeros((d, d)), 0.0, float(np.mean(1.0 / counts)), len(counts) + alone)
    scatter, b = np.zeros((d, d)), np.zeros((rows.shape[1], d))
    for block in part.cells.blocks():
        start, stop = np.searchsorted(chosen, [block.start, block.stop]).tolist()
        if stop > start:
            centred = _centred(part.cells.means(block)[chosen[start:stop] - block.start], speakers[start:stop])
            scatter += centred.T @ centred
            b += rows[start:stop].T @ centred
    left = 1.0 - 1.0 / per_speaker[speakers]
    for start in range(0, len(codes), ROWS):
        dense = np.asarray(rows[start : start + ROWS].todense())
        left[start : start + ROWS] -= np.sum((dense @ inverse) * dense, axis=1)
    scatter -= b.T @ inverse @ b
    inverse_size = float(np.maximum(left, 0.0) @ (1.0 / counts)) / freedom
    return CellResidual(symmetric(scatter), freedom, inverse_size, len(counts) + alone)


def _centred(means: Array, speakers: IntArray) -> Array:
    """Cell means (k, d) less the mean of those of their speaker; ``speakers`` (k,) are numbered in order."""
    own = speakers - speakers[0]
    counts = np.bincount(own)
    return np.asarray(means - (sums_by_level(own, means, len(counts)) / counts[:, None])[own])


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


def _table(numbers: list[tuple[IntArray, IntArray]]) -> csr_array:
    """The cells of each speaker in each channel, sparse (S, levels of all conditions)."""
    speakers, ones = numbers[0][0], np.ones(len(numbers[0][0]))
    shape = len(numbers[0][1])
    tables = [csr_array((ones, (speakers, at)), shape=(shape, len(sizes))) for at, sizes in numbers[1:]]
    return csr_array(hstack(tables, format="csr"))


def _swept_gram(numbers: list[tuple[IntArray, IntArray]]) -> csr_array:
    """A = N' N - table' diag(1 / m_s) table, N the indicators of channels, sparse (levels, levels).

    ``numbers`` has, for the speaker and each condition, the level of each cell and the number of cells of each level.
    """
    others = numbers[1:]
    linked = {
        (k, j): csr_array((np.ones(len(a)), (a, b)), shape=(len(of_a), len(of_b)))
        for k, (a, of_a) in enumerate(others)
        for j, (b, of_b) in enumerate(others)
        if k < j
    }
    counts = numbers[0][1].astype(np.float64)
    return swept_gram(counts, _table(numbers), [sizes.astype(np.float64) for _, sizes in others], linked)


def _swept_rows(numbers: list[tuple[IntArray, IntArray]]) -> csr_array:
    """n~ of every cell: its indicators of channels less the mean of those of its speaker, sparse (K, levels)."""
    cells = len(numbers[0][0])
    ones, ends = np.ones(cells), np.arange(cells + 1)
    own = hstack([csr_array((ones, at, ends), shape=(cells, len(sizes))) for at, sizes in numbers[1:]], format="csr")
    return csr_array(own - csr_array(diags_array(1.0 / numbers[0][1]) @ _table(numbers))[numbers[0][0]])


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
    return moment_covariances(statistics, C, kappa * C), found
