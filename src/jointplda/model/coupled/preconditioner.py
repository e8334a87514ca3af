"""A matrix M near the coupled precision P whose root is cheap, so that M^-1/2 P M^-1/2 is near the identity.

For one coupled factor, with n_s the counts of eliminated level s, E = diag(e_b) and H = N' diag(1 / sum n_s) N,

    P = E (x) G + I - sum_s n_s n_s' (x) J L_s^-1 J'        is near        E (x) (G + I / mean(e)) - H (x) K,

where K is the mean of n_s J L_s^-1 J' over samples. The eigenvalues h of E^-1/2 H E^-1/2 lie in [0, 1], and those of K
relative to G + I / mean(e), kappa_r, in [0, 1). In the eigenvectors T and W of both, M is diagonal: 1 - h kappa_r.

Levels with few samples are blocks of their own: beside channels of a thousand samples the I / mean(e) of a channel of
two would stand for next to nothing.

Several factors have such a block each. They hang together most where all levels of one move against all levels of
another, so M is also exact on the leading eigenvector of every factor.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import block_diag

from jointplda._typing import Array
from jointplda.linalg import cholesky, spans, symmetric
from jointplda.model.coupled.links import CoupledLinks
from jointplda.model.coupled.product import Product
from jointplda.model.coupled.solver import CoupledPrecision
from jointplda.model.coupled.spectrum import MeanCounts, Spectrum

LEAST = 1e-10  # of an eigenvalue


@dataclass(frozen=True)
class FactorRoot:
    """F with M^-1 = F F', for one factor.

    On frequent levels F Y = E^-1/2 f(Y Q) W', with Y (levels, m, r) and W = C^-T Q. Q are the eigenvectors of
    C^-1 K C^-T, where C C' = G + I / mean(e). On a rare level M is e_b (G - s K) + I, with s the ``rare_share``, and F
    its symmetric root: with the eigenvectors R and eigenvalues g of G - s K, R diag(e_b g + 1)^-1/2 R'. F is the same
    whatever the signs of eigenvectors, and so a continuous function of the parameters.
    """

    spectrum: Spectrum
    Q: Array
    W: Array
    leading: Array
    rest: Array
    R: Array
    rare: Array
    log_determinant: float

    @classmethod
    def of(cls, spectrum: Spectrum, G: Array, K: Array) -> "FactorRoot":
        """The root for these G and K (r, r)."""
        totals = spectrum.totals[spectrum.frequent]
        unit = 1.0 / totals.mean()
        C = cholesky(symmetric(G) + unit * np.eye(len(G)))
        Cinv = np.linalg.inv(C)
        kappa, Q = np.linalg.eigh(symmetric(Cinv @ K @ Cinv.T))
        kappa = np.clip(kappa, 0.0, 1.0 - unit * np.linalg.norm(C, 2) ** -2.0)  # K is at most G
        leading, rest = 1.0 - np.outer(spectrum.values, kappa), 1.0 - spectrum.rest * kappa
        leading, rest = np.maximum(leading, LEAST), np.maximum(rest, LEAST)
        (B, q), r = spectrum.vectors.shape, len(G)
        log_det = r * float(np.log(totals).sum()) + 2.0 * B * float(np.log(np.diagonal(C)).sum())
        log_det += float(np.log(leading).sum()) + (B - q) * float(np.log(rest).sum())
        g, R = np.linalg.eigh(symmetric(G - spectrum.rare_share * K))
        rare = np.outer(spectrum.totals[spectrum.rare], np.maximum(g, 0.0)) + 1.0
        log_det += float(np.log(rare).sum())
        return cls(spectrum, Q, Cinv.T @ Q, leading**-0.5, rest**-0.5, R, rare**-0.5, log_det)

    @property
    def variances(self) -> tuple[tuple[Array, Array], ...]:
        """Matrices (r, r), and what each entry of v of ``MeanCounts`` counts in M^-1 along their columns.

        They are W with (1 + q, r) for frequent levels, and R with (rare, r).
        """
        frequent = np.concatenate([self.rest[None] ** 2, self.leading**2 - self.rest**2])
        return (self.W, frequent), (self.R, self.rare**2)

    @property
    def moving(self) -> Array:
        """S (r, r): F turns T_1 c', the same vector c for all levels along the leading eigenvector, into t (S c)'."""
        result: Array = (self.W * self.leading[0]) @ self.Q.T
        return result

    def times(self, Y: Array) -> Array:
        """F Y for Y (levels, m, r)."""

        def frequent(Y: Array) -> Array:
            return (self._filtered(Y @ self.Q) / self._roots) @ self.W.T

        return self._split(Y, frequent)

    def transposed_times(self, X: Array) -> Array:
        """F' X for X (levels, m, r)."""

        def frequent(X: Array) -> Array:
            return self._filtered((X @ self.W) / self._roots) @ self.Q.T

        return self._split(X, frequent)

    @property
    def _roots(self) -> Array:
        result: Array = np.sqrt(self.spectrum.totals[self.spectrum.frequent])[:, None, None]
        return result

    def _split(self, X: Array, frequent: Callable[[Array], Array]) -> Array:
        """A function of the frequent levels, and the symmetric root of the rare ones."""
        if not len(self.spectrum.rare):
            return frequent(X)
        result = np.empty_like(X)
        result[self.spectrum.frequent] = frequent(X[self.spectrum.frequent])
        result[self.spectrum.rare] = ((X[self.spectrum.rare] @ self.R) * self.rare[:, None]) @ self.R.T
        return result

    def _filtered(self, Y: Array) -> Array:
        T = self.spectrum.vectors
        inside = (T.T @ Y.reshape(len(Y), -1)).reshape(-1, *Y.shape[1:])
        inside *= (self.leading - self.rest)[:, None, :]
        added = (T @ inside.reshape(len(inside), -1)).reshape(Y.shape)
        return Y * self.rest + added


