"""A fitted model as one frozen record: what ``fit``, ``load`` and ``from_parameters`` end in.

Scoring, storing and reporting read it; nothing changes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from jointplda._typing import Array
from jointplda.calibration.affine import AffineCalibration
from jointplda.linalg import inverse
from jointplda.model.channel_shrinkage import ChannelShrinkage
from jointplda.model.parameters import Parameters
from jointplda.model.plan import Plan
from jointplda.model.training_posterior import TrainingPosterior


@dataclass(frozen=True, eq=False)
class Trace:
    """How EM went.

    Attributes
    ----------
    log_likelihoods : (n_iter,)
        Nats per sample after each iteration, penalised where there is a prior.
    converged, interrupted : bool
        Whether the last gain was below the tolerance; whether the user stopped it.
    """

    log_likelihoods: Array
    converged: bool
    interrupted: bool = False


@dataclass(frozen=True)
class TrainingCounts:
    """How much a model was trained on.

    Attributes
    ----------
    samples : float
        Number (or total weight) of samples.
    speakers : int
    channels : tuple of int
        Labelled channels of each condition.
    """

    samples: float
    speakers: int
    channels: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class FittedModel:
    """m = mean + V y + sum_k U_k x^k + e,  e ~ N(0, D^-1), with all that is known of how it was fitted.

    Attributes
    ----------
    mean : (d,)
    loadings : tuple of (d, r)
        V, then U of each condition; a condition that was left out has a loading (d, 0).
    precision : (d, d)
        D.
    conditions : tuple of str, or None
        Names of the nuisance conditions, where training gave them.
    channels_shared : bool
        Whether two samples can be in one channel. False where every sample has a channel latent of its own (PLDA).
    trace : Trace
    counts : TrainingCounts, or None for a model made from parameters
    shrinkage : ChannelShrinkage or None
        What was done to the loadings after EM.
    training : TrainingPosterior or None
        Posterior of the training channels and speakers, where it was small enough to keep.
    calibration : AffineCalibration or None
        Applied to scores unless raw ones are asked for.
    plan : Plan or None
        What was eliminated and what an iteration cost; not stored in files.

    Notes
    -----
    The arrays of the parameters are read-only, since what a scorer has made of them would no longer hold.
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
    plan: Plan | None = field(default=None, metadata={"stored": False})

    def __post_init__(self) -> None:
        for array in (self.mean, *self.loadings, self.precision):
            array.setflags(write=False)

    @cached_property
    def parameters(self) -> Parameters:
        """The parameters with the noise covariance C = D^-1, inverted once."""
        return Parameters(self.mean, self.loadings, inverse(self.precision)[0])

    @cached_property
    def active(self) -> Parameters:
        """The same without the conditions of rank 0."""
        return self.parameters.active()[0]

    @property
    def channel_ranks(self) -> tuple[int, ...]:
        """Columns of U of each condition."""
        return tuple(U.shape[1] for U in self.loadings[1:])

    @property
    def kept(self) -> tuple[int, ...]:
        """Conditions whose channels two samples can share: those of rank above 0."""
        return tuple(k for k, rank in enumerate(self.channel_ranks) if rank) if self.channels_shared else ()

    @property
    def shareable(self) -> tuple[int, ...]:
        """The same as factors of ``active``: 1, 2, ..."""
        return tuple(range(1, len(self.kept) + 1))

    @cached_property
    def U(self) -> Array:
        """Loadings of all conditions side by side, (d, sum of ranks)."""
        return np.ascontiguousarray(np.concatenate([np.zeros((len(self.mean), 0)), *self.loadings[1:]], axis=1))

    def with_calibration(self, calibration: AffineCalibration | None) -> FittedModel:
        """The same model with another calibration, or none; samples prepared for either can be scored by both."""
        return self._with_same_parameters(replace(self, calibration=calibration))

    def with_training(self, training: TrainingPosterior | None) -> FittedModel:
        """The same model with the posterior of its training latents."""
        return self._with_same_parameters(replace(self, training=training))

    def _with_same_parameters(self, copy: FittedModel) -> FittedModel:
        copy.__dict__.update(parameters=self.parameters, active=self.active)
        return copy
