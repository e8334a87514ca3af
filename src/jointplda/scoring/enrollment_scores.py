"""Scores of enrolled models against single test samples."""

from typing import Any

import numpy as np

from jointplda._typing import AnyArray, Array, IntArray
from jointplda.scoring.enrollment import Enrollment, Group, factors_of
from jointplda.scoring.known_channels import NEW, KnownChannels
from jointplda.scoring.partitions import Solver, all_partitions, beam_for, bell, joins, likely_partitions, with_speaker
from jointplda.scoring.projection import Gaussian, Projection, Projections, log_evidence

ROWS = 2048
NUMBERS = 2**22
APART = -2


class EnrollmentScorer:
    """Scores of an enrollment against test samples."""

    def __init__(
        self,
        projections: Projections,
        shareable: tuple[int, ...],
        X: Any,
        dtype: Any,
        seen: KnownChannels | None = None,
    ) -> None:
        self.projections, self.shareable, self.dtype, self.seen = projections, shareable, dtype, seen
        self.X = np.asarray(X, dtype=np.float64)
        self.ranks = tuple(projections.parameters.ranks[k] for k in factors_of(shareable))
        self._sides: dict[tuple[bool, ...], tuple[Projection, Array]] = {}
        self._references: dict[tuple[bool, ...], Array] = {}

    def side(self, pattern: tuple[bool, ...]) -> tuple[Projection, Array]:
        """Phi of the test samples, conditions outside the pattern absorbed."""
        if pattern not in self._sides:
            latents = self.projections.of(factors_of(self.shareable, pattern))
            self._sides[pattern] = latents, latents.project(self.X)
        return self._sides[pattern]

    def known(self, enrollment: Enrollment, codes: IntArray | None) -> AnyArray:
        """LLRs (models, tests); ``codes`` (tests, conditions) are the tests' channels, -1 for a new one."""
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
                    mine = np.flatnonzero((matches == match).all(axis=1))
                    self._fill(out, group, mine, tests, match)
        return out

    def _fill(self, out: AnyArray, group: Group, mine: IntArray, tests: IntArray, match: IntArray) -> None:
        latents, phi = self.side(_pattern(match))
        chosen = phi[tests] if len(tests) < len(phi) else phi
        some = _part(group, mine)
        parts = [
            log_evidence(owner_of_test(some, match, same, self.ranks, self.seen), chosen, latents.G)
            for same in (True, False)
        ]
        rows, columns, left = (top - bottom for top, bottom in zip(*parts, strict=True))
        right, columns = chosen.astype(self.dtype).T, columns.astype(self.dtype)
        left, rows = left.astype(self.dtype), rows.astype(self.dtype)
        for start in range(0, len(mine), ROWS):
            piece = slice(start, start + ROWS)
            block = left[piece] @ right
            block += rows[piece, None]
            block += columns
            models = group.models[mine[piece]]
            if len(tests) == out.shape[1]:
                out[models] = block
            else:
                out[np.ix_(models, tests)] = block

    def unknown(self, enrollment: Enrollment, priors: Array, beam: int | None = None) -> AnyArray:
        """LLRs (models, tests) where no channels are known: sums over partitions."""
        out = np.empty((len(enrollment), len(self.X)), dtype=self.dtype)
        latents = self.projections.of(factors_of(self.shareable))
        solver = Solver(latents)
        sizes = np.array([len(samples) for samples in enrollment.samples])
        for n in np.unique(sizes):
            models = np.flatnonzero(sizes == n)
            width = beam_for(int(n), len(self.shareable), beam)
            if bell(int(n)) ** len(self.shareable) <= width:
                found = all_partitions(int(n), priors[:, 0])
                step = max(1, NUMBERS // (len(found.codes) * max(1, len(self.X) // 64 + 1)))
                for start in range(0, len(models), step):
                    some = models[start : start + step]
                    phi = np.stack([enrollment.samples[i] for i in some])
                    out[some] = self._mixture(phi, found.codes, found.log_priors, priors, solver)
            else:
                for i in models:
                    phi = enrollment.samples[i]
                    found = likely_partitions(phi, np.tile(priors[:, 0], (len(phi), 1)), solver, width)
                    out[i] = self._mixture(phi[None], found.codes, found.log_priors, priors, solver)[0]
        return out

    def _mixture(self, phi: Array, codes: IntArray, log_priors: Array, priors: Array, solver: Solver) -> Array:
        """LLRs of models phi (M, n, r) whose partitions are ``codes`` (A, n, conditions)."""
        classes: dict[bytes, list[int]] = {}
        orders, canonicals = [], []
        for a, one in enumerate(with_speaker(codes)):
            order, canonical, _ = solver.canonical(one)
            orders.append(order)
            canonicals.append(canonical)
            classes.setdefault(canonical.tobytes(), []).append(a)
        top = np.full((len(phi), len(self.X)), -np.inf)
        bottom = top.copy()
        for members in classes.values():
            canonical = canonicals[members[0]]
            solved = solver.solve(canonical)
            eta = np.concatenate([solved.sums(phi[:, orders[a]]) for a in members])
            weights = solved.log_evidence(eta) + np.repeat(log_priors[members], len(phi))
            group = Group(np.arange(len(eta)), eta @ solved.covariance, solved.covariance, canonical, (), ())
            for column, total in ((0, top), (1, bottom)):
                for match, gain in joins(canonical[:, 1:], priors[:, column]):
                    levels = canonical[:, 1:].max(axis=0, initial=-1)
                    seen = np.array([b if b <= most else -1 for b, most in zip(match, levels, strict=True)], dtype=int)
                    values = self._component(group, seen, same_speaker=column == 0) + (weights + gain)[:, None]
                    np.logaddexp(total, log_sum(values.reshape(len(members), len(phi), -1)), out=total)
        ratio: Array = top - bottom
        return ratio

    def _component(self, group: Group, match: IntArray, same_speaker: bool) -> Array:
        """Log p of every test sample given every row of a group, relative to a common reference."""
        latents, phi = self.side(_pattern(match))
        owner = owner_of_test(group, match, same_speaker, self.ranks, self.seen)
        rows, columns, left = log_evidence(owner, phi, latents.G)
        result: Array = rows[:, None] + (columns + self.reference(_pattern(match))) + left @ phi.T
        return result

    def _match(self, k: int, levels: IntArray, label: int, trained: bool) -> IntArray:
        """Which of each model's levels has the label; else NEW, or APART - channel for one of training's."""
        missing = NEW
        if trained and self.seen is not None and 0 <= label < self.seen.sizes[k]:
            missing = APART - label
        if label < 0 or levels.shape[1] == 0:
            return np.full(len(levels), missing, dtype=np.int64)
        same = levels == label
        return np.where(same.any(axis=1), same.argmax(axis=1), missing)

    def reference(self, pattern: tuple[bool, ...]) -> Array:
        """Log of the noise density of every test sample under a pattern."""
        if pattern not in self._references:
            self._references[pattern] = self.side(pattern)[0].log_noise(self.X)
        return self._references[pattern]


def _pattern(match: IntArray) -> tuple[bool, ...]:
    return tuple(bool(b != NEW) for b in match)


def owner_of_test(
    group: Group, match: IntArray, same_speaker: bool, ranks: tuple[int, ...], seen: KnownChannels | None = None
) -> Gaussian:
    """Projection of a test sample given the enrollment: y if the speaker is the same, x of every matched channel.

    Parameters
    ----------
    match : (conditions,) int64
        Level of the enrollment that the test sample shares; NEW for none; APART - c for training channel c, which
        the enrollment does not have.
    ranks : tuple of int
        Of the speaker and of every condition.
    """
    sizes = (group.codes.max(axis=0, initial=-1) + 1) * np.array(ranks)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    everything = Gaussian(group.means, group.covariance)
    apart = [(k, APART - int(b)) for k, b in enumerate(match) if b <= APART]
    if apart and seen is not None:
        rows, known = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
        for k, own in enumerate(group.trained):
            for level in np.flatnonzero(own >= 0):
                rows.append(starts[1 + k] + level * ranks[1 + k] + np.arange(ranks[1 + k]))
                known.append(seen.places(k, int(own[level])))
        extra = np.concatenate([seen.places(k, channel) for k, channel in apart])
        everything = seen.extended(everything, np.concatenate(rows), np.concatenate(known), extra)
    picked, end = [np.arange(ranks[0])], int(starts[-1])
    for k, b in enumerate(match, start=1):
        if b >= 0:
            picked.append(starts[k] + b * ranks[k] + np.arange(ranks[k]))
        elif b <= APART:
            picked.append(end + np.arange(ranks[k]))
            end += ranks[k]
    chosen = np.concatenate(picked)
    means, covariance = everything.means[:, chosen], everything.covariance[np.ix_(chosen, chosen)]
    if not same_speaker:
        y = slice(ranks[0])
        means, covariance = means.copy(), covariance.copy()
        means[:, y] = 0.0
        covariance[y, :] = covariance[:, y] = 0.0
        covariance[y, y] = np.eye(ranks[0])
    return Gaussian(means, covariance)


def _part(group: Group, rows: IntArray) -> Group:
    """Some of the models of a group."""
    return Group(
        group.models[rows],
        group.means[rows],
        group.covariance,
        group.codes,
        tuple(levels[rows] for levels in group.levels),
        group.trained,
    )


def log_sum(values: Array) -> Array:
    """Log of the sum of exponentials over the first axis."""
    largest = values.max(axis=0)
    safe = np.where(np.isfinite(largest), largest, 0.0)
    with np.errstate(divide="ignore"):
        result: Array = safe + np.log(np.exp(values - safe).sum(axis=0))
    return result
