"""E step: posterior moments of all latents and the log-likelihood, from statistics alone.

The latents are integrated out in three stages. Latents that belong to one sample only are absorbed into
that sample's noise: in part p, the samples with missing-label pattern p, C_p = C + sum W W' over the factors without
a label. One factor is then eliminated analytically, group by group. The levels of the other factors are coupled, and
a solver finds their posterior (see ``coupled``): exactly, component by component, or with sums over draws.
"""

from dataclasses import dataclass, replace

import numpy as np

from jointplda._typing import Array, IntArray
from jointplda.linalg import inverse, spans, symmetric
from jointplda.model.coupled.links import PatternArrays
from jointplda.model.coupled.solver import Blocks, CoupledPosterior, CoupledPrecision, CovarianceSums
from jointplda.model.eliminated import EliminatedMoments, Precision
from jointplda.model.layout import Layout
from jointplda.model.parameters import Parameters
from jointplda.model.precisions import Noise, precisions


@dataclass(frozen=True)
class LevelMoments:
    """Sums over all levels of a factor: their number, sum <z> (r,) and sum <z z'> (r, r)."""

    count: float
    first: Array
    second: Array


@dataclass(frozen=True)
class Moments:
    """All that the M step needs, with z_i = [z^0, z^1, ..., 1] the latents of sample i and a constant.

    Attributes
    ----------
    R : (r + 1, r + 1)
        sum_i <z_i z_i'>.
    T : (r + 1, d)
        sum_i <z_i> (m_i - shift)'.
    levels : tuple of LevelMoments
        By factor.
    parts : tuple of PartMoments
        The sums over the samples of each part.
    """

    R: Array
    T: Array
    levels: tuple[LevelMoments, ...]
    parts: tuple["PartMoments", ...] = ()


@dataclass(frozen=True)
class PartMoments:
    """The same sums over the samples of one part, before they are weighted by its noise."""

    R: Array
    T: Array
    scatter: Array
    cell_size: float


@dataclass(frozen=True)
class Solution:
    """Posterior of all latents that samples share, before any sum over samples.

    Where L is diagonal, the eliminated latents are those of a loading rotated by ``rotation``. Their means are
    yhat_o = L_o^-1 (E [f_o, n_o] - Jx' h_o); see ``eliminated``. The noise of part p is ``scales[p]`` C. The
    ``log_likelihoods`` are one, or estimates by a solver that samples.
    """

    mean: Array
    noises: tuple[Noise, ...]
    scales: tuple[float, ...]
    rotation: Array | None
    L: Precision
    J: Blocks
    E: Array
    Jx: Array
    coupled: CoupledPosterior
    moments: EliminatedMoments
    log_likelihoods: Array

    @property
    def log_likelihood(self) -> float:
        """Log p(M), or the mean of its estimates."""
        return float(self.log_likelihoods.mean())

    def unrotated(self, Z: Array) -> Array:
        """Turn rows of Z (R, ...) from the rotated eliminated latents back to those of the parameters."""
        return Z if self.rotation is None else self.rotation @ Z


def e_step(layout: Layout, parameters: Parameters, kappa: float = 0.0) -> tuple[Moments, float]:
    """Return the posterior moments, and log p(M) with every constant; ``kappa`` is as in ``solve``."""
    solution = solve(layout, parameters, kappa)
    return summed_moments(layout, parameters, solution), solution.log_likelihood


