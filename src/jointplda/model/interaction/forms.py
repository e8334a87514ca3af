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
from jointplda.model.interaction.cell_moments import cell_covariances, cell_residual, moment_kappa
from jointplda.model.kappa import KappaPrior
from jointplda.model.layout import Layout, lay_out
from jointplda.model.moments import Covariances, moment_covariances
from jointplda.model.mstep import NoiseModel, Prior
from jointplda.model.parameters import Parameters
from jointplda.model.plan import Plan, make_plan
from jointplda.model.settings import ModelSettings
from jointplda.model.start import make_prior, start_from_moments
from jointplda.model.statistics import Statistics

LEAST_KAPPA = 0.02  # where EM starts, since it leaves 0 slowly
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
    ranks : tuple of int
        Of the speaker and the conditions.
    form : str
        Of the interaction.
    kappa_prior : KappaPrior
    covariances : Covariances
        By the method of moments.
    layout : Layout
        Of the samples, or of the means of their cells where there is an interaction.
    within : WithinCells or None
        What is left of the samples beside the means of their cells.
    kappa : float
        Interaction relative to the noise: given, or by the method of moments.
    prior_weight : float
        Share of the prior in kappa: 1 where the data say nothing about it.
    kappa_fixed : bool
        Whether kappa stays as it is; EM then runs without it (see ``held_cells``).
    """

    statistics: Statistics
    ranks: tuple[int, ...]
    form: str
    kappa_prior: KappaPrior
    covariances: Covariances
    layout: Layout
    within: WithinCells | None = None
    kappa: float = 0.0
    prior_weight: float = 0.0
    kappa_fixed: bool = False

    @classmethod
    def of(cls, statistics: Statistics, settings: ModelSettings) -> "Problem":
        """Prepare statistics, without the conditions of rank 0, for a fit with resolved settings.

        With a noise prior C is shrunk, and the likelihood of kappa given a shrunk C is biased; kappa is then held at
        the moment estimate, and all cells count alike in C (``held_cells``), as far as the data decide.
        """
        form, ranks, prior = form_of(settings), settings.ranks, KappaPrior(*settings.interaction_prior)
        if form in ("none", "split"):
            problem = cls(statistics, ranks, form, prior, moment_covariances(statistics), lay_out(statistics, ranks))
            if form == "none":
                return problem
            found = moment_kappa(cell_residual(statistics), within_cells(statistics), prior)
            return replace(problem, kappa=found.value, prior_weight=found.prior_weight)
        given = settings.interaction if form == "fixed" else None
        covariances, found = cell_covariances(statistics, within_cells(statistics), prior, given)
        kappa, weight = found.value, found.prior_weight
        if form == "fixed" or (form == "proportional" and settings.noise_prior):
            shape = 1.0 - weight if settings.noise_prior else 0.0
            means, within = held_cells(statistics, kappa, shape_weight=shape, residual_share=found.residual_share)
            return cls(statistics, ranks, form, prior, covariances, lay_out(means, ranks), within, kappa, weight, True)
        means, within = cell_means(statistics)
        if form == "full":
            means, factors = with_cell_factor(means), (*ranks, _cell_rank(settings))
        else:
            factors = ranks
        layout = lay_out(means, factors)
        return cls(statistics, ranks, form, prior, covariances, layout, within, max(kappa, LEAST_KAPPA), weight)

    def prior(self, settings: ModelSettings) -> Prior:
        """Prior of the settings, with scales from the moments."""
        prior = make_prior(self.statistics, self.covariances, settings)
        if self.within is not None:
            strength = settings.noise_prior * (self.layout.n_samples + self.within.freedom)
            prior = replace(prior, noise_strength=strength)
        if self.kappa_estimated:
            return replace(prior, kappa=self.kappa_prior)
        if self.form == "full" and _cell_rank(settings) == self.statistics.n_features:
            strength = self.kappa_prior.weight + settings.noise_prior * self.layout.n_samples
            return replace(prior, cell_strength=strength, cell_scale=self.kappa * prior.noise_scale)
        return prior

    @property
    def kappa_estimated(self) -> bool:
        """Whether EM estimates kappa."""
        return self.form == "proportional" and not self.kappa_fixed

    def start(self, noise: NoiseModel, prior: Prior, settings: ModelSettings) -> tuple[Parameters, float]:
        """Where EM starts: parameters, and kappa as far as EM has one."""
        start = start_from_moments(self.statistics, self.covariances, self.ranks, noise, prior)
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
    form, ranks = form_of(settings), settings.ranks
    if form in ("none", "split"):
        return make_plan(statistics, ranks)
    if form == "fixed" or (form == "proportional" and settings.noise_prior):
        kappa = settings.interaction if form == "fixed" else PLANNED_KAPPA
        return make_plan(held_cells(statistics, kappa, shape_weight=0.0)[0], ranks)
    means = cell_means(statistics)[0]
    if form == "full":
        return make_plan(with_cell_factor(means), (*ranks, _cell_rank(settings)))
    return make_plan(means, ranks)


def _cell_rank(settings: ModelSettings) -> int:
    assert settings.interaction_rank is not None
    return settings.interaction_rank
