"""Several enrollment samples per model, against single test samples.

Given a model's samples E, its latents are Gaussian: z = [y, x of each channel] ~ N(zhat, Sigma). A test sample of the
same speaker sees y; one that shares a channel with E sees that channel's x whoever speaks. So

    LLR = log p(m_T | y, x ~ E) - log p(m_T | y ~ N(0, I), x ~ E)

and channels that are not shared are absorbed into the noise. With a new test channel this is the paper's last section.
Where the channels of E are not known, both terms are sums over partitions, weighted by their posterior.
"""

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from jointplda._typing import Array, IntArray
from jointplda.model.parameters import Parameters
from jointplda.scoring.evidence import Assignment, solve
from jointplda.scoring.known_channels import KnownChannels
from jointplda.scoring.partitions import Solver


@dataclass(frozen=True)
class Group:
    """Models whose samples have the same counts of channels, and so the same posterior covariance.

    Attributes
    ----------
    models : (M,) int64
    means : (M, size), covariance : (size, size)
        Posterior of all latents, stacked.
    codes : (n, 1 + conditions) int64
        Levels of the samples, in canonical order.
    levels : tuple of (M, levels) int64
        For each condition, which label each level of each model has; -1 if none.
    trained : tuple of (levels,) int64
        For each condition, which training channel each level is; -1 if none.
    """

    models: IntArray
    means: Array
    covariance: Array
    codes: IntArray
    levels: tuple[IntArray, ...]
    trained: tuple[IntArray, ...]


@dataclass(frozen=True)
class Enrollment:
    """Models made of one or more samples each.

    Attributes
    ----------
    models : tuple
        Their labels, in the order of the rows of a score matrix.
    channels_known : bool
    channel_labels : tuple of tuples
        Labels of the channels of each condition, where they are known.
    conditions : tuple of str, optional
        Names of the conditions as the channels were given.
    trained : bool
        Whether labels that training has seen bring its posterior; they come first in ``channel_labels``.
    groups : tuple of Group
        Where channels are known.
    samples : tuple of (n, r)
        phi of each model's samples, where they are not.
    parameters : Parameters
        What it was made with.
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


def factors_of(shareable: tuple[int, ...], pattern: tuple[bool, ...] | None = None) -> tuple[int, ...]:
    """The speaker and the conditions that a pattern says are shared (default: all)."""
    chosen = shareable if pattern is None else [k for k, same in zip(shareable, pattern, strict=True) if same]
    return (0, *chosen)


def enroll_known(
    phi: Array, models: IntArray, codes: IntArray, n_models: int, solver: Solver, seen: KnownChannels | None = None
) -> tuple[Group, ...]:
    """Group models by their counts and find their posteriors.

    Parameters
    ----------
    phi : (n, r)
    models : (n,) int64
    codes : (n, conditions) int64
        Channel labels; -1 is a channel of its own.
    seen : KnownChannels, optional
        What training has seen: codes below its number of channels are these.
    """
    local, labels = _local_levels(models, codes)
    keys = np.concatenate([models[:, None], local], axis=1)
    order = np.lexsort(keys.T[::-1])
    models, local, phi = models[order], local[order], phi[order]
    counts = np.bincount(models, minlength=n_models)
    start = np.concatenate([[0], np.cumsum(counts)])
    K = local.shape[1]
    trained = np.full_like(local, -1) if seen is None else np.where(codes[order] < seen.sizes, codes[order], -1)
    rows = np.concatenate([local, trained], axis=1)
    groups: list[Group] = []
    for size in np.unique(counts):
        some = np.flatnonzero(counts == size)
        at = start[some][:, None] + np.arange(size)
        patterns, which = np.unique(rows[at].reshape(len(some), -1), axis=0, return_inverse=True)
        for g, pattern in enumerate(patterns.reshape(len(patterns), size, 2 * K)):
            mine = np.flatnonzero(which.reshape(-1) == g)
            groups.append(_group(pattern, some[mine], phi[at[mine]], labels, solver, seen))
    return tuple(groups)


def _group(
    pattern: IntArray, models: IntArray, phi: Array, labels: list[IntArray], solver: Solver, seen: KnownChannels | None
) -> Group:
    """Posterior of models (M,) with samples phi (M, n, r) whose levels and training channels are (n, 2 K)."""
    K = pattern.shape[1] // 2
    assignment = np.concatenate([np.zeros((len(pattern), 1), dtype=np.int64), pattern[:, :K]], axis=1)
    sizes = pattern[:, :K].max(axis=0, initial=-1) + 1
    trained = tuple(np.full(size, -1, dtype=np.int64) for size in sizes)
    for k, own in enumerate(trained):
        own[pattern[:, k]] = pattern[:, K + k]
    if seen is not None and any((own >= 0).any() for own in trained):
        prior, eta0, _ = seen.stacked_prior(1, trained)
        solved = solve(Assignment(assignment), solver.latents, prior)
    else:
        eta0, solved = np.zeros(1), solver.solve(assignment)
    eta = solved.sums(phi) + eta0
    return Group(
        models=models,
        means=eta @ solved.covariance,
        covariance=solved.covariance,
        codes=assignment,
        levels=tuple(labels[k][models, :size] for k, size in enumerate(sizes)),
        trained=trained,
    )


def _local_levels(models: IntArray, codes: IntArray) -> tuple[IntArray, list[IntArray]]:
    """Number each model's channels from 0, the one with most samples first, and say which labels they have."""
    n_models, local, labels = int(models.max()) + 1, np.empty_like(codes), []
    for k in range(codes.shape[1]):
        alone = codes[:, k] < 0
        unique = np.where(alone, int(codes[:, k].max(initial=-1)) + np.cumsum(alone), codes[:, k])
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
