"""The coupled levels: one dense linear system per class of equal components."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from jointplda._typing import Array
from jointplda.linalg import solve_and_invert, spans
from jointplda.model.components import Batch, Block

Pair = tuple[int, int]
CHUNK_NUMBERS = 2**23


@dataclass(frozen=True)
class CoupledSolution:
    """Posterior of the coupled latents: x ~ N(xhat, Sigma), Sigma = P^-1.

    Attributes
    ----------
    means : tuple of (levels, r)
        xhat of each coupled factor.
    covariances : tuple of (classes, s, s)
        Sigma of each class of each batch.
    fit : float
        Phi' xhat.
    log_determinant : float
        log |P|.
    """

    means: tuple[Array, ...]
    covariances: tuple[Array, ...]
    fit: float
    log_determinant: float


def solve_coupled(
    batches: tuple[Batch, ...], ranks: tuple[int, ...], kernels: Mapping[Pair, Array], Phi: tuple[Array, ...]
) -> CoupledSolution:
    """Solve P x = Phi and invert P, one of the ``batches`` of components after the other.

    The blocks of P are sums of the ``kernels`` (columns, r_k, r_l) by the counts in the batches; ``Phi`` has the
    right-hand side (levels, r_k) of each coupled factor, whose ``ranks`` are r_k.
    """
    means = tuple(np.empty_like(side) for side in Phi)
    covariances, fit, log_det = [], 0.0, 0.0
    for batch in batches:
        P = _assembled(batch, ranks, kernels)
        side = np.concatenate(
            [Phi[k][m].reshape(len(m), m.shape[1] * ranks[k]) for k, m in enumerate(batch.members)], axis=1
        )
        x = np.empty_like(side)
        for c, copies in enumerate(batch.multiplicity):
            members = slice(batch.ends[c], batch.ends[c + 1])
            solved, log_det_of_one = solve_and_invert(P[c], side[members].T)
            x[members], log_det = solved.T, log_det + float(copies) * log_det_of_one
        fit += float(np.vdot(side, x))
        covariances.append(P)
        for k, span in enumerate(spans(q * r for q, r in zip(batch.sizes, ranks, strict=True))):
            levels = batch.members[k]
            means[k][levels] = x[:, span].reshape(*levels.shape, ranks[k])
    return CoupledSolution(means, tuple(covariances), fit, log_det)


def counted_covariances(
    batches: tuple[Batch, ...], ranks: tuple[int, ...], solution: CoupledSolution, columns: int
) -> dict[Pair, Array]:
    """Sum the blocks of Sigma by the counts that made P: for every kernel, sum_bb' count_bb' Sigma_bb'.

    Returns
    -------
    dict of (columns, r_k, r_l)
        By pair of coupled factors, k <= l.
    """
    result = {(k, j): np.zeros((columns, ranks[k], ranks[j])) for k in range(len(ranks)) for j in range(k, len(ranks))}
    for batch, Sigma in zip(batches, solution.covariances, strict=True):
        for (k, j), block in batch.blocks.items():
            view = _block_view(Sigma, batch.sizes, ranks, k, j)
            for rows in _chunks(block, ranks[k] * ranks[j]):
                which = block.which[rows]
                values = view[which, block.i[rows], :, block.j[rows], :]
                values = values * batch.multiplicity[which][:, None, None]
                summed = block.counts[rows].T @ values.reshape(len(which), ranks[k] * ranks[j])
                result[k, j] += summed.reshape(columns, ranks[k], ranks[j])
    return result


def _assembled(batch: Batch, ranks: tuple[int, ...], kernels: Mapping[Pair, Array]) -> Array:
    """P of every class of a batch, (classes, s, s)."""
    s = sum(q * r for q, r in zip(batch.sizes, ranks, strict=True))
    P = np.zeros((len(batch.multiplicity), s, s))
    for (k, j), block in batch.blocks.items():
        kernel = kernels[k, j].reshape(-1, ranks[k] * ranks[j])
        view = _block_view(P, batch.sizes, ranks, k, j)
        mirror = _block_view(P, batch.sizes, ranks, j, k)
        for rows in _chunks(block, ranks[k] * ranks[j]):
            values = (block.counts[rows] @ kernel).reshape(-1, ranks[k], ranks[j])
            which, i, jj = block.which[rows], block.i[rows], block.j[rows]
            view[which, i, :, jj, :] = values
            if k != j:
                mirror[which, jj, :, i, :] = values.transpose(0, 2, 1)
    return P


def _block_view(P: Array, sizes: tuple[int, ...], ranks: tuple[int, ...], k: int, j: int) -> Array:
    """The (k, j) blocks of P as a view (classes, q_k, r_k, q_j, r_j)."""
    at = spans(q * r for q, r in zip(sizes, ranks, strict=True))
    block = P[:, at[k], at[j]]
    s = block.strides
    shape = (len(P), sizes[k], ranks[k], sizes[j], ranks[j])
    return np.lib.stride_tricks.as_strided(block, shape, (s[0], s[1] * ranks[k], s[1], s[2] * ranks[j], s[2]))


def _chunks(block: Block, numbers_per_pair: int) -> Iterator[slice]:
    step = 1 + CHUNK_NUMBERS // numbers_per_pair
    for start in range(0, len(block.which), step):
        yield slice(start, start + step)
