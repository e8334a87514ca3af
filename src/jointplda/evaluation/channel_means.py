"""The classical remedy for known channels: subtract the mean of each channel."""

import numpy as np

from jointplda._typing import AnyArray, Array
from jointplda.labels import ConditionColumns


class ChannelMeans:
    """Subtract the training mean of each sample's channel, one condition after the other.

    A channel that does not occur in training, or that is not known, is taken to lie at the overall mean.

    Parameters
    ----------
    X : ndarray, shape (n, d)
        Training samples.
    channels : ConditionColumns
        Their channels.
    """

    def __init__(self, X: AnyArray, channels: ConditionColumns) -> None:
        self.mean = X.mean(axis=0)
        self.shifts: list[dict[str, AnyArray]] = []
        rest = np.asarray(X, dtype=np.float64) - self.mean
        for column in channels.values:
            means = {str(level): rest[column == level].mean(axis=0) for level in np.unique(column) if level != ""}
            self.shifts.append(means)
            rest -= self._shift(column, means)

    def remove(self, X: AnyArray, channels: ConditionColumns) -> Array:
        """Samples (n, d) less the overall mean and the means of their channels."""
        rest: Array = np.asarray(X, dtype=np.float64) - self.mean
        for column, means in zip(channels.values, self.shifts, strict=True):
            rest -= self._shift(column, means)
        return rest

    def _shift(self, column: AnyArray, means: dict[str, AnyArray]) -> Array:
        levels, index = np.unique(column, return_inverse=True)
        zero = np.zeros_like(self.mean, dtype=np.float64)
        shifts: Array = np.array([means.get(str(level), zero) for level in levels])
        return shifts[index]
