"""From statistics and settings to a fitted model: the only place where a model of the family is fitted."""

from contextlib import nullcontext
from dataclasses import dataclass, field, replace

import numpy as np

from jointplda._parallel import one_thread
from jointplda._typing import Array
from jointplda.errors import InputError
from jointplda.model.channel_shrinkage import shrunk, unshrunk
from jointplda.model.em import EMResult, Iteration, logger, run_em
from jointplda.model.fitted import FitNotes, FittedModel, Trace, TrainingCounts
from jointplda.model.interaction.forms import Problem, planned, unfinished
from jointplda.model.mstep import NoiseModel
from jointplda.model.parameters import CELL, CONDITION, Factor, Parameters
from jointplda.model.plan import FLOPS, SLOW_SECONDS, Plan
from jointplda.model.resolve import resolve
from jointplda.model.settings import ModelSettings
from jointplda.model.statistics import Statistics
from jointplda.progress import Progress, ProgressCallback

ONE_THREAD_WORK = 5e8
FAR = 30.0  # standard deviations
LEAST_FLOOR = 1e-8  # below this, rounding decides


@dataclass
class FitMemory:
    """What fits to the same statistics share, so that a search does nothing twice.

    Attributes
    ----------
    problems : dict
        What EM runs on, by the settings that decide about it.
    ended : dict
        What EM ended with, by the settings that EM depends on.
    latest : dict
        The last of these for each problem.
    goes_on : bool
        Whether EM starts where the last fit to the same problem ended.
    """

    goes_on: bool = True
    problems: dict[ModelSettings, Problem] = field(default_factory=dict)
    ended: dict[ModelSettings, EMResult] = field(default_factory=dict)
    latest: dict[ModelSettings, Parameters] = field(default_factory=dict)


def fit(
    statistics: Statistics,
    settings: ModelSettings,
    *,
    start: Parameters | None = None,
    callback: ProgressCallback | None = None,
    memory: FitMemory | None = None,
) -> FittedModel:
    """Fit a model to statistics.

    EM starts at ``start``, as ``restart`` makes it, or from the moments of the data, and calls ``callback`` with a
    ``Progress`` after every iteration. ``memory`` is what earlier fits to the same statistics left.
    """
    settings, memory = resolve(settings, statistics), memory or FitMemory()
    of_em, of_problem = settings.of_em, settings.of_problem
    if of_problem not in memory.problems:
        used = statistics.with_conditions(settings.conditions_used)
        memory.problems[of_problem] = Problem.of(used, settings)
    problem = memory.problems[of_problem]
    if of_em not in memory.ended:
        if start is None and memory.goes_on and problem.form != "split":
            start = memory.latest.get(of_problem)
        try:
            result = _em(problem, settings, start, callback)
        except np.linalg.LinAlgError as error:
            raise InputError(
                f"The covariances became singular ({error}). Raise the noise floor, use a noise prior, or reduce the "
                "dimension (PCA)."
            ) from None
        if result.interrupted:  # not to be taken for the end of EM by another fit
            return _fitted(result, problem, settings, statistics)
        memory.ended[of_em], memory.latest[of_problem] = result, result.parameters
    return _fitted(memory.ended[of_em], problem, settings, statistics)


def plan_fit(statistics: Statistics, settings: ModelSettings) -> Plan:
    """The plan of a fit: levels, eliminated factor, memory and work of an iteration."""
    settings = resolve(settings, statistics)
    return planned(statistics.with_conditions(settings.conditions_used), settings)


def restart(fitted: FittedModel, settings: ModelSettings, conditions: tuple[str, ...]) -> Parameters | None:
    """The parameters that EM of an earlier fit ended with; None if it had other conditions, ranks or another form.

    ``settings`` are those of the next fit, resolved, and ``conditions`` the names of its conditions.
    """
    used = tuple(k for k, rank in enumerate(fitted.channel_ranks) if rank)
    same = fitted.conditions in (None, conditions) and len(fitted.channel_ranks) == len(conditions)
    if not same or used != settings.conditions_used:
        return None
    found = unfinished(unshrunk(fitted.used, fitted.settings), settings)
    return found if found is not None and found.without_cell().ranks == settings.ranks else None


