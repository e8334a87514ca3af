"""Connected components of the coupled levels, and which of them have equal counts.

The coupled precision P is block diagonal over the connected components of the levels that share a sample
or an eliminated level. Components with the same counts have the same block, which is then solved once.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from jointplda._typing import AnyArray, IntArray

Hash = np.ndarray[tuple[int, ...], np.dtype[np.uint64]]


@dataclass(frozen=True)
class Block:
    """Linked pairs of levels (i of factor k, j of factor l) in the first component of each class.

    Attributes
    ----------
    which, i, j : (E,) int64
        The class, and the positions of both levels among those of their factor in the component.
    counts : (E, columns) sparse
        How often each kernel matrix (identity, parts, groups) enters the pair's block of P.
    """

    which: IntArray
    i: IntArray
    j: IntArray
    counts: csr_array


@dataclass(frozen=True)
class Batch:
    """Components with the same number of levels of each factor, sorted by class: those of a class have equal counts.

    Attributes
    ----------
    sizes : tuple of int
        Number of levels of each coupled factor in every component.
    members : tuple of (components, size) int64
        The levels of each coupled factor in every component.
    ends : (classes + 1,) int64
        Where each class begins and ends among the components.
    blocks : dict
        ``Block`` by pair of coupled factors (k <= l).
    """

    sizes: tuple[int, ...]
    members: tuple[IntArray, ...]
    ends: IntArray
    blocks: dict[tuple[int, int], Block]

    @property
    def multiplicity(self) -> IntArray:
        """Number of components in each class."""
        return np.diff(self.ends)


def find_batches(
    level_counts: tuple[int, ...], first: IntArray, second: IntArray, counts: csr_array
) -> tuple[Batch, ...]:
    """Split linked levels into components, and these into batches and classes.

    The coupled factors have ``level_counts`` levels, numbered consecutively over all factors. ``first`` and ``second``
    (E,) are every linked pair of levels in both orders, and every level with itself; ``counts`` (E, columns) says how
    often each kernel enters the block of each pair.
    """
    n_levels = sum(level_counts)
    factor = np.repeat(np.arange(len(level_counts)), level_counts)
    n_components, component = connected(n_levels, first, second)
    order, position = _canonical_order(n_components, component, factor, first, second, counts)
    sizes = np.zeros((n_components, len(level_counts)), dtype=np.int64)
    np.add.at(sizes, (component, factor), 1)
    signature = _signatures(n_components, component, position, first, second, counts)
    keys = np.concatenate([sizes.astype(np.uint64), signature], axis=1)
    _, representative, cls = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    cls = cls.reshape(-1)
    start = np.concatenate([[0], np.cumsum(sizes.sum(axis=1))])
    offsets = np.concatenate([[0], np.cumsum(level_counts)])
    shapes, shape_of = np.unique(sizes[representative], axis=0, return_inverse=True)
    shape_of = shape_of.reshape(-1)
    pair_class = np.where(representative[cls[component[first]]] == component[first], cls[component[first]], -1)
    batches = []
    for s, shape in enumerate(shapes):
        classes = np.flatnonzero(shape_of == s)
        of_shape = np.flatnonzero(shape_of[cls] == s)
        comps = of_shape[np.argsort(cls[of_shape], kind="stable")]
        levels = order[start[comps][:, None] + np.arange(shape.sum())]
        at = np.concatenate([[0], np.cumsum(shape)])
        members = tuple(levels[:, at[k] : at[k + 1]] - offsets[k] for k in range(len(shape)))
        ends = np.searchsorted(cls[comps], np.append(classes, classes[-1] + 1))
        blocks = {}
        in_batch = np.isin(pair_class, classes)
        for k in range(len(shape)):
            for j in range(k, len(shape)):
                rows = np.flatnonzero(in_batch & (factor[first] == k) & (factor[second] == j))
                if len(rows):
                    blocks[k, j] = Block(
                        which=np.searchsorted(classes, pair_class[rows]),
                        i=position[first[rows]] - at[k],
                        j=position[second[rows]] - at[j],
                        counts=counts[rows],
                    )
        batches.append(Batch(tuple(int(q) for q in shape), members, ends, blocks))
    return tuple(batches)


def connected(n_levels: int, first: IntArray, second: IntArray) -> tuple[int, IntArray]:
    """Number of connected components of levels, some pairs of which are linked, and the component of each level."""
    graph = coo_array((np.ones(len(first), dtype=np.int8), (first, second)), shape=(n_levels, n_levels))
    n, labels = connected_components(graph, directed=False)
    return int(n), labels.astype(np.int64)


def _canonical_order(
    n_components: int, component: IntArray, factor: IntArray, first: IntArray, second: IntArray, counts: csr_array
) -> tuple[IntArray, IntArray]:
    """Levels sorted by component, factor and counts, and the position of each level in its component."""
    pair = _row_hashes(counts, seed=1)
    own = np.zeros(len(component), dtype=np.uint64)
    diagonal = first == second
    own[first[diagonal]] = pair[diagonal]
    neighbours = np.zeros(len(component), dtype=np.uint64)
    np.add.at(neighbours, first, _mix(pair ^ _mix(own[second], 2), 3))
    order = np.lexsort((neighbours, own, factor, component))
    sizes = np.bincount(component, minlength=n_components)
    start = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    position = np.empty(len(component), dtype=np.int64)
    position[order] = np.arange(len(component)) - start[component[order]]
    return order, position


def _signatures(
    n_components: int, component: IntArray, position: IntArray, first: IntArray, second: IntArray, counts: csr_array
) -> Hash:
    """Two independent 64-bit hashes of all counts of each component, in canonical order."""
    result = np.zeros((n_components, 2), dtype=np.uint64)
    at = position[first].astype(np.uint64) << np.uint64(32) | position[second].astype(np.uint64)
    for column, seed in enumerate((11, 29)):
        np.add.at(result[:, column], component[first], _mix(_row_hashes(counts, seed) ^ _mix(at, seed + 1), seed + 2))
    return result


def _row_hashes(counts: csr_array, seed: int) -> Hash:
    """One 64-bit hash per row of a sparse matrix; equal rows have equal hashes."""
    values = np.ascontiguousarray(counts.data, dtype=np.float64).view(np.uint64)
    entries = _mix(values ^ _mix(counts.indices.astype(np.uint64), seed), seed + 1)
    total = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(entries, dtype=np.uint64)])
    result: Hash = total[counts.indptr[1:]] - total[counts.indptr[:-1]]
    return result


def _mix(values: AnyArray, seed: int) -> Hash:
    """Scramble 64-bit words (the finaliser known as splitmix64)."""
    z = values + np.uint64(seed * 0x9E3779B97F4A7C15 % 2**64)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    result: Hash = z ^ (z >> np.uint64(31))
    return result
