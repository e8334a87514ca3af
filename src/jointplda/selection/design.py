"""How speakers and channels are crossed in training, and what can be told from that."""

from dataclasses import dataclass

import numpy as np

from jointplda.model.statistics import Statistics
from jointplda.selection.channel_test import ChannelTest, channel_test, crossed_speakers

ENOUGH_CROSSED = 8


@dataclass(frozen=True)
class Design:
    """What the labels of training allow to be told.

    Attributes
    ----------
    crossed : tuple of int
        For each condition: speakers heard in two or more of its channels.
    tests : tuple of ChannelTest or None
        For each condition with too few of these, and two channels or more: whether its channels matter.
    """

    crossed: tuple[int, ...]
    tests: tuple[ChannelTest | None, ...]

    @property
    def confounded(self) -> bool:
        """Whether some condition has too few speakers that were heard in several of its channels."""
        return any(test is not None for test in self.tests)

    def shares(self) -> tuple[float, ...]:
        """Of each condition: 1 if crossed; 0 if its channels make no difference; else what can be trusted."""
        return tuple(1.0 if test is None else test.share for test in self.tests)


def design_of(statistics: Statistics, rng: np.random.Generator) -> Design:
    """Look at how speakers and channels are crossed, and test the channels where they hardly are."""
    crossed = tuple(crossed_speakers(statistics, k + 1) for k in range(len(statistics.conditions)))
    enough = min(ENOUGH_CROSSED, statistics.n_speakers / 2)
    tests = tuple(
        None if number >= enough or len(statistics.labels[k + 1]) < 2 else channel_test(statistics, k + 1, rng)
        for k, number in enumerate(crossed)
    )
    return Design(crossed, tests)
