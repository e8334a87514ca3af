"""Products of the coupled precision P with vectors, from counts alone: no block of P is ever formed."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csc_array, csr_array

from jointplda._typing import Array, IntArray
from jointplda.linalg import spans
from jointplda.model.coupled.links import CoupledLinks
from jointplda.model.coupled.solver import Blocks, CoupledPrecision, CovarianceSums
from jointplda.model.eliminated import Precision

CHUNK_NUMBERS = 2**19


@dataclass(frozen=True)
class Vectors:
    """How vectors of coupled latents (m, n) stand in memory: one factor after the other, and its levels in order."""

    factors: tuple[int, ...]
    sizes: tuple[int, ...]
    ranks: tuple[int, ...]

    @property
    def length(self) -> int:
        """Number of coupled latents."""
        return sum(n * r for n, r in zip(self.sizes, self.ranks, strict=True))

    def split(self, vectors: Array) -> list[Array]:
        """The latents of each factor, (levels, m, r)."""
        places = spans(n * r for n, r in zip(self.sizes, self.ranks, strict=True))
        shapes = zip(places, self.sizes, self.ranks, strict=True)
        return [np.ascontiguousarray(vectors[:, at].reshape(-1, n, r).swapaxes(0, 1)) for at, n, r in shapes]

    def joined(self, pieces: list[Array]) -> Array:
        """The vectors (m, n) whose pieces these are."""
        return np.concatenate([x.swapaxes(0, 1).reshape(x.shape[1], -1) for x in pieces], axis=1)

    def places(self, levels: list[tuple[int, int]]) -> IntArray:
        """Positions of the latents of (factor, level) pairs, in the order given."""
        starts = spans(n * r for n, r in zip(self.sizes, self.ranks, strict=True))
        places = [np.zeros(0, dtype=np.int64)]
        for k, b in levels:
            i = self.factors.index(k)
            places.append(starts[i].start + b * self.ranks[i] + np.arange(self.ranks[i]))
        return np.concatenate(places)


class Product:
    """P of given parameters, as a function of vectors (m, n)."""

    def __init__(self, links: CoupledLinks, precision: CoupledPrecision) -> None:
        self.links, self.precision = links, precision
        self.vectors = Vectors(links.factors, links.sizes, precision.ranks)
        self.at = {k: i for i, k in enumerate(links.factors)}

    def __call__(self, vectors: Array) -> Array:
        """P times each of the vectors."""
        X = self.vectors.split(vectors)
        out = [x.copy() for x in X]
        for p, part in enumerate(self.links.parts):
            for k, counts in part.level_counts.items():
                i = self.at[k]
                out[i] += counts[:, None, None] * (X[i] @ self.precision.grams[p, k, k])
            for (k, m), table in part.links.items():
                i, j, gram = self.at[k], self.at[m], self.precision.grams[p, k, m]
                out[i] += _times(table, X[j] @ gram.T)
                out[j] += _times(table.T, X[i] @ gram)
        back, _ = self._through_eliminated(X)
        for (at, k), J in self.precision.J.items():
            out[self.at[k]] -= back[self.links.slot_range(at, k)] @ J.T
        return self.vectors.joined(out)

    def averaged(self) -> "Product":
        """The same with the noise precision averaged over parts, so that L is diagonal."""
        precision = self.precision
        if precision.L.is_diagonal:
            return self
        L = Precision.diagonal(self.links.group_counts.sum(axis=1, keepdims=True), precision.mean.b)
        J = {(at, k): precision.mean.J[k] for at, k in precision.J}
        return Product(self.links, replace(precision, J=J, L=L))

    def covariance_sums(self, draws: Array) -> CovarianceSums:
        """The sums over Sigma where it is the mean of outer products of ``draws`` (m, n)."""
        X, scale = self.vectors.split(draws), 1.0 / len(draws)
        by_part: list[Blocks] = []
        for part in self.links.parts:
            blocks = {(k, k): _weighted(X[self.at[k]], n, X[self.at[k]]) for k, n in part.level_counts.items()}
            for (k, m), table in part.links.items():
                blocks[k, m] = _weighted(X[self.at[k]], None, _times(table, X[self.at[m]]))
            by_part.append({pair: scale * block for pair, block in blocks.items()})
        weights = np.concatenate([np.ones((1, len(self.links.group_counts))), self.links.group_counts.T])
        back, squares = self._through_eliminated(X, weights)
        with_eliminated = {
            (at, k): scale * _weighted(back[self.links.slot_range(at, k)], None, X[self.at[k]])
            for at, k in self.precision.J
        }
        by_level = {k: scale * _weighted(X[i], None, X[i]) for k, i in self.at.items()}
        return CovarianceSums(tuple(by_part), by_level, with_eliminated, scale * squares)

    def _through_eliminated(self, X: list[Array], weights: Array | None = None) -> tuple[Array, Array]:
        """With u_o = L_o^-1 sum_b h_ob J' x_b, sum_o h_ob u_o' of every slot (slots, m, R), and sum_o w_o u_o u_o'.

        The second, (len(weights), R, R), is for ``weights`` (w, G) of the groups.
        """
        links, L = self.links, self.precision.L
        m, R = X[0].shape[1], L.inverse.shape[1]
        projected = np.zeros((links.slots.shape[1], m, R))
        for (at, k), J in self.precision.J.items():
            projected[links.slot_range(at, k)] = X[self.at[k]] @ J
        flat, back = projected.reshape(-1, m * R), np.zeros((len(projected), m * R))
        squares = np.zeros((0 if weights is None else len(weights), R, R))
        step = max(1 + CHUNK_NUMBERS // (m * R), len(flat))
        for start in range(0, links.slots.shape[0], step):
            rows = slice(start, start + step)
            slots, group = links.slots[rows], links.group[rows]
            u = L.times_each(np.asarray(slots @ flat).reshape(-1, m, R), group)
            back += slots.T @ u.reshape(len(u), -1)
            if weights is not None:
                squares += _squares(u, weights[:, group])
        return back.reshape(-1, m, R), squares


def _times(table: csr_array | csc_array, X: Array) -> Array:
    """A sparse table times X (levels, m, r) over the levels."""
    return np.asarray(table @ X.reshape(len(X), -1)).reshape(-1, *X.shape[1:])


def _weighted(X: Array, weights: Array | None, Y: Array) -> Array:
    """Sum over levels and vectors of w_b x_b y_b', (r, s)."""
    if weights is not None:
        Y = Y * weights[:, None, None]
    return X.reshape(-1, X.shape[2]).T @ Y.reshape(-1, Y.shape[2])


def _squares(u: Array, weights: Array) -> Array:
    """Sums of w_o u_o u_o' over eliminated levels and vectors, for each row of weights."""
    flat = u.reshape(-1, u.shape[2])
    result = [flat.T @ flat]
    for w in weights[1:]:
        used = np.flatnonzero(w)
        scaled = (u[used] * np.sqrt(w[used])[:, None, None]).reshape(-1, u.shape[2])
        result.append(scaled.T @ scaled)
    return np.stack(result)
