"""The cell as the last factor of a model: of any shape, in proportion to the noise, or split off the speaker."""

from dataclasses import replace

import numpy as np
from scipy.linalg import solve_triangular

from jointplda._typing import Array
from jointplda.linalg import cholesky, root_of_rank
from jointplda.model.parameters import CELL, Factor, Parameters


def with_cell(parameters: Parameters, G: Array) -> Parameters:
    """The same parameters with a cell of loading G (d, r) of any shape."""
    return replace(parameters, factors=(*parameters.factors, Factor("cell", G, CELL)))


def with_proportional_cell(parameters: Parameters, kappa: float) -> Parameters:
    """The same parameters with a cell of loading G, G G' = kappa C; without one if kappa is 0."""
    if not kappa:
        return parameters
    cell = Factor("cell", np.sqrt(kappa) * cholesky(parameters.noise), CELL, kappa)
    return replace(parameters, factors=(*parameters.factors, cell))


def with_cell_share(parameters: Parameters, share: float) -> Parameters:
    """Parameters whose cell shares only this part of G G'; the rest is noise, and a share of 0 leaves no cell."""
    if parameters.cell is None or share == 1.0:
        return parameters
    G, others = parameters.cell.loading, parameters.without_cell()
    shared = replace(parameters.cell, loading=np.sqrt(share) * G, kappa=None)
    factors = (*others.factors, shared) if share else others.factors
    return Parameters(parameters.mean, factors, parameters.noise + (1.0 - share) * (G @ G.T))


def split_speaker(parameters: Parameters, kappa: float) -> Parameters:
    """Divide V V' between the speaker and a cell, which the parameters have not had.

    With C = L L' and the eigenvalues w and eigenvectors Q of L^-1 V V' L^-T,

        V V' becomes L Q diag(w^2 / (w + kappa)) Q' L',     G G' = L Q diag(w kappa / (w + kappa)) Q' L'.

    Their sum is the old V V'. Directions in which speakers differ far more than kappa C stay the speaker's.
    """
    V, *others = parameters.loadings
    root = cholesky(parameters.noise)
    Q, lengths, _ = np.linalg.svd(solve_triangular(root, V, lower=True), full_matrices=False)
    w, basis = lengths**2, root @ Q
    share = np.divide(w, w + kappa, out=np.zeros_like(w), where=w + kappa > 0)
    speaker = basis * np.sqrt(w * share)
    return with_cell(parameters.with_loadings((speaker, *others)), basis * np.sqrt(w * (1.0 - share)))


def joined_speaker(parameters: Parameters) -> Parameters:
    """The parameters before ``split_speaker``: V V' + G G' is the speaker's again; V keeps its number of columns."""
    V, *others, G = parameters.loadings
    joined = root_of_rank(V @ V.T + G @ G.T, V.shape[1])
    return parameters.without_cell().with_loadings((joined, *others))
