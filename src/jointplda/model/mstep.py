"""M step: new parameters from posterior moments, by maximum likelihood or with a prior."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from jointplda._typing import Array
from jointplda.linalg import cholesky, inverse, raised, solve, spans, symmetric
from jointplda.model.cell_sums import WithinCells
from jointplda.model.estep import LevelMoments, Moments
from jointplda.model.kappa import KappaPrior, best_kappa
from jointplda.model.parameters import Parameters


@dataclass(frozen=True)
class Prior:
    """Inverse-Wishart priors, which shrink covariances towards targets Psi.

    The penalty is -nu/2 (log|C| + tr(C^-1 Psi)) for the noise covariance C = D^-1, and the same for the speaker
    covariance B = V V' and for that of an interaction, G G'. A strength nu of 0 is maximum likelihood.

    Attributes
    ----------
    noise_strength, speaker_strength, cell_strength : float
        nu in samples, in speakers and in cells.
    noise_scale, speaker_scale, cell_scale : float or (d, d)
        Psi, or a number psi for Psi = psi I.
    kappa : KappaPrior or None
        Belief about kappa where it is estimated.
    """

    noise_strength: float = 0.0
    noise_scale: float | Array = 1.0
    speaker_strength: float = 0.0
    speaker_scale: float | Array = 1.0
    cell_strength: float = 0.0
    cell_scale: float | Array = 1.0
    kappa: KappaPrior | None = None

    def covariances(self, factors: int) -> dict[int, tuple[float, float | Array]]:
        """Strength and scale by the number of the factor, for the factors whose covariance W W' has a prior."""
        found: dict[int, tuple[float, float | Array]] = {}
        if self.speaker_strength:
            found[0] = (self.speaker_strength, self.speaker_scale)
        if self.cell_strength:
            found[factors - 1] = (self.cell_strength, self.cell_scale)
        return found

    @property
    def penalises(self) -> bool:
        """Whether anything has a prior."""
        of_kappa = 0.0 if self.kappa is None else self.kappa.weight
        return any((self.noise_strength, self.speaker_strength, self.cell_strength, of_kappa))

    def penalty(self, parameters: Parameters, kappa: float = 0.0) -> float:
        """Log of the prior at these parameters and at kappa, up to a constant."""
        total = 0.0
        if self.noise_strength:
            total += _penalty(self.noise_strength, self.noise_scale, parameters.noise)
        for k, (strength, scale) in self.covariances(len(parameters.loadings)).items():
            W = parameters.loadings[k]
            total += _penalty(strength, scale, W @ W.T)
        if self.kappa is not None and self.kappa.weight:
            total += self.kappa.penalty(kappa, len(parameters.mean))
        return total


def _penalty(strength: float, scale: float | Array, C: Array) -> float:
    D, log_det = inverse(C)
    return -0.5 * strength * (log_det + float(np.sum(D * target(scale, len(D)))))


def target(scale: float | Array, d: int) -> Array:
    """Psi (d, d) from a matrix, or from a number that multiplies the identity."""
    return np.asarray(scale) * np.eye(d) if np.ndim(scale) == 0 else np.asarray(scale)


@dataclass(frozen=True)
class NoiseModel:
    """Constraints on the noise covariance C.

    Attributes
    ----------
    diagonal : bool
        Whether C is diagonal.
    floor : (d,)
        C - diag(floor) stays positive semi-definite, so that the likelihood is bounded on any data.
    """

    diagonal: bool
    floor: Array

    def nearest(self, C: Array) -> Array:
        """The allowed covariance of highest likelihood for an unconstrained maximum C, (d, d).

        A full C is scaled by the floor, and its eigenvalues below 1 are raised to 1. This is the exact constrained
        maximum, so the likelihood still never falls.
        """
        if self.diagonal:
            return np.diag(np.maximum(np.diagonal(C), self.floor))
        C = symmetric(C)
        try:
            cholesky(C - np.diag(self.floor))
            return C
        except np.linalg.LinAlgError:
            return raised(C, self.floor, 1.0)

    def at_floor(self, C: Array) -> int:
        """Number of directions in which the covariance is at its floor."""
        root = np.sqrt(self.floor)
        values = np.linalg.eigvalsh(C / np.outer(root, root))
        return int(np.sum(values < 1.001))


