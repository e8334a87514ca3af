"""From statistics and settings to parameters: checks, a starting point, and EM."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from jointplda._parallel import one_thread
from jointplda.errors import InputError
from jointplda.model.cell_moments import cell_covariances, cell_residual, moment_kappa
from jointplda.model.cell_sums import WithinCells
from jointplda.model.em import EMResult, Iteration, logger, run_em
from jointplda.model.interaction import (
    NO_INTERACTION,
    InteractionSettings,
    cell_means,
    held_cells,
    with_cell_factor,
    with_proportional_cell,
    within_cells,
)
from jointplda.model.layout import Layout, lay_out
from jointplda.model.moments import Covariances, moment_covariances
from jointplda.model.mstep import NoiseModel, Prior
from jointplda.model.parameters import Parameters
from jointplda.model.plan import Plan
from jointplda.model.speaker_split import split_speaker
from jointplda.model.start import make_prior, start_from_moments
from jointplda.model.statistics import Statistics
from jointplda.progress import Progress, ProgressCallback

ONE_THREAD_WORK = 5e8
FAR = 30.0  # standard deviations
LEAST_KAPPA = 0.02  # where EM starts, since it leaves 0 slowly


@dataclass(frozen=True)
class FitSettings:
    """Settings of a fit; ``JointPLDA`` says what each of them means."""

    diagonal: bool
    max_iter: int
    tol: float
    noise_prior: float
    speaker_prior: float
    noise_floor: float
    interaction: InteractionSettings = NO_INTERACTION
    callback: ProgressCallback | None = None


@dataclass(frozen=True)
class FitResult:
    """What EM ended with, and what it leaves to say.

    Attributes
    ----------
    at_floor : int
        Number of directions in which the noise is at its floor.
    interrupted : bool
        Whether Ctrl-C came.
    form : str
        Of the interaction.
    moment_kappa, believed : float
        kappa by the method of moments, and the share of the belief in it: 1 where the data say nothing about it.
    """

    fit: EMResult
    plan: Plan
    at_floor: int
    interrupted: bool
    form: str = "none"
    moment_kappa: float = 0.0
    believed: float = 0.0


def check_speakers(statistics: Statistics) -> None:
    """Raise unless there are two or more speakers, one of them with two or more samples."""
    if statistics.n_speakers < 2:
        problem = (
            f"expected at least two speakers, got one class (n_samples = {statistics.n_samples:g}, all with the same "
            "label). Is it the speaker of each sample?"
        )
        raise InputError(problem, parameter="y")
    if statistics.n_samples <= statistics.n_speakers:
        problem = (
            f"expected speakers with several samples, got {statistics.n_speakers} speakers with one sample each, which "
            "cannot separate speaker from noise. Is it the speaker, or an id of the sample?"
        )
        raise InputError(problem, parameter="y")


def supported_rank(statistics: Statistics, k: int) -> int:
    """The highest rank that the levels of factor k support: one less than their number, at most the dimension."""
    alone = sum(part.count for part in statistics.parts.values() if k not in part.levels)
    return int(min(statistics.n_features, max(0, len(statistics.labels[k]) + alone - 1)))


@dataclass(frozen=True)
class Problem:
    """What fits of the same ranks to the same statistics share, whatever their other settings.

    Attributes
    ----------
    covariances : Covariances
        By the method of moments.
    layout : Layout
        Of the samples, or of the means of their cells where there is an interaction.
    within : WithinCells or None
        What is left of the samples beside the means of their cells.
    kappa : float
        Interaction relative to the noise: given, or by the method of moments.
    believed : float
        Share of the belief in kappa.
    held : bool
        Whether kappa stays as it is; EM then runs without it (see ``held_cells``).
    """

    statistics: Statistics
    ranks: tuple[int, ...]
    covariances: Covariances
    layout: Layout
    within: WithinCells | None = None
    kappa: float = 0.0
    believed: float = 0.0
    held: bool = False

    @classmethod
    def of(
        cls,
        statistics: Statistics,
        ranks: tuple[int, ...],
        interaction: InteractionSettings = NO_INTERACTION,
        *,
        noise_prior: bool = False,
    ) -> "Problem":
        """Prepare statistics for loadings of the given ranks, one per factor and all at least 1.

        With a noise prior C is shrunk, and the likelihood of kappa given a shrunk C is biased; kappa is then held at
        the moment estimate, and all cells count alike in C (``held_cells``), as far as it is not only believed.
        """
        form = interaction.form
        if not interaction.in_em:
            problem = cls(statistics, ranks, moment_covariances(statistics), lay_out(statistics, ranks))
            if form == "none":
                return problem
            found = moment_kappa(cell_residual(statistics), within_cells(statistics), interaction.prior)
            return replace(problem, kappa=found.value, believed=found.believed)
        given = interaction.kappa if form == "fixed" else None
        covariances, found = cell_covariances(statistics, within_cells(statistics), interaction.prior, given)
        kappa, believed = found.value, found.believed
        if form == "fixed" or (form == "proportional" and noise_prior):
            even = 1.0 - believed if noise_prior else 0.0
            means, within = held_cells(statistics, kappa, even=even, residual_share=found.residual_share)
            return cls(statistics, ranks, covariances, lay_out(means, ranks), within, kappa, believed, held=True)
        means, within = cell_means(statistics)
        full = form == "full"
        layout = lay_out(with_cell_factor(means), (*ranks, interaction.rank)) if full else lay_out(means, ranks)
        return cls(statistics, ranks, covariances, layout, within, max(kappa, LEAST_KAPPA), believed)

    def with_interaction(self, parameters: Parameters, kappa: float, form: str) -> Parameters:
        """The parameters that EM found with the interaction in its place."""
        if form == "split":
            return split_speaker(parameters, self.kappa)
        return with_proportional_cell(parameters, self.kappa if self.held else kappa)

    def prior(self, settings: "FitSettings") -> Prior:
        """Prior of the settings, with scales from the moments."""
        interaction = settings.interaction
        prior = make_prior(self.statistics, self.covariances, settings.noise_prior, settings.speaker_prior)
        if self.within is not None:
            strength = settings.noise_prior * (self.layout.n_samples + self.within.freedom)
            prior = replace(prior, noise_strength=strength)
        if interaction.form == "proportional" and not self.held:
            return replace(prior, kappa=interaction.prior)
        if interaction.form == "full" and interaction.rank == self.statistics.n_features:
            strength = interaction.prior.weight + settings.noise_prior * self.layout.n_samples
            return replace(prior, cell_strength=strength, cell_scale=self.kappa * prior.noise_scale)
        return prior


def fit(problem: Problem, settings: FitSettings, warm: Parameters | None = None) -> FitResult:
    """Fit a model of the family, from ``warm`` if there are such parameters, else from the moments of the data."""
    statistics, ranks, layout = problem.statistics, problem.ranks, problem.layout
    noise = NoiseModel(settings.diagonal, settings.noise_floor * statistics.scales)
    prior, interaction = problem.prior(settings), settings.interaction
    estimated = interaction.form == "proportional" and not problem.held
    logger.info("%s", layout.plan)
    with _threads(layout.plan.work), _clear_failures():
        if warm is None:
            kappa = problem.kappa
            start = start_from_moments(statistics, problem.covariances, ranks, noise, prior)
            start = interaction.start(start, kappa)
        else:
            kappa, start = warm.kappa, _resumed(warm, statistics, noise)
            start = start if interaction.form == "full" else start.without_cell()
        found = run_em(
            layout,
            start,
            kappa if estimated else 0.0,
            prior=prior,
            noise=noise,
            max_iter=settings.max_iter,
            tol=settings.tol,
            within=problem.within,
            callback=_with_cell(settings.callback, problem),
        )
    believed = 0.0 if interaction.form == "fixed" else problem.believed
    found = replace(found, parameters=problem.with_interaction(found.parameters, found.kappa, interaction.form))
    at_floor = noise.at_floor(found.parameters.noise)
    return FitResult(found, layout.plan, at_floor, found.interrupted, interaction.form, problem.kappa, believed)


def _with_cell(callback: ProgressCallback | None, problem: Problem) -> ProgressCallback | None:
    """The same callback, which gets parameters with the cell."""
    if callback is None or problem.within is None:
        return callback

    def shown(progress: Progress) -> None:
        detail = progress.detail
        assert isinstance(detail, Iteration)
        parameters = problem.with_interaction(detail.parameters, detail.kappa, "")
        callback(replace(progress, detail=replace(detail, parameters=parameters)))

    return shown


def _resumed(warm: Parameters, statistics: Statistics, noise: NoiseModel) -> Parameters:
    """Parameters of an earlier fit as a start: the noise is kept above its floor, and a far-away mean is replaced."""
    far = np.abs(warm.mean - statistics.mean) > FAR * np.sqrt(statistics.scales)
    mean = statistics.mean if far.any() else warm.mean
    return replace(warm, mean=mean, noise=noise.nearest(warm.noise))


@contextmanager
def _clear_failures() -> Iterator[None]:
    try:
        yield
    except np.linalg.LinAlgError as error:
        raise InputError(
            f"The covariances became singular ({error}). Raise the noise floor, use a noise prior, or reduce the "
            "dimension (PCA)."
        ) from None


@contextmanager
def _threads(work: float) -> Iterator[None]:
    """Limit BLAS to one thread where an iteration is short: many small products run faster so."""
    if work > ONE_THREAD_WORK:
        yield
    else:
        with one_thread():
            yield
