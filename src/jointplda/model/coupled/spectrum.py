"""What is known of the counts of coupled factors before any parameters are: the basis of the preconditioner."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, diags_array
from sklearn.utils.extmath import randomized_svd

from jointplda._typing import AnyArray, Array, IntArray
from jointplda.model.count_nodes import CountNodes
from jointplda.model.coupled.links import CoupledLinks

FEW_LEVELS = 300  # for which all eigenvectors are found
LEADING = 32
RARE = 0.25  # of the mean number of samples of frequent levels
Pair = tuple[int, int]


@dataclass(frozen=True)
class Spectrum:
    """The leading eigenvectors of how the levels of a coupled factor share eliminated levels.

    Levels with few samples, the rare ones, are left out: they matter little to the others. With E = diag(e_b) of the
    frequent levels, N the counts of the eliminated levels s in them and H = N' diag(1 / sum n_s) N:

    Attributes
    ----------
    totals : (levels,)
        e_b, the number of samples of each level.
    frequent, rare : (f,), (levels - f,)
        The levels.
    vectors, values : (f, q), (q,)
        Leading eigenvectors T and eigenvalues h of E^-1/2 H E^-1/2, which lie in [0, 1].
    rest : float
        Mean of the other eigenvalues.
    rare_share : float
        H_bb / e_b, on average over the samples of rare levels.
    """

    totals: Array
    frequent: IntArray
    rare: IntArray
    vectors: Array
    values: Array
    rest: float
    rare_share: float

    @classmethod
    def of(cls, links: CoupledLinks, k: int) -> "Spectrum":
        """Find the spectrum of factor k."""
        totals = np.sum([part.level_counts[k] for part in links.parts if k in part.level_counts], axis=0)
        counts = total_counts(links, k)
        own = np.maximum(counts.sum(axis=1), np.finfo(float).tiny)
        frequent, rare = _frequent(totals)
        shared = diags_array(own**-0.5) @ counts
        squares = np.asarray(shared[:, rare].multiply(shared[:, rare]).sum())
        share = float(squares / max(totals[rare].sum(), np.finfo(float).tiny))
        root = shared[:, frequent] @ diags_array(totals[frequent] ** -0.5)
        B = len(frequent)
        if B <= FEW_LEVELS:
            values, vectors = np.linalg.eigh((root.T @ root).toarray())
            return cls(totals, frequent, rare, vectors[:, ::-1], np.clip(values[::-1], 0.0, 1.0), 0.0, share)
        _, singular, right = randomized_svd(root, LEADING, n_iter=8, random_state=0)
        values = np.clip(singular**2, 0.0, 1.0)
        everything = float(np.sum(root.data**2))
        rest = float(np.clip((everything - values.sum()) / (B - LEADING), 0.0, 1.0))
        return cls(totals, frequent, rare, np.ascontiguousarray(right.T), values, rest, share)

    @property
    def direction(self) -> Array:
        """T of the largest eigenvalue, (levels,); 0 at rare levels."""
        result = np.zeros(len(self.totals))
        result[self.frequent] = self.vectors[:, 0]
        return result

    @property
    def leading(self) -> Array:
        """The same divided by E^1/2, (levels,)."""
        return self.direction / np.sqrt(self.totals)


def _frequent(totals: Array) -> tuple[IntArray, IntArray]:
    """Levels that have at least ``RARE`` times the mean number of samples of levels such as they, and the others."""
    kept = np.ones(len(totals), dtype=bool)
    while (rare := kept & (totals < RARE * totals[kept].mean())).any():
        kept &= ~rare
    return np.flatnonzero(kept), np.flatnonzero(~kept)


def total_counts(links: CoupledLinks, k: int) -> csr_array:
    """N of factor k over all eliminated parts, sparse (K, levels)."""
    pieces = [links.slots[:, links.slot_range(at, k)] for at in range(len(links.eliminated_parts))]
    return sum(pieces[1:], start=pieces[0]).tocsr()


@dataclass(frozen=True)
class MeanCounts:
    """Sums over eliminated levels and over linked levels that the sums over M^-1 need, for all parameters.

    Eliminated levels have one diagonal precision per number of samples there, 1 + n b, so that sums over them are sums
    over ``nodes`` that stand for these numbers (see ``count_nodes``). For an eliminated level with counts h in the
    levels of factor k, v_k is [sum_b h_b^2 / e_b, (h' tau_1)^2, ...], (1 + q,), over frequent levels, with
    tau_c = E^-1/2 T_c, and then h_b^2 of each rare level; t_k is tau_1.

    Attributes
    ----------
    nodes : (J,)
    squares : dict of (1 + P, J, 1 + q + rare)
        v_k by factor, unweighted, then weighted by n_op.
    crosses : dict of (J, 1 + q + rare)
        v_k with one h of the two replaced by the counts in one eliminated part, by part and factor.
    moved : dict of (1 + P, J)
        (h' t_k)(h' t_l) by pair of factors k <= l, unweighted and weighted.
    moved_crosses : dict of (J,)
        (h_p' t_k)(h' t_l) by eliminated part and factor, and by the other factor.
    moved_samples : dict of float
        sum e_bb' t_kb t_lb' by part and pair of factors k <= l.
    moved_groups : dict of (G,)
        (h_p' t_k)(h_q' t_l) by two pairs of an eliminated part and a factor, summed over the levels of each group.
    """

    nodes: Array
    squares: dict[int, Array]
    crosses: dict[Pair, Array]
    moved: dict[Pair, Array]
    moved_crosses: dict[tuple[int, int, int], Array]
    moved_samples: dict[tuple[int, int, int], float]
    moved_groups: dict[tuple[Pair, Pair], Array]

    @classmethod
    def of(cls, links: CoupledLinks, spectra: dict[int, Spectrum]) -> "MeanCounts":
        """Sum over eliminated levels, a chunk of them at a time."""
        nodes = CountNodes.of(links.group_counts.sum(axis=1))
        P, J = len(links.eliminated_parts), len(nodes.nodes)
        pairs = [(k, m) for k in links.factors for m in links.factors if k <= m]
        kinds = [(at, k) for at, p in enumerate(links.eliminated_parts) for k in links.parts[p].level_counts]
        both = [(a, b) for a in kinds for b in kinds if (a[1], a[0]) <= (b[1], b[0])]
        counts = cls(
            nodes.nodes,
            squares={k: np.zeros((1 + P, J, _width(spectra[k]))) for k in links.factors},
            crosses={kind: np.zeros((J, _width(spectra[kind[1]]))) for kind in kinds},
            moved={pair: np.zeros((1 + P, J)) for pair in pairs},
            moved_crosses={(*kind, m): np.zeros(J) for kind in kinds for m in links.factors},
            moved_samples=_moved_samples(links, spectra),
            moved_groups={pair: np.zeros(len(links.group_counts)) for pair in both if len(links.factors) > 1},
        )
        step = 20_000
        for start in range(0, links.slots.shape[0], step):
            counts._add(links, spectra, nodes.weights, slice(start, start + step))
        return counts

    def _add(self, links: CoupledLinks, spectra: dict[int, Spectrum], stands_for: Array, rows: slice) -> None:
        """Add the sums over some of the eliminated levels; ``stands_for`` (G, J) are the weights of the nodes."""
        slots, group = links.slots[rows], links.group[rows]
        node = stands_for[group].T
        weights = np.concatenate([np.ones((1, len(group))), links.group_counts[group].T])
        inside, moved = {}, {}
        for k in links.factors:
            spectrum = spectra[k]
            tau = np.zeros((len(spectrum.totals), len(spectrum.values)))
            tau[spectrum.frequent] = spectrum.vectors / np.sqrt(spectrum.totals[spectrum.frequent])[:, None]
            h = [slots[:, links.slot_range(at, k)] for at in range(len(links.eliminated_parts))]
            total = sum(h[1:], start=h[0])
            inside[k] = np.asarray(total @ tau)
            for i, w in enumerate(weights):
                self.squares[k][i] += _summed(node * w, total.multiply(total), inside[k] ** 2, spectrum)
            for at, piece in enumerate(h):
                part = np.asarray(piece @ tau)
                moved[at, k] = part[:, 0]
                if (at, k) in self.crosses:
                    self.crosses[at, k][:] += _summed(node, piece.multiply(total), part * inside[k], spectrum)
        for k, m in self.moved:
            self.moved[k, m][:] += (weights * (inside[k][:, 0] * inside[m][:, 0])) @ node.T
        for (a, b), sums in self.moved_groups.items():
            sums += np.bincount(group, moved[a] * moved[b], len(sums))
        for at, k, m in self.moved_crosses:
            self.moved_crosses[at, k, m][:] += node @ (moved[at, k] * inside[m][:, 0])


def _width(spectrum: Spectrum) -> int:
    return 1 + len(spectrum.values) + len(spectrum.rare)


def _summed(weights: Array, products: AnyArray, inside: Array, spectrum: Spectrum) -> Array:
    """Weighted sums (J, 1 + q + rare) over eliminated levels of v; ``products`` (K, levels) are sparse products of
    counts, ``inside`` (K, q) those along the eigenvectors, and ``weights`` (J, K).
    """
    own = np.asarray((csr_array(products).T @ weights.T).T)
    alone = own[:, spectrum.frequent] @ (1.0 / spectrum.totals[spectrum.frequent])
    return np.concatenate([alone[:, None], weights @ inside, own[:, spectrum.rare]], axis=1)


def _moved_samples(links: CoupledLinks, spectra: dict[int, Spectrum]) -> dict[tuple[int, int, int], float]:
    result = {}
    for p, part in enumerate(links.parts):
        for k, n in part.level_counts.items():
            result[p, k, k] = float(n @ spectra[k].leading ** 2)
        for (k, m), table in part.links.items():
            result[p, k, m] = float(spectra[k].leading @ (table @ spectra[m].leading))
    return result
