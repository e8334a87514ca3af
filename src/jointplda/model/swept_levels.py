"""Least-squares means of levels, where those of the speakers are swept out of all others.

Of samples m_i with speakers s and levels b of the other factors, with n_s and n_b samples and h_sb in common, the
effects x of the levels solve

    A x = b,     A = N - H' diag(1 / n_s) H,     b = g - H' diag(1 / n_s) f

where N has n_b and the numbers of samples that two levels of different factors share, g the sums of the levels and f
those of the speakers.
"""

from typing import Any

import numpy as np
from scipy.sparse import block_array, csr_array, diags_array

from jointplda._typing import Array
from jointplda.linalg import symmetric

MOST_DENSE = 2000  # levels up to which A is inverted
STEPS, PRECISION = 300, 1e-12


def swept_gram(
    counts: Array, table: csr_array, level_counts: list[Array], linked: dict[tuple[int, int], csr_array]
) -> csr_array:
    """A, sparse (B, B).

    ``counts`` (S,) are n_s, and ``table`` (S, B) is H. ``level_counts`` has n_b of each of the other factors, and
    ``linked`` the tables of two of them, k < j, numbered from 0.
    """
    blocks: list[list[Any]] = [[None] * len(level_counts) for _ in level_counts]
    for k, own in enumerate(level_counts):
        blocks[k][k] = diags_array(own)
    for (k, j), shared in linked.items():
        blocks[k][j], blocks[j][k] = shared, shared.T
    N: Any = block_array(blocks, format="csr")
    return csr_array(N - table.T @ (diags_array(1.0 / counts) @ table))


def generalised_inverse(A: csr_array) -> tuple[Array, int]:
    """A^-, dense, and the rank of A: the number of independent level means beside those of speakers."""
    dense = np.asarray(A.todense(), dtype=np.float64)
    values, vectors = np.linalg.eigh(symmetric(dense))
    kept = values > 1e-9 * max(float(np.max(np.diagonal(dense), initial=0.0)), 1e-300)
    return (vectors[:, kept] / values[kept]) @ vectors[:, kept].T, int(kept.sum())


def explained_scatter(A: csr_array, b: Array) -> Array:
    """What the levels explain beside the speakers, b' A^- b (d, d).

    With many levels A x = b is solved by conjugate gradients; b is in the range of A.
    """
    if A.shape[0] <= MOST_DENSE:
        return symmetric(b.T @ generalised_inverse(A)[0] @ b)
    x = _conjugate_gradients(A, b)
    cross = x.T @ b
    return symmetric(cross + cross.T - x.T @ (A @ x))


def _conjugate_gradients(A: csr_array, b: Array) -> Array:
    """The solution (B, d) of A x = b, every column by itself, scaled by the diagonal of A."""
    scale = 1.0 / np.maximum(A.diagonal(), 1e-300)[:, None]
    x, left = np.zeros_like(b), b.copy()
    z = scale * left
    step, size = z.copy(), np.sum(left * z, axis=0)
    enough = PRECISION**2 * np.maximum(size, 1e-300)
    for _ in range(STEPS):
        going = size > enough
        if not going.any():
            break
        product = A @ step
        length = np.where(going, size / np.maximum(np.sum(step * product, axis=0), 1e-300), 0.0)
        x += length * step
        left -= length * product
        z = scale * left
        new = np.sum(left * z, axis=0)
        step = z + np.where(going, new / np.maximum(size, 1e-300), 0.0) * step
        size = np.where(going, new, size)
    return x
