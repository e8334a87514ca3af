"""Posterior means and covariances of the latents of every level."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from jointplda import sample_matrix
from jointplda._typing import Array, IntArray
from jointplda.labels import MISSING
from jointplda.linalg import equal_rows, inverse, spans
from jointplda.model.eliminated import EliminatedRows
from jointplda.model.estep import Solution, solve
from jointplda.model.interaction.cell_means import cell_means, with_cell_factor
from jointplda.model.layout import Layout, lay_out
from jointplda.model.parameters import Parameters
from jointplda.model.plan import EXACT, estimated_work
from jointplda.model.statistics import Statistics, encode_all

QUICK_WORK = 2e11  # operations: some seconds


@dataclass(frozen=True)
class LatentPosterior:
    """Posterior of the latents of one factor: the speaker, or a condition.

    Attributes
    ----------
    labels : tuple
        Label of each level; None for the level of a sample that has no label.
    index : (n,) int64
        Level of each sample.
    means : (levels, r)
    covariances : (levels, r, r)
        They are computed when first used.
    """

    labels: tuple[Hashable, ...]
    index: IntArray
    means: Array
    _covariances: Callable[[], Array] = field(repr=False)

    @cached_property
    def covariances(self) -> Array:
        """Posterior covariance of each level, (levels, r, r)."""
        return self._covariances()


@dataclass(frozen=True)
class Posterior:
    """Posterior of y of the speakers and, for each condition, of x of the channels; and the ``log_likelihood``."""

    speakers: LatentPosterior
    channels: tuple[LatentPosterior, ...]
    log_likelihood: float


def solve_samples(
    statistics: Statistics,
    parameters: Parameters,
    eliminated: int | None = None,
    *,
    keep_rows: bool = False,
    solver: str = "auto",
) -> tuple[Layout, Solution]:
    """The layout of samples, and the posterior of the latents that they share under a model with the same factors.

    One solution may take longer than an iteration of EM: it is exact where that takes some seconds, unless another
    ``solver`` is asked for. If the model has a cell, the layout is that of the means of cells, whose noise is
    (1/n + kappa) C or has a factor G. The log-likelihood is that of the samples.
    """
    cell = parameters.cell
    if cell is None:
        layout = _laid_out(statistics, parameters.ranks, eliminated, keep_rows, solver)
        return layout, solve(layout, parameters)
    means, within = cell_means(statistics)
    if cell.kappa is None:
        means = with_cell_factor(means)
    else:
        parameters = parameters.without_cell()
    layout = _laid_out(means, parameters.ranks, eliminated, keep_rows, solver)
    solution = solve(layout, parameters, cell.kappa or 0.0)
    log_likelihoods = solution.log_likelihoods + within.log_likelihood(*inverse(parameters.noise))
    return layout, replace(solution, log_likelihoods=log_likelihoods)


def _laid_out(
    statistics: Statistics, ranks: tuple[int, ...], eliminated: int | None, keep_rows: bool, solver: str
) -> Layout:
    if solver == "auto" and estimated_work(statistics, ranks, EXACT, eliminated) <= QUICK_WORK:
        solver = EXACT
    return lay_out(statistics, ranks, eliminated, keep_rows, solver)


def posterior(X: Any, y: Any, channels: Any, parameters: Parameters, solver: str = "auto") -> Posterior:
    """Posterior of all latents given labelled samples; the conditions in ``channels`` are those of the parameters."""
    matrix = sample_matrix.as_matrix(X)
    codes, labels, _ = encode_all(y, channels, len(matrix))
    used = parameters.used()
    factors = [k for k, factor in enumerate(parameters.without_cell().factors) if k == 0 or factor.rank]
    statistics = Statistics.from_samples(matrix, y, channels, cells=used.cell is not None)
    statistics = statistics.with_conditions([k - 1 for k in factors[1:]])
    layout, solution = solve_samples(statistics, used, keep_rows=True, solver=solver)
    look = _Lookup(layout, used.of_cell_means(1.0), solution)  # samples without a label are cells of their own
    posteriors = []
    for k, levels in enumerate(labels):
        alone = np.flatnonzero(codes[:, k] == MISSING)
        index = codes[:, k].copy()
        index[alone] = len(levels) + np.arange(len(alone))
        n = len(levels) + len(alone)
        means, covariances = np.zeros((n, 0)), partial(np.zeros, (n, 0, 0))
        if k in factors:
            at, chosen = factors.index(k), codes[:, factors]
            means = np.concatenate([look.means(at), _own_means(look, matrix, chosen, alone, at)])
            covariances = partial(_covariances, look, chosen, alone, at, len(levels))
        posteriors.append(LatentPosterior((*levels, *[None] * len(alone)), index, means, covariances))
    return Posterior(posteriors[0], tuple(posteriors[1:]), solution.log_likelihood)


def eliminated_means(layout: Layout, solution: Solution) -> Array:
    """Yhat of every eliminated level, (K, R), in the order of its labels; the layout must keep its rows."""
    rows = layout.eliminated_sums
    assert isinstance(rows, EliminatedRows)
    projected, _, _ = rows.projected_sums(solution.E, solution.L)
    yhat = rows.means(projected, solution.Jx, solution.L)
    result = np.empty_like(yhat)
    result[layout.eliminated_order] = solution.unrotated(yhat.T).T
    return result


class _Lookup:
    """Means and joint covariances of a few shared latents at a time."""

    def __init__(self, layout: Layout, parameters: Parameters, solution: Solution) -> None:
        self.layout, self.parameters, self.solution = layout, parameters, solution
        self.eliminated_means = eliminated_means(layout, solution)
        self.slots = layout.links.slots[np.argsort(layout.eliminated_order)]
        self.D = inverse(parameters.noise)[0]

    def means(self, k: int) -> Array:
        """Posterior means of all shared levels of factor k."""
        if k == self.layout.plan.eliminated:
            return self.eliminated_means
        if k in self.layout.links.factors:
            return self.solution.coupled.means[self.layout.links.factors.index(k)]
        return np.zeros((0, self.parameters.ranks[k]))

    def covariance(self, levels: list[tuple[int, int]]) -> Array:
        """Joint covariance of the latents of (factor, level) pairs that one sample carries."""
        eliminated = self.layout.plan.eliminated
        coupled = [(k, b) for k, b in levels if k != eliminated]
        at = [o for k, o in levels if k == eliminated]
        if not at:
            return self.solution.coupled.covariance(coupled, coupled)
        Linv, A, near = self._weights(at[0])
        spread = Linv @ A
        with_coupled = -spread @ self.solution.coupled.covariance(near, coupled)
        own = Linv + spread @ self.solution.coupled.covariance(near, near) @ spread.T
        own = self.solution.unrotated(self.solution.unrotated(own).T)
        with_coupled = self.solution.unrotated(with_coupled)
        both = np.block([[own, with_coupled], [with_coupled.T, self.solution.coupled.covariance(coupled, coupled)]])
        first = [(eliminated, at[0]), *coupled]
        places = spans(self.parameters.ranks[k] for k, _ in first)
        chosen = np.concatenate([np.arange(len(both))[places[first.index(level)]] for level in levels])
        result: Array = both[np.ix_(chosen, chosen)]
        return result

    def _weights(self, o: int) -> tuple[Array, Array, list[tuple[int, int]]]:
        """L_o^-1, the weights h J' of the coupled latents linked to eliminated level o, and these latents."""
        layout, solution = self.layout, self.solution
        g, rank = layout.eliminated_group[o], self.parameters.ranks[layout.plan.eliminated]
        Linv = np.diag(solution.L.inverse[g]) if solution.L.is_diagonal else solution.L.inverse[g]
        row = self.slots[[o]].tocoo()
        sums: dict[tuple[int, int], Array] = {}
        for slot, h in zip(row.col, row.data, strict=True):
            for at in range(len(layout.links.eliminated_parts)):
                for k in layout.links.factors:
                    span = layout.links.slot_range(at, k)
                    if span.start <= slot < span.stop:
                        key = (k, int(slot) - span.start)
                        sums[key] = sums.get(key, 0.0) + h * solution.J[at, k].T
        near = list(sums)
        return Linv, np.concatenate([np.zeros((rank, 0)), *sums.values()], axis=1), near

    def absorbing(self, row: IntArray) -> tuple[list[int], Array, Array]:
        """Factors that this sample has no label of, their K^-1, and C = K^-1 W' D."""
        absorbed = [k for k, code in enumerate(row) if code == MISSING]
        W = np.concatenate([self.parameters.loadings[k] for k in absorbed], axis=1)
        K, _ = inverse(W.T @ self.D @ W + np.eye(W.shape[1]))
        return absorbed, K, K @ (W.T @ self.D)

    def own_span(self, absorbed: list[int], k: int) -> slice:
        """Where factor k stands among the absorbed latents."""
        start = sum(self.parameters.ranks[j] for j in absorbed if j < k)
        return slice(start, start + self.parameters.ranks[k])


