"""The posterior of the channels and speakers of training, kept with the model."""

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from jointplda._disk_rows import DiskRows
from jointplda._typing import Array, IntArray
from jointplda.linalg import symmetric
from jointplda.model.channel_covariance import ChannelLinks, SolvedCovariance, WholeCovariance, channel_covariance
from jointplda.model.estep import solve
from jointplda.model.interaction.cell_means import held_cells
from jointplda.model.layout import lay_out
from jointplda.model.parameters import Parameters
from jointplda.model.plan import EXACT
from jointplda.model.posterior import eliminated_means, solve_samples
from jointplda.model.statistics import Statistics

CHANNEL_UNKNOWNS = 3000  # whose covariance is kept
MEAN_NUMBERS = 2e6
SPEAKER_NUMBERS = 2e7
CELL_NUMBERS = 4e6


@dataclass(frozen=True)
class CellMeans:
    """The means of the samples of one speaker in one channel of every condition.

    Attributes
    ----------
    codes : (K, 1 + conditions) int64
        Speaker and channels of every cell.
    counts : (K,)
        Number of samples.
    means : (K, d)
    """

    codes: IntArray
    counts: Array
    means: Array


@dataclass(frozen=True)
class TrainingPosterior:
    """Posterior of the latents of training, given all training data.

    The channels of all conditions are jointly Gaussian. Given the channels, y of each speaker is Gaussian, with a
    precision that follows from the speaker's counts. A part is the set of samples with one missing-label pattern.

    Attributes
    ----------
    channels : tuple of tuples
        Labels of the channels of each condition of rank above 0.
    channel_counts : tuple of (channels,)
        Number of training samples of each channel.
    channel_means : (size,)
        xhat: the conditions one after the other, channels in the order of their labels.
    channel_covariance : (size, size), or (0, 0)
        Sigma; empty where it is too large to keep, or was never needed, and is solved for as scores ask for it
        (``covariance``).
    speakers : tuple
        Labels of the speakers; empty, as are their means and counts, where they are too many to keep.
    speaker_means : (S, Ry)
    speaker_counts : (S, parts)
        n_sp, the number of samples of each speaker in each part.
    slots : sparse (S, parts * channels)
        h_sb, the number of samples of each speaker in each channel, by part.
    observed : (parts, conditions) bool
        Whether the samples of each part have labels of each condition.
    cell_sizes : (parts,)
        n, where the parts hold means of cells of n samples.
    cells : CellMeans, or None
        The cells, where speaker and channel interact and they are few enough to keep.
    between : tuple of dict of sparse (channels, channels)
        For each part, the number of samples in each pair of channels of two conditions; empty where Sigma is kept.
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
    cell_sizes: Array
    cells: CellMeans | None = None
    between: tuple[dict[tuple[int, int], csr_array], ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether Sigma is kept."""
        return len(self.channel_covariance) == len(self.channel_means)

    def covariance(self, parameters: Parameters) -> WholeCovariance | SolvedCovariance:
        """Sigma, under the parameters of this posterior."""
        if self.is_whole:
            return WholeCovariance(self.channel_covariance)
        sizes = np.array([len(labels) for labels in self.channels], dtype=np.int64)
        counts = (self.speaker_counts, self.slots, self.observed, self.cell_sizes)
        return channel_covariance(ChannelLinks(sizes, *counts, self.between), parameters)


def posterior_fits_in_memory(statistics: Statistics, ranks: tuple[int, ...], *, cell_is_free: bool = False) -> bool:
    """Whether the posterior of the channels is small enough to keep with loadings V and U of these ranks.

    Where speakers are too many to keep, it is kept with its whole covariance or not at all, and not if there is an
    interaction of any shape (``cell_is_free``).
    """
    unknowns = sum(len(labels) * rank for labels, rank in zip(statistics.labels[1:], ranks[1:], strict=True))
    if _speakers_are_few(statistics, ranks):
        return unknowns <= MEAN_NUMBERS
    return 0 < unknowns <= CHANNEL_UNKNOWNS and not cell_is_free


