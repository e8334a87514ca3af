"""A matrix M near the coupled precision P whose root is cheap, so that M^-1/2 P M^-1/2 is near the identity.

For one coupled factor, with n_s the counts of eliminated level s, E = diag(e_b) and H = N' diag(1 / n_s) N,

    P = E (x) G + I - sum_s n_s n_s' (x) J L_s^-1 J'        is near        E (x) (G + I / mean(e)) - H (x) K,

where K is the mean of n_s J L_s^-1 J' over samples. The eigenvalues h of E^-1/2 H E^-1/2 lie in [0, 1], and those of K
relative to G + I / mean(e), kappa_r, in [0, 1). In the eigenvectors T and W of both, M is diagonal: 1 - h kappa_r.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, diags_array
from sklearn.utils.extmath import randomized_svd

from jointplda._typing import Array
from jointplda.linalg import cholesky, symmetric
from jointplda.model.coupled.links import CoupledLinks
from jointplda.model.coupled.product import Product
from jointplda.model.coupled.solver import CoupledPrecision

FEW_LEVELS = 300  # for which all eigenvectors are found
LEADING = 32
LEAST = 1e-10  # of an eigenvalue


@dataclass(frozen=True)
class Spectrum:
    """What M needs of the counts of a coupled factor.

    Attributes
    ----------
    totals : (levels,)
        e_b, the number of samples of each level.
    vectors, values : (levels, q), (q,)
        Leading eigenvectors T and eigenvalues h of E^-1/2 H E^-1/2.
    rest : float
        Mean of the other eigenvalues.
    """

    totals: Array
    vectors: Array
    values: Array
    rest: float

    @classmethod
    def of(cls, links: CoupledLinks, k: int) -> "Spectrum":
        """Find the spectrum of factor k."""
        totals = np.sum([part.level_counts[k] for part in links.parts if k in part.level_counts], axis=0)
        P = len(links.eliminated_parts)
        none = csr_array((links.slots.shape[0], len(totals)))
        counts = sum((links.slots[:, links.slot_range(at, k)] for at in range(P)), start=none)
        own = np.maximum(counts.sum(axis=1), np.finfo(float).tiny)
        root = diags_array(own**-0.5) @ counts @ diags_array(totals**-0.5)
        B = len(totals)
        if B <= FEW_LEVELS:
            values, vectors = np.linalg.eigh((root.T @ root).toarray())
            return cls(totals, vectors, np.clip(values, 0.0, 1.0), 0.0)
        _, singular, right = randomized_svd(root, LEADING, n_iter=8, random_state=0)
        values = np.clip(singular**2, 0.0, 1.0)
        everything = float(np.sum(root.data**2))
        rest = np.clip((everything - values.sum()) / (B - LEADING), 0.0, 1.0)
        return cls(totals, np.ascontiguousarray(right.T), values, float(rest))


@dataclass(frozen=True)
class FactorRoot:
    """F with M^-1 = F F', for one factor: F Y = E^-1/2 f(H) Y W', with Y (levels, m, r)."""

    spectrum: Spectrum
    W: Array
    leading: Array
    rest: Array
    log_determinant: float

    @classmethod
    def of(cls, spectrum: Spectrum, G: Array, K: Array) -> "FactorRoot":
        """The root for these G and K (r, r)."""
        C = cholesky(symmetric(G) + np.eye(len(G)) / spectrum.totals.mean())
        Cinv = np.linalg.inv(C)
        kappa, Q = np.linalg.eigh(symmetric(Cinv @ K @ Cinv.T))
        kappa = np.clip(kappa, 0.0, 1.0)
        leading, rest = 1.0 - np.outer(spectrum.values, kappa), 1.0 - spectrum.rest * kappa
        leading, rest = np.maximum(leading, LEAST), np.maximum(rest, LEAST)
        (B, q), r = spectrum.vectors.shape, len(G)
        log_det = r * float(np.log(spectrum.totals).sum()) + 2.0 * B * float(np.log(np.diagonal(C)).sum())
        log_det += float(np.log(leading).sum()) + (B - q) * float(np.log(rest).sum())
        return cls(spectrum, Cinv.T @ Q, leading**-0.5, rest**-0.5, log_det)

    def times(self, Y: Array) -> Array:
        """F Y for Y (levels, m, r)."""
        return (self._filtered(Y) / np.sqrt(self.spectrum.totals)[:, None, None]) @ self.W.T

    def transposed_times(self, X: Array) -> Array:
        """F' X for X (levels, m, r)."""
        return self._filtered((X @ self.W) / np.sqrt(self.spectrum.totals)[:, None, None])

    def _filtered(self, Y: Array) -> Array:
        T = self.spectrum.vectors
        inside = (T.T @ Y.reshape(len(Y), -1)).reshape(-1, *Y.shape[1:])
        inside *= (self.leading - self.rest)[:, None, :]
        added = (T @ inside.reshape(len(inside), -1)).reshape(Y.shape)
        return Y * self.rest + added


