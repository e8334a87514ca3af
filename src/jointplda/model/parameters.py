"""The parameters of every model of the family as one frozen record: the mean, the factors, and the noise."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import solve_triangular

from jointplda._typing import Array
from jointplda.linalg import cholesky, inverse

SPEAKER, CONDITION, SAMPLE, CELL = "speaker", "condition", "sample", "cell"


@dataclass(frozen=True, eq=False)
class Factor:
    """A term W z of the model, whose latents z ~ N(0, I) are shared by the samples of one level.

    Attributes
    ----------
    name : str
        "speaker", the name of the condition, or "cell".
    loading : (d, r)
        W: V of the speaker, U of a condition, G of the cell.
    kind : {"speaker", "condition", "sample", "cell"}
        What the levels are. Two samples share the latents of a speaker or of a channel of a condition if they have it
        in common; those of a cell if and only if they share the speaker and the channels of all conditions; and those
        of a sample never (the paper's eq. 1).
    kappa : float or None
        Of a cell whose G G' is in proportion to the noise covariance, kappa C; None if it has a shape of its own.
    """

    name: str
    loading: Array
    kind: str
    kappa: float | None = None

    @property
    def rank(self) -> int:
        """Number of columns of the loading."""
        return int(self.loading.shape[1])


@dataclass(frozen=True, eq=False)
class Parameters:
    """Parameters of m = mean + sum_k W_k z^k + e,  z ~ N(0, I),  e ~ N(0, C),  C = D^-1.

    Attributes
    ----------
    mean : (d,)
    factors : tuple of Factor
        The speaker first, then the conditions, and last the cell, if speaker and channel interact.
    noise : (d, d)
        C = D^-1.
    """

    mean: Array
    factors: tuple[Factor, ...]
    noise: Array

    @classmethod
    def of(cls, mean: Array, loadings: Sequence[Array], noise: Array) -> "Parameters":
        """Parameters of a speaker and numbered conditions with these loadings."""
        V, *channels = loadings
        conditions = [Factor(f"condition {k + 1}", U, CONDITION) for k, U in enumerate(channels)]
        return cls(mean, (Factor("speaker", V, SPEAKER), *conditions), noise)

    @property
    def loadings(self) -> tuple[Array, ...]:
        """W_k (d, r_k) of every factor."""
        return tuple(factor.loading for factor in self.factors)

    @property
    def ranks(self) -> tuple[int, ...]:
        """Rank r_k of each factor: the number of columns of its loading."""
        return tuple(factor.rank for factor in self.factors)

    @property
    def precision(self) -> Array:
        """D = C^-1, (d, d)."""
        return inverse(self.noise)[0]

    @property
    def total_covariance(self) -> Array:
        """Covariance of one sample, sum_k W_k W_k' + C, (d, d)."""
        return self.noise + sum((W @ W.T for W in self.loadings), start=np.zeros_like(self.noise))

    def of_kind(self, kind: str) -> tuple[int, ...]:
        """Positions of the factors of a kind."""
        return tuple(k for k, factor in enumerate(self.factors) if factor.kind == kind)

    @property
    def cell(self) -> Factor | None:
        """The factor of the cell, which is the last; None where speaker and channel do not interact."""
        return self.factors[-1] if self.factors[-1].kind == CELL else None

    @cached_property
    def kappa(self) -> float:
        """Variance that the samples of a cell share, relative to the noise: tr(D G G') / d; 0 without a cell."""
        cell = self.cell
        if cell is None:
            return 0.0
        if cell.kappa is not None:
            return cell.kappa
        whitened = solve_triangular(cholesky(self.noise), cell.loading, lower=True)
        return float(np.sum(whitened**2)) / len(self.mean)

    def with_loadings(self, loadings: Sequence[Array]) -> "Parameters":
        """The same factors with other loadings."""
        pairs = zip(self.factors, loadings, strict=True)
        return replace(self, factors=tuple(replace(factor, loading=W) for factor, W in pairs))

    def without_cell(self) -> "Parameters":
        """The same parameters without the factor of the cell."""
        return self if self.cell is None else replace(self, factors=self.factors[:-1])

    def of_cell_means(self, n: float) -> "Parameters":
        """Parameters of the means of n samples of a cell, whose noise is C / n + G G'."""
        G = np.zeros((len(self.mean), 0)) if self.cell is None else self.cell.loading
        return replace(self.without_cell(), noise=self.noise / n + G @ G.T)

    def used(self) -> "Parameters":
        """The same model without factors of rank 0."""
        kept = tuple(factor for factor in self.factors if factor.rank or factor.kind == SPEAKER)
        return self if len(kept) == len(self.factors) else replace(self, factors=kept)

    def equals(self, other: "Parameters") -> bool:
        """Whether two models have the same parameters to the last bit."""
        if self is other:
            return True
        arrays = [(p.mean, *p.loadings, p.noise) for p in (self, other)]
        kinds = [[(factor.kind, factor.rank) for factor in p.factors] for p in (self, other)]
        return kinds[0] == kinds[1] and all(np.array_equal(a, b) for a, b in zip(*arrays, strict=True))
