"""Expectation-maximisation: E and M steps in turn until the likelihood rises no more."""

import logging
import time
from dataclasses import dataclass, replace

import numpy as np

from jointplda._typing import Array
from jointplda.linalg import inverse
from jointplda.model.cell_sums import WithinCells
from jointplda.model.estep import Moments, solve, summed_moments
from jointplda.model.layout import Layout
from jointplda.model.mstep import NoiseModel, Prior, m_step
from jointplda.model.parameters import Parameters
from jointplda.progress import Progress, ProgressCallback

logger = logging.getLogger("jointplda")
PATIENCE = 2.0
ROUNDING = 1e-9


@dataclass(frozen=True)
class Iteration:
    """An iteration of EM, which callbacks get as the ``detail`` of their ``Progress``.

    Attributes
    ----------
    iteration : int
        Its number, from 1.
    log_likelihood : float
        Log-likelihood of ``parameters`` in nats per sample (penalised where there is a prior).
    gain : float
        By how much the iteration raised it.
    seconds : float
        Time that the iteration took.
    parameters : Parameters
        The model after this iteration.
    kappa : float
        Of an interaction in proportion to the noise, where it is estimated.
    """

    iteration: int
    log_likelihood: float
    gain: float
    seconds: float
    parameters: Parameters
    kappa: float = 0.0


@dataclass(frozen=True)
class EMResult:
    """The ``parameters`` that EM ended with, the course of the likelihood, and whether EM ``converged`` or was
    ``interrupted``.

    Attributes
    ----------
    start : float
        Log-likelihood before the first iteration, in nats per sample.
    log_likelihoods : tuple of float
        The same after each iteration.
    stuck : bool
        Whether EM stopped because the next iteration would have lost likelihood, which only rounding and the draws of a
        sampled solution can do.
    kappa : float
        Noise that the samples of a cell share, relative to C.
    standard_error : float
        Of the log-likelihoods, in nats per sample; 0 where they are exact.
    """

    parameters: Parameters
    start: float
    log_likelihoods: tuple[float, ...]
    converged: bool
    interrupted: bool
    stuck: bool = False
    kappa: float = 0.0
    standard_error: float = 0.0


_interrupted = [float("-inf")]


def _again() -> bool:
    """Whether this interrupt came soon after another that was caught."""
    now = time.monotonic()
    soon = now - _interrupted[0] < PATIENCE
    _interrupted[0] = now
    return soon


@dataclass(frozen=True)
class _State:
    """Where EM stands: parameters, and what the E step finds with them.

    The ``log_likelihoods`` are estimates from each probe of a sampled solution (one and exact otherwise), and the
    ``objective`` is theirs and the prior's, in nats per sample.
    """

    parameters: Parameters
    kappa: float
    moments: Moments
    log_likelihoods: Array
    objective: float

    @property
    def is_exact(self) -> bool:
        return len(self.log_likelihoods) == 1


@dataclass(frozen=True)
class _Task:
    """What EM maximises, for so many samples ``n``."""

    n: float
    prior: Prior
    noise: NoiseModel
    within: WithinCells | None

    def state(self, layout: Layout, parameters: Parameters, kappa: float) -> _State:
        """The E step with these parameters."""
        solution = solve(layout, parameters, kappa)
        log_likelihoods = solution.log_likelihoods
        if self.within is not None:
            log_likelihoods = log_likelihoods + self.within.log_likelihood(*inverse(parameters.noise))
        objective = (float(log_likelihoods.mean()) + self.prior.penalty(parameters, kappa)) / self.n
        return _State(parameters, kappa, summed_moments(layout, parameters, solution), log_likelihoods, objective)

    def following(self, layout: Layout, state: _State) -> _State | None:
        """The state after an M step; None where the draws of a sampled solution are too few for one."""
        scatter = layout.scatter(state.kappa)
        try:
            parameters, kappa = m_step(
                state.moments, state.parameters, scatter, layout.shift, self.prior, self.noise, self.within, state.kappa
            )
            return self.state(layout, parameters, kappa)
        except np.linalg.LinAlgError:
            if state.is_exact:
                raise
            return None  # its moments are those of no covariance

    def doubt(self, before: _State, after: _State) -> float:
        """Twice the standard error of the gain between two states, whose probes are the same."""
        return 2.0 * standard_error(after.log_likelihoods - before.log_likelihoods) / self.n


def standard_error(estimates: Array) -> float:
    """Standard error of the mean of independent estimates; 0 of a single one, which is exact."""
    n = len(estimates)
    return float(np.std(estimates, ddof=1)) / n**0.5 if n > 1 else 0.0


def run_em(
    layout: Layout,
    start: Parameters,
    kappa: float = 0.0,
    *,
    prior: Prior,
    noise: NoiseModel,
    max_iter: int,
    tol: float,
    within: WithinCells | None = None,
    callback: ProgressCallback | None = None,
) -> EMResult:
    """Iterate until the objective rises by less than ``tol`` nats per sample, or ``max_iter`` times.

    The objective of an iteration is that of the parameters it ends with; it comes from the E step that
    the next iteration needs anyway. KeyboardInterrupt ends the loop and keeps the last complete iteration;
    a second one within two seconds is raised, so that a script or a search can be stopped for good.

    Where the coupled levels are sampled, the likelihood is an estimate. Its probes are the same in every iteration, so
    a gain is known far better than a value; EM has converged when the gain and twice its standard error are below
    ``tol``. Where draws are too few to show a gain, they are doubled.
    """
    n = layout.n_samples + (0.0 if within is None else within.freedom)
    task, trace, converged, interrupted, stuck = _Task(n, prior, noise, within), [], False, False, False
    state = task.state(layout, start, kappa)
    first = objective = state.objective
    try:
        for iteration in range(1, max_iter + 1):
            began = time.perf_counter()
            following = task.following(layout, state)
            gain = -np.inf if following is None else following.objective - objective
            doubt = 0.0 if following is None else task.doubt(state, following)
            if following is None or gain < -ROUNDING * max(abs(objective), 1.0) - doubt:
                if layout.solver.refined is not None:
                    logger.info("iteration %d would lose %.3g nats per sample: twice as many draws", iteration, -gain)
                    layout = replace(layout, solver=layout.solver.refined)
                    state = task.state(layout, state.parameters, state.kappa)
                    objective = state.objective
                    continue
                cause = "rounding" if state.is_exact else "the draws of the sampled solver"
                logger.warning("iteration %d would lose %.3g nats per sample to %s; stopped", iteration, -gain, cause)
                stuck = True
                break
            state, objective = following, objective + gain
            trace.append(objective)
            seconds = time.perf_counter() - began
            logger.info("iteration %d: %.8g nats per sample (%+.3g, %.3g s)", iteration, objective, gain, seconds)
            if callback is not None:
                detail = Iteration(iteration, objective, gain, seconds, state.parameters, state.kappa)
                callback(Progress("EM", iteration, max_iter, detail))
            if gain + doubt < tol:
                converged = True
                break
    except KeyboardInterrupt:
        if _again():
            raise
        logger.info("interrupted after %d iterations", len(trace))
        interrupted = True
    error = standard_error(state.log_likelihoods) / n
    return EMResult(state.parameters, first, tuple(trace), converged, interrupted, stuck, state.kappa, error)
