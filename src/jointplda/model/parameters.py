"""The parameters of SPLDA, PLDA and Joint PLDA, as one frozen record."""

from dataclasses import dataclass

import numpy as np

from jointplda._typing import Array
from jointplda.linalg import inverse


@dataclass(frozen=True)
class Parameters:
    """Parameters of m = mean + sum_k W_k z^k + e,  z ~ N(0, I),  e ~ N(0, C),  C = D^-1.

    Attributes
    ----------
    mean : (d,)
    loadings : tuple of (d, r_k)
        W_k of each factor: V of the speaker first, then U of each nuisance condition.
    noise : (d, d)
        C = D^-1.
    kappa : float
        Covariance that the samples of a cell share, relative to the noise: G G' = kappa C.
    """

    mean: Array
    loadings: tuple[Array, ...]
    noise: Array
    kappa: float = 0.0

    @property
    def ranks(self) -> tuple[int, ...]:
        """Rank r_k of each loading: its number of columns."""
        return tuple(W.shape[1] for W in self.loadings)

    @property
    def precision(self) -> Array:
        """D = C^-1, (d, d)."""
        return inverse(self.noise)[0]

    @property
    def total_covariance(self) -> Array:
        """Covariance of one sample, sum_k W_k W_k' + C, (d, d)."""
        return self.noise + sum((W @ W.T for W in self.loadings), start=np.zeros_like(self.noise))

    def equals(self, other: "Parameters") -> bool:
        """Whether two models have the same parameters to the last bit."""
        if self is other:
            return True
        arrays = [(p.mean, *p.loadings, p.noise) for p in (self, other)]
        return (self.ranks, self.kappa) == (other.ranks, other.kappa) and all(
            np.array_equal(a, b) for a, b in zip(*arrays, strict=True)
        )

    def active(self) -> tuple["Parameters", list[int]]:
        """Return the same model without loadings of rank 0, and the positions of the conditions that are left."""
        kept = [k for k, rank in enumerate(self.ranks[1:]) if rank]
        loadings = (self.loadings[0], *(self.loadings[1 + k] for k in kept))
        return Parameters(self.mean, loadings, self.noise, self.kappa), kept
