"""Moments of samples, from which steps learn what they would learn from the samples themselves."""

from dataclasses import dataclass

import numpy as np

from jointplda._typing import Array


@dataclass(frozen=True)
class Moments:
    """Moments of samples, which passes over them can sum up.

    Attributes
    ----------
    samples : float
        Number n of samples.
    mean, low, high : (d,)
        Mean, smallest and largest value of every dimension.
    covariance : (d, d)
        Of the samples around their mean, divided by n.
    within : (d, d) or None
        The same around the means of the speakers, divided by n; None where nobody asked for it.
    speakers : int
        Number of speakers.
    """

    samples: float
    mean: Array
    low: Array
    high: Array
    covariance: Array
    within: Array | None
    speakers: int

    @property
    def extent(self) -> Array:
        """Largest absolute value of every dimension, (d,)."""
        return np.maximum(np.abs(self.low), np.abs(self.high))
