"""The evidence of samples under an assignment to speakers and channels.

An assignment says which level of every factor each sample carries. Relative to noise alone, and with a standard normal
prior of all latents,

    log p(samples | assignment) = 1/2 eta' Lambda^-1 eta - 1/2 log|Lambda|
    Lambda = I + sum_i P_i' G P_i,     eta = sum_i P_i' phi_i

where P_i selects the latents that sample i carries. Lambda depends on the assignment only, so samples with equal
assignments share its factorisation.
"""

from dataclasses import dataclass

import numpy as np

from jointplda._typing import Array, IntArray
from jointplda.linalg import cholesky, inverse_from_factor, log_determinant
from jointplda.scoring.projection import Projection


def with_cells(codes: IntArray, projection: Projection) -> IntArray:
    """Levels (n, factors) with the cell of each sample as a last factor, where the projection keeps one.

    A cell is a speaker with one combination of channels.
    """
    if len(projection.ranks) == codes.shape[1]:
        return codes
    cells = np.unique(codes, axis=0, return_inverse=True)[1].reshape(-1, 1).astype(np.int64)
    return np.concatenate([codes, cells], axis=1)


@dataclass(frozen=True)
class Solved:
    """Lambda^-1 and log |Lambda| of an assignment, with the positions of the latents of each sample."""

    rows: list[IntArray]
    covariance: Array
    log_determinant: float

    def sums(self, phi: Array) -> Array:
        """Eta for many sets of samples: phi (M, n, r) -> (M, size)."""
        eta = np.zeros((len(phi), len(self.covariance)))
        for i, rows in enumerate(self.rows):
            eta[:, rows] += phi[:, i]
        return eta

    def log_evidence(self, eta: Array) -> Array:
        """1/2 eta' Lambda^-1 eta - 1/2 log|Lambda| for eta (M, size): (M,)."""
        result: Array = 0.5 * np.sum((eta @ self.covariance) * eta, axis=1) - 0.5 * self.log_determinant
        return result


def solve(codes: IntArray, projection: Projection, prior: Array | None = None) -> Solved:
    """Build and factor Lambda of an assignment.

    Parameters
    ----------
    codes : (n, factors) int64
        Level of each sample, numbered from 0 within each factor: the speaker, then the conditions.
    prior : (size, size), optional
        Prior precision of all stacked latents; default: the identity.
    """
    codes = with_cells(codes, projection)
    sizes = (codes.max(axis=0, initial=-1) + 1) * np.array(projection.ranks)
    starts = np.cumsum(sizes) - sizes
    rows = [
        np.concatenate([a + b * r + np.arange(r) for a, b, r in zip(starts, sample, projection.ranks, strict=True)])
        for sample in codes
    ]
    Lambda = np.eye(int(sizes.sum())) if prior is None else prior.copy()
    for positions in rows:
        Lambda[np.ix_(positions, positions)] += projection.G
    factor = cholesky(Lambda)
    return Solved(rows, inverse_from_factor(factor), log_determinant(factor))
