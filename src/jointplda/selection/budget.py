"""Ranks of U that a search can afford: the work of its fits grows with the cube of channels times rank."""

import math
from dataclasses import replace

from jointplda.errors import Advice, TooLargeError, warn
from jointplda.model.fit import plan_fit
from jointplda.model.settings import ModelSettings
from jointplda.model.statistics import Statistics

MOST_WORK = 1e9  # floating-point operations of one iteration of EM, of which a search makes some thousands


def affordable_ranks(statistics: Statistics, settings: ModelSettings) -> tuple[int, ...]:
    """The ranks of U of these settings, halved until an iteration of EM is within ``MOST_WORK``, with a warning.

    The rank of the condition with the most unknowns, levels times rank, is halved first. A rank of 1 stays.
    """
    ranks = list(settings.channel_rank)
    settings = replace(settings, noise_prior=1.0, speaker_prior=1.0)
    unknowns = [len(labels) * rank for labels, rank in zip(statistics.labels[1:], ranks, strict=True)]
    while max(ranks, default=0) > 1:
        if _work(statistics, replace(settings, channel_rank=tuple(ranks))) <= MOST_WORK:
            break
        k = max((k for k, rank in enumerate(ranks) if rank > 1), key=unknowns.__getitem__)
        ranks[k], unknowns[k] = ranks[k] // 2, unknowns[k] // 2
    for name, before, rank, labels in zip(
        statistics.conditions, settings.channel_rank, ranks, statistics.labels[1:], strict=True
    ):
        if rank < before:
            problem = (
                f"With {len(labels):,} channels of {name!r} a search over {before} columns of U would take too long:"
            )
            advice = Advice("JointPLDA(channel_rank=...) takes more.", "--channel-rank takes more, without a search.")
            warn(f"{problem} it has {rank}.", remedy=advice)
    return tuple(ranks)


def _work(statistics: Statistics, settings: ModelSettings) -> float:
    """Floating-point operations of an iteration; infinite where it does not fit into memory."""
    try:
        return plan_fit(statistics, settings).work
    except TooLargeError:
        return math.inf
