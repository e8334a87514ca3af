"""The part of the covariance sums that needs no draws.

The draws d = F A^-1/2 z have covariance P^-1, and e = F z, with the same probes, have M^-1 = F F', whose sums are
known. Where A is near the identity d is near e, and

    sums over P^-1  =  mean of sums over d d'  -  mean of sums over e e'  +  sums over M^-1

has a far smaller error than the first term alone. Any sums will do in the last two terms, as long as they are the same:
where eliminated levels have a matrix L_o each, they are taken with D averaged over parts, so that L_o is diagonal.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from jointplda._typing import Array
from jointplda.linalg import symmetric
from jointplda.model.count_nodes import CountNodes
from jointplda.model.coupled.links import CoupledLinks
from jointplda.model.coupled.preconditioner import FactorRoot, PreconditionerRoot, Spectrum
from jointplda.model.coupled.product import Product
from jointplda.model.coupled.solver import CoupledPrecision, CovarianceSums
from jointplda.model.eliminated import Precision


@dataclass(frozen=True)
class ControlCounts:
    """Sums over eliminated levels that the sums over M^-1 need, which are those of the links alone.

    For every factor: with tau_c = E^-1/2 T_c and the counts h of an eliminated level in the factor's levels, v is
    [sum_b h_b^2 / e_b, (h' tau_1)^2, (h' tau_2)^2, ...], (1 + q,).

    Attributes
    ----------
    nodes : (J,)
        Numbers of samples that stand for those of the eliminated levels.
    squares : dict of (1 + P, J, 1 + q)
        v summed over eliminated levels by factor, unweighted, then weighted by n_op.
    crosses : dict of (J, 1 + q)
        The same with one of the two h replaced by the counts in one eliminated part, by part and factor.
    """

    nodes: Array
    squares: dict[int, Array]
    crosses: dict[tuple[int, int], Array]

    @classmethod
    def of(cls, links: CoupledLinks, spectra: dict[int, Spectrum]) -> "ControlCounts":
        """Sum over eliminated levels."""
        P, by_group = len(links.eliminated_parts), links.group_counts
        nodes = CountNodes.of(by_group.sum(axis=1))
        weights = np.concatenate([np.ones((len(by_group), 1)), by_group], axis=1)
        squares, crosses = {}, {}
        for k in links.factors:
            spectrum = spectra[k]
            tau = spectrum.vectors / np.sqrt(spectrum.totals)[:, None]
            h = [links.slots[:, links.slot_range(at, k)] for at in range(P)]
            total = sum(h[1:], start=h[0])
            inside = np.asarray(total @ tau)
            v = [_pairs(total, piece, inside, piece @ tau, spectrum) for piece in (*h, total)]
            grouped = [_by_group(links, piece) for piece in v]
            squares[k] = np.stack([(nodes.weights * w[:, None]).T @ grouped[-1] for w in weights.T])
            for at in range(P):
                crosses[at, k] = nodes.weights.T @ grouped[at]
        return cls(nodes.nodes, squares, crosses)


class Control:
    """Sums over M^-1, exactly, and over the control draws e."""

    def __init__(self, product: Product, root: PreconditionerRoot, counts: ControlCounts) -> None:
        self.root, self.counts = root, counts
        links, precision = product.links, product.precision
        self.rotation, self.product = None, product
        if precision.L.is_diagonal:
            self.b = precision.L.b
        else:
            values, self.rotation = np.linalg.eigh(symmetric(_mean_gram(links, precision)))
            self.b = np.maximum(values, 0.0)
            L = Precision.diagonal(links.group_counts.sum(axis=1, keepdims=True), self.b)
            J = {(at, k): _mean_of(links, precision, k) @ self.rotation for at, k in precision.J}
            self.product = Product(links, CoupledPrecision(precision.ranks, precision.grams, J, L))

    def correction(self, probes: Array) -> CovarianceSums:
        """Sums over M^-1 minus the mean of those over the draws F z."""
        exact, drawn = self._blocks(), self.product.covariance_sums(self.root.times(probes))
        if len(self.root.coarse):
            added, taken = self.root.coarse_change()
            n = len(added)
            exact = exact.plus(self.product.covariance_sums(added), n).plus(self.product.covariance_sums(taken), -n)
        return exact.plus(drawn, -1.0).rotated(self.rotation)

    def _blocks(self) -> CovarianceSums:
        """Sums over the blocks F F' of the factors."""
        links, J, counts = self.product.links, self.product.precision.J, self.counts
        roots = dict(zip(links.factors, self.root.roots, strict=True))
        by_part = tuple(
            {(k, k): _over_levels(roots[k], n) for k, n in part.level_counts.items()} for part in links.parts
        )
        by_level = {k: _over_levels(root, np.ones(len(root.spectrum.totals))) for k, root in roots.items()}
        inverse = 1.0 / (counts.nodes[:, None] * self.b + 1.0)
        eliminated = np.zeros((1 + len(links.eliminated_parts), len(self.b), len(self.b)))
        with_eliminated = {}
        for at, k in J:
            JW = J[at, k].T @ roots[k].W
            omega = counts.crosses[at, k] @ _variances(roots[k])
            with_eliminated[at, k] = (JW * (inverse.T @ omega)) @ roots[k].W.T
        for k in {k for _, k in J}:
            JW = next(J[at, m] for at, m in J if m == k).T @ roots[k].W
            for w, v in enumerate(counts.squares[k]):
                omega = v @ _variances(roots[k])
                for r, column in enumerate(omega.T):
                    inside = (inverse * column[:, None]).T @ inverse
                    eliminated[w] += inside * np.outer(JW[:, r], JW[:, r])
        return CovarianceSums(by_part, by_level, with_eliminated, eliminated)


