"""A few counts that stand for many: sums over levels of 1 / (1 + n b) need the distinct counts n only at these nodes.

1 / (1 + n b) is an analytic function of log n with poles at log n = -log b +- i pi, whatever b is; so are its squares,
and products with n. A polynomial through J Chebyshev nodes in log n misses it by rho^-J, where half the range of log n
is h and rho = pi / h + sqrt(1 + (pi / h)^2).
"""

from dataclasses import dataclass

import numpy as np

from jointplda._typing import Array

DIGITS = 38.0  # log of the accuracy, beyond that of double precision
SPARE = 4
ROUNDING = 1e-12
WIDEST = 1e4


@dataclass(frozen=True)
class CountNodes:
    """``nodes`` (J,), and how much of each node stands for each count: ``weights`` (counts, J)."""

    nodes: Array
    weights: Array

    @classmethod
    def each(cls, number: int) -> "CountNodes":
        """A node for each of so many groups, for sums that are not of this kind; its place means nothing."""
        return cls(np.zeros(number), np.eye(number))

    @classmethod
    def of(cls, counts: Array) -> "CountNodes":
        """Nodes for these counts, all above 0; the distinct counts themselves where they are fewer."""
        distinct, which = np.unique(counts, return_inverse=True)
        if distinct[-1] <= distinct[0] * (1.0 + ROUNDING):  # equal but for rounding, as sums of weights are
            return cls(np.array([distinct.mean()]), np.ones((len(counts), 1)))
        number = nodes_needed(counts)
        if len(distinct) <= number:
            return cls(distinct, np.eye(len(distinct))[which.reshape(-1)])
        low, high = np.log(distinct[0]), np.log(distinct[-1])
        angles = (2.0 * np.arange(number) + 1.0) * np.pi / (2.0 * number)
        at = np.cos(angles)
        x = (2.0 * np.log(distinct) - low - high) / (high - low)
        # The barycentric formula of Lagrange's polynomials.
        away = x[:, None] - at
        hit = away == 0.0
        ratios = (-1.0) ** np.arange(number) * np.sin(angles) / np.where(hit, 1.0, away)
        ratios = np.where(hit.any(axis=1)[:, None], hit, ratios)
        weights = ratios / ratios.sum(axis=1, keepdims=True)
        return cls(np.exp(0.5 * (low + high + (high - low) * at)), weights[which.reshape(-1)])


def nodes_needed(counts: Array) -> int:
    """The number of nodes that stand for counts in this range, to double precision."""
    half = 0.5 * float(np.log(counts.max()) - np.log(counts.min()))
    if half <= 0.5 * ROUNDING:
        return 1
    rho = np.pi / half + np.sqrt(1.0 + (np.pi / half) ** 2)
    return SPARE + int(np.ceil(DIGITS / np.log(rho)))


def too_wide(counts: Array) -> bool:
    """Whether sums of squares over levels with these counts lose digits at the nodes.

    The nodes miss a function of n by a share of its largest value, and sums of n samples are as large as n.
    """
    return bool(counts.max() > WIDEST * counts.min())
