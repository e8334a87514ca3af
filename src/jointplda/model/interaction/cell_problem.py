"""Labelled samples under a given model, as the E step takes them."""

from dataclasses import dataclass

from jointplda.linalg import inverse
from jointplda.model.cell_sums import WithinCells
from jointplda.model.estep import Solution, solve
from jointplda.model.interaction.cell_means import cell_means, with_cell_factor
from jointplda.model.layout import Layout, lay_out
from jointplda.model.parameters import Parameters
from jointplda.model.statistics import Statistics


@dataclass(frozen=True)
class CellProblem:
    """Samples and a model as EM takes them: the means of cells, whose noise is (1/n + kappa) C or has a factor G.

    Attributes
    ----------
    statistics : Statistics
        Of the samples, or of the means of their cells if the model has a cell.
    parameters : Parameters
        The model; without its cell where that is in proportion to the noise.
    kappa : float
    within : WithinCells or None
        What is left of the samples beside the means of their cells.
    """

    statistics: Statistics
    parameters: Parameters
    kappa: float = 0.0
    within: WithinCells | None = None

    @classmethod
    def of(cls, statistics: Statistics, parameters: Parameters) -> "CellProblem":
        """The problem of these samples under a model with the same factors."""
        if parameters.cell is None:
            return cls(statistics, parameters)
        means, within = cell_means(statistics)
        if parameters.cell.kappa is not None:
            return cls(means, parameters.without_cell(), parameters.cell.kappa, within)
        return cls(with_cell_factor(means), parameters, 0.0, within)

    def solved(self, eliminated: int | None = None, *, keep_rows: bool = False) -> tuple[Layout, Solution]:
        """The layout of the samples, and the posterior of all latents that they share."""
        layout = lay_out(self.statistics, self.parameters.ranks, eliminated, keep_rows)
        return layout, solve(layout, self.parameters, self.kappa)

    def log_likelihood(self, solution: Solution) -> float:
        """Exact log p of the samples, all latents integrated out."""
        if self.within is None:
            return solution.log_likelihood
        return solution.log_likelihood + self.within.log_likelihood(*inverse(self.parameters.noise))
