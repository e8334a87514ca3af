"""How speakers and channels are crossed in training, and tests of the channels where they are confounded."""

from dataclasses import dataclass

import numpy as np

from jointplda.model.statistics import Statistics
from jointplda.selection.channel_test import ChannelTest, channel_test, crossed_speakers

ENOUGH_CROSSED = 8


@dataclass(frozen=True)
class Design:
    """The design of the training data.

    Attributes
    ----------
    crossed : tuple of int
        For each condition, the number of speakers heard in two or more of its channels.
    tests : tuple of ChannelTest or None
        For each condition with too few such speakers, and with two or more channels, the test of its channels.
    """

    crossed: tuple[int, ...]
    tests: tuple[ChannelTest | None, ...]

    @property
    def confounded(self) -> bool:
        """Whether any condition has too few speakers who were heard in several of its channels."""
        return any(test is not None for test in self.tests)

    def shares(self) -> tuple[float, ...]:
        """For each condition, the share of the variance between channels left to the channels: 1 if it is crossed."""
        return tuple(1.0 if test is None else test.share for test in self.tests)


def design_of(statistics: Statistics, rng: np.random.Generator) -> Design:
    """Count the speakers heard in several channels, and test the channels of conditions with too few of them."""
    crossed = tuple(crossed_speakers(statistics, k + 1) for k in range(len(statistics.conditions)))
    enough = min(ENOUGH_CROSSED, statistics.n_speakers / 2)
    tests = tuple(
        None if number >= enough or len(statistics.labels[k + 1]) < 2 else channel_test(statistics, k + 1, rng)
        for k, number in enumerate(crossed)
    )
    return Design(crossed, tests)
