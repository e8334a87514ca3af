"""Labelled samples under a given model, as the E step takes them."""

from dataclasses import replace

from jointplda.linalg import inverse
from jointplda.model.estep import Solution, solve
from jointplda.model.interaction.cell_means import cell_means, with_cell_factor
from jointplda.model.layout import Layout, lay_out
from jointplda.model.parameters import Parameters
from jointplda.model.statistics import Statistics


def solve_samples(
    statistics: Statistics, parameters: Parameters, eliminated: int | None = None, *, keep_rows: bool = False
) -> tuple[Layout, Solution]:
    """The layout of samples, and the posterior of the latents that they share under a model with the same factors.

    If the model has a cell, the layout is that of the means of cells, whose noise is (1/n + kappa) C or has a factor
    G. The log-likelihood is that of the samples.
    """
    cell = parameters.cell
    if cell is None:
        layout = lay_out(statistics, parameters.ranks, eliminated, keep_rows)
        return layout, solve(layout, parameters)
    means, within = cell_means(statistics)
    if cell.kappa is None:
        means = with_cell_factor(means)
    else:
        parameters = parameters.without_cell()
    layout = lay_out(means, parameters.ranks, eliminated, keep_rows)
    solution = solve(layout, parameters, cell.kappa or 0.0)
    return layout, replace(
        solution,
        log_likelihood=solution.log_likelihood + within.log_likelihood(*inverse(parameters.noise)),
    )
