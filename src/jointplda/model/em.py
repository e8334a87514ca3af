"""Expectation-maximisation: E and M steps in turn until the likelihood rises no more."""

import logging
import time
from dataclasses import dataclass

from jointplda.linalg import inverse
from jointplda.model.cell_sums import WithinCells
from jointplda.model.estep import Moments, e_step
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
        Whether EM stopped because the next iteration would have lost likelihood, which only rounding can do.
    kappa : float
        Noise that the samples of a cell share, relative to C.
    """

    parameters: Parameters
    start: float
    log_likelihoods: tuple[float, ...]
    converged: bool
    interrupted: bool
    stuck: bool = False
    kappa: float = 0.0


_interrupted = [float("-inf")]


def _again() -> bool:
    """Whether this interrupt came soon after another that was caught."""
    now = time.monotonic()
    soon = now - _interrupted[0] < PATIENCE
    _interrupted[0] = now
    return soon


def _e_step(layout: Layout, parameters: Parameters, kappa: float, within: WithinCells | None) -> tuple[Moments, float]:
    moments, log_likelihood = e_step(layout, parameters, kappa)
    if within is not None:
        log_likelihood += within.log_likelihood(*inverse(parameters.noise))
    return moments, log_likelihood


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
    """
    n = layout.n_samples + (0.0 if within is None else within.freedom)
    parameters, trace, converged, interrupted, stuck = start, [], False, False, False
    moments, log_likelihood = _e_step(layout, parameters, kappa, within)
    first = objective = (log_likelihood + prior.penalty(parameters, kappa)) / n
    try:
        for iteration in range(1, max_iter + 1):
            began = time.perf_counter()
            scatter = layout.scatter(kappa)
            candidate, new = m_step(moments, parameters, scatter, layout.shift, prior, noise, within, kappa)
            moments, log_likelihood = _e_step(layout, candidate, new, within)
            gain = (log_likelihood + prior.penalty(candidate, new)) / n - objective
            if gain < -ROUNDING * max(abs(objective), 1.0):
                logger.warning("iteration %d would lose %.3g nats per sample to rounding; stopped", iteration, -gain)
                stuck = True
                break
            parameters, kappa = candidate, new
            objective += gain
            trace.append(objective)
            seconds = time.perf_counter() - began
            logger.info("iteration %d: %.8g nats per sample (%+.3g, %.3g s)", iteration, objective, gain, seconds)
            if callback is not None:
                detail = Iteration(iteration, objective, gain, seconds, parameters, kappa)
                callback(Progress("EM", iteration, max_iter, detail))
            if gain < tol:
                converged = True
                break
    except KeyboardInterrupt:
        if _again():
            raise
        logger.info("interrupted after %d iterations", len(trace))
        interrupted = True
    return EMResult(parameters, first, tuple(trace), converged, interrupted, stuck, kappa)