def _em(
    problem: Problem, settings: ModelSettings, start: Parameters | None, callback: ProgressCallback | None
) -> EMResult:
    """Run EM; the result has parameters with the cell in its place."""
    noise, prior, layout = _noise_model(problem, settings), problem.prior(settings), problem.layout
    if layout.plan.work > SLOW_SECONDS * FLOPS:
        logger.warning("an iteration will take about %.0f seconds: %s", layout.plan.work / FLOPS, layout.plan)
    else:
        logger.info("%s", layout.plan)

    def shown(progress: Progress) -> None:
        detail = progress.detail
        assert callback is not None
        assert isinstance(detail, Iteration)
        parameters = problem.with_cell(detail.parameters, detail.kappa)
        callback(replace(progress, detail=replace(detail, parameters=parameters)))

    # Many small products run faster on one thread.
    threads = nullcontext() if layout.plan.work > ONE_THREAD_WORK else one_thread()
    with threads:
        if start is None:
            parameters, kappa = problem.start(noise, prior, settings)
        else:
            parameters, kappa = problem.restart(_near(start, problem.statistics, noise))
        result = run_em(
            layout,
            parameters,
            kappa,
            prior=prior,
            noise=noise,
            max_iter=settings.max_iter,
            tol=settings.tol,
            within=problem.within,
            callback=None if callback is None else shown,
        )
        return replace(result, parameters=problem.finished(result.parameters, result.kappa))


def _noise_model(problem: Problem, settings: ModelSettings) -> NoiseModel:
    floor = max(settings.noise_floor, LEAST_FLOOR)
    return NoiseModel(settings.noise == "diagonal", floor * problem.statistics.scales)


def _near(start: Parameters, statistics: Statistics, noise: NoiseModel) -> Parameters:
    """Parameters of an earlier fit as a start: the noise is kept above its floor, and a far-away mean is replaced."""
    far = np.abs(start.mean - statistics.mean) > FAR * np.sqrt(statistics.scales)
    mean = statistics.mean if far.any() else start.mean
    return replace(start, mean=mean, noise=noise.nearest(start.noise))


def _fitted(result: EMResult, problem: Problem, settings: ModelSettings, statistics: Statistics) -> FittedModel:
    """The record of a fit; conditions that were left out have a U without columns."""
    parameters = shrunk(result.parameters, settings)
    V, *others = (replace(factor, loading=canonical(factor.loading)) for factor in parameters.factors)
    factors = [Factor(name, np.zeros((len(V.loading), 0)), CONDITION) for name in statistics.conditions]
    for k, U in zip(settings.conditions_used, others, strict=False):
        factors[k] = replace(factors[k], loading=U.loading)
    cell = [factor for factor in others if factor.kind == CELL]
    trace = np.array(result.log_likelihoods, dtype=np.float64)
    at_floor = _noise_model(problem, settings).at_floor(parameters.noise)
    weight = 0.0 if problem.form == "fixed" else problem.prior_share
    return FittedModel(
        mean=parameters.mean,
        factors=(V, *factors, *cell),
        precision=parameters.precision,
        conditions=statistics.conditions,
        settings=settings,
        trace=Trace(
            trace,
            result.converged,
            result.interrupted,
            problem.prior(settings).penalises,
            problem.layout.plan.solver,
            result.standard_error,
        ),
        counts=TrainingCounts(statistics.n_samples, statistics.n_speakers, statistics.n_channels),
        plan=problem.layout.plan,
        notes=FitNotes(result.start, result.stuck, at_floor, problem.form, problem.kappa, weight),
    )


def canonical(W: Array) -> Array:
    """The loading of the same W W' with orthogonal columns, the longest first, whose largest entries are positive."""
    left, values, _ = np.linalg.svd(W, full_matrices=False)
    W = left * values
    signs = np.sign(W[np.argmax(np.abs(W), axis=0), np.arange(W.shape[1])])
    return np.ascontiguousarray(W * np.where(signs == 0, 1.0, signs))
