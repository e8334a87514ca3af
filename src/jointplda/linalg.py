"""Small pieces of linear algebra on symmetric positive definite matrices."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, lapack

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
AnyArray = NDArray[Any]


def symmetric(A: Array) -> Array:
    """Return (A + A') / 2 over the last two axes."""
    result: Array = 0.5 * (A + A.swapaxes(-1, -2))
    return result


def cholesky(A: Array) -> Array:
    """Lower Cholesky factor of one symmetric positive definite matrix, in C order.

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


def log_determinant(factor: Array) -> float:
    """Return log |A| from the Cholesky factor of A."""
    return 2.0 * float(np.sum(np.log(np.diagonal(factor))))


def inverse(A: Array) -> tuple[Array, float]:
    """Inverse and log-determinant of one symmetric positive definite matrix."""
    factor = cholesky(A)
    return inverse_from_factor(factor), log_determinant(factor)


def inverse_from_factor(factor: Array) -> Array:
    """Inverse of A from its lower Cholesky factor; exactly symmetric, in C order."""
    result, _ = lapack.dpotri(factor.T, lower=0)
    upper = np.triu(result)
    return np.ascontiguousarray(upper + np.triu(upper, 1).T)


def solve(A: Array, B: Array) -> Array:
    """Return A^-1 B for symmetric positive definite A."""
    result: Array = cho_solve((cholesky(A), True), B, check_finite=False)
    return result


def solve_factored(factor: Array, B: Array) -> Array:
    """Return A^-1 B from the lower Cholesky factor of A."""
    result: Array = cho_solve((factor, True), B, check_finite=False)
    return result
