"""Systems and square roots of a large symmetric positive definite operator A, from its products with vectors.

All functions take many vectors at once, as rows, which share every product.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from jointplda._typing import AnyArray, Array

Operator = Callable[[Array], Array]
MOST_STEPS = 1000


def conjugate_gradients(A: Operator, B: Array, tolerance: float) -> Array:
    """A^-1 b of every row b of B (m, n), to a residual of ``tolerance`` times |b|.

    Raises
    ------
    numpy.linalg.LinAlgError
        If 1,000 products do not suffice.
    """
    X, residual = np.zeros_like(B), B.copy()
    direction, squares = B.copy(), _dot(B, B)
    limit = squares * tolerance**2
    for _ in range(MOST_STEPS):
        if (squares <= limit).all():
            return X
        image = A(direction)
        step = squares / np.maximum(_dot(direction, image), np.finfo(float).tiny)
        X += step[:, None] * direction
        residual -= step[:, None] * image
        before, squares = squares, _dot(residual, residual)
        direction *= (squares / np.maximum(before, np.finfo(float).tiny))[:, None]
        direction += residual
    raise np.linalg.LinAlgError(f"the coupled levels need more than {MOST_STEPS} steps of conjugate gradients")


@dataclass(frozen=True)
class Roots:
    """``roots`` (m, n) are A^-1/2 z of each probe z, and ``logs`` (m,) are z' log(A) z, whose mean estimates log |A|
    where the entries of z are -1 and 1 by chance.
    """

    roots: Array
    logs: Array


def inverse_roots(A: Operator, probes: Array, tolerance: float) -> Roots:
    """A^-1/2 z and z' log(A) z of every row z of ``probes`` (m, n), by the Lanczos process.

    After k steps A is T (k, k) on the space of z, A z, ..., and f(A) z = |z| Q f(T) e_1 for the orthonormal basis Q.
    The steps end where the last one adds less than ``tolerance`` to any root, relative to its length. A probe whose
    space is exhausted before others are done takes part no more: its T goes on with ones.

    Raises
    ------
    numpy.linalg.LinAlgError
        If A is not positive definite, or 1,000 steps do not suffice.
    """
    length = np.sqrt(_dot(probes, probes))
    basis = [probes / length[:, None]]
    diagonal: list[Array] = []
    off: list[Array] = []
    alive = np.ones(len(probes), dtype=bool)
    for step in range(1, MOST_STEPS + 1):
        image = A(basis[-1])
        if off:
            image -= off[-1][:, None] * basis[-2]
        diagonal.append(np.where(alive, _dot(image, basis[-1]), 1.0))
        image -= diagonal[-1][:, None] * basis[-1]
        values, vectors = np.linalg.eigh(_tridiagonal(diagonal, off))
        if values.min() <= 0.0:
            raise np.linalg.LinAlgError("the precision of the coupled levels is not positive definite")
        weights = np.einsum("mik,mk,mk->mi", vectors, values**-0.5, vectors[:, 0])
        alive &= np.sqrt(_dot(image, image)) > 1e-12 * np.abs(diagonal[0])
        off.append(np.where(alive, np.sqrt(_dot(image, image)), 0.0))
        last = np.abs(weights[:, -1]) / np.sqrt(np.sum(weights**2, axis=1))
        if ((last <= tolerance) & (step > 1) | ~alive).all():
            logs = length**2 * np.sum(vectors[:, 0] ** 2 * np.log(values), axis=1)
            roots = np.einsum("kmn,mk->mn", np.stack(basis), weights) * length[:, None]
            return Roots(roots, logs)
        basis.append(np.where(alive, 1.0 / np.where(alive, off[-1], 1.0), 0.0)[:, None] * image)
    raise np.linalg.LinAlgError(f"the coupled levels need more than {MOST_STEPS} steps of the Lanczos process")


def _tridiagonal(diagonal: list[Array], off: list[Array]) -> AnyArray:
    k, m = len(diagonal), len(diagonal[0])
    T, at = np.zeros((m, k, k)), np.arange(k)
    T[:, at, at] = np.stack(diagonal, axis=1)
    if off:
        T[:, at[1:], at[:-1]] = T[:, at[:-1], at[1:]] = np.stack(off, axis=1)
    return T


def _dot(A: Array, B: Array) -> Array:
    """A' b of each pair of rows."""
    return np.asarray(np.einsum("mn,mn->m", A, B))
