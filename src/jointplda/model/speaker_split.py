"""A change of V after EM: a share of V V' becomes the interaction of speaker and channel, where they are confounded."""

import numpy as np
from scipy.linalg import solve_triangular

from jointplda.linalg import cholesky, symmetric
from jointplda.model.interaction import with_cell
from jointplda.model.parameters import Parameters


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
    values, vectors = np.linalg.eigh(symmetric(V @ V.T + G @ G.T))
    rank = V.shape[1]
    joined = vectors[:, -rank:] * np.sqrt(np.maximum(values[-rank:], 0.0))
    return parameters.without_cell().with_loadings((joined, *others))
