"""A fitted model as one frozen record, which ``fit``, ``load`` and ``from_parameters`` end in.

Scoring, storing and reporting read it; nothing changes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from jointplda._typing import Array
from jointplda.calibration.affine import AffineCalibration
from jointplda.linalg import cholesky, inverse
from jointplda.model.channel_shrinkage import ChannelShrinkage
from jointplda.model.parameters import Parameters
from jointplda.model.plan import Plan
from jointplda.model.training_posterior import TrainingPosterior


@dataclass(frozen=True, eq=False)
class Trace:
    """The course of EM.

    Attributes
    ----------
    log_likelihoods : (n_iter,)
        Log-likelihood after each iteration in nats per sample, penalised if there is a prior.
    converged : bool
        Whether the last iteration gained less than the tolerance.
    interrupted : bool
        Whether the user stopped EM.
    """

    log_likelihoods: Array
    converged: bool
    interrupted: bool = False


@dataclass(frozen=True)
class TrainingCounts:
    """Number (or total weight) of training samples, of speakers, and of labelled channels of each condition."""

    samples: float
    speakers: int
    channels: tuple[int, ...]


def scored_parameters(parameters: Parameters, G: Array, share: float) -> Parameters:
    """Parameters for scoring with G (d, r) in its place: what a cell shares is the last loading, and the rest is noise.

    Nothing is appended where nothing is shared.
    """
    if not G.shape[1]:
        return parameters
    shared = (np.sqrt(share) * G,) if share else ()
    noise = parameters.noise + (1.0 - share) * (G @ G.T)
    return Parameters(parameters.mean, (*parameters.loadings, *shared), noise)


@dataclass(frozen=True, eq=False)
class FittedModel:
    """The model m = mean + V y + sum_k U_k x^k + e,  e ~ N(0, D^-1), and how it was fitted.

    Attributes
    ----------
    mean : (d,)
    loadings : tuple of (d, r)
        V, then U of each condition; the U of a condition that was left out is (d, 0).
    precision : (d, d)
        D.
    conditions : tuple of str, or None
        Names of the nuisance conditions; None if the model was made from parameters.
    channels_shared : bool
        Whether two samples can be in the same channel. In PLDA every sample has a channel latent of its own.
    trace : Trace
    counts : TrainingCounts or None
        None if the model was made from parameters.
    shrinkage : ChannelShrinkage or None
        Changes of the loadings after EM.
    training : TrainingPosterior or None
        Posterior of the training channels and speakers, if it is small enough to keep.
    calibration : AffineCalibration or None
        Applied to scores unless raw scores are asked for.
    kappa : float
        Interaction of speaker and channel relative to the noise: the samples of a cell share N(0, kappa C).
    G : (d, r), or None
        Loading of the interaction, where it is not proportional to the noise.
    cell_share : float
        How far scoring counts on it: the share of G G' that two samples of one cell have in common; the rest is noise.
    plan : Plan or None
        The factor that was eliminated, and the cost of an iteration; not stored in files.

    Notes
    -----
    The arrays of the parameters are read-only, since scorers keep what they compute from them.
    """

    mean: Array
    loadings: tuple[Array, ...]
    precision: Array
    conditions: tuple[str, ...] | None
    channels_shared: bool
    trace: Trace
    counts: TrainingCounts | None = None
    shrinkage: ChannelShrinkage | None = None
    training: TrainingPosterior | None = None
    calibration: AffineCalibration | None = None
    kappa: float = 0.0
    G: Array | None = None
    cell_share: float = 1.0
    plan: Plan | None = field(default=None, metadata={"stored": False})

    def __post_init__(self) -> None:
        arrays = [self.mean, *self.loadings, self.precision, self.trace.log_likelihoods]
        arrays += [] if self.G is None else [self.G]
        if self.training is not None:
            arrays += [value for value in vars(self.training).values() if isinstance(value, np.ndarray)]
        for array in arrays:
            array.setflags(write=False)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def parameters(self) -> Parameters:
        """The parameters with the noise covariance C = D^-1, which is computed once."""
        noise = inverse(self.precision)[0]
        noise.setflags(write=False)
        return Parameters(self.mean, self.loadings, noise, self.kappa)

    @property
    def interacts(self) -> bool:
        """Whether the samples of a cell share a deviation of their own."""
        return self.G is not None or self.kappa > 0

    @cached_property
    def cell_loading(self) -> Array:
        """G, or a root of kappa C, (d, r); (d, 0) without an interaction."""
        if self.G is not None:
            return self.G
        if not self.kappa:
            return np.zeros((len(self.mean), 0))
        root: Array = np.sqrt(self.kappa) * cholesky(self.parameters.noise)
        root.setflags(write=False)
        return root

    def mean_noise(self, n: float) -> Array:
        """Covariance of the mean of n samples of one cell given speaker and channel: C / n + G G', (d, d)."""
        return self.parameters.noise / n + self.cell_loading @ self.cell_loading.T

    @cached_property
    def scored(self) -> Parameters:
        """Parameters for scoring: what a cell shares is the last loading, and the rest of G G' is noise."""
        return scored_parameters(self.active, self.cell_loading, self.cell_share if self.kept else 0.0)

    @property
    def variance_shares(self) -> dict[str, float]:
        """Shares of the trace of the total covariance: speaker, each condition, the interaction, and the noise."""
        traces = {"speaker": float(np.sum(self.loadings[0] ** 2))}
        traces |= {name: float(np.sum(U**2)) for name, U in zip(self.condition_names, self.loadings[1:], strict=True)}
        traces |= {"interaction": float(np.sum(self.cell_loading**2)), "noise": float(np.trace(self.parameters.noise))}
        total = sum(traces.values())
        return {name: value / total for name, value in traces.items()}

    @property
    def cell_factor(self) -> int | None:
        """Position in ``scored`` of what a cell shares; None where nothing is."""
        extra = len(self.scored.loadings) - len(self.active.loadings)
        return len(self.active.loadings) if extra else None

    @cached_property
    def active(self) -> Parameters:
        """The parameters without the conditions of rank 0."""
        return self.parameters.active()[0]

    @property
    def channel_ranks(self) -> tuple[int, ...]:
        """Rank of U of each condition."""
        return tuple(U.shape[1] for U in self.loadings[1:])

    @property
    def condition_names(self) -> tuple[str, ...]:
        """Names of the conditions, or numbers where they have none."""
        return self.conditions or tuple(f"condition {k + 1}" for k in range(len(self.channel_ranks)))

    @property
    def kept(self) -> tuple[int, ...]:
        """Positions of the conditions whose channels two samples can share: those of rank above 0."""
        return tuple(k for k, rank in enumerate(self.channel_ranks) if rank) if self.channels_shared else ()

    @property
    def shareable(self) -> tuple[int, ...]:
        """The same conditions as factors of ``active``: 1, 2, ..."""
        return tuple(range(1, len(self.kept) + 1))

    @cached_property
    def U(self) -> Array:
        """Loadings of all conditions side by side, (d, sum of ranks)."""
        U = np.ascontiguousarray(np.concatenate([np.zeros((len(self.mean), 0)), *self.loadings[1:]], axis=1))
        U.setflags(write=False)
        return U

    def with_calibration(self, calibration: AffineCalibration | None) -> FittedModel:
        """The same model with another calibration, or none; samples prepared by one can be scored by the other."""
        return self._with_same_parameters(replace(self, calibration=calibration))

    def with_cell_share(self, share: float) -> FittedModel:
        """The same model, with scoring that counts so far on what the samples of a cell share."""
        return replace(self, cell_share=share) if share != self.cell_share else self

    def with_training(self, training: TrainingPosterior | None) -> FittedModel:
        """The same model with the posterior of its training latents."""
        return self._with_same_parameters(replace(self, training=training))

    def _with_same_parameters(self, copy: FittedModel) -> FittedModel:
        copy.__dict__.update(parameters=self.parameters, active=self.active, scored=self.scored)
        return copy
