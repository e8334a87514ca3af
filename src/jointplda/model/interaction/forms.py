"""The forms of the interaction in a fit: what EM runs on, where it starts, its prior, and what becomes of its result.

none           the paper's model
fixed          kappa is given
proportional   G G' = kappa C, and kappa is estimated; with a noise prior it is held at its moment estimate
full           G of any shape is estimated
split          the paper's model, and V V' is divided between speaker and cell after EM
"""

from dataclasses import dataclass, replace

import numpy as np

from jointplda.model.cell_sums import WithinCells
from jointplda.model.interaction.cell_factor import joined_speaker, split_speaker, with_cell, with_proportional_cell
from jointplda.model.interaction.cell_means import cell_means, held_cells, with_cell_factor, within_cells
from jointplda.model.interaction.cell_moments import MomentKappa, cell_covariances, cell_residual, moment_kappa
from jointplda.model.kappa import KappaPrior
from jointplda.model.layout import Layout, lay_out
from jointplda.model.moment_covariances import Covariances, moment_covariances
from jointplda.model.mstep import NoiseModel, Prior
from jointplda.model.parameters import Parameters
from jointplda.model.plan import Plan, estimated_work, make_plan
from jointplda.model.settings import ModelSettings
from jointplda.model.single_levels import without_single_levels
from jointplda.model.start import make_prior, start_from_moments
from jointplda.model.statistics import Statistics

LEAST_KAPPA = 0.02  # where EM starts, since it leaves 0 slowly
WITHOUT_CELLS = ("none", "split")  # forms whose EM runs on samples
PLANNED_KAPPA = 0.1  # of a plan, where kappa is not known yet


def form_of(settings: ModelSettings) -> str:
    """The form of the interaction: "none", "fixed", "proportional", "full" or "split"."""
    if isinstance(settings.interaction, str):
        return settings.interaction
    return "fixed" if settings.interaction else "none"


@dataclass(frozen=True)
class Problem:
    """What EM runs on. Fits of the same ranks and form to the same statistics share it, whatever their priors.

    Attributes
    ----------
    statistics : Statistics
        Of the samples.
    form : str
        Of the interaction.
    covariances : Covariances
        By the method of moments.
    layout : Layout
        Of the samples, or of the means of their cells where there is an interaction.
    within : WithinCells or None
        What is left of the samples beside the means of their cells.
    kappa : float
        Interaction relative to the noise: given, or by the method of moments.
    prior_share : float
        Share of the prior in kappa: 1 where the data say nothing about it.
    kappa_fixed : bool
        Whether kappa stays as it is; EM then runs without it (see ``held_cells``).
    """

    statistics: Statistics
    form: str
    covariances: Covariances
    layout: Layout
    within: WithinCells | None
    kappa: float
    prior_share: float
    kappa_fixed: bool

    @classmethod
    def of(cls, statistics: Statistics, settings: ModelSettings) -> "Problem":
        """Prepare statistics, without the conditions of rank 0, for a fit with resolved settings."""
        form, prior, found = form_of(settings), KappaPrior(*settings.interaction_prior), MomentKappa(0.0, 0.0, 1.0)
        if form in WITHOUT_CELLS:
            covariances = moment_covariances(statistics)
            if form == "split":
                found = moment_kappa(cell_residual(statistics), within_cells(statistics), prior)
        else:
            given = settings.interaction if form == "fixed" else None
            covariances, found = cell_covariances(statistics, within_cells(statistics), prior, given)
        kappa, weight, fixed = found.value, found.prior_share, _kappa_fixed(settings)
        samples, ranks, within = _for_em(statistics, settings, kappa, weight, found.residual_share)
        if form not in WITHOUT_CELLS and not fixed:
            kappa = max(kappa, LEAST_KAPPA)
        return cls(
            statistics, form, covariances, lay_out(samples, ranks, solver=settings.solver), within, kappa, weight, fixed
        )

    def prior(self, settings: ModelSettings) -> Prior:
        """Prior of the settings, with scales from the moments."""
        prior = make_prior(self.statistics, self.covariances, settings)
        if self.within is not None:
            strength = settings.noise_prior * (self.layout.n_samples + self.within.freedom)
            prior = replace(prior, noise_strength=strength)
        kappa_prior = KappaPrior(*settings.interaction_prior)
        if self.kappa_estimated:
            return replace(prior, kappa=kappa_prior)
        if self.form == "full" and _cell_rank(settings) == self.statistics.n_features:
            strength = kappa_prior.weight + settings.noise_prior * self.layout.n_samples
            return replace(prior, cell_strength=strength, cell_scale=self.kappa * prior.noise_scale)
        return prior

    @property
    def kappa_estimated(self) -> bool:
        """Whether EM estimates kappa."""
        return self.form == "proportional" and not self.kappa_fixed

    def start(self, noise: NoiseModel, prior: Prior, settings: ModelSettings) -> tuple[Parameters, float]:
        """Where EM starts: parameters, and kappa as far as EM has one."""
        start = start_from_moments(self.statistics, self.covariances, settings.ranks, noise, prior)
        if self.form == "full":
            values, vectors = np.linalg.eigh(start.noise)
            start = with_cell(start, (vectors * np.sqrt(self.kappa * values))[:, -_cell_rank(settings) :])
        return start, self.kappa if self.kappa_estimated else 0.0

    def restart(self, parameters: Parameters) -> tuple[Parameters, float]:
        """The same from parameters that EM ended with."""
        start = parameters if self.form == "full" else parameters.without_cell()
        return start, parameters.kappa if self.kappa_estimated else 0.0

    def with_cell(self, parameters: Parameters, kappa: float) -> Parameters:
        """Parameters of EM, and its kappa, as parameters with a cell."""
        return with_proportional_cell(parameters, self.kappa if self.kappa_fixed else kappa)

    def finished(self, parameters: Parameters, kappa: float) -> Parameters:
        """The parameters of the model from those that EM ended with."""
        return split_speaker(parameters, self.kappa) if self.form == "split" else self.with_cell(parameters, kappa)


