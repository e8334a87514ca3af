"""Enrolled models of several samples each, to be scored against single test samples.

Given the samples E of a model, its latents are Gaussian: z = [y, x of each channel] ~ N(zhat, Sigma). A test sample of
the same speaker has the y of the model; one that shares a channel with E has the x of that channel, whoever speaks. So

    LLR = log p(m_T | y, x ~ E) - log p(m_T | y ~ N(0, I), x ~ E)

and channels that are not shared are absorbed into the noise. With a new test channel this is the paper's last section.
Where the channels of E are not known, both terms are sums over partitions, weighted by their posterior.
"""

from collections.abc import Hashable
from dataclasses import dataclass, replace

import numpy as np

from jointplda._typing import Array, IntArray
from jointplda.linalg import equal_rows
from jointplda.model.parameters import Parameters
from jointplda.scoring.evidence import Solved, apart
from jointplda.scoring.partitions import Solver
from jointplda.scoring.projection import NEW
from jointplda.scoring.training_channels import TrainingChannels


@dataclass(frozen=True)
class Group:
    """Models with the same numbers of samples in their channels, and so the same posterior covariance.

    Attributes
    ----------
    models : (M,) int64
        Positions of the models in the enrollment.
    means : (M, size)
        Posterior means of all latents, stacked.
    solved : Solved
        The levels of the samples, in canonical order, and the posterior covariance.
    labels : tuple of (M, levels) int64
        For each condition, the label of each level of each model, as a code; -1 if it has none.
    channels : (n, conditions) int64
        The training channel that each sample is in; -1 if it is in another.
    """

    models: IntArray
    means: Array
    solved: Solved
    labels: tuple[IntArray, ...]
    channels: IntArray

    def subset(self, rows: IntArray) -> "Group":
        """The group of some of its models."""
        labels = tuple(codes[rows] for codes in self.labels)
        return replace(self, models=self.models[rows], means=self.means[rows], labels=labels)


@dataclass(frozen=True)
class Enrollment:
    """Models made of one or more samples each.

    Attributes
    ----------
    models : tuple
        Labels of the models, in the order of the rows of a score matrix.
    channels_known : bool
        Whether the channels of the samples are known.
    channel_labels : tuple of tuples
        Labels of the channels of each condition, if they are known.
    conditions : tuple of str, optional
        Names of the conditions in the ``channels`` that the models were enrolled with.
    trained : bool
        Whether channels of training keep their posterior; their labels come first in ``channel_labels``.
    groups : tuple of Group
        The models, if channels are known.
    samples : tuple of (n, r)
        phi of the samples of each model, if channels are not known.
    parameters : Parameters
        Parameters of the model that enrolled them.
    """

    models: tuple[Hashable, ...]
    channels_known: bool
    channel_labels: tuple[tuple[Hashable, ...], ...]
    conditions: tuple[str, ...] | None
    trained: bool
    groups: tuple[Group, ...]
    samples: tuple[Array, ...]
    parameters: Parameters

    def __len__(self) -> int:
        return len(self.models)

    def take(self, positions: IntArray) -> "Enrollment":
        """The models at these positions, in this order, each at most once."""
        place = np.full(len(self), NEW, dtype=np.int64)
        place[positions] = np.arange(len(positions))
        kept = [(group, np.flatnonzero(place[group.models] != NEW)) for group in self.groups]
        groups = [group.subset(rows) for group, rows in kept if len(rows)]
        return replace(
            self,
            models=tuple(self.models[i] for i in positions),
            groups=tuple(replace(group, models=place[group.models]) for group in groups),
            samples=tuple(self.samples[i] for i in positions) if self.samples else (),
        )


def enroll_known(
    phi: Array, models: IntArray, codes: IntArray, n_models: int, solver: Solver, known: TrainingChannels | None = None
) -> tuple[Group, ...]:
    """Group models by the numbers of samples in their channels, and compute their posteriors.

    ``models`` (n,) and ``codes`` (n, conditions) are the model and the channels of each row of ``phi`` (n, r); -1 is a
    channel that no other sample shares, and codes below their number are the channels of training, where ``known``.
    """
    local, labels = _local_levels(models, codes)
    keys = np.concatenate([models[:, None], local], axis=1)
    order = np.lexsort(keys.T[::-1])
    models, local, phi = models[order], local[order], phi[order]
    counts = np.bincount(models, minlength=n_models)
    start = np.concatenate([[0], np.cumsum(counts)])
    trained = np.full_like(local, NEW) if known is None else known.of_training(codes[order])
    rows = np.concatenate([local, trained], axis=1)
    groups: list[Group] = []
    for size in np.unique(counts):
        of_size = np.flatnonzero(counts == size)
        at = start[of_size][:, None] + np.arange(size)
        for pattern, members in equal_rows(rows[at].reshape(len(of_size), -1)):
            pattern = pattern.reshape(size, -1)
            groups.append(_group(pattern, of_size[members], phi[at[members]], labels, solver, known))
    return tuple(groups)


def _group(
    pattern: IntArray,
    models: IntArray,
    phi: Array,
    labels: list[IntArray],
    solver: Solver,
    known: TrainingChannels | None,
) -> Group:
    """Posterior of models (M,) with samples phi (M, n, r) whose levels and training channels are (n, 2 K)."""
    levels, channels = np.split(pattern, 2, axis=1)
    assignment = np.concatenate([np.zeros((len(pattern), 1), dtype=np.int64), levels], axis=1)
    trained = known is not None and (channels >= 0).any()
    solved = known.solve(assignment, channels) if known is not None and trained else solver.solve(assignment)
    sizes = levels.max(axis=0, initial=-1) + 1
    return Group(
        models=models,
        means=solved.sums(phi) @ solved.covariance,
        solved=solved,
        labels=tuple(of_condition[models, :size] for of_condition, size in zip(labels, sizes, strict=True)),
        channels=channels,
    )


def _local_levels(models: IntArray, codes: IntArray) -> tuple[IntArray, list[IntArray]]:
    """Number the channels of each model from 0, the one with most samples first; return also their labels."""
    n_models, local, labels = int(models.max()) + 1, np.empty_like(codes), []
    for k in range(codes.shape[1]):
        unique = apart(codes[:, k])
        width = int(unique.max()) + 1
        pairs, at, counts = np.unique(models * width + unique, return_inverse=True, return_counts=True)
        owner = pairs // width
        order = np.lexsort((-counts, owner))
        first = np.searchsorted(owner, np.arange(n_models))
        rank = np.empty(len(pairs), dtype=np.int64)
        rank[order] = np.arange(len(pairs)) - first[owner[order]]
        local[:, k] = rank[at.reshape(-1)]
        table = np.full((n_models, int(rank.max()) + 1), -1, dtype=np.int64)
        table[owner, rank] = np.where(pairs % width > int(codes[:, k].max(initial=-1)), -1, pairs % width)
        labels.append(table)
    return local, labels