def _variances(root: FactorRoot) -> Array:
    """What each entry of v counts in M^-1, by column of W: (1 + q, r)."""
    return np.concatenate([root.rest[None] ** 2, root.leading**2 - root.rest**2])


def _over_levels(root: FactorRoot, weights: Array) -> Array:
    """sum_b w_b (M^-1)_bb, (r, r)."""
    scaled = weights / root.spectrum.totals
    v = np.concatenate([[scaled.sum()], scaled @ root.spectrum.vectors**2])
    result: Array = (root.W * (v @ _variances(root))) @ root.W.T
    return result


def _pairs(left: Any, right: Any, left_inside: Array, right_inside: Array, spectrum: Spectrum) -> Array:
    """[sum_b h_b h'_b / e_b, (h' tau_c)(h'' tau_c), ...] of every eliminated level, (K, 1 + q)."""
    alone = left.multiply(right) @ (1.0 / spectrum.totals)
    return np.concatenate([np.asarray(alone)[:, None], left_inside * right_inside], axis=1)


def _by_group(links: CoupledLinks, rows: Array) -> Array:
    """Sums over the eliminated levels of each group, (G, 1 + q)."""
    starts = np.searchsorted(links.group, np.arange(len(links.group_counts)))
    return np.add.reduceat(rows, starts, axis=0)


def _mean_gram(links: CoupledLinks, precision: CoupledPrecision) -> Array:
    """V' D V with D averaged over the samples of all eliminated parts."""
    totals = np.bincount(links.group, minlength=len(links.group_counts)) @ links.group_counts
    return np.tensordot(totals / totals.sum(), precision.L.grams, 1)


def _mean_of(links: CoupledLinks, precision: CoupledPrecision, k: int) -> Array:
    """J of factor k averaged over the samples that have labels of it."""
    totals = np.bincount(links.group, minlength=len(links.group_counts)) @ links.group_counts
    here = [at for at, m in precision.J if m == k]
    mean = sum((totals[at] * precision.J[at, k] for at in here), start=np.zeros(()))
    return np.asarray(mean / totals[here].sum())
