"""The solver of coupled levels that are too many to solve densely.

The means xhat = P^-1 Phi come from conjugate gradients, as exact as a dense solution. The sums over Sigma = P^-1 come
from draws F A^-1/2 z of the posterior's deviation, where A = F' P F is near the identity (see ``preconditioner``) and
the entries of the probes z are -1 or 1 by chance. The probes are the same in every iteration, so EM is a function of
the parameters alone. log |P| = log |M| + log |A|, whose second term is the mean of z' log(A) z.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from jointplda._typing import Array, IntArray
from jointplda.model.coupled.control import control
from jointplda.model.coupled.krylov import Roots, conjugate_gradients, inverse_roots
from jointplda.model.coupled.links import CoupledLinks
from jointplda.model.coupled.preconditioner import PreconditionerRoot
from jointplda.model.coupled.product import Product
from jointplda.model.coupled.solver import CoupledPrecision, CovarianceSums
from jointplda.model.coupled.spectrum import MeanCounts, Spectrum

Pair = tuple[int, int]
PROBES, MOST_PROBES = 8, 64
MOST_NUMBERS = 2**23  # of probes, of which some twenty times as many are held
COLUMN_NUMBERS = 2**21
MEAN_TOLERANCE, DRAW_TOLERANCE = 1e-12, 1e-4


@dataclass(frozen=True)
class SampledSolver:
    """Links of the coupled levels, the spectrum of each factor, and the probes (m, n)."""

    links: CoupledLinks
    spectra: dict[int, Spectrum]
    counts: MeanCounts
    probes: Array

    @classmethod
    def of(cls, links: CoupledLinks, ranks: tuple[int, ...], probes: int = PROBES) -> "SampledSolver":
        """Prepare a solver for loadings of these ``ranks``, those of the coupled factors."""
        n = sum(size * rank for size, rank in zip(links.sizes, ranks, strict=True))
        signs = _signs(probes, n)
        spectra = {k: Spectrum.of(links, k) for k in links.factors}
        return cls(links, spectra, MeanCounts.of(links, spectra), signs)

    @property
    def refined(self) -> "SampledSolver | None":
        """The same with twice as many probes, the first half of which are these; None where they are many already."""
        m, n = self.probes.shape
        if 2 * m > MOST_PROBES or 2 * m * n > MOST_NUMBERS:
            return None
        return replace(self, probes=_signs(2 * m, n))

    def solve(self, precision: CoupledPrecision, Phi: tuple[Array, ...]) -> "SampledPosterior":
        """Solve P x = Phi; draws follow when they are asked for."""
        product = Product(self.links, precision)
        root = PreconditionerRoot(product, self.spectra, self.counts)
        posterior = SampledPosterior(self, product, root, (), 0.0)
        side = product.vectors.joined([side[:, None, :] for side in Phi])
        x = posterior.solved(side)
        means = tuple(piece[:, 0] for piece in product.vectors.split(x))
        return SampledPosterior(self, product, root, means, float(np.vdot(side, x)))


def _signs(probes: int, n: int) -> Array:
    return np.random.default_rng(0).choice([-1.0, 1.0], (probes, n))


@dataclass(frozen=True)
class SampledPosterior:
    """Posterior of the coupled latents whose covariance is known by draws."""

    solver: SampledSolver
    product: Product
    root: PreconditionerRoot
    means: tuple[Array, ...]
    fit: float

    def solved(self, sides: Array) -> Array:
        """P^-1 of every row of ``sides`` (m, n)."""
        sides = self.root.transposed_times(sides)
        return self.root.times(conjugate_gradients(self._near_identity, sides, MEAN_TOLERANCE))

    def _near_identity(self, Y: Array) -> Array:
        """A = F' P F."""
        return self.root.transposed_times(self.product(self.root.times(Y)))

    @cached_property
    def _roots(self) -> Roots:
        return inverse_roots(self._near_identity, self.solver.probes, DRAW_TOLERANCE)

    @property
    def log_determinants(self) -> Array:
        """Estimates of log |P|, one from each probe."""
        return self.root.log_determinant + self._roots.logs

    def covariance_sums(self) -> CovarianceSums:
        """What the M step needs of Sigma, as means over draws."""
        drawn = self.product.covariance_sums(self.root.times(self._roots.roots))
        return drawn.plus(control(self.product, self.root, self.solver.probes))

    def covariance(self, left: list[Pair], right: list[Pair]) -> Array:
        """Covariance between the latents of (factor, level) pairs, in the order given, as exact as the means."""
        rows, columns = self.product.vectors.places(left), self.product.vectors.places(right)
        return self.columns(columns)[rows]

    def joint_covariance(self) -> Array:
        """Sigma of all coupled levels: the factors one after the other, and the levels of each in order."""
        return self.columns(np.arange(self.product.vectors.length))

    def columns(self, columns: IntArray) -> Array:
        """These columns of Sigma, (n, columns)."""
        n, step = self.product.vectors.length, 1 + COLUMN_NUMBERS // self.product.vectors.length
        result = np.empty((n, len(columns)))
        for start in range(0, len(columns), step):
            sides = np.zeros((len(columns[start : start + step]), n))
            sides[np.arange(len(sides)), columns[start : start + step]] = 1.0
            result[:, start : start + step] = self.solved(sides).T
        return result
