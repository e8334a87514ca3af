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


@dataclass(frozen=True)
class Assignment:
    """Levels of n samples, numbered from 0 within each factor.

    Attributes
    ----------
    codes : (n, factors) int64
        Level of each sample, the speaker first.
    """

    codes: IntArray

    def rows(self, projection: Projection) -> list[IntArray]:
        """Positions of the latents of each sample among all stacked latents, in the order of z."""
        starts, start = [], 0
        for k, rank in enumerate(projection.ranks):
            starts.append(start)
            start += (int(self.codes[:, k].max(initial=-1)) + 1) * rank
        return [
            np.concatenate(
                [
                    starts[k] + code * rank + np.arange(rank)
                    for k, (code, rank) in enumerate(zip(row, projection.ranks, strict=True))
                ]
            )
            for row in self.codes.tolist()
        ]

    def size(self, projection: Projection) -> int:
        """Number of stacked projection."""
        levels = self.codes.max(axis=0, initial=-1) + 1
        return int(levels @ np.array(projection.ranks))


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


def solve(assignment: Assignment, projection: Projection, prior: Array | None = None) -> Solved:
    """Build and factor Lambda; ``prior`` replaces the identity as the prior precision."""
    rows = assignment.rows(projection)
    Lambda = np.eye(assignment.size(projection)) if prior is None else prior.copy()
    for positions in rows:
        Lambda[np.ix_(positions, positions)] += projection.G
    factor = cholesky(Lambda)
    return Solved(rows, inverse_from_factor(factor), log_determinant(factor))
