"""Settings for given statistics: the rank of every factor, and settings per condition as one value for each."""

from dataclasses import replace
from typing import Any

import numpy as np

from jointplda._validation import check_number
from jointplda.errors import InputError
from jointplda.model.setting_checks import all_per_condition
from jointplda.model.settings import ModelSettings
from jointplda.model.statistics import Statistics


def check_speakers(statistics: Statistics) -> None:
    """Raise unless there are two or more speakers, one of them with two or more samples."""
    if statistics.n_speakers < 2:
        problem = (
            f"expected at least two speakers, got one class (n_samples = {statistics.n_samples:g}, all with the same "
            "label). Is it the speaker of each sample?"
        )
        raise InputError(problem, parameter="y")
    if statistics.n_samples <= statistics.n_speakers:
        problem = (
            f"expected speakers with several samples, got {statistics.n_speakers} speakers with one sample each, which "
            "cannot separate speaker from noise. Is it the speaker, or an id of the sample?"
        )
        raise InputError(problem, parameter="y")


def supported_rank(statistics: Statistics, k: int) -> int:
    """The highest rank that the levels of factor k support: one less than their number, at most the dimension."""
    alone = sum(part.count for part in statistics.parts.values() if k not in part.levels)
    return int(min(statistics.n_features, max(0, len(statistics.labels[k]) + alone - 1)))


def default_channel_ranks(statistics: Statistics) -> tuple[int, ...]:
    """The rank of U of each condition that its named channels support."""
    named = [max(len(labels) - 1, 0) for labels in statistics.labels[1:]]
    return tuple(min(rank, supported_rank(statistics, 1 + k)) for k, rank in enumerate(named))


def resolve(settings: ModelSettings, statistics: Statistics) -> ModelSettings:
    """The settings of a fit to these statistics.

    A condition of which nothing is left to the channels has rank 0, and where no condition has a rank above 0 there
    is no interaction, since a cell is then a speaker.
    """
    d, conditions = statistics.n_features, len(statistics.conditions)
    values, ranks = all_per_condition(settings, conditions), _channel_ranks(settings, statistics)
    kept = tuple(rank if share else 0 for rank, share in zip(ranks, values["channel_share"], strict=True))
    rank = settings.interaction_rank
    rank = d if rank is None else int(check_number("interaction_rank", rank, 1, d, whole=True))
    return replace(
        settings,
        speaker_rank=_speaker_rank(settings, statistics),
        channel_rank=kept,
        interaction=settings.interaction if any(kept) else 0.0,
        interaction_rank=rank,
        **values,
    )


def _speaker_rank(settings: ModelSettings, statistics: Statistics) -> int:
    d = statistics.n_features
    if settings.speaker_rank is None:
        return d if settings.speaker_prior else supported_rank(statistics, 0)
    rank = int(check_number("speaker_rank", settings.speaker_rank, 1, d, whole=True))
    if settings.speaker_prior and rank < d:
        problem = f"a speaker prior needs V of full rank ({d}), got {rank}. Leave the rank or the prior out."
        raise InputError(problem, parameter="speaker_rank")
    return rank


def _channel_ranks(settings: ModelSettings, statistics: Statistics) -> tuple[int, ...]:
    given: Any = settings.channel_rank
    if given is None:
        full = settings.noise == "full"  # with a channel per sample, U U' and a full D^-1 are confounded
        return tuple(
            rank or (0 if full and not labels else supported_rank(statistics, 1 + k))
            for k, (rank, labels) in enumerate(
                zip(default_channel_ranks(statistics), statistics.labels[1:], strict=True)
            )
        )
    conditions = len(statistics.conditions)
    wanted = list(np.ravel(np.asarray(given, dtype=object)))
    wanted = wanted * conditions if np.ndim(given) == 0 else wanted
    if len(wanted) != conditions:
        problem = f"expected one rank or {conditions}, one per condition, got {given!r:.60}."
        raise InputError(problem, parameter="channel_rank")
    d = statistics.n_features
    return tuple(int(check_number("channel_rank", rank, 0, d, whole=True)) for rank in wanted)