def _own_means(look: _Lookup, matrix: Any, codes: IntArray, alone: IntArray, k: int) -> Array:
    """Means of the latents of factor k that belong to one sample each: C (m - mean - W <w>)."""
    result = np.zeros((len(alone), look.parameters.ranks[k]))
    for _, members in equal_rows(codes[alone] == MISSING):
        rows = alone[members]
        absorbed, _, C = look.absorbing(codes[rows[0]])
        for piece, values in sample_matrix.chunks(matrix, rows):
            residual = values - look.parameters.mean
            for j, W in enumerate(look.parameters.loadings):
                if j not in absorbed:
                    residual -= look.means(j)[codes[rows[piece], j]] @ W.T
            result[members[piece]] = residual @ C[look.own_span(absorbed, k)].T
    return result


def _covariances(look: _Lookup, codes: IntArray, alone: IntArray, k: int, n_levels: int) -> Array:
    """Covariances of the shared levels of factor k, then of those that belong to one sample each."""
    rank = look.parameters.ranks[k]
    result = np.empty((n_levels + len(alone), rank, rank))
    for b in range(n_levels):
        result[b] = look.covariance([(k, b)])
    for at, i in enumerate(alone):
        absorbed, K, C = look.absorbing(codes[i])
        shared = [(j, int(code)) for j, code in enumerate(codes[i]) if code != MISSING]
        W = np.concatenate([look.parameters.loadings[j] for j, _ in shared], axis=1)
        span = look.own_span(absorbed, k)
        CW = C[span] @ W
        result[n_levels + at] = K[span, span] + CW @ look.covariance(shared) @ CW.T
    return result
