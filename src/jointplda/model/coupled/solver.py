"""The protocol of the solvers of the coupled levels, and what they are given.

After elimination the coupled latents x have the precision P and the mean P^-1 Phi. A solver is made for the links of
a set of samples, and then solves for one P after the other, as the parameters change.
"""

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from jointplda._typing import Array
from jointplda.model.eliminated import Precision

Blocks = dict[tuple[int, int], Array]  # by a pair of numbers, which are those of parts and of factors


@dataclass(frozen=True)
class MeanPrecision:
    """The same for the noise precision D averaged over the samples that have labels of the factors concerned.

    Attributes
    ----------
    J : dict of (r_k, R)
        W_k' D V by coupled factor, with V rotated so that V' D V = diag(b).
    b : (R,)
    rotation : (R, R) or None
        Of V; None where the eliminated latents are rotated already.
    """

    J: dict[int, Array]
    b: Array
    rotation: Array | None


@dataclass(frozen=True)
class CoupledPrecision:
    """P of given parameters, by the matrices that the counts of ``CoupledLinks`` multiply:

        P[b,b'] = sum_p e_pbb' W' D_p W + [b = b'] I - sum_o (sum_p h_opb J_p) L_o^-1 (sum_p h_opb' J_p)'

    Attributes
    ----------
    ranks : tuple of int
        r_k of every coupled factor.
    grams : dict of (r_k, r_l)
        W_k' D_p W_l, by part p and pair of factors k <= l that its samples have labels of.
    J : dict of (r_k, R)
        W_k' D_p V by eliminated part and coupled factor.
    L : Precision
        L_g of every group.
    mean : MeanPrecision
    """

    ranks: tuple[int, ...]
    grams: dict[tuple[int, int, int], Array]
    J: Blocks
    L: Precision
    mean: MeanPrecision


@dataclass(frozen=True)
class CovarianceSums:
    """What the covariance Sigma = P^-1 of the coupled latents adds to the moments.

    Attributes
    ----------
    by_part : tuple of dict
        sum e_bb' Sigma_bb' of each part, by pair k <= l of coupled factors.
    by_level : dict of (r_k, r_k)
        sum_b Sigma_bb of each coupled factor.
    with_eliminated : dict of (R, r_k)
        sum_o L_o^-1 sum J' <dx dx'> by eliminated part and coupled factor.
    eliminated : (1 + P, R, R)
        What Sigma adds to the covariance of y, summed over eliminated levels, unweighted and weighted by n_op.
    """

    by_part: tuple[Blocks, ...]
    by_level: dict[int, Array]
    with_eliminated: Blocks
    eliminated: Array

    def plus(self, other: "CovarianceSums", sign: float = 1.0) -> "CovarianceSums":
        """The sums over both covariances together, or over their difference for a ``sign`` of -1."""

        def added(a: dict[Any, Array], b: dict[Any, Array]) -> dict[Any, Array]:
            return {key: a.get(key, 0.0) + sign * b.get(key, np.zeros(())) for key in a | b}

        return CovarianceSums(
            by_part=tuple(added(a, b) for a, b in zip(self.by_part, other.by_part, strict=True)),
            by_level=added(self.by_level, other.by_level),
            with_eliminated=added(self.with_eliminated, other.with_eliminated),
            eliminated=self.eliminated + sign * other.eliminated,
        )

    def rotated(self, rotation: Array | None) -> "CovarianceSums":
        """The same sums where the eliminated latents are turned by ``rotation`` (R, R)."""
        if rotation is None:
            return self
        with_eliminated = {kind: rotation @ value for kind, value in self.with_eliminated.items()}
        return replace(self, with_eliminated=with_eliminated, eliminated=rotation @ self.eliminated @ rotation.T)


class CoupledPosterior(Protocol):
    """Posterior of the coupled latents: x ~ N(xhat, Sigma)."""

    @property
    def means(self) -> tuple[Array, ...]:
        """Xhat of each coupled factor, (levels, r)."""
        ...

    @property
    def fit(self) -> float:
        """Phi' xhat."""
        ...

    @property
    def log_determinants(self) -> Array:
        """Log |P|, (1,), or independent estimates of it."""
        ...

    def covariance_sums(self) -> CovarianceSums:
        """What the M step needs of Sigma."""
        ...

    def covariance(self, left: list[tuple[int, int]], right: list[tuple[int, int]]) -> Array:
        """Covariance between the latents of (factor, level) pairs of one component, in the order given."""
        ...

    def joint_covariance(self) -> Array:
        """Sigma of all coupled levels: the factors one after the other, and the levels of each in order."""
        ...


class CoupledSolver(Protocol):
    """Solves P x = Phi, and says of Sigma = P^-1 what is asked for."""

    @property
    def refined(self) -> "CoupledSolver | None":
        """A solver of smaller error; None where there is none, or where it would cost too much."""
        ...

    def solve(self, precision: CoupledPrecision, Phi: tuple[Array, ...]) -> CoupledPosterior:
        """The posterior for right-hand sides Phi (levels, r_k) of the coupled factors."""
        ...
