"""Scores of enrolled models against single test samples."""

from typing import Any

import numpy as np

from jointplda._typing import AnyArray, Array, IntArray
from jointplda.scoring.enrollment import Enrollment, Group, factors_of
from jointplda.scoring.evidence import with_cells
from jointplda.scoring.known_channels import NEW, KnownChannels
from jointplda.scoring.partitions import (
    Solver,
    WeightedPartitions,
    all_partitions,
    beam_for,
    bell,
    joins,
    likely_partitions,
    with_speaker,
)
from jointplda.scoring.projection import Gaussian, Projection, Projections, log_evidence

ROWS = 2048
NUMBERS = 2**22
APART = -2


class EnrollmentScorer:
    """Scores of an enrollment against test samples X (n, d)."""

    def __init__(
        self,
        projections: Projections,
        shareable: tuple[int, ...],
        X: Any,
        dtype: Any,
        known_channels: KnownChannels | None = None,
        cell: int | None = None,
    ) -> None:
        self.projections, self.shareable, self.dtype, self.cell = projections, shareable, dtype, cell
        self.known_channels = known_channels
        self.X = np.asarray(X, dtype=np.float64)
        self.projection = projections.of(factors_of(shareable, cell=cell))
        self._sides: dict[tuple[bool, ...], tuple[Projection, Array]] = {}
        self._references: dict[tuple[bool, ...], Array] = {}

    def side(self, pattern: tuple[bool, ...]) -> tuple[Projection, Array]:
        """The projection that keeps what a pattern shares, and phi of the test samples.

        A pattern says for every condition, and at last for the cell, whether the test sample shares it.
        """
        if pattern not in self._sides:
            cell = self.cell if pattern[-1] else None
            projection = self.projections.of(factors_of(self.shareable, pattern[:-1], cell))
            self._sides[pattern] = projection, projection.project(self.X)
        return self._sides[pattern]

    def known(self, enrollment: Enrollment, codes: IntArray | None) -> AnyArray:
        """LLRs (models, tests) where channels are known; ``codes`` (tests, conditions) of the tests are -1 if new."""
        out = np.empty((len(enrollment), len(self.X)), dtype=self.dtype)
        if codes is None:
            codes = np.full((len(self.X), len(self.shareable)), -1, dtype=np.int64)
        kinds, which = np.unique(codes, axis=0, return_inverse=True)
        for t, kind in enumerate(kinds):
            tests = np.flatnonzero(which.reshape(-1) == t)
            for group in enrollment.groups:
                matches = np.stack(
                    [self._match(k, group.levels[k], int(label), enrollment.trained) for k, label in enumerate(kind)]
                    or [np.zeros(0, dtype=np.int64)],
                    axis=-1,
                ).reshape(len(group.models), len(kind))
                for match in np.unique(matches, axis=0):
                    members = np.flatnonzero((matches == match).all(axis=1))
                    self._fill(out, group.subset(members), tests, match)
        return out

    def _fill(self, out: AnyArray, group: Group, tests: IntArray, match: IntArray) -> None:
        """Write the LLRs of a group against the test samples that share the channels of ``match`` with it."""
        cell = self._cell(group, match)
        projection, phi = self.side(_pattern(match, cell))
        chosen = phi[tests] if len(tests) < len(phi) else phi
        terms = [log_evidence(self._latents(group, match, cell, same), chosen, projection.G) for same in (True, False)]
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
        solver = Solver(self.projection)
        sizes = np.array([len(samples) for samples in enrollment.samples])
        for n in np.unique(sizes):
            models = np.flatnonzero(sizes == n)
            width = beam_for(int(n), len(self.shareable), beam)
            if bell(int(n)) ** len(self.shareable) <= width:
                partitions = all_partitions(int(n), priors[:, 0])
                step = max(1, NUMBERS // (len(partitions.codes) * max(1, len(self.X) // 64 + 1)))
                for start in range(0, len(models), step):
                    batch = models[start : start + step]
                    phi = np.stack([enrollment.samples[i] for i in batch])
                    out[batch] = self._mixture(phi, partitions, priors, solver)
            else:
                for i in models:
                    phi = enrollment.samples[i]
                    partitions = likely_partitions(phi, np.tile(priors[:, 0], (len(phi), 1)), solver, width)
                    out[i] = self._mixture(phi[None], partitions, priors, solver)[0]
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
            group = Group(np.arange(len(eta)), eta @ solved.covariance, solved.covariance, canonical, (), ())
            for column, total in ((0, top), (1, bottom)):
                for match, gain in joins(canonical[:, 1:], priors[:, column]):
                    levels = canonical[:, 1:].max(axis=0, initial=-1)
                    shared = np.array(
                        [b if b <= last else NEW for b, last in zip(match, levels, strict=True)], dtype=int
                    )
                    values = self._component(group, shared, same_speaker=column == 0) + (weights + gain)[:, None]
                    for of_partition in values.reshape(len(members), len(phi), -1):
                        np.logaddexp(total, of_partition, out=total)
        ratio: Array = top - bottom
        return ratio

    def _component(self, group: Group, match: IntArray, same_speaker: bool) -> Array:
        """Log p of every test sample given every row of a group, up to a constant of the sample."""
        cell = self._cell(group, match) if same_speaker else NEW
        pattern = _pattern(match, cell)
        projection, phi = self.side(pattern)
        rows, columns, left = log_evidence(self._latents(group, match, cell, same_speaker), phi, projection.G)
        result: Array = rows[:, None] + (columns + self.reference(pattern)) + left @ phi.T
        return result

    def _cell(self, group: Group, match: IntArray) -> int:
        """The cell of the enrollment that a test sample in the channels of ``match`` shares; NEW for none."""
        if self.cell is None or (match < 0).any():
            return NEW
        rows = np.flatnonzero((group.codes[:, 1:] == match).all(axis=1))
        return int(with_cells(group.codes, self.projection)[rows[0], -1]) if len(rows) else NEW

    def _latents(self, group: Group, match: IntArray, cell: int, same_speaker: bool) -> Gaussian:
        return latents_of_test(group, match, cell, same_speaker, self.projection, self.known_channels)

    def _match(self, k: int, levels: IntArray, label: int, trained: bool) -> IntArray:
        """The level of each model that has the label; if none has, NEW, or APART - channel for a training channel."""
        missing = NEW
        if trained and self.known_channels is not None and 0 <= label < self.known_channels.sizes[k]:
            missing = APART - label
        if label < 0 or levels.shape[1] == 0:
            return np.full(len(levels), missing, dtype=np.int64)
        same = levels == label
        return np.where(same.any(axis=1), same.argmax(axis=1), missing)

    def reference(self, pattern: tuple[bool, ...]) -> Array:
        """Log of the noise density of every test sample, with the conditions that a pattern does not share absorbed."""
        if pattern not in self._references:
            self._references[pattern] = self.side(pattern)[0].log_noise(self.X)
        return self._references[pattern]


def _pattern(match: IntArray, cell: int) -> tuple[bool, ...]:
    return (*(bool(b != NEW) for b in match), cell != NEW)


def latents_of_test(
    group: Group,
    match: IntArray,
    cell: int,
    same_speaker: bool,
    projection: Projection,
    known_channels: KnownChannels | None,
) -> Gaussian:
    """Latents of a test sample given each model of a group: y, and x of every channel that it shares.

    Parameters
    ----------
    match : (conditions,) int64
        The level of the enrollment that the test sample shares; NEW for none; APART - c for training channel c,
        which the enrollment does not have.
    same_speaker : bool
        Whether y is that of the model, or that of a new speaker.
    cell : int
        The cell of the enrollment that the test sample shares if the speaker is the same; NEW for none.
    projection : Projection
        The projection that keeps the speaker, every condition and the cell.
    """
    ranks = projection.ranks
    sizes = (with_cells(group.codes, projection).max(axis=0, initial=-1) + 1) * np.array(ranks)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    latents = Gaussian(group.means, group.covariance)
    apart = [(k, APART - int(b)) for k, b in enumerate(match) if b <= APART]
    if apart and known_channels is not None:
        rows, places = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
        for k, own in enumerate(group.trained):
            for level in np.flatnonzero(own >= 0):
                rows.append(starts[1 + k] + level * ranks[1 + k] + np.arange(ranks[1 + k]))
                places.append(known_channels.places(k, int(own[level])))
        extra = np.concatenate([known_channels.places(k, channel) for k, channel in apart])
        latents = known_channels.extended(latents, np.concatenate(rows), np.concatenate(places), extra)
    picked, end = [np.arange(ranks[0])], int(starts[-1])
    for k, b in enumerate(match, start=1):
        if b >= 0:
            picked.append(starts[k] + b * ranks[k] + np.arange(ranks[k]))
        elif b <= APART:
            picked.append(end + np.arange(ranks[k]))
            end += ranks[k]
    if cell != NEW:
        picked.append(starts[-2] + cell * ranks[-1] + np.arange(ranks[-1]))
    chosen = np.concatenate(picked)
    means, covariance = latents.means[:, chosen], latents.covariance[np.ix_(chosen, chosen)]
    if not same_speaker:
        own = np.r_[np.arange(ranks[0]), np.arange(len(chosen))[len(chosen) - ranks[-1] * (cell != NEW) :]]
        means, covariance = means.copy(), covariance.copy()
        means[:, own] = 0.0
        covariance[own, :] = covariance[:, own] = 0.0
        covariance[own, own] = 1.0
    return Gaussian(means, covariance)
