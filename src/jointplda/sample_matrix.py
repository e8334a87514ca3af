"""Matrices of embeddings, which are checked once and read in chunks."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from jointplda._typing import AnyArray, Array, IntArray
from jointplda.errors import InputError

CHUNK_ROWS = 4096  # which stay in the cache while they are summed
LARGEST = 1e100


def check_not_masked(X: Any, what: str = "X") -> None:
    """Refuse masked numbers; other functions would read the values behind the mask."""
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise InputError(
            "expected numbers without a mask, got masked ones; fill them in, or remove these samples.", parameter=what
        )


def as_matrix(X: Any, *, what: str = "X") -> AnyArray:
    """Return ``X`` as a real 2-D array, copied only if its type has to change (a memmap stays a memmap)."""
    check_not_masked(X, what)
    if hasattr(X, "toarray"):
        raise InputError("expected a dense array, got a sparse one; call .toarray() first.", parameter=what)
    try:
        matrix = np.asarray(X)
        if matrix.dtype.kind == "O":
            matrix = matrix.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"expected numbers in a (samples, dimensions) array: {error}.", parameter=what) from None
    if matrix.dtype.kind not in "fiub":
        raise InputError(f"expected real numbers, got dtype {matrix.dtype}.", parameter=what)
    if matrix.ndim != 2:
        hint = " Reshape one sample with X.reshape(1, -1)." if matrix.ndim == 1 else ""
        raise InputError(f"expected shape (samples, dimensions), got {matrix.shape}.{hint}", parameter=what)
    if matrix.shape[0] == 0 or matrix.shape[1] == 0:
        raise InputError(f"expected at least one sample and one dimension, got shape {matrix.shape}.", parameter=what)
    return matrix


def check_numbers(matrix: AnyArray) -> None:
    """Raise the error that reading ``matrix`` in chunks would raise for NaN, infinity or huge numbers."""
    extent = max(float(matrix.max()), -float(matrix.min()))
    if not extent <= LARGEST:
        for _ in chunks(matrix):
            pass


def chunks(matrix: AnyArray, rows: IntArray | None = None) -> Iterator[tuple[slice, Array]]:
    """Yield float64 pieces of ``matrix``, or of its ``rows``, after a check for NaN, infinity and huge numbers."""
    n = len(matrix) if rows is None else len(rows)
    for start in range(0, n, CHUNK_ROWS):
        piece = slice(start, min(start + CHUNK_ROWS, n))
        which = piece if rows is None else rows[piece]
        values = np.asarray(matrix[which], dtype=np.float64)
        largest = max(float(values.max()), -float(values.min()))
        if not np.isfinite(largest):
            finite = np.isfinite(values).all(axis=1)
            first = np.flatnonzero(~finite)[:5]
            names = (first + piece.start if rows is None else rows[piece][first]).tolist()
            raise InputError(
                f"expected finite numbers, got NaN or infinity in row(s) {names}"
                f"{' and more' if (~finite).sum() > 5 else ''}; remove or repair these samples.",
                parameter="X",
            )
        if largest > LARGEST:
            raise InputError(
                f"numbers up to {largest:.1g} are too large to square; scale the embeddings down.", parameter="X"
            )
        yield piece, values
