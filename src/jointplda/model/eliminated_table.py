"""The eliminated levels as EM keeps them, built from their sums a slice of levels at a time."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from jointplda._disk_rows import row_slices
from jointplda._typing import Array, IntArray
from jointplda.model.count_nodes import CountNodes, too_wide
from jointplda.model.eliminated import EliminatedGram, EliminatedRows, gram_pays
from jointplda.model.sums import Levels


@dataclass(frozen=True)
class EliminatedTable:
    """u_o = [f_o, n_o, h_o] of every eliminated level o; the sums may be in files.

    Attributes
    ----------
    levels : list of Levels
        Of the eliminated factor in each part, with f_op; P in number.
    counts : (K, P)
        n_op.
    slots : sparse (K, slots)
        h_o.
    group : (K,)
        The group of each level.
    order : (K,)
        The levels sorted by group.
    """

    levels: list[Levels]
    counts: Array
    slots: csr_array
    group: IntArray
    order: IntArray

    @property
    def width(self) -> int:
        """P d + P."""
        d: int = self.levels[0].sums.shape[1]
        return len(self.levels) * (d + 1)

    def blocks(self, numbers: int) -> Iterator[tuple[slice, Array]]:
        """[f_o, n_o] (levels, P d + P) for consecutive slices of the levels, each of which takes so many numbers."""
        number, parts = self.counts.shape
        d = self.levels[0].sums.shape[1]
        for rows in row_slices(number, numbers):
            table = np.zeros((rows.stop - rows.start, self.width))
            for at, own in enumerate(self.levels):
                start, stop = np.searchsorted(own.index, [rows.start, rows.stop]).tolist()
                table[own.index[start:stop] - rows.start, at * d : (at + 1) * d] = own.sums[start:stop]
            table[:, parts * d :] = self.counts[rows]
            yield rows, table

    def rows(self) -> Array:
        """[f_o, n_o] of all levels, sorted by group."""
        table, place = np.empty((len(self.counts), self.width)), np.empty(len(self.counts), dtype=np.int64)
        place[self.order] = np.arange(len(place))
        for rows, block in self.blocks(self.width):
            table[place[rows]] = block
        return table

    def gram(self, nodes: Array) -> Array:
        """sum_o w_gj u_o u_o' for each node j, with u_o = [f_o, n_o, h_o, 1] and ``nodes`` (G, J): (q, J, q)."""
        q, J = self.width + self.slots.shape[1] + 1, nodes.shape[1]
        gram = np.zeros((q, J, q))
        for rows, block in self.blocks(q):
            u = np.concatenate([block, self.slots[rows].toarray(), np.ones((len(block), 1))], axis=1)
            present, which = np.unique(self.group[rows], return_inverse=True)
            u = u[np.argsort(which.reshape(-1), kind="stable")]
            ends = np.concatenate([[0], np.cumsum(np.bincount(which.reshape(-1)))])
            for groups in row_slices(len(present), q * q):
                some = range(groups.start, groups.stop)
                squares = np.stack([(own := u[ends[i] : ends[i + 1]]).T @ own for i in some])
                weights = nodes[present[groups]]
                used = np.flatnonzero(weights.any(axis=0))
                gram[:, used] += np.tensordot(squares, weights[:, used], (0, 0)).swapaxes(1, 2)
        return gram


def eliminated_sums(
    table: EliminatedTable, slots: csr_array, counts: Array, rank: int, keep_rows: bool = False
) -> EliminatedRows | EliminatedGram:
    """Keep the eliminated levels in the form that needs fewer floating-point operations in an iteration.

    ``slots`` are those of the table, sorted by group, ``counts`` (G, P) is n_gp of each group, and ``rank`` R, that of
    the eliminated factor. With ``keep_rows`` every level is kept by itself whatever that costs, for its posterior.
    """
    K, width = len(table.counts), table.width
    q, (G, n_parts) = width + slots.shape[1] + 1, counts.shape
    group_by_group = n_parts > 1 or too_wide(counts)
    nodes = CountNodes.each(G) if group_by_group else CountNodes.of(counts[:, 0])
    J = nodes.weights.shape[1]
    if keep_rows or not gram_pays(K, rank, n_parts, width, q, J, G):
        return EliminatedRows(table.rows(), slots, table.group[table.order], n_parts)
    gram = table.gram(nodes.weights)
    return EliminatedGram(gram, counts if group_by_group else nodes.nodes[:, None], width)
