"""Changes of the loadings after EM: a share of U U' moves to the speaker, and what is left of it is shrunk."""

from collections.abc import Sequence

import numpy as np

from jointplda._typing import Array
from jointplda.linalg import root_of_rank
from jointplda.model.parameters import Parameters
from jointplda.model.settings import ModelSettings


def shrunk(parameters: Parameters, settings: ModelSettings) -> Parameters:
    """The parameters of the model from those of EM; the settings are resolved."""
    shares, priors = (settings.of_conditions_used(name) for name in ("channel_share", "channel_prior"))
    return with_channel_priors(with_channel_shares(parameters, shares), priors)


def unshrunk(parameters: Parameters, settings: ModelSettings) -> Parameters:
    """The parameters of EM from those of the model, so that EM can go on from there."""
    shares, priors = (settings.of_conditions_used(name) for name in ("channel_share", "channel_prior"))
    if set(shares) <= {1.0} and not any(priors):
        return parameters
    (V, *channels), cell = _split(parameters)
    loadings, B = [], V @ V.T
    for U, rank, rho, s in zip(channels, settings.ranks[1:], shares, priors, strict=True):
        A = U @ U.T
        A = ((1.0 + s) * A - s * np.trace(A) / len(A) * np.eye(len(A))) / rho
        loadings.append(root_of_rank(A, rank))
        B -= (1.0 - rho) * A
    first = V if min(shares) == 1.0 else root_of_rank(B, settings.ranks[0])
    return parameters.with_loadings((first, *loadings, *cell))


def with_channel_shares(parameters: Parameters, shares: Sequence[float]) -> Parameters:
    """Leave a share of each U U' to its channels and move the rest to V V'; the total covariance stays the same.

    U_k becomes sqrt(rho_k) U_k and V V' becomes V V' + sum_k (1 - rho_k) U_k U_k'.
    """
    (V, *channels), cell = _split(parameters)
    moved = [np.sqrt(1.0 - rho) * U for rho, U in zip(shares, channels, strict=True) if rho < 1.0]
    kept = [np.sqrt(rho) * U for rho, U in zip(shares, channels, strict=True)]
    return parameters.with_loadings((np.concatenate([V, *moved], axis=1), *kept, *cell))


def with_channel_priors(parameters: Parameters, priors: Sequence[float]) -> Parameters:
    """Shrink each U U' towards a scaled identity of the same trace; U then has d columns.

    U U' becomes (U U' + s psi I) / (1 + s) with psi = tr(U U') / d. This is the mode under an inverse-Wishart prior
    that counts s channels for every channel of training.
    """
    (V, *channels), cell = _split(parameters)
    shrunk = [_shrunk(U, s) if s else U for U, s in zip(channels, priors, strict=True)]
    return parameters.with_loadings((V, *shrunk, *cell))


def _split(parameters: Parameters) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """V and U of every condition, and the loading of the cell, if there is one."""
    ends = len(parameters.without_cell().factors)
    return parameters.loadings[:ends], parameters.loadings[ends:]


def _shrunk(U: Array, s: float) -> Array:
    """A root of the shrunk U U', (d, d): columns along those of U are stretched, the rest is a multiple of I."""
    d = len(U)
    left, values, _ = np.linalg.svd(U, full_matrices=True)
    squares = np.zeros(d)
    squares[: len(values)] = values**2
    root: Array = left * np.sqrt((squares + s * squares.sum() / d) / (1.0 + s))
    return root