class PreconditionerRoot:
    """F with M^-1 = F F', for all coupled factors.

    Several factors hang together most where all levels of one move against all levels of another. So with more than
    one factor F is F (I + Z (A_c^-1/2 - I) Z'), where Z (n, c) are the leading eigenvectors of every factor, and
    A_c = Z' F' P F Z.
    """

    def __init__(self, product: Product, spectra: dict[int, Spectrum]) -> None:
        links, precision = product.links, product.precision
        self.vectors = product.vectors
        self.roots = [FactorRoot.of(spectra[k], *_mean_blocks(links, precision, k)) for k in links.factors]
        self.log_determinant = sum(root.log_determinant for root in self.roots)
        self.coarse = self.change = np.zeros((0, self.vectors.length))
        if len(self.roots) > 1:
            self.coarse = self._coarse()
            A = self.coarse @ self._blocks_transposed(product(self._blocks(self.coarse))).T
            values, vectors = np.linalg.eigh(symmetric(A))
            values = np.maximum(values, LEAST)
            self.change = ((vectors * (values**-0.5 - 1.0)) @ vectors.T) @ self.coarse
            self.log_determinant += float(np.log(values).sum())

    def times(self, Y: Array) -> Array:
        """F y of every row of Y (m, n)."""
        return self._blocks(Y + (Y @ self.coarse.T) @ self.change)

    def transposed_times(self, X: Array) -> Array:
        """F' x of every row of X (m, n)."""
        Y = self._blocks_transposed(X)
        return Y + (Y @ self.change.T) @ self.coarse

    def coarse_change(self) -> tuple[Array, Array]:
        """Rows whose outer products are what Z adds to M^-1, and those of what it takes away."""
        return self._blocks(self.coarse + self.change), self._blocks(self.coarse)

    def _blocks(self, Y: Array) -> Array:
        pieces = zip(self.roots, self.vectors.split(Y), strict=True)
        return self.vectors.joined([root.times(y) for root, y in pieces])

    def _blocks_transposed(self, X: Array) -> Array:
        pieces = zip(self.roots, self.vectors.split(X), strict=True)
        return self.vectors.joined([root.transposed_times(x) for root, x in pieces])

    def _coarse(self) -> Array:
        """Z', with orthonormal rows: the leading eigenvector of every factor for each column of its loading."""
        Z, ranks = [], self.vectors.ranks
        for i, root in enumerate(self.roots):
            leading = root.spectrum.vectors[:, np.argmax(root.spectrum.values)]
            pieces = [np.zeros((n, ranks[i], r)) for n, r in zip(self.vectors.sizes, ranks, strict=True)]
            pieces[i] = leading[:, None, None] * np.eye(ranks[i])
            Z.append(self.vectors.joined(pieces))
        return np.concatenate(Z)


def _mean_blocks(links: CoupledLinks, precision: CoupledPrecision, k: int) -> tuple[Array, Array]:
    """G and K of factor k: means of W' D_p W over parts, and of J L^-1 J' over samples."""
    n = {p: float(part.level_counts[k].sum()) for p, part in enumerate(links.parts) if k in part.level_counts}
    G = sum((n[p] * precision.grams[p, k, k] for p in n), start=np.zeros(())) / sum(n.values())
    here = [at for at in range(len(links.eliminated_parts)) if (at, k) in precision.J]
    if not here:
        return np.asarray(G), np.zeros_like(G)
    sizes = np.bincount(links.group, minlength=len(links.group_counts))
    counts = links.group_counts[:, here]
    K = np.zeros_like(G)
    for a, p in enumerate(here):
        for b, q in enumerate(here):
            middle = precision.L.summed(sizes * counts[:, a] * counts[:, b])
            K += precision.J[p, k] @ middle @ precision.J[q, k].T
    return np.asarray(G), K / float(sizes @ counts.sum(axis=1))
