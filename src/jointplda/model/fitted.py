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
from jointplda.linalg import inverse
from jointplda.model.interaction.cell_factor import with_cell_share
from jointplda.model.parameters import CELL, CONDITION, SAMPLE, Factor, Parameters
from jointplda.model.plan import Plan
from jointplda.model.settings import ModelSettings
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
    penalised : bool
        Whether the log-likelihoods include the logarithm of a prior.
    solver : {"exact", "sampled"}
        How the latents of the channels were solved for.
    standard_error : float
        Of the log-likelihoods, in nats per sample; 0 where they are exact.
    """

    log_likelihoods: Array
    converged: bool
    interrupted: bool = False
    penalised: bool = False
    solver: str = "exact"
    standard_error: float = 0.0


@dataclass(frozen=True)
class TrainingCounts:
    """Number (or total weight) of training samples, of speakers, and of labelled channels of each condition."""

    samples: float
    speakers: int
    channels: tuple[int, ...]


@dataclass(frozen=True)
class FitNotes:
    """What a fit leaves to say, for warnings.

    Attributes
    ----------
    start : float
        Log-likelihood before the first iteration, in nats per sample.
    stuck : bool
        Whether EM stopped because the next iteration would have lost likelihood, which only rounding and the draws of a
        sampled solution can do.
    at_floor : int
        Number of directions in which the noise is at its floor.
    form : str
        Of the interaction.
    moment_kappa, prior_share : float
        kappa by the method of moments, and the share of its prior in it: 1 where the data say nothing about it.
    """

    start: float
    stuck: bool
    at_floor: int
    form: str
    moment_kappa: float
    prior_share: float


@dataclass(frozen=True, eq=False)
class FittedModel:
    """The model m = mean + V y + sum_k U_k x^k + e,  e ~ N(0, D^-1), and how it was fitted.

    Attributes
    ----------
    mean : (d,)
    factors : tuple of Factor
        The speaker, the conditions (of rank 0 where one was left out), and the cell, if speaker and channel interact.
    precision : (d, d)
        D.
    conditions : tuple of str, or None
        Names of the nuisance conditions; None if the model was made from parameters.
    channels_shared : bool
        Whether two samples can be in the same channel. In PLDA every sample has a channel latent of its own.
    trace : Trace
    counts : TrainingCounts or None
        None if the model was made from parameters.
    settings : ModelSettings
        Those of the fit, resolved.
    training : TrainingPosterior or None
        Posterior of the training channels and speakers, if it is small enough to keep.
    calibration : AffineCalibration or None
        Applied to scores unless raw scores are asked for.
    plan : Plan or None
        The factor that was eliminated, and the cost of an iteration; not stored in files.
    notes : FitNotes or None
        What the fit leaves to say; not stored in files.

    Notes
    -----
    The arrays of the parameters are read-only, since scorers keep what they compute from them.
    """

    mean: Array
    factors: tuple[Factor, ...]
    precision: Array
    conditions: tuple[str, ...] | None
    settings: ModelSettings
    trace: Trace
    channels_shared: bool = True
    counts: TrainingCounts | None = None
    training: TrainingPosterior | None = None
    calibration: AffineCalibration | None = None
    plan: Plan | None = field(default=None, metadata={"stored": False})
    notes: FitNotes | None = field(default=None, metadata={"stored": False})

    def __post_init__(self) -> None:
        arrays = [self.mean, *(factor.loading for factor in self.factors), self.precision, self.trace.log_likelihoods]
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
        return Parameters(self.mean, self.factors, noise)

    @cached_property
    def used(self) -> Parameters:
        """The parameters without the conditions of rank 0."""
        return self.parameters.used()

    @cached_property
    def scored(self) -> Parameters:
        """Parameters for scoring: the ``cell_share`` of the cell's G G' is shared, and the rest is noise."""
        return with_cell_share(self.used, self.settings.cell_share if self.conditions_used else 0.0)

    @property
    def interacts(self) -> bool:
        """Whether the samples of a cell share a deviation of their own."""
        return self.factors[-1].kind == CELL

    @property
    def cell_loading(self) -> Array:
        """G (d, r) of the interaction; (d, 0) without one."""
        return self.factors[-1].loading if self.interacts else np.zeros((len(self.mean), 0))

    @property
    def channel_factors(self) -> tuple[Factor, ...]:
        """The factors of the conditions."""
        return tuple(factor for factor in self.factors[1:] if factor.kind != CELL)

    @property
    def variance_shares(self) -> dict[str, float]:
        """Shares of the trace of the total covariance: speaker, each condition, the interaction, and the noise."""
        traces = {"speaker": float(np.sum(self.factors[0].loading ** 2))}
        traces |= {factor.name: float(np.sum(factor.loading**2)) for factor in self.channel_factors}
        traces |= {"interaction": float(np.sum(self.cell_loading**2)), "noise": float(np.trace(self.parameters.noise))}
        total = sum(traces.values())
        return {name: value / total for name, value in traces.items()}

    @property
    def channel_ranks(self) -> tuple[int, ...]:
        """Rank of U of each condition."""
        return tuple(factor.rank for factor in self.channel_factors)

    @property
    def condition_names(self) -> tuple[str, ...]:
        """Names of the conditions, or numbers where they have none."""
        return tuple(factor.name for factor in self.channel_factors)

    @property
    def conditions_used(self) -> tuple[int, ...]:
        """Positions of the conditions whose channels two samples can share: those of rank above 0."""
        return tuple(k for k, factor in enumerate(self.channel_factors) if factor.rank and factor.kind == CONDITION)

    @cached_property
    def U(self) -> Array:
        """Loadings of all conditions side by side, (d, sum of ranks)."""
        loadings = [factor.loading for factor in self.channel_factors]
        U = np.ascontiguousarray(np.concatenate([np.zeros((len(self.mean), 0)), *loadings], axis=1))
        U.setflags(write=False)
        return U

    def with_calibration(self, calibration: AffineCalibration | None) -> FittedModel:
        """The same model with another calibration, or none; samples prepared by one can be scored by the other."""
        return self._with_same_parameters(replace(self, calibration=calibration))

    def with_channel_per_sample(self) -> FittedModel:
        """The same model, in which every sample has a channel latent of its own (the paper's eq. 1)."""
        V, *others = self.factors
        own = (replace(factor, kind=SAMPLE) if factor.kind == CONDITION else factor for factor in others)
        return replace(self, factors=(V, *own), channels_shared=False)

    def with_training(self, training: TrainingPosterior | None) -> FittedModel:
        """The same model with the posterior of its training latents."""
        return self._with_same_parameters(replace(self, training=training))

    def _with_same_parameters(self, copy: FittedModel) -> FittedModel:
        copy.__dict__.update(parameters=self.parameters, used=self.used, scored=self.scored)
        return copy
