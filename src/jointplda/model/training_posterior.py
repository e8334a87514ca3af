"""What training has seen: the posterior of its channels and speakers, kept with the model."""

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from jointplda._typing import Array, IntArray
from jointplda.linalg import symmetric
from jointplda.model.estep import Solution, solve
from jointplda.model.layout import Layout, lay_out
from jointplda.model.parameters import Parameters
from jointplda.model.posterior import eliminated_means
from jointplda.model.statistics import Statistics

CHANNEL_UNKNOWNS = 3000
SPEAKER_NUMBERS = 2e7


@dataclass(frozen=True)
class TrainingPosterior:
    """Posterior of the latents of training, given all training data.

    The channels of all conditions are jointly Gaussian; a speaker's y given the channels is Gaussian too, with a
    precision that its counts determine.

    Attributes
    ----------
    channels : tuple of tuples
        Labels of each condition (of rank above 0).
    channel_counts : tuple of (levels,)
        Training samples of each.
    channel_means : (size,), channel_covariance : (size, size)
        xhat and Sigma, conditions one after the other, levels in the order of their labels.
    speakers : tuple
        Labels.
    speaker_means : (S, Ry)
    speaker_counts : (S, parts)
        n_sp, samples in each part.
    slots : sparse (S, parts * levels)
        h_sb by part.
    observed : (parts, conditions) bool
        Which conditions samples of each part have labels of.
    """

    channels: tuple[tuple[Hashable, ...], ...]
    channel_counts: tuple[Array, ...]
    channel_means: Array
    channel_covariance: Array
    speakers: tuple[Hashable, ...]
    speaker_means: Array
    speaker_counts: Array
    slots: csr_array
    observed: Array


def posterior_fits_in_memory(statistics: Statistics, ranks: tuple[int, ...]) -> bool:
    """Whether the posterior of training is small enough to keep: at most 3000 numbers of channels.

    Parameters
    ----------
    ranks
        ConditionColumns of V and of every U.
    """
    unknowns = sum(len(labels) * rank for labels, rank in zip(statistics.labels[1:], ranks[1:], strict=True))
    return unknowns <= CHANNEL_UNKNOWNS and statistics.n_speakers * ranks[0] <= SPEAKER_NUMBERS


def training_posterior(statistics: Statistics, parameters: Parameters) -> TrainingPosterior | None:
    """Posterior of everything seen in training, unless it is too large to keep.

    Parameters
    ----------
    statistics, parameters
        With the same conditions, all of rank 1 or more.
    """
    if not posterior_fits_in_memory(statistics, parameters.ranks):
        return None
    crossing = lay_out(statistics, parameters.ranks, eliminated=0, keep_rows=True)
    solution = solve(crossing, parameters)
    return TrainingPosterior(
        channels=statistics.labels[1:],
        channel_counts=tuple(statistics.level_counts(k) for k in range(1, len(parameters.ranks))),
        channel_means=np.concatenate([np.zeros(0), *(x.ravel() for x in solution.coupled.means)]),
        channel_covariance=_joint_covariance(crossing, solution, [parameters.ranks[k] for k in crossing.coupled]),
        speakers=statistics.labels[0],
        speaker_means=eliminated_means(crossing, solution),
        speaker_counts=crossing.group_counts[crossing.eliminated_group],
        slots=crossing.slots[np.argsort(crossing.eliminated_order)],
        observed=np.array([part.observed[1:] for part in crossing.parts], dtype=np.float64).reshape(
            len(crossing.parts), len(parameters.ranks) - 1
        ),
    )


def _joint_covariance(crossing: Layout, solution: Solution, ranks: list[int]) -> Array:
    """Sigma of all coupled levels from the blocks of their components."""
    starts = np.concatenate(
        [[0], np.cumsum([crossing.levels[k] * r for k, r in zip(crossing.coupled, ranks, strict=True)])]
    )
    Sigma = np.zeros((int(starts[-1]), int(starts[-1])))
    for batch, covariances in zip(crossing.batches, solution.coupled.covariances, strict=True):
        for c in range(len(batch.multiplicity)):
            for one in range(batch.ends[c], batch.ends[c + 1]):
                places: list[IntArray] = [
                    (starts[i] + members[one][:, None] * ranks[i] + np.arange(ranks[i])).ravel()
                    for i, members in enumerate(batch.members)
                ]
                at = np.concatenate(places)
                Sigma[np.ix_(at, at)] = covariances[c]
    return symmetric(Sigma)