def _speakers_are_few(statistics: Statistics, ranks: tuple[int, ...]) -> bool:
    """Whether the speakers are kept too: there are not too many of them, and their sums are in memory."""
    in_files = any(isinstance(part.levels[0].sums, DiskRows) for part in statistics.parts.values())
    return not in_files and statistics.n_speakers * ranks[0] <= SPEAKER_NUMBERS


def training_posterior(
    statistics: Statistics, parameters: Parameters, solver: str = "auto"
) -> TrainingPosterior | None:
    """Posterior of the latents of training, or None where it is too large to keep.

    ``statistics`` and ``parameters`` have the same conditions, all of rank 1 or more.
    """
    ranks = parameters.without_cell().ranks
    cell = parameters.cell
    if not posterior_fits_in_memory(statistics, ranks, cell_is_free=cell is not None and cell.kappa is None):
        return None
    if not _speakers_are_few(statistics, ranks):
        return _of_channels(statistics, parameters)
    layout, solution = solve_samples(statistics, parameters, eliminated=0, keep_rows=True, solver=solver)
    means = np.concatenate([np.zeros(0), *(x.ravel() for x in solution.coupled.means)])
    whole = len(means) <= CHANNEL_UNKNOWNS and layout.plan.solver == EXACT
    return TrainingPosterior(
        channels=statistics.labels[1:],
        channel_counts=tuple(statistics.level_counts(k) for k in range(1, len(ranks))),
        channel_means=means,
        channel_covariance=symmetric(solution.coupled.joint_covariance()) if whole else np.zeros((0, 0)),
        speakers=statistics.labels[0],
        speaker_means=eliminated_means(layout, solution),
        speaker_counts=layout.links.group_counts[layout.eliminated_group],
        slots=layout.links.slots[np.argsort(layout.eliminated_order)],
        observed=np.array([part.observed[1 : len(ranks)] for part in layout.parts], dtype=np.float64).reshape(
            len(layout.parts), len(ranks) - 1
        ),
        cell_sizes=np.array([part.cell_size for part in layout.parts]),
        cells=None if cell is None else _cells(statistics),
        between=() if whole else tuple(part.links for part in layout.parts),
    )


def _of_channels(statistics: Statistics, parameters: Parameters) -> TrainingPosterior:
    """The posterior of the channels alone, with their whole covariance.

    With G G' = kappa C the cells make one part, where each counts as n / (1 + kappa n) samples.
    """
    cell, factors = parameters.cell, parameters.without_cell()
    counts = tuple(statistics.level_counts(k) for k in range(1, len(factors.ranks)))
    if cell is not None:
        statistics = held_cells(statistics, cell.kappa or 0.0, shape_weight=0.0)[0]
    solution = solve(lay_out(statistics, factors.ranks, 0, solver=EXACT), factors)
    parts, channels = len(statistics.parts), sum(map(len, statistics.labels[1:]))
    return TrainingPosterior(
        channels=statistics.labels[1:],
        channel_counts=counts,
        channel_means=np.concatenate([np.zeros(0), *(x.ravel() for x in solution.coupled.means)]),
        channel_covariance=symmetric(solution.coupled.joint_covariance()),
        speakers=(),
        speaker_means=np.zeros((0, factors.ranks[0])),
        speaker_counts=np.zeros((0, parts)),
        slots=csr_array((0, parts * channels)),
        observed=np.zeros((parts, len(factors.ranks) - 1)),
        cell_sizes=np.ones(parts),
    )


def _cells(statistics: Statistics) -> CellMeans | None:
    """The cells of samples that have all labels; None where they are not known, or too many."""
    sums = next((part.cells for pattern, part in statistics.parts.items() if all(pattern)), None)
    if sums is None or sums.codes.shape[0] * statistics.n_features > CELL_NUMBERS:
        return None
    return CellMeans(sums.codes, sums.counts, statistics.shift + sums.means())
