"""Scores of enrolled models against single test samples."""

from typing import Any

import numpy as np

from jointplda._typing import AnyArray, Array, IntArray
from jointplda.linalg import equal_rows
from jointplda.scoring.enrollment import Enrollment, Group
from jointplda.scoring.evidence import Stack
from jointplda.scoring.partitions import (
    Solver,
    WeightedPartitions,
    beam_for,
    bell,
    joins,
    likely_partitions,
    with_speaker,
)
from jointplda.scoring.projection import NEW, Gaussian, Projection, Projections, log_evidence
from jointplda.scoring.training_channels import TrainingChannels

ROWS = 2048
NUMBERS = 2**22


class EnrollmentScorer:
    """Scores of an enrollment against test samples X (n, d)."""

    def __init__(
        self, projections: Projections, X: Any, dtype: Any, training_channels: TrainingChannels | None = None
    ) -> None:
        self.projections, self.dtype, self.training_channels = projections, dtype, training_channels
        self.X = np.asarray(X, dtype=np.float64)
        self._sides: dict[tuple[int, ...], tuple[Projection, Array]] = {}
        self._references: dict[tuple[int, ...], Array] = {}

    def side(self, factors: tuple[int, ...]) -> tuple[Projection, Array]:
        """The projection that keeps these factors, and phi of the test samples."""
        if factors not in self._sides:
            projection = self.projections.of(factors)
            self._sides[factors] = projection, projection.project(self.X)
        return self._sides[factors]

    def reference(self, factors: tuple[int, ...]) -> Array:
        """Log of the noise density of every test sample, with the factors that are not kept absorbed."""
        if factors not in self._references:
            self._references[factors] = self.side(factors)[0].log_noise(self.X)
        return self._references[factors]

    def known(self, enrollment: Enrollment, codes: IntArray) -> AnyArray:
        """LLRs (models, tests) where channels are known; ``codes`` (tests, conditions) of the tests are -1 if new."""
        out = np.empty((len(enrollment), len(self.X)), dtype=self.dtype)
        for kind, tests in equal_rows(codes):
            for group in enrollment.groups:
                level, channel = self._shared(group, kind, enrollment.trained)
                for match, members in equal_rows(np.concatenate([level, channel], axis=1)):
                    self._fill(out, group.subset(members), tests, *np.split(match, [level.shape[1]]))
        return out

    def _shared(self, group: Group, kind: IntArray, trained: bool) -> tuple[IntArray, IntArray]:
        """What test samples in the channels ``kind`` (conditions,) share with each model of a group.

        Returns
        -------
        level : (M, factors) int64
            The level of the model; NEW for none. The speaker is shared.
        training_channel : (M, conditions) int64
            The training channel of the tests, if the model does not have it; NEW otherwise.
        """
        level = np.full((len(group.models), len(self.projections.shareable)), NEW, dtype=np.int64)
        channel = np.full((len(level), len(kind)), NEW, dtype=np.int64)
        level[:, 0] = 0
        for k, label in enumerate(kind):
            if label != NEW:
                same = group.labels[k] == label
                level[:, 1 + k] = np.where(same.any(axis=1), same.argmax(axis=1), NEW)
                if trained and self.training_channels is not None and label < self.training_channels.sizes[k]:
                    channel[:, k] = np.where(level[:, 1 + k] == NEW, label, NEW)
        self._share_cells(level, group.solved.stack)
        return level, channel

    def _share_cells(self, level: IntArray, stack: Stack) -> None:
        """Set the cell that is shared where levels (M, factors) are those of a sample of the stack."""
        conditions = slice(1, 1 + len(self.projections.conditions))
        if level.shape[1] > conditions.stop:
            for row in stack.codes:
                level[(level[:, conditions] == row[conditions]).all(axis=1), -1] = row[-1]

    def _fill(self, out: AnyArray, group: Group, tests: IntArray, level: IntArray, channel: IntArray) -> None:
        """Write the LLRs of a group against the test samples that share ``level`` and ``channel`` with it."""
        kept = level != NEW
        kept[1 : 1 + len(channel)] |= channel != NEW
        projection, phi = self.side(tuple(np.flatnonzero(kept).tolist()))
        chosen = phi[tests] if len(tests) < len(phi) else phi
        latents = [latents_of_test(group, level, channel, same, self.training_channels) for same in (True, False)]
        terms = [log_evidence(prior, chosen, projection.G) for prior in latents]
        rows, columns, left = (top - bottom for top, bottom in zip(*terms, strict=True))
        right, columns = chosen.astype(self.dtype).T, columns.astype(self.dtype)
        left, rows = left.astype(self.dtype), rows.astype(self.dtype)
        for start in range(0, len(group.models), ROWS):
            piece = slice(start, start + ROWS)
            block = left[piece] @ right
            block += rows[piece, None]
            block += columns
            models = group.models[piece]
            if len(tests) == out.shape[1]:
                out[models] = block
            else:
                out[np.ix_(models, tests)] = block

    def unknown(self, enrollment: Enrollment, priors: Array, beam: int | None = None) -> AnyArray:
        """LLRs (models, tests) where channels are not known, as sums over partitions."""
        out = np.empty((len(enrollment), len(self.X)), dtype=self.dtype)
        solver, conditions = Solver(self.projections.shared), len(self.projections.conditions)
        sizes = np.array([len(samples) for samples in enrollment.samples])
        for n in np.unique(sizes):
            models = np.flatnonzero(sizes == n)
            width = beam_for(int(n), conditions, beam)
            exact = bell(int(n)) ** conditions <= width
            while len(models):
                first = enrollment.samples[models[0]]
                partitions = likely_partitions(first, np.tile(priors[:, 0], (n, 1)), solver, width)
                step = max(1, NUMBERS // (len(partitions.codes) * max(1, len(self.X) // 64 + 1))) if exact else 1
                batch, models = models[:step], models[step:]
                phi = np.stack([enrollment.samples[i] for i in batch])
                out[batch] = self._mixture(phi, partitions, priors, solver)
        return out

    def _mixture(self, phi: Array, partitions: WeightedPartitions, priors: Array, solver: Solver) -> Array:
        """LLRs of models phi (M, n, r) as sums over the partitions of their samples: (M, tests)."""
        classes: dict[bytes, list[int]] = {}
        orders, canonicals = [], []
        for a, assignment in enumerate(with_speaker(partitions.codes)):
            order, canonical = solver.canonical(assignment)
            orders.append(order)
            canonicals.append(canonical)
            classes.setdefault(canonical.tobytes(), []).append(a)
        top = np.full((len(phi), len(self.X)), -np.inf)
        bottom = top.copy()
        for members in classes.values():
            canonical = canonicals[members[0]]
            solved = solver.solve(canonical)
            eta = np.concatenate([solved.sums(phi[:, orders[a]]) for a in members])
            weights = solved.log_evidence(eta) + np.repeat(partitions.log_priors[members], len(phi))
            group = Group(np.arange(len(eta)), eta @ solved.covariance, solved, (), np.full_like(canonical[:, 1:], NEW))
            last = canonical[:, 1:].max(axis=0, initial=-1)
            for column, total in ((0, top), (1, bottom)):
                for match, gain in joins(canonical[:, 1:], priors[:, column]):
                    level = np.full((1, len(self.projections.shareable)), NEW, dtype=np.int64)
                    level[0, : 1 + len(match)] = [0, *np.where(match <= last, match, NEW)]
                    if column == 0:
                        self._share_cells(level, solved.stack)
                    values = self._component(group, level[0], same_speaker=column == 0) + (weights + gain)[:, None]
                    for of_partition in values.reshape(len(members), len(phi), -1):
                        np.logaddexp(total, of_partition, out=total)
        return np.asarray(top - bottom)

    def _component(self, group: Group, level: IntArray, same_speaker: bool) -> Array:
        """Log p of every test sample given every row of a group, up to a constant of the sample."""
        factors = tuple(np.flatnonzero(level != NEW).tolist())
        projection, phi = self.side(factors)
        latents = latents_of_test(group, level, group.channels[0], same_speaker, self.training_channels)
        rows, columns, left = log_evidence(latents, phi, projection.G)
        return np.asarray(rows[:, None] + (columns + self.reference(factors)) + left @ phi.T)


def latents_of_test(
    group: Group, level: IntArray, channel: IntArray, same_speaker: bool, training_channels: TrainingChannels | None
) -> Gaussian:
    """Latents of a test sample given each model of a group: y, x of every channel that it shares, and of the cell.

    ``level`` (factors,) is the level of each factor that the test sample shares with the models, NEW for none, and
    ``channel`` (conditions,) its training channel, if the models do not have it, NEW otherwise. With ``same_speaker`` y
    is that of the model; else it is that of a new speaker, who has cells of their own.
    """
    stack = group.solved.stack
    latents, end = Gaussian(group.means, group.solved.covariance), int(stack.starts[-1])
    apart = [(k, c) for k, c in enumerate(channel.tolist()) if c != NEW]
    if apart and training_channels is not None:
        extra = np.concatenate([training_channels.places(k, c) for k, c in apart])
        latents = training_channels.extended(latents, *training_channels.training_latents(stack, group.channels), extra)
    picked, of_channel = [], []
    for k, b in enumerate(level.tolist()):
        condition = 1 <= k <= len(channel)
        if b != NEW:
            picked.append(stack.latents(k, b))
        elif condition and channel[k - 1] != NEW:
            picked.append(end + np.arange(stack.ranks[k]))
            end += stack.ranks[k]
        else:
            continue
        of_channel.append(np.full(stack.ranks[k], condition))
    chosen = np.concatenate(picked)
    means, covariance = latents.means[:, chosen], latents.covariance[np.ix_(chosen, chosen)]
    if not same_speaker:
        own = np.flatnonzero(~np.concatenate(of_channel))
        means[:, own] = 0.0
        covariance[own, :] = covariance[:, own] = 0.0
        covariance[own, own] = 1.0
    return Gaussian(means, covariance)
