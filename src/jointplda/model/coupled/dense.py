"""The exact solver of the coupled levels: one dense linear system per class of equal components."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import coo_array, csr_array

from jointplda._typing import AnyArray, Array, IntArray
from jointplda.linalg import solve_and_invert, spans, sums_by_level
from jointplda.model.count_nodes import CountNodes
from jointplda.model.coupled.components import Batch, Block, find_batches
from jointplda.model.coupled.links import CoupledLinks
from jointplda.model.coupled.solver import CoupledPrecision, CovarianceSums

Pair = tuple[int, int]
Triples = tuple[IntArray, IntArray, Array]
CHUNK_NUMBERS = 2**23
FOLDED = 2**18  # pairs of levels, counted for each group, that wait to be counted for the nodes


@dataclass(frozen=True)
class DenseSolver:
    """Components of the coupled levels in batches, with the counts that make their blocks of P.

    ``counts`` (G, P) are those of the groups of eliminated levels, or a few nodes that stand for them.
    """

    links: CoupledLinks
    counts: Array
    batches: tuple[Batch, ...]

    @classmethod
    def of(cls, links: CoupledLinks) -> "DenseSolver":
        """Find the components, and count how often each kernel enters the block of each pair of levels."""
        if not links.factors:
            return cls(links, links.group_counts, ())
        counts, weights = links.group_counts, None
        if counts.shape[1] == 1:
            nodes = CountNodes.of(counts[:, 0])
            if len(nodes.nodes) < len(counts):
                counts, weights = nodes.nodes[:, None], nodes.weights
        return cls(links, counts, find_batches(links.sizes, *_pairs(links, weights)))

    def solve(self, precision: CoupledPrecision, Phi: tuple[Array, ...]) -> "DensePosterior":
        """Solve P x = Phi and invert P, one of the batches of components after the other."""
        ranks, kernels = precision.ranks, self._kernels(precision)
        means = tuple(np.empty_like(side) for side in Phi)
        covariances, fit, log_det = [], 0.0, 0.0
        for batch in self.batches:
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
        return DensePosterior(self, precision, means, tuple(covariances), fit, np.array([log_det]))

    @property
    def refined(self) -> None:
        """None: this solver is exact."""
        return None

    @property
    def columns(self) -> int:
        """Number of kernels that P is a sum of: identity, one per part, and G P^2 of groups."""
        kinds: int = len(self.counts) * self.counts.shape[1] ** 2
        return 1 + len(self.links.parts) + kinds

    def _kernels(self, precision: CoupledPrecision) -> dict[Pair, Array]:
        """Matrices whose counted sums are the blocks of the coupled precision P, by positions of factors."""
        links, L, kernels = self.links, precision.L.at(self.counts), {}
        n_parts, (G, P) = len(links.parts), self.counts.shape
        for i, k in enumerate(links.factors):
            for j, m in enumerate(links.factors[i:], start=i):
                kernel = np.zeros((self.columns, precision.ranks[i], precision.ranks[j]))
                if i == j:
                    kernel[0] = np.eye(precision.ranks[i])
                for p in range(n_parts):
                    if (p, k, m) in precision.grams:
                        kernel[1 + p] = precision.grams[p, k, m]
                by_group = kernel[1 + n_parts :].reshape(G, P, P, *kernel.shape[1:])
                for p in range(P):
                    for q in range(P):
                        if (p, k) in precision.J and (q, m) in precision.J:
                            by_group[:, p, q] = -L.between(precision.J[p, k], precision.J[q, m])
                kernels[i, j] = kernel
        return kernels


@dataclass(frozen=True)
class DensePosterior:
    """Posterior of the coupled latents; ``covariances`` (classes, s, s) are Sigma of each class of each batch."""

    solver: DenseSolver
    precision: CoupledPrecision
    means: tuple[Array, ...]
    covariances: tuple[Array, ...]
    fit: float
    log_determinants: Array

    def covariance_sums(self) -> CovarianceSums:
        """What the M step needs of Sigma, from its blocks summed by the counts that made P."""
        links, precision = self.solver.links, self.precision
        factors, ranks, group_counts = links.factors, precision.ranks, self.solver.counts
        L, n_parts, (G, P) = precision.L.at(group_counts), len(links.parts), group_counts.shape
        counted = _counted_covariances(self.solver.batches, ranks, self.covariances, self.solver.columns)
        at = {k: i for i, k in enumerate(factors)}
        kinds = list(precision.J)
        places, width = spans(ranks[at[k]] for _, k in kinds), sum(ranks[at[k]] for _, k in kinds)
        C = np.zeros((G, width, width))
        for (p, k), rows in zip(kinds, places, strict=True):
            for (q, m), columns in zip(kinds, places, strict=True):
                i, j = at[k], at[m]
                by_group = counted[min(i, j), max(i, j)][1 + n_parts :].reshape(
                    G, P, P, ranks[min(i, j)], ranks[max(i, j)]
                )
                C[:, rows, columns] = by_group[:, p, q] if i <= j else by_group[:, q, p].swapaxes(-1, -2)
        rank = L.inverse.shape[1]
        with_eliminated, eliminated = {}, np.zeros((1 + P, rank, rank))
        if kinds:
            J = np.concatenate([precision.J[kind] for kind in kinds])
            JC = J.T @ C
            weights = np.concatenate([np.ones((1, G)), group_counts.T])
            eliminated = np.tensordot(weights, L.sandwiched(JC @ J), 1)
            LJC = L.times(JC).sum(axis=0)
            with_eliminated = {kind: LJC[:, span] for kind, span in zip(kinds, places, strict=True)}
        pairs = {(factors[i], factors[j]): values for (i, j), values in counted.items()}
        return CovarianceSums(
            by_part=tuple({pair: values[1 + p] for pair, values in pairs.items()} for p in range(n_parts)),
            by_level={k: pairs[k, k][0] for k in factors},
            with_eliminated=with_eliminated,
            eliminated=eliminated,
        )

    def covariance(self, left: list[Pair], right: list[Pair]) -> Array:
        """Covariance between the latents of (factor, level) pairs of one component, in the order given."""
        rows, columns = self._rows(left), self._rows(right)
        if not left or not right:
            return np.zeros((len(rows), len(columns)))
        batch, cls, _ = self._places[left[0][0]][left[0][1]]
        result: Array = self.covariances[batch][cls][np.ix_(rows, columns)]
        return result

    def joint_covariance(self) -> Array:
        """Sigma of all coupled levels: the factors one after the other, and the levels of each in order."""
        ranks, sizes = self.precision.ranks, self.solver.links.sizes
        starts = [span.start for span in spans(n * r for n, r in zip(sizes, ranks, strict=True))]
        n = sum(n * r for n, r in zip(sizes, ranks, strict=True))
        Sigma = np.zeros((n, n))
        for batch, covariances in zip(self.solver.batches, self.covariances, strict=True):
            for c in range(len(batch.multiplicity)):
                for component in range(batch.ends[c], batch.ends[c + 1]):
                    places: list[IntArray] = [
                        (starts[i] + members[component][:, None] * ranks[i] + np.arange(ranks[i])).ravel()
                        for i, members in enumerate(batch.members)
                    ]
                    at = np.concatenate(places)
                    Sigma[np.ix_(at, at)] = covariances[c]
        return Sigma

    @cached_property
    def _places(self) -> dict[int, IntArray]:
        """Batch, class, and first row in Sigma of every level of each coupled factor, (levels, 3)."""
        links, ranks = self.solver.links, self.precision.ranks
        result = [np.zeros((n, 3), dtype=np.int64) for n in links.sizes]
        for b, batch in enumerate(self.solver.batches):
            which = np.repeat(np.arange(len(batch.multiplicity)), batch.multiplicity)
            places = spans(q * r for q, r in zip(batch.sizes, ranks, strict=True))
            for i, members in enumerate(batch.members):
                result[i][members, 0] = b
                result[i][members, 1] = which[:, None]
                result[i][members, 2] = places[i].start + np.arange(batch.sizes[i]) * ranks[i]
        return dict(zip(links.factors, result, strict=True))

    def _rows(self, levels: list[Pair]) -> IntArray:
        rows = [np.zeros(0, dtype=np.int64)]
        for k, b in levels:
            rank = self.precision.ranks[self.solver.links.factors.index(k)]
            rows.append(self._places[k][b, 2] + np.arange(rank))
        return np.concatenate(rows)


def _counted_covariances(
    batches: tuple[Batch, ...], ranks: tuple[int, ...], covariances: tuple[Array, ...], columns: int
) -> dict[Pair, Array]:
    """Sum the blocks of Sigma by the counts that made P: for every kernel, sum_bb' count_bb' Sigma_bb'.

    Returns
    -------
    dict of (columns, r_k, r_l)
        By pair of coupled factors, k <= l.
    """
    result = {(k, j): np.zeros((columns, ranks[k], ranks[j])) for k in range(len(ranks)) for j in range(k, len(ranks))}
    for batch, Sigma in zip(batches, covariances, strict=True):
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


def _pairs(links: CoupledLinks, weights: Array | None) -> tuple[IntArray, IntArray, csr_array]:
    """Pairs of linked levels of coupled factors, numbered one factor after the other, and how often each kernel enters
    their block of P.

    ``weights`` (G, J) say how much of each of J nodes stands for each group (None: the groups stand for themselves).
    """
    start = dict(zip(links.factors, (span.start for span in spans(links.sizes)), strict=True))
    B, parts = sum(links.sizes), len(links.parts)
    own = np.arange(B)
    triples = [(own * (B + 1), np.zeros(B, dtype=np.int64), np.ones(B))]

    def add(i: AnyArray, j: AnyArray, kernel: int, count: AnyArray) -> None:
        triples.append((i.astype(np.int64) * B + j, np.full(len(i), kernel), count))

    for p, part in enumerate(links.parts):
        for k, n in part.level_counts.items():
            used = np.flatnonzero(n)
            add(start[k] + used, start[k] + used, 1 + p, n[used])
        for (k, j), table in part.links.items():
            both = table.tocoo()
            add(start[k] + both.row, start[j] + both.col, 1 + p, both.data)
            add(start[j] + both.col, start[k] + both.row, 1 + p, both.data)
    for keys, kernels, counts in _shared(links, B, weights):
        triples.append((keys, 1 + parts + kernels, counts))
    P, nodes = links.slots.shape[1] // B, len(links.group_counts) if weights is None else weights.shape[1]
    pairs, table = _table(triples, 1 + parts + nodes * P * P)
    return pairs // B, pairs % B, table


def _shared(links: CoupledLinks, B: int, weights: Array | None) -> Iterator[Triples]:
    """Triples of the pairs of levels that eliminated levels share: pair, kernel of their group or node, and count."""
    P, G = links.slots.shape[1] // B, len(links.group_counts)
    ends, pending, size = np.searchsorted(links.group, np.arange(G + 1)), [], 0
    pairs, folded = np.zeros(0, dtype=np.int64), np.zeros((0, 0 if weights is None else weights.shape[1]))
    for g in range(G):
        shared = _squared(links.slots[ends[g] : ends[g + 1]])
        rows, columns = shared.row.astype(np.int64), shared.col.astype(np.int64)
        pending.append(((rows % B) * B + columns % B, (g * P + rows // B) * P + columns // B, shared.data))
        size += shared.nnz
        if weights is not None and (size > FOLDED or g == G - 1):
            more, table = _table(pending, G)
            pairs, which = np.unique(np.concatenate([pairs, more]), return_inverse=True)
            folded = sums_by_level(which.reshape(-1), np.concatenate([folded, table @ weights]), len(pairs))
            pending, size = [], 0
    if weights is not None:
        nodes = np.tile(np.arange(folded.shape[1]), len(pairs))
        pending = [(np.repeat(pairs, folded.shape[1]), nodes, folded.ravel())]
    yield from pending


def _table(triples: list[Triples], columns: int) -> tuple[IntArray, csr_array]:
    """The distinct pairs of levels, and a table (pairs, columns) of the counts of all triples."""
    keys, kernels, counts = (np.concatenate(pieces) for pieces in zip(*triples, strict=True))
    pairs, at = np.unique(keys, return_inverse=True)
    table = coo_array((counts, (at.reshape(-1), kernels)), shape=(len(pairs), columns)).tocsr()
    table.sum_duplicates()
    return pairs, table


def _squared(h: csr_array) -> coo_array:
    """H = h' h, as a dense product where h is not very sparse."""
    n, width = h.shape
    if width <= 4096 and h.nnz > 0.05 * n * width:
        total = np.zeros((width, width))
        step = 1 + 2**24 // width
        for start in range(0, n, step):
            piece = h[start : start + step].toarray()
            total += piece.T @ piece
        return coo_array(total)
    return coo_array(h.T @ h)