def solve(layout: Layout, parameters: Parameters, kappa: float = 0.0) -> Solution:
    """Integrate the latents out in three stages.

    The samples are means of n samples of a cell, with noise (1/n + kappa) C, where the layout says so (n is else 1).

    Where all samples have all labels, and one factor is coupled, these are the paper's equations for Sigma and Phi:

        P[b,b'] = e_bb' W' D W + [b = b'] I - sum_g H_g[b,b'] J L_g^-1 J'
        Phi[b]  = W' D g_b - J sum_o h_ob L_o^-1 V' D f_o,          xhat = P^-1 Phi

        log p(M) = -1/2 tr(D S) + N/2 log|D| + 1/2 sum_o (V'D f_o)' L_o^-1 (V'D f_o) - 1/2 sum_o log|L_o|
                   + 1/2 Phi' xhat - 1/2 log|P| - N d/2 log 2 pi     (f_o and S around the mean)
    """
    mean = parameters.mean - layout.shift
    found = precisions(layout.links, parameters, layout.plan.eliminated, kappa)
    L, J, DV, noises = found.coupled.L, found.coupled.J, found.DV, found.noises
    E = np.concatenate([*(dv.T for dv in DV), *(-(mean @ dv)[:, None] for dv in DV)], axis=1)
    projected, eliminated_fit, slot_sums = layout.eliminated_sums.projected_sums(E, L)
    coupled, Jx = _solve_coupled(layout, mean, found.DW, found.coupled, slot_sums)
    moments = layout.eliminated_sums.moments(projected, E, Jx, L)
    log_likelihoods = (
        sum(_noise_term(part, noise, mean) for part, noise in zip(layout.parts, noises, strict=True))
        + 0.5 * eliminated_fit
        - 0.5 * float(layout.group_sizes @ L.log_determinants)
        + 0.5 * coupled.fit
        - 0.5 * coupled.log_determinants
    )
    return Solution(mean, noises, found.scales, found.rotation, L, J, E, Jx, coupled, moments, log_likelihoods)


def _noise_term(part: PatternArrays, noise: Noise, mean: Array) -> float:
    """-1/2 tr(D S) + N/2 log|D| - N d/2 log 2 pi, S around the mean."""
    cross = np.outer(part.total, mean)
    centred = part.scatter - cross - cross.T + part.count * np.outer(mean, mean)
    constant = len(mean) * np.log(2.0 * np.pi) + noise.log_determinant
    return -0.5 * float(np.vdot(noise.D, centred)) - 0.5 * part.count * float(constant)


def _solve_coupled(
    layout: Layout, mean: Array, DW: Blocks, precision: CoupledPrecision, slot_sums: Array
) -> tuple[CoupledPosterior, Array]:
    """Posterior of the coupled latents, and J' xhat_b for every slot (slots, R)."""
    Phi, J = [], precision.J
    for k, rank in zip(layout.links.factors, precision.ranks, strict=True):
        side = np.zeros((layout.levels[k], rank))
        for p, part in enumerate(layout.parts):
            if part.observed[k]:
                side += part.level_sums[k] @ DW[p, k] - np.outer(part.level_counts[k], mean @ DW[p, k])
        for at in range(len(layout.links.eliminated_parts)):
            if (at, k) in J:
                side -= slot_sums[layout.links.slot_range(at, k)] @ J[at, k].T
        Phi.append(side)
    coupled = layout.solver.solve(precision, tuple(Phi))
    Jx = np.zeros((layout.links.slots.shape[1], slot_sums.shape[1]))
    for (at, k), j in J.items():
        Jx[layout.links.slot_range(at, k)] = coupled.means[layout.links.factors.index(k)] @ j
    return coupled, Jx


def summed_moments(layout: Layout, parameters: Parameters, solution: Solution) -> Moments:
    """Add up the posterior moments over samples and over levels."""
    positions, width = spans(parameters.ranks), sum(parameters.ranks) + 1
    R, T = np.zeros((width, width)), np.zeros((width, len(parameters.mean)))
    summed = _with_own_covariance(layout, solution)
    levels, parts = _shared_levels(layout, parameters, solution, summed), []
    for p, part in enumerate(layout.parts):
        R_p, T_p = _part_moments(layout, positions, solution, summed, p)
        absorbed = [k for k, has_label in enumerate(part.observed) if not has_label]
        if absorbed:
            own = np.concatenate([np.arange(width)[positions[k]] for k in absorbed])
            _add_absorbed(part, solution.scales[p], parameters, solution.mean, own, R_p, T_p)
            for k in absorbed:
                at = positions[k]
                old = levels[k]
                levels[k] = LevelMoments(old.count + part.count, old.first + R_p[at, -1], old.second + R_p[at, at])
        R += R_p / solution.scales[p]
        T += T_p / solution.scales[p]
        parts.append(PartMoments(R_p, T_p, part.scatter, part.cell_size))
    return Moments(symmetric(R), T, tuple(levels), tuple(parts))