def m_step(
    moments: Moments,
    parameters: Parameters,
    scatter: Array,
    shift: Array,
    prior: Prior,
    noise: NoiseModel,
    within: WithinCells | None = None,
    kappa: float = 0.0,
) -> tuple[Parameters, float]:
    """Maximise the expected (penalised) log-likelihood, then apply minimum divergence.

        [W_0 W_1 ... mean]' = R^-1 T,       C = (S - W T + nu_W Psi_W) / (N + nu_W)

    Where B = V V' (or G G') has a prior, its latent is the term V y itself, and the rest is regressed on it.

    ``moments`` are those of the E step with ``parameters``, ``scatter`` (d, d) is S around ``shift``, and ``kappa`` the
    present one. Where the moments are those of cell means, ``within`` is what is left of the samples beside them.
    """
    T, loadings, shrunk = moments.T, list(parameters.loadings), prior.covariances(len(parameters.loadings))
    W, regressed = _regressed(moments, parameters, sorted(shrunk))
    WT = W @ T
    residual = scatter - WT - WT.T + W @ moments.R @ W.T if shrunk else scatter - WT
    C = _noise_covariance(residual, moments, prior, noise, within)
    for k, (nu, scale) in shrunk.items():
        V, level = loadings[k], moments.levels[k]
        B = V @ level.second @ V.T + nu * target(scale, len(V))
        loadings[k] = cholesky(symmetric(B) / (level.count + nu))
    others = [k for k in range(len(loadings)) if k not in shrunk]
    mean, free = _minimum_divergence(regressed, [moments.levels[k] for k in others], shift)
    for k, loading in zip(others, free, strict=True):
        loadings[k] = loading
    new = replace(parameters.with_loadings(loadings), mean=mean, noise=C)
    return new, _new_kappa(moments, W, C, prior, kappa)


def _regressed(moments: Moments, parameters: Parameters, held: list[int]) -> tuple[Array, Array]:
    """W = [W_0 W_1 ... mean], of which the ``held`` factors stay and the rest is regressed on them; and this rest."""
    R, T, V = moments.R, moments.T, parameters.loadings[0]
    if not held:
        W = solve(R, T).T
        return W, W
    if held == [0]:  # views, whose products round as they always have
        r = parameters.ranks[0]
        rest = solve(R[r:, r:], T[r:] - R[r:, :r] @ V.T).T
        return np.concatenate([V, rest], axis=1), rest
    W, places = np.concatenate([*parameters.loadings, parameters.mean[:, None]], axis=1), spans(parameters.ranks)
    kept = np.concatenate([np.arange(len(R))[places[k]] for k in held])
    free = np.setdiff1d(np.arange(len(R)), kept)
    rest = solve(R[np.ix_(free, free)], T[free] - R[np.ix_(free, kept)] @ W[:, kept].T).T
    W[:, free] = rest
    return W, rest


def _new_kappa(moments: Moments, W: Array, C: Array, prior: Prior, before: float) -> float:
    """Kappa given the new loadings and noise, where it is estimated."""
    if prior.kappa is None:
        return before
    D, d = inverse(C)[0], len(C)
    squares = []
    for part in moments.parts:
        WT = W @ part.T
        squares.append(float(np.vdot(D, part.scatter - WT - WT.T + W @ part.R @ W.T)) / d)
    counts = np.array([part.R[-1, -1] for part in moments.parts])
    sizes = np.array([part.cell_size for part in moments.parts])
    return best_kappa(counts, sizes, np.array(squares), d, prior.kappa, before)


def _noise_covariance(
    residual: Array, moments: Moments, prior: Prior, noise: NoiseModel, within: WithinCells | None
) -> Array:
    """(residual + scatter within cells + nu Psi) / (N + nu), made symmetric (diagonal) and kept above its floor."""
    nu, n = prior.noise_strength, moments.R[-1, -1]
    if within is not None:
        residual, n = residual + within.scatter, sum(part.R[-1, -1] for part in moments.parts) + within.freedom
    shrunk = (residual + nu * target(prior.noise_scale, len(residual))) / (n + nu)
    return noise.nearest(shrunk)


def _minimum_divergence(W: Array, levels: Sequence[LevelMoments], shift: Array) -> tuple[Array, list[Array]]:
    """The mean and the loadings from W = [W_1, W_2, ..., mean - shift], after latents are given back their N(0, I).

    Each loading is multiplied by the root of the covariance of its latents. Every sample carries one level of every
    factor, so the average of the latents can move into the mean.
    """
    mean, loadings = W[:, -1] + shift, []
    for span, level in zip(spans(len(level.first) for level in levels), levels, strict=True):
        average = level.first / level.count
        covariance = symmetric(level.second / level.count - np.outer(average, average))
        loadings.append(W[:, span] @ cholesky(covariance))
        mean = mean + W[:, span] @ average
    return mean, loadings
