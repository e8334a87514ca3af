"""The evidence of samples under an assignment to speakers and channels.

An assignment says which level of every factor each sample carries. Relative to noise alone, and with a prior
N(mu, P^-1) of all latents, by default standard normal,

    log p(samples | assignment) = 1/2 eta' Lambda^-1 eta - 1/2 log|Lambda| + 1/2 log|P| - 1/2 mu' P mu
    Lambda = P + sum_i P_i' G P_i,     eta = P mu + sum_i P_i' phi_i

where P_i selects the latents that sample i carries. Lambda depends on the assignment only, so samples with equal
assignments share its factorisation.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from jointplda._typing import Array, IntArray
from jointplda.linalg import inverse
from jointplda.scoring.projection import Projection


def apart(codes: IntArray) -> IntArray:
    """Levels (n,) in which every -1 is a level of its own, above all others."""
    alone = codes < 0
    return np.where(alone, int(codes.max(initial=-1)) + np.cumsum(alone), codes)


@dataclass(frozen=True)
class Stack:
    """The latents of all levels of an assignment, one after the other.

    Attributes
    ----------
    codes : (n, factors) int64
        Level of each sample, numbered from 0 within each factor: the speaker, the conditions, and the cell, if any.
    ranks : tuple of int
        Number of latents of a level of each factor.
    """

    codes: IntArray
    ranks: tuple[int, ...]

    @classmethod
    def of(cls, codes: IntArray, projection: Projection) -> "Stack":
        """Stack the latents of speakers and channels ``codes``; a cell, where there are any, is a distinct row."""
        if len(projection.ranks) > codes.shape[1]:
            cells = np.unique(codes, axis=0, return_inverse=True)[1].reshape(-1, 1).astype(np.int64)
            codes = np.concatenate([codes, cells], axis=1)
        return cls(codes, projection.ranks)

    @cached_property
    def starts(self) -> IntArray:
        """Where the latents of each factor begin, and their number."""
        sizes = (self.codes.max(axis=0, initial=-1) + 1) * np.array(self.ranks)
        return np.concatenate([[0], np.cumsum(sizes)])

    def latents(self, factor: int, level: int) -> IntArray:
        """Positions of the latents of a level."""
        rank = self.ranks[factor]
        return np.arange(rank) + int(self.starts[factor] + level * rank)

    @cached_property
    def of_samples(self) -> list[IntArray]:
        """Positions of the latents that each sample carries."""
        return [np.concatenate([self.latents(k, int(b)) for k, b in enumerate(row)]) for row in self.codes]


@dataclass(frozen=True)
class Solved:
    """An assignment with Lambda^-1, log |Lambda|, and P mu and the constant of its prior."""

    stack: Stack
    covariance: Array
    log_determinant: float
    eta: Array
    constant: float

    def sums(self, phi: Array) -> Array:
        """Eta for many sets of samples: phi (M, n, r) -> (M, size)."""
        eta = np.tile(self.eta, (len(phi), 1))
        for i, positions in enumerate(self.stack.of_samples):
            eta[:, positions] += phi[:, i]
        return eta

    def log_evidence(self, eta: Array) -> Array:
        """Log p of sets of samples with these eta (M, size), relative to noise alone: (M,)."""
        squares = np.sum((eta @ self.covariance) * eta, axis=1)
        return np.asarray(0.5 * squares - 0.5 * self.log_determinant + self.constant)


def solve(stack: Stack, projection: Projection) -> Solved:
    """Build and factor Lambda of an assignment whose latents are standard normal."""
    size = int(stack.starts[-1])
    return solve_with_prior(stack, projection, np.eye(size), np.zeros(size), 0.0)


def solve_with_prior(stack: Stack, projection: Projection, Lambda: Array, eta: Array, constant: float) -> Solved:
    """The same for any prior: Lambda is P at first, eta P mu, and the constant 1/2 log|P| - 1/2 mu' P mu."""
    for positions in stack.of_samples:
        Lambda[np.ix_(positions, positions)] += projection.G
    return Solved(stack, *inverse(Lambda), eta, constant)
