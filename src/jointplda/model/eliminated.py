"""The eliminated factor: its latents are integrated out analytically, with one precision per distinct count.

Every eliminated level o has u_o = [f_o, n_o, h_o]: the sums and numbers of its samples in each part, and the number of
samples that it shares with each coupled level. Given the coupled latents x,

    yhat_o = L_o^-1 E u_o,      E = [V' D_p ..., -V' D_p mean ..., -J' x_b ...]

is linear in u_o, and EM needs only quadratic sums of it. So the levels of a group (equal counts, hence equal L) are
kept either as they are (``EliminatedRows``) or as their Gram matrix sum_o u_o u_o' (``EliminatedGram``), whichever is
cheaper; the second does not grow with the number of levels. The E step asks either for ``projected_sums``, then solves
for x, then asks for ``moments``.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from jointplda._typing import Array, IntArray
from jointplda.linalg import inverses

GRAM_BYTES = 2e9
BUILT_FOR = 25  # iterations, over which the work of the Gram matrices is spread


@dataclass(frozen=True)
class Precision:
    """L_g^-1 of every group: (G, R) where diagonal, else (G, R, R).

    Where all samples have the same noise precision D, V is rotated so that V' D V = diag(b), and
    L_g^-1 = diag(1 / (n_g b + 1)).
    """

    inverse: Array
    log_determinants: Array
    b: Array

    @classmethod
    def diagonal(cls, counts: Array, b: Array) -> "Precision":
        """Return diag(1 / (n_g b + 1)) for counts (G, 1) and b (R,)."""
        L = counts * b + 1.0
        return cls(1.0 / L, np.log(L).sum(axis=1), b)

    @classmethod
    def dense(cls, counts: Array, grams: Array) -> "Precision":
        """Return (I + sum_p n_gp V' D_p V)^-1 for counts (G, P) and grams (P, R, R)."""
        L = (counts @ grams.reshape(len(grams), -1)).reshape(-1, *grams.shape[1:])
        L += np.eye(grams.shape[-1])
        return cls(*inverses(L), np.zeros(0))

    def at(self, counts: Array) -> "Precision":
        """The same for other counts (G, 1), which L must be diagonal for; else these must be its own."""
        return Precision.diagonal(counts, self.b) if self.is_diagonal else self

    @property
    def is_diagonal(self) -> bool:
        """Whether every L_g is diagonal."""
        return self.inverse.ndim == 2

    def times(self, Z: Array) -> Array:
        """L_g^-1 Z_g for Z (G, R, q)."""
        return self.inverse[:, :, None] * Z if self.is_diagonal else self.inverse @ Z

    def times_columns(self, Z: Array) -> Array:
        """L_g^-1 Z_g for Z (R, G, q), in place where it can be."""
        if self.is_diagonal:
            Z *= self.inverse.T[:, :, None]
            return Z
        return np.ascontiguousarray((self.inverse @ Z.swapaxes(0, 1)).swapaxes(0, 1))

    def times_rows(self, T: Array, group: IntArray) -> Array:
        """L_g(o)^-1 t_o for rows t_o (K, R), sorted by group."""
        return self.times_each(T[:, None], group)[:, 0]

    def times_each(self, T: Array, group: IntArray) -> Array:
        """L_g(o)^-1 t for each of the vectors t of eliminated level o, (K, m, R), sorted by group."""
        if self.is_diagonal:
            scaled: Array = T * self.inverse[group][:, None]
            return scaled
        starts = np.flatnonzero(np.diff(group, prepend=-1))
        if len(starts) == len(group):
            turned: Array = self.inverse[group[0] : group[-1] + 1] @ T.swapaxes(1, 2)
            return np.ascontiguousarray(turned.swapaxes(1, 2))
        result = np.empty_like(T)
        for start, end in zip(starts, [*starts[1:], len(T)], strict=True):
            np.matmul(T[start:end], self.inverse[group[start]], out=result[start:end])
        return result

    def summed(self, weights: Array) -> Array:
        """sum_g w_g L_g^-1 for each row of weights (w, G): (w, R, R)."""
        sums = weights @ self.inverse.reshape(len(self.inverse), -1)
        if self.is_diagonal:
            return np.stack([np.diag(row) for row in sums])
        return sums.reshape(-1, *self.inverse.shape[1:])

    def sandwiched(self, Q: Array) -> Array:
        """L_g^-1 Q_g L_g^-1 for Q (G, R, R)."""
        if self.is_diagonal:
            return self.inverse[:, :, None] * Q * self.inverse[:, None, :]
        return self.inverse @ Q @ self.inverse

    def between(self, J: Array, K: Array) -> Array:
        """J L_g^-1 K' for J (r, R), K (s, R): (G, r, s)."""
        left = J * self.inverse[:, None, :] if self.is_diagonal else J @ self.inverse
        return left @ K.T


@dataclass(frozen=True)
class EliminatedMoments:
    """Sums over eliminated levels of products with yhat_o, without what the covariance of x adds to them.

    Attributes
    ----------
    total : (R,)
        sum_o yhat_o.
    sums : (R, P d + P)
        sum_o yhat_o [f_o, n_o]'.
    slots : (R, slots)
        sum_o yhat_o h_o'.
    squares : (1 + P, R, R)
        sum_o yhat_o yhat_o', unweighted first, then weighted by n_op for each part.
    """

    total: Array
    sums: Array
    slots: Array
    squares: Array


@dataclass(frozen=True)
class EliminatedRows:
    """Eliminated levels as they are, sorted by group; P is ``n_parts``.

    Attributes
    ----------
    sums : (K, P d + P)
        f_o and n_o.
    slots : sparse (K, slots)
        h_o.
    group : (K,)
        The group of each level, increasing.
    """

    sums: Array
    slots: csr_array
    group: IntArray
    n_parts: int

    def projected_sums(self, E: Array, L: Precision) -> tuple[Array, float, Array]:
        """With t_o = L^-1 E [f_o, n_o], return all sums projected, sum_o t_o' L t_o, and sum_o h_o t_o' (slots, R)."""
        raw = self.sums @ E.T
        t = L.times_rows(raw, self.group)
        return t, float(np.vdot(raw, t)), self.slots.T @ t

    def moments(self, projected: Array, E: Array, Jx: Array, L: Precision) -> EliminatedMoments:
        """Moments of yhat_o = t_o - L^-1 Jx' h_o, for the projection of ``projected_sums`` and Jx (slots, R)."""
        yhat = self.means(projected, Jx, L)
        squares = [yhat.T @ yhat]
        for n in self.sums[:, -self.n_parts :].T:
            scaled = yhat * np.sqrt(n)[:, None]
            squares.append(scaled.T @ scaled)
        return EliminatedMoments(
            total=yhat.sum(axis=0), sums=yhat.T @ self.sums, slots=(self.slots.T @ yhat).T, squares=np.stack(squares)
        )

    def means(self, projected: Array, Jx: Array, L: Precision) -> Array:
        """yhat_o of every level, (K, R)."""
        return projected - L.times_rows(self.slots @ Jx, self.group) if len(Jx) else projected


@dataclass(frozen=True)
class EliminatedGram:
    """Groups of eliminated levels as Gram matrices of [f_o, n_o, h_o, 1], (q, G, q), and their ``counts`` (G, P).

    The group is the middle axis, so that one large product serves all groups. With one part and many groups these are
    weighted sums of the groups, at a few nodes that stand for their counts (see ``count_nodes``).
    """

    gram: Array
    counts: Array
    width: int

    def projected_sums(self, E: Array, L: Precision) -> tuple[Array, float, Array]:
        """As ``EliminatedRows.projected_sums``."""
        L = L.at(self.counts)
        Z = L.times_columns(self._times(E, slice(self.width)))
        both = Z.sum(axis=1)
        return Z, float(np.vdot(both[:, : self.width], E)), both[:, self.width : -1].T

    def moments(self, projected: Array, E: Array, Jx: Array, L: Precision) -> EliminatedMoments:
        """As ``EliminatedRows.moments``."""
        L = L.at(self.counts)
        w, (R, G, q) = self.width, projected.shape
        Z, full = projected, np.concatenate([E, -Jx.T, np.zeros((R, 1))], axis=1)
        if len(Jx):
            Z = L.times_columns(self._times(-Jx.T, slice(w, q - 1)))
            Z += projected
        # Z_g is L^-1 E Gram; one more product gives L^-1 E Gram E' L^-1.
        YY = (Z.reshape(R * G, q) @ full.T).reshape(R, G, R)
        YY = YY * L.inverse if L.is_diagonal else (YY.swapaxes(0, 1) @ L.inverse).swapaxes(0, 1)
        weights = np.concatenate([np.ones((1, G)), self.counts.T])
        both, squares = Z.sum(axis=1), (weights @ YY).swapaxes(0, 1)
        return EliminatedMoments(total=both[:, -1], sums=both[:, :w], slots=both[:, w:-1], squares=squares)

    def _times(self, E: Array, rows: slice) -> Array:
        """E Gram[rows], (R, G, q)."""
        gram = self.gram[rows]
        return (E @ gram.reshape(len(gram), -1)).reshape(len(E), *gram.shape[1:])


def gram_pays(K: int, rank: int, n_parts: int, width: int, q: int, nodes: int, groups: int) -> bool:
    """Whether ``nodes`` Gram matrices (q, q) of K levels in so many ``groups`` are cheaper than the levels."""
    by_rows = K * rank * (4 * width + rank * (1 + n_parts))
    by_gram = nodes * rank * q * 2 * (q + rank) + (2 * K + groups * nodes) * q * q / BUILT_FOR
    return by_gram < by_rows and nodes * q * q * 8 <= GRAM_BYTES
