"""One pass over the samples: sums by level, by cell and in all, for each missing-label pattern."""

from collections.abc import Iterator

import numpy as np

from jointplda import sample_matrix
from jointplda._typing import AnyArray, Array, IntArray
from jointplda.labels import MISSING
from jointplda.linalg import add_by_level, symmetric
from jointplda.model.cell_sums import CellSums, numbered_rows
from jointplda.model.sums import Levels, PatternSums, summed_links

MANY_ROWS = 100_000  # from which the scatter of float32 samples is summed in single precision


def patterns(codes: IntArray) -> Iterator[tuple[tuple[bool, ...], IntArray]]:
    """Each missing-label pattern of the codes (n, conditions), and the rows that have it."""
    powers = 2 ** np.arange(codes.shape[1])
    numbers = (codes != MISSING) @ powers
    for number in np.flatnonzero(np.bincount(numbers)):
        yield tuple(bool(number & power) for power in powers), np.flatnonzero(numbers == number)


def pattern_sums(
    matrix: AnyArray,
    rows: IntArray | None,
    codes: IntArray,
    weights: Array | None,
    shift: Array,
    *,
    cells: bool,
    double: bool,
) -> PatternSums:
    """Sums over the samples with one missing-label pattern, read a chunk at a time.

    Of ``matrix`` (n, d) only ``rows`` (k,) are read (None: all), with ``codes`` (k, factors) and ``weights`` (k,).
    They are summed around ``shift`` (d,), and by cell too if ``cells``. Of very many float32 samples the scatter of a
    chunk is summed in single precision unless ``double``, which takes half the time; errors of about 1e-7 of a chunk
    average out over the chunks.
    """
    n, d = len(codes), matrix.shape[1]
    weight = np.ones(n) if weights is None else weights
    factors = [k for k in range(codes.shape[1]) if codes[0, k] != MISSING]
    local = {k: _numbered(codes[:, k]) for k in factors}
    n_factors = codes.shape[1]
    if cells:
        local[n_factors] = numbered_rows(codes[:, factors])
    sums = {k: np.zeros((len(levels), d)) for k, (levels, _) in local.items()}
    places = {k: np.empty(len(levels), dtype=np.int64) for k, (levels, _) in local.items()}
    scatter, room = np.zeros((d, d)), np.empty((min(n, sample_matrix.CHUNK_ROWS), d))
    single = np.empty(room.shape, np.float32) if matrix.dtype == np.float32 and n >= MANY_ROWS and not double else None
    for piece, values in sample_matrix.chunks(matrix, rows):
        values = np.subtract(values, shift, out=room[: len(values)])
        w = None if weights is None else weights[piece]
        squared = values if single is None else single[: len(values)]
        if single is not None:
            squared[...] = values
        scatter += squared.T @ (squared if w is None else squared * w[:, None].astype(squared.dtype))
        for k in sums:
            add_by_level(sums[k], local[k][1][piece], values, places[k], w)
    cell_sums = None
    if cells:
        distinct, which = local.pop(n_factors)
        counts = np.bincount(which, weight, len(distinct)).astype(np.float64)
        cell_sums = CellSums(distinct, counts, sums[n_factors])
    return PatternSums(
        count=float(weight.sum()),
        total=sums[0].sum(axis=0),
        scatter=symmetric(scatter),
        levels={
            k: Levels(index, np.bincount(code, weight, len(index)).astype(np.float64), sums[k])
            for k, (index, code) in local.items()
        },
        links={(k, j): summed_links(codes[:, k], codes[:, j], weight) for k in factors for j in factors if k < j},
        cells=cell_sums,
        weighted=weights is not None and bool((weights != 1.0).any()),
    )


def _numbered(codes: IntArray) -> tuple[IntArray, IntArray]:
    """The distinct codes (n,), all at least 0, in order, and the position of each among them."""
    used = np.flatnonzero(np.bincount(codes))
    position = np.empty(int(used[-1]) + 1, dtype=np.int64)
    position[used] = np.arange(len(used))
    return used, position[codes]
