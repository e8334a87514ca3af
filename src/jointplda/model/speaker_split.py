"""A change of V after EM: a share of V V' becomes the interaction of speaker and channel, where they are confounded."""

import numpy as np
from scipy.linalg import solve_triangular

from jointplda._typing import Array
from jointplda.linalg import cholesky, symmetric
from jointplda.model.parameters import Parameters


def split_speaker(parameters: Parameters, kappa: float) -> tuple[Parameters, Array]:
    """Divide V V' between speaker and interaction; return the parameters with the new V, and G.

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
    return Parameters(parameters.mean, (speaker, *others), parameters.noise), basis * np.sqrt(w * (1.0 - share))


def joined_speaker(parameters: Parameters, G: Array) -> Parameters:
    """The parameters before ``split_speaker``: V V' + G G' is the speaker's again; V keeps its number of columns."""
    V, *others = parameters.loadings
    values, vectors = np.linalg.eigh(symmetric(V @ V.T + G @ G.T))
    rank = V.shape[1]
    joined = vectors[:, -rank:] * np.sqrt(np.maximum(values[-rank:], 0.0))
    return Parameters(parameters.mean, (joined, *others), parameters.noise)