def unfinished(parameters: Parameters, settings: ModelSettings) -> Parameters | None:
    """The parameters that EM ended with, as a start of a fit with these settings; None if they are of another form."""
    cell, form = parameters.cell, form_of(settings)
    free = cell is not None and cell.kappa is None
    if form == "split" and free:
        return joined_speaker(parameters)
    same = free == (form == "full") and (form != "none" or cell is None)
    same &= not free or cell is None or cell.rank == _cell_rank(settings)
    return parameters if same else None


def planned(statistics: Statistics, settings: ModelSettings) -> Plan:
    """The plan of a fit with resolved settings to statistics without the conditions of rank 0."""
    kappa = settings.interaction if form_of(settings) == "fixed" else PLANNED_KAPPA
    samples, ranks, _ = _for_em(statistics, settings, kappa)
    return make_plan(samples, ranks, solver=settings.solver)


def _for_em(
    statistics: Statistics, settings: ModelSettings, kappa: float, prior_share: float = 1.0, residual_share: float = 1.0
) -> tuple[Statistics, tuple[int, ...], WithinCells | None]:
    """As ``_cells_for_em``, where channels of one sample are absorbed into its noise if that makes EM cheaper."""
    given, fewer = (
        _cells_for_em(one, settings, kappa, prior_share, residual_share)
        for one in (statistics, without_single_levels(statistics))
    )
    if given[0].labels == fewer[0].labels:
        return given
    return min((fewer, given), key=lambda one: estimated_work(one[0], one[1], settings.solver))


def _cells_for_em(
    statistics: Statistics, settings: ModelSettings, kappa: float, prior_share: float = 1.0, residual_share: float = 1.0
) -> tuple[Statistics, tuple[int, ...], WithinCells | None]:
    """The samples, or the means of their cells, that EM runs on, the ranks of its factors, and what is within cells.

    With a noise prior C is shrunk, and the likelihood of kappa given a shrunk C is biased; kappa is then held at
    the moment estimate, and all cells count alike in C (``held_cells``), as far as the data decide.
    """
    form, ranks = form_of(settings), settings.ranks
    if form in WITHOUT_CELLS:
        return statistics, ranks, None
    if _kappa_fixed(settings):
        shape = 1.0 - prior_share if settings.noise_prior else 0.0
        means, within = held_cells(statistics, kappa, shape_weight=shape, residual_share=residual_share)
        return means, ranks, within
    means, within = cell_means(statistics)
    if form == "full":
        return with_cell_factor(means), (*ranks, _cell_rank(settings)), within
    return means, ranks, within


def _kappa_fixed(settings: ModelSettings) -> bool:
    form = form_of(settings)
    return form == "fixed" or (form == "proportional" and settings.noise_prior > 0.0)


def _cell_rank(settings: ModelSettings) -> int:
    assert settings.interaction_rank is not None
    return settings.interaction_rank
