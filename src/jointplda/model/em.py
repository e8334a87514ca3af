"""Expectation-maximisation: E and M steps in turn until the likelihood rises no more."""

import logging
import time
from dataclasses import dataclass, replace

import numpy as np

from jointplda._typing import Array
from jointplda.linalg import inverse
from jointplda.model.cell_sums import WithinCells
from jointplda.model.coupled.sampled import SampledSolver
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
class _Expected:
    """What an E step leaves: the moments, and an estimate of the log-likelihood from each probe of a sampled solution
    (one and exact otherwise).
    """

    moments: Moments
    log_likelihoods: Array

    def log_likelihood(self) -> float:
        return float(self.log_likelihoods.mean())


def _e_step(layout: Layout, parameters: Parameters, kappa: float, within: WithinCells | None) -> _Expected:
    solution = solve(layout, parameters, kappa)
    log_likelihoods = solution.log_likelihoods
    if within is not None:
        log_likelihoods = log_likelihoods + within.log_likelihood(*inverse(parameters.noise))
    return _Expected(summed_moments(layout, parameters, solution), log_likelihoods)


def _with_more_draws(layout: Layout) -> Layout | None:
    """The same layout with a solver that draws more; None where the solver is exact, or draws as much as it may."""
    solver = layout.solver.refined if isinstance(layout.solver, SampledSolver) else None
    return None if solver is None else replace(layout, solver=solver)


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
    parameters, trace, converged, interrupted, stuck = start, [], False, False, False
    expected = _e_step(layout, parameters, kappa, within)
    first = objective = (expected.log_likelihood() + prior.penalty(parameters, kappa)) / n
    try:
        for iteration in range(1, max_iter + 1):
            began = time.perf_counter()
            scatter = layout.scatter(kappa)
            try:
                candidate, new = m_step(
                    expected.moments, parameters, scatter, layout.shift, prior, noise, within, kappa
                )
                following = _e_step(layout, candidate, new, within)
            except np.linalg.LinAlgError:
                if not isinstance(layout.solver, SampledSolver):
                    raise
                loss = float("inf")  # the moments of so few draws are those of no covariance
            else:
                gain = (following.log_likelihood() + prior.penalty(candidate, new)) / n - objective
                doubt = 2.0 * standard_error(following.log_likelihoods - expected.log_likelihoods) / n
                loss = -gain if gain < -ROUNDING * max(abs(objective), 1.0) - doubt else 0.0
            if loss:
                finer = _with_more_draws(layout)
                if finer is not None:
                    layout = finer
                    expected = _e_step(layout, parameters, kappa, within)
                    objective = (expected.log_likelihood() + prior.penalty(parameters, kappa)) / n
                    logger.info("iteration %d would lose %.3g nats per sample: twice as many draws", iteration, loss)
                    continue
                cause = "rounding" if len(expected.log_likelihoods) == 1 else "the draws of the sampled solver"
                logger.warning("iteration %d would lose %.3g nats per sample to %s; stopped", iteration, loss, cause)
                stuck = True
                break
            expected = following
            parameters, kappa = candidate, new
            objective += gain
            trace.append(objective)
            seconds = time.perf_counter() - began
            logger.info("iteration %d: %.8g nats per sample (%+.3g, %.3g s)", iteration, objective, gain, seconds)
            if callback is not None:
                detail = Iteration(iteration, objective, gain, seconds, parameters, kappa)
                callback(Progress("EM", iteration, max_iter, detail))
            if gain + doubt < tol:
                converged = True
                break
    except KeyboardInterrupt:
        if _again():
            raise
        logger.info("interrupted after %d iterations", len(trace))
        interrupted = True
    error = standard_error(expected.log_likelihoods) / n
    return EMResult(parameters, first, tuple(trace), converged, interrupted, stuck, kappa, error)