class PreconditionerRoot:
    """F with M^-1 = F F', for all coupled factors.

    With more than one factor it is F (I + Z (A_c^-1/2 - I) Z'), where Z (n, c) are the leading eigenvectors of every
    factor for every column of its loading, and A_c = Z' F' P F Z.
    """

    def __init__(self, product: Product, spectra: dict[int, Spectrum], counts: MeanCounts) -> None:
        self.vectors, self.counts = product.vectors, counts
        links, precision = product.links, product.precision
        weights = {k: _sample_weights(links, precision, k) for k in spectra}
        groups = [] if len(spectra) == 1 else [*counts.moved_groups.values()]
        middles = precision.L.summed(np.concatenate([*weights.values(), *(w[None] for w in groups)]))
        places = spans(len(w) for w in weights.values())
        self.roots = {
            k: FactorRoot.of(spectra[k], *_mean_blocks(links, precision, k, middles[at]))
            for k, at in zip(spectra, places, strict=True)
        }
        self.log_determinant = sum(root.log_determinant for root in self.roots.values())
        self.places = dict(zip(self.roots, spans(self.vectors.ranks), strict=True))
        values, vectors = np.ones(0), np.zeros((sum(self.vectors.ranks), 0))
        if len(self.roots) > 1:
            values, vectors = np.linalg.eigh(self._moving(precision, middles[places[-1].stop :]))
            values = np.maximum(values, LEAST)
            self.log_determinant += float(np.log(values).sum())
        self._root_change = (vectors * (values**-0.5 - 1.0)) @ vectors.T
        self.inverse_change = (vectors * (1.0 / values - 1.0)) @ vectors.T

    def times(self, Y: Array) -> Array:
        """F y of every row of Y (m, n)."""
        pieces = self._changed(self.vectors.split(Y))
        return self.vectors.joined([root.times(y) for root, y in zip(self.roots.values(), pieces, strict=True)])

    def transposed_times(self, X: Array) -> Array:
        """F' x of every row of X (m, n)."""
        pieces = zip(self.roots.values(), self.vectors.split(X), strict=True)
        return self.vectors.joined(self._changed([root.transposed_times(x) for root, x in pieces]))

    def moved_covariance(self, k: int, m: int) -> Array:
        """What Z adds to M^-1 between factors k and m: (r_k, r_m), to be multiplied by t_kb t_mb'."""
        block = self.inverse_change[self.places[k], self.places[m]]
        result: Array = self.roots[k].moving @ block @ self.roots[m].moving.T
        return result

    def _changed(self, pieces: list[Array]) -> list[Array]:
        """(I + Z (A_c^-1/2 - I) Z') y for the pieces (levels, m, r) of y."""
        if len(pieces) == 1:
            return pieces
        leading = [root.spectrum.direction for root in self.roots.values()]
        inside = np.concatenate([np.tensordot(t, y, 1) for t, y in zip(leading, pieces, strict=True)], axis=1)
        moved = inside @ self._root_change
        spots = zip(leading, pieces, self.places.values(), strict=True)
        return [y + t[:, None, None] * moved[:, place] for t, y, place in spots]

    def _moving(self, precision: CoupledPrecision, middles: Array) -> Array:
        """A_c, of all levels of a factor moving together; ``middles`` are L^-1 summed by ``counts.moved_groups``."""
        counts, n = self.counts, sum(self.vectors.ranks)
        P = np.zeros((n, n))
        for k, root in self.roots.items():
            t, own = root.spectrum.leading, self.places[k]
            P[own, own] = float(t @ t) * np.eye(len(root.W))
        for (p, k, m), moved in counts.moved_samples.items():
            P[self.places[k], self.places[m]] += moved * precision.grams[p, k, m]
        for (a, b), middle in zip(counts.moved_groups, middles, strict=True):
            block = precision.J[a] @ middle @ precision.J[b].T
            block = block if a == b or a[1] != b[1] else block + block.T
            P[self.places[a[1]], self.places[b[1]]] -= block
        S = block_diag(*(root.moving for root in self.roots.values()))
        upper = np.triu(P)
        return symmetric(S.T @ (upper + np.triu(P, 1).T) @ S)


