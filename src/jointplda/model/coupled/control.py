"""The part of the covariance sums that needs no draws.

The draws d = F A^-1/2 z have covariance P^-1, and e = F z, with the same probes, have M^-1 = F F', whose sums are
known. Where A is near the identity d is near e, and

    sums over P^-1  =  mean of sums over d d'  -  mean of sums over e e'  +  sums over M^-1

has a far smaller error than the first term alone. Any sums will do in the last two terms, as long as they are the same:
they are taken with the noise precision averaged over parts, so that the precision of an eliminated level is diagonal.
"""

import numpy as np

from jointplda._typing import Array
from jointplda.linalg import spans
from jointplda.model.coupled.preconditioner import FactorRoot, PreconditionerRoot
from jointplda.model.coupled.product import Product
from jointplda.model.coupled.solver import Blocks, CovarianceSums


def control(product: Product, root: PreconditionerRoot, probes: Array) -> CovarianceSums:
    """Sums over M^-1 minus the mean of those over the draws F z, for the ``probes`` z (m, n)."""
    averaged = product.averaged()
    exact, drawn = _exact(averaged, root), averaged.covariance_sums(root.times(probes))
    return exact.plus(drawn, -1.0).rotated(product.precision.mean.rotation)


def _exact(product: Product, root: PreconditionerRoot) -> CovarianceSums:
    """Sums over M^-1."""
    links, mean, counts, roots = product.links, product.precision.mean, root.counts, root.roots
    inverse = 1.0 / (counts.nodes[:, None] * mean.b + 1.0)
    moved = {(k, m): root.moved_covariance(k, m) for k in roots for m in roots}
    by_part: list[Blocks] = []
    for p, part in enumerate(links.parts):
        blocks = {(k, k): _over_levels(roots[k], n) for k, n in part.level_counts.items()}
        for (q, k, m), value in counts.moved_samples.items():
            if q == p:
                blocks[k, m] = blocks.get((k, m), 0.0) + value * moved[k, m]
        by_part.append(blocks)
    by_level = {}
    for k, own in roots.items():
        ones = np.ones(len(own.spectrum.totals))
        by_level[k] = _over_levels(own, ones) + float(np.sum(own.spectrum.leading**2)) * moved[k, k]
    R = len(mean.b)
    with_eliminated = {kind: np.zeros((R, len(roots[kind[1]].W))) for kind in product.precision.J}
    eliminated = np.zeros((1 + len(links.eliminated_parts), R, R))
    for k, own in roots.items():
        places = spans((1 + len(own.spectrum.values), len(own.spectrum.rare)))
        for (W, variances), place in zip(own.variances, places, strict=True):
            JW = mean.J[k].T @ W
            for at, factor in product.precision.J:
                if factor == k:
                    crosses = counts.crosses[at, k][:, place] @ variances
                    with_eliminated[at, k] += (JW * (inverse.T @ crosses)) @ W.T
            for w, v in enumerate(counts.squares[k]):
                for column, omega in zip(JW.T, (v[:, place] @ variances).T, strict=True):
                    eliminated[w] += ((inverse * omega[:, None]).T @ inverse) * np.outer(column, column)
    for at, k in product.precision.J:
        for m in roots:
            J = mean.J[m].T * (inverse.T @ counts.moved_crosses[at, k, m])[:, None]
            with_eliminated[at, k] += J @ moved[m, k]
    for (k, m), weights in counts.moved.items():
        block = mean.J[k].T @ moved[k, m] @ mean.J[m]
        block = block if k == m else block + block.T
        for w, along in enumerate(weights):
            eliminated[w] += block * ((inverse * along[:, None]).T @ inverse)
    return CovarianceSums(tuple(by_part), by_level, with_eliminated, eliminated)


def _over_levels(root: FactorRoot, weights: Array) -> Array:
    """sum_b w_b (M^-1)_bb without what Z adds, (r, r)."""
    spectrum = root.spectrum
    scaled = weights[spectrum.frequent] / spectrum.totals[spectrum.frequent]
    frequent = np.concatenate([[scaled.sum()], scaled @ spectrum.vectors**2])
    pieces = zip(root.variances, (frequent, weights[spectrum.rare]), strict=True)
    return np.asarray(sum((W * (v @ variances)) @ W.T for (W, variances), v in pieces))