def _with_own_covariance(layout: Layout, solution: Solution) -> CovarianceSums:
    """What the covariance of the coupled latents adds to the moments; L^-1 of the eliminated ones is added to it."""
    summed = solution.coupled.covariance_sums()
    weights = np.concatenate([np.ones((1, len(layout.group_sizes))), layout.links.group_counts.T])
    own = solution.L.summed(weights * layout.group_sizes)
    return replace(summed, eliminated=own + summed.eliminated)


def _shared_levels(
    layout: Layout, parameters: Parameters, solution: Solution, summed: CovarianceSums
) -> list[LevelMoments]:
    """Moments of the levels that samples share; ``summed_moments`` adds those of one sample each."""
    levels = [LevelMoments(0.0, np.zeros(r), np.zeros((r, r))) for r in parameters.ranks]
    for i, k in enumerate(layout.links.factors):
        x = solution.coupled.means[i]
        levels[k] = LevelMoments(float(layout.levels[k]), x.sum(axis=0), x.T @ x + summed.by_level[k])
    total = solution.unrotated(solution.moments.total)
    squares = solution.unrotated(solution.unrotated(solution.moments.squares[0] + summed.eliminated[0]).T)
    levels[layout.plan.eliminated] = LevelMoments(float(layout.group_sizes.sum()), total, squares)
    return levels


def _part_moments(
    layout: Layout, positions: list[slice], solution: Solution, summed: CovarianceSums, p: int
) -> tuple[Array, Array]:
    """Sum <z z'> and sum <z> m' over the samples of part p, for the factors that they have labels of."""
    part, d, width = layout.parts[p], len(solution.mean), positions[-1].stop + 1
    R, T = np.zeros((width, width)), np.zeros((width, d))
    R[-1, -1], T[-1] = part.count, part.total
    here = [(i, k) for i, k in enumerate(layout.links.factors) if part.observed[k]]
    for i, k in here:
        x, n, at = solution.coupled.means[i], part.level_counts[k], positions[k]
        T[at] = x.T @ part.level_sums[k]
        R[at, -1] = R[-1, at] = n @ x
        R[at, at] = x.T @ (n[:, None] * x) + summed.by_part[p][k, k]
        for j, m in here:
            if k < m:
                block = x.T @ (part.links[k, m] @ solution.coupled.means[j]) + summed.by_part[p][k, m]
                R[at, positions[m]], R[positions[m], at] = block, block.T
    if p in layout.links.eliminated_parts:
        turn, own = layout.links.eliminated_parts.index(p), positions[layout.plan.eliminated]
        moments = solution.moments
        T[own] = solution.unrotated(moments.sums[:, turn * d : (turn + 1) * d])
        R[own, -1] = R[-1, own] = solution.unrotated(moments.sums[:, len(layout.links.eliminated_parts) * d + turn])
        squares = moments.squares[1 + turn] + summed.eliminated[1 + turn]
        R[own, own] = solution.unrotated(solution.unrotated(squares).T)
        for i, k in here:
            mean_part = moments.slots[:, layout.links.slot_range(turn, k)] @ solution.coupled.means[i]
            block = solution.unrotated(mean_part - summed.with_eliminated[turn, k])
            R[own, positions[k]], R[positions[k], own] = block, block.T
    return R, T


def _add_absorbed(
    part: PatternArrays, scale: float, parameters: Parameters, mean: Array, own: IntArray, R: Array, T: Array
) -> None:
    """Add the moments of latents that belong to one sample each: z_i = K^-1 W' D (m_i - M w_i), w_i the others.

    ``own`` are the positions of the z_i among all latents.
    """
    rest = np.setdiff1d(np.arange(len(R)), own)
    loadings = np.concatenate([*parameters.loadings, mean[:, None]], axis=1)
    W, M = loadings[:, own], loadings[:, rest]
    D = inverse(parameters.noise)[0] / scale
    K, _ = inverse(W.T @ D @ W + np.eye(len(own)))
    C = K @ (W.T @ D)
    R_rest, T_rest = R[np.ix_(rest, rest)], T[rest]
    MT = M @ T_rest
    T[own] = C @ (part.scatter - MT)
    cross = C @ (T_rest.T - M @ R_rest)
    R[np.ix_(own, rest)], R[np.ix_(rest, own)] = cross, cross.T
    residual = part.scatter - MT - MT.T + M @ R_rest @ M.T
    R[np.ix_(own, own)] = part.count * K + C @ residual @ C.T