def _parts_of(precision: CoupledPrecision, k: int) -> list[int]:
    """The eliminated parts whose samples have labels of factor k."""
    return sorted(at for at, factor in precision.J if factor == k)


def _sample_weights(links: CoupledLinks, precision: CoupledPrecision, k: int) -> Array:
    """What L_g^-1 of each group counts between two of the parts of factor k: K_g n_gp n_gq, (parts x parts, G)."""
    sizes = np.bincount(links.group, minlength=len(links.group_counts))
    counts = links.group_counts[:, _parts_of(precision, k)].T
    return np.asarray((sizes * counts[:, None] * counts).reshape(-1, len(sizes)))


def _mean_blocks(links: CoupledLinks, precision: CoupledPrecision, k: int, middles: Array) -> tuple[Array, Array]:
    """G and K of factor k: means of W' D_p W over parts, and of J L^-1 J' over samples.

    ``middles`` are L^-1 summed by ``_sample_weights``.
    """
    n = {p: float(part.level_counts[k].sum()) for p, part in enumerate(links.parts) if k in part.level_counts}
    G = np.asarray(sum((n[p] * precision.grams[p, k, k] for p in n), start=np.zeros(())) / sum(n.values()))
    here = _parts_of(precision, k)
    if not here:
        return G, np.zeros_like(G)
    J = np.stack([precision.J[at, k] for at in here])
    middles = middles.reshape(len(here), len(here), *middles.shape[1:])
    K = np.einsum("pra,pqab,qsb->rs", J, middles, J, optimize=True)
    sizes = np.bincount(links.group, minlength=len(links.group_counts))
    return G, K / float(np.sum(sizes @ links.group_counts[:, here]))
