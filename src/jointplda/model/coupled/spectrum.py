"""What is known of the counts of coupled factors before any parameters are: the basis of the preconditioner."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, diags_array
from sklearn.utils.extmath import randomized_svd

from jointplda._typing import Array
from jointplda.model.count_nodes import CountNodes
from jointplda.model.coupled.links import CoupledLinks

FEW_LEVELS = 300  # for which all eigenvectors are found
LEADING = 32
Pair = tuple[int, int]


@dataclass(frozen=True)
class Spectrum:
    """The leading eigenvectors of how the levels of a coupled factor share eliminated levels.

    With E = diag(e_b), N the counts of the eliminated levels s in these levels and H = N' diag(1 / sum n_s) N:

    Attributes
    ----------
    totals : (levels,)
        e_b, the number of samples of each level.
    vectors, values : (levels, q), (q,)
        Leading eigenvectors T and eigenvalues h of E^-1/2 H E^-1/2, which lie in [0, 1].
    rest : float
        Mean of the other eigenvalues.
    """

    totals: Array
    vectors: Array
    values: Array
    rest: float

    @classmethod
    def of(cls, links: CoupledLinks, k: int) -> "Spectrum":
        """Find the spectrum of factor k."""
        totals = np.sum([part.level_counts[k] for part in links.parts if k in part.level_counts], axis=0)
        counts = total_counts(links, k)
        own = np.maximum(counts.sum(axis=1), np.finfo(float).tiny)
        root = diags_array(own**-0.5) @ counts @ diags_array(totals**-0.5)
        B = len(totals)
        if B <= FEW_LEVELS:
            values, vectors = np.linalg.eigh((root.T @ root).toarray())
            return cls(totals, vectors[:, ::-1], np.clip(values[::-1], 0.0, 1.0), 0.0)
        _, singular, right = randomized_svd(root, LEADING, n_iter=8, random_state=0)
        values = np.clip(singular**2, 0.0, 1.0)
        everything = float(np.sum(root.data**2))
        rest = np.clip((everything - values.sum()) / (B - LEADING), 0.0, 1.0)
        return cls(totals, np.ascontiguousarray(right.T), values, float(rest))

    @property
    def leading(self) -> Array:
        """T = E^-1/2 T of the largest eigenvalue, (levels,)."""
        result: Array = self.vectors[:, 0] / np.sqrt(self.totals)
        return result


def total_counts(links: CoupledLinks, k: int) -> csr_array:
    """N of factor k over all eliminated parts, sparse (K, levels)."""
    pieces = [links.slots[:, links.slot_range(at, k)] for at in range(len(links.eliminated_parts))]
    return sum(pieces[1:], start=pieces[0]).tocsr()


@dataclass(frozen=True)
class MeanCounts:
    """Sums over eliminated levels and over linked levels that the sums over M^-1 need, for all parameters.

    Eliminated levels have one diagonal precision per number of samples there, 1 + n b, so that sums over them are sums
    over ``nodes`` that stand for these numbers (see ``count_nodes``). For an eliminated level with counts h in the
    levels of factor k, v_k is [sum_b h_b^2 / e_b, (h' tau_1)^2, ...], (1 + q,), with tau_c = E^-1/2 T_c; t_k is tau_1.

    Attributes
    ----------
    nodes : (J,)
    squares : dict of (1 + P, J, 1 + q)
        v_k by factor, unweighted, then weighted by n_op.
    crosses : dict of (J, 1 + q)
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
            squares={k: np.zeros((1 + P, J, 1 + len(spectra[k].values))) for k in links.factors},
            crosses={kind: np.zeros((J, 1 + len(spectra[kind[1]].values))) for kind in kinds},
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
            tau = spectrum.vectors / np.sqrt(spectrum.totals)[:, None]
            h = [slots[:, links.slot_range(at, k)] for at in range(len(links.eliminated_parts))]
            total = sum(h[1:], start=h[0])
            inside[k] = np.asarray(total @ tau)
            alone = np.asarray(total.multiply(total) @ (1.0 / spectrum.totals))
            v = np.concatenate([alone[:, None], inside[k] ** 2], axis=1)
            for i, w in enumerate(weights):
                self.squares[k][i] += (node * w) @ v
            for at, piece in enumerate(h):
                part = np.asarray(piece @ tau)
                alone = np.asarray(piece.multiply(total) @ (1.0 / spectrum.totals))
                moved[at, k] = part[:, 0]
                if (at, k) in self.crosses:
                    self.crosses[at, k][:] += node @ np.concatenate([alone[:, None], part * inside[k]], axis=1)
        for k, m in self.moved:
            self.moved[k, m][:] += (weights * (inside[k][:, 0] * inside[m][:, 0])) @ node.T
        for (a, b), sums in self.moved_groups.items():
            sums += np.bincount(group, moved[a] * moved[b], len(sums))
        for at, k, m in self.moved_crosses:
            self.moved_crosses[at, k, m][:] += node @ (moved[at, k] * inside[m][:, 0])


def _moved_samples(links: CoupledLinks, spectra: dict[int, Spectrum]) -> dict[tuple[int, int, int], float]:
    result = {}
    for p, part in enumerate(links.parts):
        for k, n in part.level_counts.items():
            result[p, k, k] = float(n @ spectra[k].leading ** 2)
        for (k, m), table in part.links.items():
            result[p, k, m] = float(spectra[k].leading @ (table @ spectra[m].leading))
    return result
