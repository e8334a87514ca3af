"""Precisions of the E step: of the noise of every part, of the eliminated latents, and of the coupled ones.

In part p, the samples with missing-label pattern p, the latents of factors without a label are absorbed into the noise:
C_p = C + sum W W' over these factors.
"""

from dataclasses import dataclass

import numpy as np

from jointplda._typing import Array
from jointplda.linalg import inverse, symmetric
from jointplda.model.coupled.links import CoupledLinks, PatternArrays
from jointplda.model.coupled.solver import Blocks, CoupledPrecision, MeanPrecision
from jointplda.model.eliminated import Precision
from jointplda.model.parameters import Parameters


@dataclass(frozen=True)
class Noise:
    """Noise of part p with the latents that it absorbed: D_p = C_p^-1 (d, d), and log |C_p|."""

    D: Array
    log_determinant: float


@dataclass(frozen=True)
class Precisions:
    """What does not depend on the samples but only on their counts.

    Attributes
    ----------
    scales : tuple of float
        The noise of part p is ``scales[p]`` C before it absorbs latents.
    noises : tuple of Noise
    rotation : (R, R) or None
        Of the eliminated loading V, so that V' D V is diagonal; None where parts have noises of their own.
    DV : list of (d, R)
        D_p V by eliminated part, rotated.
    DW : dict of (d, r_k)
        D_p W_k by part and coupled factor.
    coupled : CoupledPrecision
        P, with J and L.
    """

    scales: tuple[float, ...]
    noises: tuple[Noise, ...]
    rotation: Array | None
    DV: list[Array]
    DW: Blocks
    coupled: CoupledPrecision


def precisions(links: CoupledLinks, parameters: Parameters, eliminated: int, kappa: float = 0.0) -> Precisions:
    """The precisions of these parameters; ``kappa`` is as in ``estep.solve``."""
    W, factors = parameters.loadings, links.factors
    scales = tuple(part.noise_scale(kappa) for part in links.parts)
    noises = tuple(_noise(parameters, part, scale) for part, scale in zip(links.parts, scales, strict=True))
    DV = [noises[p].D @ W[eliminated] for p in links.eliminated_parts]
    grams = np.stack([W[eliminated].T @ dv for dv in DV])
    rotation = None
    if len(DV) == 1:
        b, rotation = np.linalg.eigh(symmetric(grams[0]))
        DV = [DV[0] @ rotation]
        L = Precision.diagonal(links.group_counts, np.maximum(b, 0.0))
    else:
        L = Precision.dense(links.group_counts, grams)
    DW = {(p, k): noises[p].D @ W[k] for p, part in enumerate(links.parts) for k in factors if part.observed[k]}
    J = {
        (at, k): W[k].T @ DV[at]
        for at, p in enumerate(links.eliminated_parts)
        for k in factors
        if links.parts[p].observed[k]
    }
    between = {(p, k, m): W[k].T @ DW[p, m] for p, m in DW for k in factors if k <= m and links.parts[p].observed[k]}
    mean = _averaged(links, W, eliminated, noises, rotation, L)
    coupled = CoupledPrecision(tuple(W[k].shape[1] for k in factors), between, J, L, mean)
    return Precisions(scales, noises, rotation, DV, DW, coupled)


def _noise(parameters: Parameters, part: PatternArrays, scale: float) -> Noise:
    absorbed = [W for W, has_label in zip(parameters.loadings, part.observed, strict=True) if not has_label]
    C = scale * parameters.noise
    return Noise(*inverse(C + sum((W @ W.T for W in absorbed), start=np.zeros(()))))


def _averaged(
    links: CoupledLinks,
    W: tuple[Array, ...],
    eliminated: int,
    noises: tuple[Noise, ...],
    rotation: Array | None,
    L: Precision,
) -> MeanPrecision:
    """P's matrices for D averaged over parts; ``rotation`` and L are those of the eliminated latents."""
    V, b, own = W[eliminated], L.b, rotation

    def averaged(*observed: int) -> Array:
        """D averaged over the samples that have labels of these factors."""
        counts = np.array([part.count * all(part.observed[k] for k in observed) for part in links.parts])
        shares = counts / max(counts.sum(), np.finfo(float).tiny)
        return np.asarray(sum((share * noise.D for share, noise in zip(shares, noises, strict=True))))

    if own is None:
        b, own = np.linalg.eigh(symmetric(V.T @ averaged(eliminated) @ V))
    turned = V @ own
    return MeanPrecision(
        J={k: W[k].T @ averaged(k, eliminated) @ turned for k in links.factors},
        b=np.maximum(b, 0.0),
        rotation=own if rotation is None else None,
    )
