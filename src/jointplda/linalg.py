"""Linear algebra of symmetric positive definite matrices, and rows by level."""

from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise

import numpy as np
from scipy.linalg import cho_solve, lapack
from scipy.sparse import csr_array

from jointplda._typing import AnyArray, Array, IntArray


def symmetric(A: Array) -> Array:
    """Return (A + A') / 2 over the last two axes."""
    return np.asarray(0.5 * (A + A.swapaxes(-1, -2)))


def sums_by_level(levels: IntArray, values: Array, number: int, weights: Array | None = None) -> Array:
    """Weighted sums of the rows of values (n, d) of each level, (number, d); ``levels`` (n,) are 0 to number - 1."""
    n = len(levels)
    indicator = csr_array((np.ones(n) if weights is None else weights, levels, np.arange(n + 1)), shape=(n, number))
    return np.asarray(indicator.T @ values)


def add_by_level(
    totals: Array, levels: IntArray, values: Array, places: IntArray, weights: Array | None = None
) -> None:
    """Add weighted rows of values (n, d) to the rows of their levels in ``totals`` (number, d); no others are touched.

    ``places`` (number,) is room for this function, whatever it holds.
    """
    rows = np.arange(len(levels))
    places[levels] = rows
    used = levels[places[levels] == rows]  # each level once
    places[used] = np.arange(len(used))
    totals[used] += sums_by_level(places[levels], values, len(used), weights)


def raised(A: Array, scales: Array, least: float) -> Array:
    """A symmetric matrix whose eigenvalues, relative to ``scales`` (d,), are raised to ``least``."""
    root = np.sqrt(scales)
    values, vectors = np.linalg.eigh(A / np.outer(root, root))
    return symmetric((vectors * np.maximum(values, least)) @ vectors.T * np.outer(root, root))


def root_of_rank(A: Array, rank: int) -> Array:
    """A root (d, rank) of a positive semi-definite matrix of known rank."""
    values, vectors = np.linalg.eigh(symmetric(A))
    root: Array = vectors[:, -rank:] * np.sqrt(np.maximum(values[-rank:], 0.0))
    return root


def spans(sizes: Iterable[int]) -> list[slice]:
    """Where pieces of these sizes stand, one after the other."""
    return [slice(int(a), int(b)) for a, b in pairwise(accumulate(sizes, initial=0))]


def equal_rows(codes: AnyArray) -> Iterator[tuple[AnyArray, IntArray]]:
    """Each distinct row of codes (n, k), and where it stands."""
    distinct, which = np.unique(codes, axis=0, return_inverse=True)
    for i, row in enumerate(distinct):
        yield row, np.flatnonzero(which.reshape(-1) == i)


def cholesky(A: Array) -> Array:
    """Lower Cholesky factor of a symmetric positive definite matrix, in C order.

    Raises
    ------
    numpy.linalg.LinAlgError
        If ``A`` is not positive definite.
    """
    # LAPACK reads columns: the upper factor of A' in Fortran order is the lower one in C order.
    factor, info = lapack.dpotrf(A.T, lower=0, clean=1)
    if info != 0:
        raise np.linalg.LinAlgError("the matrix is not positive definite")
    return np.ascontiguousarray(factor.T)


def inverse(A: Array) -> tuple[Array, float]:
    """Inverse, exactly symmetric and in C order, and log-determinant of a symmetric positive definite matrix."""
    factor = cholesky(A)
    result, _ = lapack.dpotri(factor.T, lower=0)
    return _mirrored(result.T), 2.0 * float(np.sum(np.log(np.diagonal(factor))))


def inverses(A: Array, step: int = 64) -> tuple[Array, Array]:
    """Inverses and log-determinants (G,) of many small matrices A (G, R, R), in C order, which they overwrite."""
    diagonals, lower = np.empty(A.shape[:2]), np.tri(A.shape[-1]) - 0.5 * np.eye(A.shape[-1])
    for start in range(0, len(A), step):
        some = A[start : start + step]
        for matrix, diagonal in zip(some, diagonals[start : start + step], strict=True):
            upper, info = lapack.dpotrf(matrix.T, lower=0, clean=0, overwrite_a=1)
            if info != 0:
                raise np.linalg.LinAlgError("the matrix is not positive definite")
            diagonal[:] = upper.diagonal()
            lapack.dpotri(upper, lower=0, overwrite_c=1)
        half = some * lower
        np.add(half, half.swapaxes(-1, -2), out=some)
    return A, 2.0 * np.log(diagonals).sum(axis=1)


def solve_and_invert(A: Array, B: Array) -> tuple[Array, float]:
    """Return A^-1 B and log |A|, and overwrite A (in C order) with A^-1, so that no second matrix is needed."""
    upper, info = lapack.dpotrf(A.T, lower=0, clean=0, overwrite_a=1)
    if info != 0:
        raise np.linalg.LinAlgError("the matrix is not positive definite")
    log_det = 2.0 * float(np.sum(np.log(np.diagonal(upper))))
    solved, _ = lapack.dpotrs(upper, B, lower=0)
    result, _ = lapack.dpotri(upper, lower=0, overwrite_c=1)
    if not np.shares_memory(result, A):
        A[...] = result.T
    _mirrored(A)
    return np.ascontiguousarray(solved), log_det


def _mirrored(A: Array, step: int = 256) -> Array:
    """Copy the lower triangle of A onto the upper one, in place and in blocks."""
    for start in range(0, len(A), step):
        block = slice(start, start + step)
        square = A[block, block]
        square[...] = np.tril(square) + np.tril(square, -1).T
        A[block, start + step :] = A[start + step :, block].T
    return A


def solve(A: Array, B: Array) -> Array:
    """Return A^-1 B for symmetric positive definite A."""
    return np.asarray(cho_solve((cholesky(A), True), B, check_finite=False))
