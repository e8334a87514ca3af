"""kappa, the interaction of speaker and channel relative to the noise: its prior and its step of EM."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from jointplda._typing import Array
from jointplda.model.settings import MOST_KAPPA


@dataclass(frozen=True)
class KappaPrior:
    """Prior of kappa, worth ``weight`` pseudo-cells of two samples with kappa = ``value``.

    The penalty is -w d / 2 [log(1/r) + r - 1] with r = (kappa_0 + 1/2) / (kappa + 1/2), the expected log-likelihood of
    w such cells relative to that at kappa_0: it fades as real cells grow in number, and does not exclude 0.

    Attributes
    ----------
    value : float
        kappa_0.
    weight : float
        w, in cells; 0 for no prior.
    """

    value: float = 0.0
    weight: float = 0.0

    def penalty(self, kappa: float, d: int) -> float:
        """Log of the prior at kappa over that at its value."""
        ratio = (self.value + 0.5) / (kappa + 0.5)
        return -0.5 * self.weight * d * (ratio - 1.0 - float(np.log(ratio)))


def best_kappa(counts: Array, sizes: Array, squares: Array, d: int, prior: KappaPrior, before: float) -> float:
    """Maximise -d/2 sum_p [K_p log(kappa + 1/n_p) + v_p / (kappa + 1/n_p)] and the prior over kappa >= 0.

    ``counts`` (parts,) is K_p, the number of cells of each part, ``sizes`` n_p, the samples in each of them, and
    ``squares`` v_p = tr(D sum <r r'>) / d over the cells of each part, with r the residual of a cell mean and d the
    dimension of the samples. The present value, ``before``, is kept where nothing is higher.
    """

    def cost(kappa: float) -> float:
        scales = kappa + 1.0 / sizes
        value = 0.5 * d * float(np.sum(counts * np.log(scales) + squares / scales))
        return value - prior.penalty(kappa, d)

    inside = minimize_scalar(
        lambda u: cost(float(np.expm1(u))),
        bounds=(0.0, float(np.log1p(MOST_KAPPA))),
        method="bounded",
        options={"xatol": 1e-10},
    )
    return min((0.0, before, float(np.expm1(inside.x))), key=cost)
