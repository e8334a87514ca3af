"""Samples projected on the latents.

Given z = [y, x^1, ..., x^K], log p(m | z) = phi' z - 1/2 z' G z + terms without z, with

    phi = W' D (m - mean),     G = W' D W,     W = [V, U_1, ..., U_K]

so phi (r numbers) is all that scoring needs of a sample. Latents that no two samples share are absorbed into the noise
first: D = (C + sum U U')^-1 over their conditions.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from jointplda._typing import Array
from jointplda.linalg import inverse, symmetric
from jointplda.model.parameters import CELL, CONDITION, Parameters

NEW = -1  # the number of a channel that is none of those that are numbered


@dataclass(frozen=True)
class Projection:
    """The map from samples to phi that keeps certain factors in z and absorbs the others into the noise.

    Attributes
    ----------
    mean : (d,)
    matrix : (d, r)
        D W.
    G : (r, r)
        W' D W.
    D, log_determinant : (d, d), float
        Precision of the noise with what it absorbed, and log |D^-1|.
    ranks : tuple of int
        Rank of each factor in z.
    """

    mean: Array
    matrix: Array
    G: Array
    D: Array
    log_determinant: float
    ranks: tuple[int, ...]

    @classmethod
    def of(cls, parameters: Parameters, factors: tuple[int, ...]) -> "Projection":
        """The projection that keeps these factors, numbered as in the parameters (0 is the speaker)."""
        noise = parameters.noise
        for k, U in enumerate(parameters.loadings):
            if k not in factors:
                noise = noise + U @ U.T
        W = np.concatenate([parameters.loadings[k] for k in factors], axis=1)
        D, log_det = inverse(noise)
        ranks = tuple(parameters.ranks[k] for k in factors)
        return cls(parameters.mean, D @ W, W.T @ D @ W, D, log_det, ranks)

    def project(self, X: Any) -> Array:
        """Phi of samples X (n, d): (n, r)."""
        return np.asarray((X - self.mean) @ self.matrix)

    def log_noise(self, X: Any) -> Array:
        """Log N(m; mean, D^-1) of samples X (n, d) without its 2 pi: (n,). Every evidence is relative to it."""
        centred = X - self.mean
        return np.asarray(-0.5 * np.sum((centred @ self.D) * centred, axis=1) - 0.5 * self.log_determinant)


class Projections:
    """All projections of a model; each is computed once.

    Attributes
    ----------
    parameters : Parameters
    conditions : tuple of int
        The conditions whose channels two samples can share, as factors: 1, 2, ...
    shareable : tuple of int
        All factors that two samples can share: the speaker, these conditions, and the cell, if any.
    """

    def __init__(self, parameters: Parameters) -> None:
        self.parameters, self.conditions = parameters, parameters.of_kind(CONDITION)
        self.shareable = (0, *self.conditions, *parameters.of_kind(CELL))
        self._made: dict[tuple[int, ...], Projection] = {}

    @property
    def shared(self) -> Projection:
        """The projection that keeps every factor that two samples can share."""
        return self.of(self.shareable)

    def of(self, factors: tuple[int, ...]) -> Projection:
        """The projection that keeps these factors."""
        if factors not in self._made:
            self._made[factors] = Projection.of(self.parameters, factors)
        return self._made[factors]


@dataclass(frozen=True)
class Gaussian:
    """Distributions N(mean, covariance) of latents z: many means (M, r), one covariance (r, r)."""

    means: Array
    covariance: Array


def log_evidence(prior: Gaussian, phi: Array, G: Array) -> tuple[Array, Array, Array]:
    """Log of the integral of N(z; mu, Delta) exp(phi' z - 1/2 z' G z), for every mu and every phi.

    Returns
    -------
    rows : (M,), columns : (n,), left : (M, r)
        The (M, n) result is ``rows[:, None] + columns + left @ phi.T``.

    Notes
    -----
    With K = (I + Delta G)^-1: phi' K mu - 1/2 mu' G K mu + 1/2 phi' K Delta phi - 1/2 log|I + Delta G|.
    """
    Delta = prior.covariance
    A = np.eye(len(G)) + Delta @ G
    K = np.linalg.inv(A)
    left = prior.means @ K.T
    rows = -0.5 * np.sum((prior.means @ G) * left, axis=1) - 0.5 * np.linalg.slogdet(A)[1]
    columns = 0.5 * np.sum((phi @ symmetric(K @ Delta)) * phi, axis=1)
    return rows, columns, left
