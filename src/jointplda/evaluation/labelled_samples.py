"""Embeddings with the labels of their samples: what systems are trained on and tested with."""

from dataclasses import dataclass

from jointplda._typing import AnyArray, Names
from jointplda.labels import ConditionColumns

NO_CONDITIONS = ConditionColumns((), ())


@dataclass(frozen=True)
class LabelledSamples:
    """Embeddings, their ids, and the labels of speaker and channel of each.

    Parameters
    ----------
    ids : ndarray of str, shape (n,)
    X : ndarray, shape (n, d)
    speakers : ndarray of str, shape (n,)
    channels : ConditionColumns
        Names of the conditions, and one column (n,) of channels for each; an empty string where the channel is not
        known. No columns where nothing is known of the channels.
    """

    ids: Names
    X: AnyArray
    speakers: Names
    channels: ConditionColumns = NO_CONDITIONS

    def take(self, rows: AnyArray) -> "LabelledSamples":
        """The samples of the given rows: indexes, or a mask (n,)."""
        columns = tuple(column[rows] for column in self.channels.values)
        channels = ConditionColumns(self.channels.names, columns)
        return LabelledSamples(self.ids[rows], self.X[rows], self.speakers[rows], channels)
