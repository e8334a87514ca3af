"""Scores that know the channels and speakers of training.

A channel of training has the posterior N(xhat_c, Sigma_c) in the place of the prior N(0, I) of a new channel, and
several of them are jointly Gaussian. With known labels, the ratio equals that of two joint likelihoods of all training
data and the trial.
"""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from jointplda._typing import AnyArray, Array, IntArray
from jointplda.linalg import cholesky, inverse, inverse_from_factor, log_determinant
from jointplda.model.parameters import Parameters
from jointplda.model.training_posterior import TrainingPosterior
from jointplda.scoring.projection import Gaussian, Projection, Projections, log_evidence
from jointplda.scoring.training_cells import TrainingCells

NEW = -1

# Channels of the two samples of a pair in one condition: the number of a training channel, or NEW; and whether the
# samples share their channel.
Option = tuple[int, int, bool]


@dataclass(frozen=True)
class Form:
    """log p of a pair as a quadratic form: c + phi_E' A phi_E + a' phi_E + (the same of T) + phi_E' B phi_T.

    ``left`` and ``right`` are (A, a) of either side, ``cross`` is B.
    """

    constant: float
    left: tuple[Array, Array]
    right: tuple[Array, Array]
    cross: Array

    def pairs(self, E: Array, T: Array) -> Array:
        """Values for rows of E with the same rows of T, (n,)."""
        rows, columns = _one_side(E, *self.left), _one_side(T, *self.right)
        result: Array = np.sum((E @ self.cross) * T, axis=1) + rows + columns + self.constant
        return result

    def matrix(self, E: Array, T: Array) -> Array:
        """Values for all rows of E with all rows of T, (n, m)."""
        rows, columns = _one_side(E, *self.left), _one_side(T, *self.right)
        result: Array = (E @ self.cross) @ T.T
        result += rows[:, None]
        result += columns + self.constant
        return result


def _one_side(phi: Array, A: Array, a: Array) -> Array:
    """Return phi' A phi + a' phi of every row, (n,)."""
    result: Array = np.sum((phi @ A) * phi, axis=1) + phi @ a
    return result


class KnownChannels:
    """A model together with the posterior of its training channels and speakers.

    Parameters
    ----------
    projections : Projections
        Projections of parameters whose ranks are all at least 1.
    conditions : tuple of int
        Factors whose channels samples can share.
    training : TrainingPosterior
    cell : int, optional
        Factor that the samples of one cell share.
    fitted : Parameters, optional
        Parameters of the training posterior, whose cell is shared in full.
    cells : TrainingCells, optional
        Cells of training, for an interaction.
    """

    def __init__(
        self,
        projections: Projections,
        conditions: tuple[int, ...],
        training: TrainingPosterior,
        cell: int | None = None,
        fitted: Parameters | None = None,
        cells: TrainingCells | None = None,
    ) -> None:
        self.projections, self.conditions, self.training = projections, conditions, training
        self.fitted, self.cells = fitted, cells
        self.parameters = parameters = projections.parameters
        self.projection = projections.of((0, *conditions) if cell is None else (0, *conditions, cell))
        self.ranks = self.projection.ranks
        self.cell_rank = 0 if cell is None else self.ranks[-1]
        sizes = [len(training.channels[k - 1]) * parameters.ranks[k] for k in conditions]
        self.starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.sizes = np.array([len(training.channels[k - 1]) for k in conditions], dtype=np.int64)

    @property
    def labels(self) -> tuple[tuple[Hashable, ...], ...]:
        """Labels of the training channels of every condition."""
        return tuple(self.training.channels[k - 1] for k in self.conditions)

    def places(self, condition: int, channel: int) -> IntArray:
        """Positions of the latents of a training channel among those of all training channels."""
        rank = self.ranks[1 + condition]
        return np.arange(rank) + int(self.starts[condition] + channel * rank)

    def form(self, same_speaker: bool, options: tuple[Option, ...]) -> Form:
        """Log p of a pair with these channels, relative to noise alone."""
        Ry = self.ranks[0]
        rows = [[np.arange(Ry)], [np.arange(Ry) + (0 if same_speaker else Ry)]]
        size = Ry if same_speaker else 2 * Ry
        levels: list[list[int]] = []
        for k, (first, second, same_new) in enumerate(options):
            rank, shared = self.ranks[1 + k], first == second and (first != NEW or same_new)
            levels.append([first] if shared else [first, second])
            rows[0].append(size + np.arange(rank))
            rows[1].append(size + (0 if shared else rank) + np.arange(rank))
            size += len(levels[-1]) * rank
        together = same_speaker and all(len(own) == 1 for own in levels)
        rows[0].append(size + np.arange(self.cell_rank))
        rows[1].append(size + (0 if together else self.cell_rank) + np.arange(self.cell_rank))
        channels = tuple(np.array(own) for own in levels)
        Lambda, eta, constant = self.stacked_prior(1 if same_speaker else 2, channels, 1 if together else 2)
        picks = [np.concatenate(side) for side in rows]
        for pick in picks:
            Lambda[np.ix_(pick, pick)] += self.projection.G
        factor = cholesky(Lambda)
        K = inverse_from_factor(factor)
        constant += 0.5 * float(eta @ K @ eta) - 0.5 * log_determinant(factor)
        e, t = picks
        return Form(
            constant,
            (0.5 * K[np.ix_(e, e)], K[e] @ eta),
            (0.5 * K[np.ix_(t, t)], K[t] @ eta),
            K[np.ix_(e, t)],
        )

    def stacked_prior(
        self, n_speakers: int, channels: tuple[IntArray, ...], n_cells: int
    ) -> tuple[Array, Array, float]:
        """Prior precision of stacked latents, its product with the prior mean, and a constant of the evidence.

        Parameters
        ----------
        n_speakers : int
            Number of speakers, whose y are standard normal.
        channels : tuple of (levels,) int64
            For each condition, the training channel that each level is; NEW if it is another.
        n_cells : int
            Number of cells, whose latents are standard normal, where the model has an interaction.
        """
        start, at, places = n_speakers * self.ranks[0], [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
        for k, own in enumerate(channels):
            rank = self.ranks[1 + k]
            for b, channel in enumerate(own.tolist()):
                if channel != NEW:
                    at.append(start + b * rank + np.arange(rank))
                    places.append(self.places(k, channel))
            start += len(own) * rank
        start += n_cells * self.cell_rank
        Lambda, eta = np.eye(start), np.zeros(start)
        where, known = np.concatenate(at), np.concatenate(places)
        if not len(where):
            return Lambda, eta, 0.0
        precision, log_det = inverse(self.training.channel_covariance[np.ix_(known, known)])
        mean = self.training.channel_means[known]
        Lambda[np.ix_(where, where)] = precision
        eta[where] = precision @ mean
        return Lambda, eta, -0.5 * float(mean @ eta[where]) - 0.5 * log_det

    def extended(self, prior: Gaussian, rows: IntArray, known: IntArray, extra: IntArray) -> Gaussian:
        """Add training channels that an enrollment does not have to its latents.

        Parameters
        ----------
        prior : Gaussian
            Posterior of all stacked latents of the enrollment.
        rows, known : (n,) int64
            The latents among these that belong to training channels, and their places in the training posterior.
        extra : (m,) int64
            Places of the latents to add. They depend on the enrollment through its own training channels only.
        """
        Sigma, xhat = self.training.channel_covariance, self.training.channel_means
        B = np.linalg.solve(Sigma[np.ix_(known, known)], Sigma[np.ix_(known, extra)]).T
        means = xhat[extra] + (prior.means[:, rows] - xhat[known]) @ B.T
        cross = B @ prior.covariance[rows]
        own = Sigma[np.ix_(extra, extra)] - B @ Sigma[np.ix_(known, extra)] + cross[:, rows] @ B.T
        covariance = np.block([[prior.covariance, cross.T], [cross, own]])
        return Gaussian(np.concatenate([prior.means, means], axis=1), covariance)

    def _speaker_precisions(self) -> list[tuple[IntArray, Array, Array]]:
        """Groups of speakers with equal counts, with L^-1 and A = sum_b h_b J_b' (Ry, channel latents) of each."""
        training, parameters = self.training, self.parameters
        V = parameters.loadings[0]
        grams, crosses = [], []
        for p, observed in enumerate(training.observed):
            factors = (0, *(k + 1 for k, has_label in enumerate(observed) if has_label))
            projection = self.projections.of(factors)
            if self.fitted is not None and self.fitted.cell is not None and training.cell_sizes is not None:
                means = self.fitted.of_cell_means(float(training.cell_sizes[p]))
                projection = Projection.of(means, factors)
            grams.append(projection.G[: V.shape[1], : V.shape[1]])
            crosses.append({k: projection.G[projection.spans[i], : V.shape[1]] for i, k in enumerate(factors)})
        slots = training.slots.toarray() if training.slots.shape[1] else np.zeros((len(training.speakers), 0))
        keys = np.concatenate([training.speaker_counts, slots], axis=1)
        kinds, which = np.unique(keys, axis=0, return_inverse=True)
        levels = [len(training.channels[k - 1]) for k in self.conditions]
        result, n_parts = [], training.speaker_counts.shape[1]
        for g, kind in enumerate(kinds):
            L = np.eye(V.shape[1]) + np.tensordot(kind[:n_parts], np.stack(grams), 1)
            A = np.zeros((V.shape[1], int(self.starts[-1])))
            h = kind[n_parts:].reshape(n_parts, -1)
            for p, b in zip(*np.nonzero(h), strict=True):
                condition = int(np.searchsorted(np.cumsum(levels), b, side="right"))
                level = int(b) - sum(levels[:condition])
                A[:, self.places(condition, level)] += h[p, b] * crosses[p][self.conditions[condition]].T
            result.append((np.flatnonzero(which.reshape(-1) == g), inverse(L)[0], A))
        return result

    def speaker_log_likelihoods(self, X: Array, channels: IntArray) -> Array:
        """Log p(m | speaker s) of samples X (n, d) and all training speakers, up to a constant of the sample: (n, S).

        ``channels`` (n, conditions) are the training channels of the samples; NEW is another channel. With an
        interaction, a speaker who was heard in these channels brings the samples of that cell.
        """
        out = np.empty((len(X), len(self.training.speakers)))
        Sigma, means = self.training.channel_covariance, self.training.channel_means
        precisions = self._speaker_precisions()
        kinds, which = np.unique(channels, axis=0, return_inverse=True)
        for c, kind in enumerate(kinds):
            tests = np.flatnonzero(which.reshape(-1) == c)
            matched = [k for k, channel in enumerate(kind) if channel != NEW]
            projection = self.projections.of((0, *(self.conditions[k] for k in matched)))
            phi = projection.project(X[tests])
            reference = projection.log_noise(X[tests])
            at = np.concatenate([np.zeros(0, dtype=np.int64), *(self.places(k, kind[k]) for k in matched)])
            heard = self.cells.of_channels(kind) if self.cells is not None and len(matched) == len(kind) else {}
            for speakers, Linv, A in precisions:
                spread = Linv @ A @ Sigma
                own = Linv + spread @ A.T @ Linv
                covariance = np.block([[own, -spread[:, at]], [-spread[:, at].T, Sigma[np.ix_(at, at)]]])
                y = self.training.speaker_means[speakers]
                z = np.concatenate([y, np.broadcast_to(means[at], (len(y), len(at)))], axis=1)
                rows, columns, left = log_evidence(Gaussian(z, covariance), phi, projection.G)
                out[np.ix_(tests, speakers)] = (rows[:, None] + columns + left @ phi.T).T + reference[:, None]
                again = np.flatnonzero(np.isin(speakers, list(heard)))
                if self.cells is not None and len(again):
                    cells = np.array([heard[s] for s in speakers[again].tolist()])
                    W = np.concatenate(self.parameters.loadings[: 1 + len(kind)], axis=1)
                    latents = Gaussian(z[again], covariance)
                    found = self.cells.log_likelihoods(X[tests], W, latents, cells)
                    out[np.ix_(tests, speakers[again])] = found
        return out

    def channel_log_likelihoods(self, X: Array, condition: int) -> Array:
        """Log p(m | channel c) of all training channels of a condition, and of a new channel (last): (n, C + 1)."""
        projection = self.projections.of((self.conditions[condition],))
        phi = projection.project(X)
        n, rank = len(self.training.channels[self.conditions[condition] - 1]), self.ranks[1 + condition]
        out = np.empty((len(X), n + 1))
        for channel in range(n):
            at = self.places(condition, channel)
            covariance = self.training.channel_covariance[np.ix_(at, at)]
            x = Gaussian(self.training.channel_means[None, at], covariance)
            rows, columns, left = log_evidence(x, phi, projection.G)
            out[:, channel] = rows[0] + columns + phi @ left[0]
        rows, columns, _ = log_evidence(Gaussian(np.zeros((1, rank)), np.eye(rank)), phi, projection.G)
        out[:, n] = rows[0] + columns
        return out


def pair_options(first: int, second: int, prior: Array, weights: Array | None) -> Iterator[tuple[Option, float, float]]:
    """Possible channels of a pair in one condition, with their probabilities given one speaker and given two.

    Parameters
    ----------
    first, second : int
        Channel of each sample: below C a training channel, C or above a new channel, -1 if it is not known.
    prior : (2,)
        P(same channel | same speaker), P(same channel | different speakers).
    weights : (C + 1,), optional
        Probabilities of the training channels and of a new channel (last), for samples whose channel is not known.
        Without them such a sample shares the channel of the other with the probability of the prior.
    """
    p, q = float(prior[0]), float(prior[1])
    if first >= 0 and second >= 0:
        yield (first, second, first == second), 1.0, 1.0
    elif weights is None:
        known = max(first, second)
        if known >= 0:
            yield (known, known, True), p, q
            yield ((first, NEW, False) if first >= 0 else (NEW, second, False)), 1.0 - p, 1.0 - q
        else:
            yield (NEW, NEW, True), p, q
            yield (NEW, NEW, False), 1.0 - p, 1.0 - q
    else:
        new = len(weights) - 1
        ends = [[(side, 1.0)] if side >= 0 else list(enumerate(weights.tolist())) for side in (first, second)]
        for (a, u), (b, v) in product(*ends):
            if a >= new and b >= new and (first < 0 or second < 0):
                yield (NEW, NEW, True), u * v * p, u * v * q
                yield (NEW, NEW, False), u * v * (1.0 - p), u * v * (1.0 - q)
            else:
                yield (a, b, a == b), u * v, u * v


class KnownChannelPairs:
    """LLRs of pairs whose channels may be channels of training; it has the methods of ``PairScorer``.

    Parameters
    ----------
    E, T : (n, r), (m, r)
        phi of either side.
    first, second : (n, conditions), (m, conditions) int64
        Channels of either side; ``pair_options`` says how they are numbered.
    priors : (conditions, 2)
        As in ``PairScorer``.
    weights : list of (C + 1,), optional
        One for each condition, as in ``pair_options``.
    """

    def __init__(
        self,
        known: KnownChannels,
        E: Array,
        T: Array,
        first: IntArray,
        second: IntArray,
        priors: Array,
        weights: list[Array] | None,
    ) -> None:
        self.known, self.E, self.T, self.priors, self.weights = known, E, T, priors, weights
        self._forms: dict[tuple[bool, tuple[Option, ...]], Form] = {}
        kinds = [np.unique(codes, axis=0, return_inverse=True) for codes in (first, second)]
        self.kinds = [kind for kind, _ in kinds]
        self.which = [which.reshape(-1) for _, which in kinds]

    def fill(self, rows: slice, columns: slice, out: AnyArray) -> None:
        """Write the LLRs of a block of the matrix."""
        E, T = self.E[rows], self.T[columns]
        for a in np.unique(self.which[0][rows]):
            i = np.flatnonzero(self.which[0][rows] == a)
            for b in np.unique(self.which[1][columns]):
                j = np.flatnonzero(self.which[1][columns] == b)
                out[np.ix_(i, j)] = self._ratio(int(a), int(b), E[i], T[j], Form.matrix)

    def trials(self, pairs: IntArray, out: AnyArray) -> None:
        """Write the LLRs of listed pairs (n, 2)."""
        kinds = np.stack([self.which[0][pairs[:, 0]], self.which[1][pairs[:, 1]]], axis=1)
        distinct, which = np.unique(kinds, axis=0, return_inverse=True)
        for kind, (a, b) in enumerate(distinct):
            rows = np.flatnonzero(which.reshape(-1) == kind)
            E, T = self.E[pairs[rows, 0]], self.T[pairs[rows, 1]]
            out[rows] = self._ratio(int(a), int(b), E, T, Form.pairs)

    def _ratio(self, a: int, b: int, E: Array, T: Array, values: Callable[[Form, Array, Array], Array]) -> Array:
        """Log of the ratio of two sums over the possible channels of the pairs."""
        per_condition = [
            list(pair_options(int(x), int(y), self.priors[k], None if self.weights is None else self.weights[k]))
            for k, (x, y) in enumerate(zip(self.kinds[0][a], self.kinds[1][b], strict=True))
        ]
        totals: list[Array | None] = [None, None]
        for choice in product(*per_condition):
            options = tuple(self._as_training_channels(k, option) for k, (option, _, _) in enumerate(choice))
            for side in (0, 1):
                p = float(np.prod([probabilities[side] for _, *probabilities in choice]))
                if p > 0.0:
                    term, old = values(self._form(side == 0, options), E, T) + np.log(p), totals[side]
                    totals[side] = term if old is None else np.logaddexp(old, term)
        top, bottom = totals
        assert top is not None
        assert bottom is not None
        return top - bottom

    def _form(self, same_speaker: bool, options: tuple[Option, ...]) -> Form:
        """The quadratic form of an option, computed once for all blocks."""
        key = (same_speaker, options)
        if key not in self._forms:
            self._forms[key] = self.known.form(same_speaker, options)
        return self._forms[key]

    def _as_training_channels(self, condition: int, option: Option) -> Option:
        """The same option with NEW for every channel that is not one of training."""
        first, second, together = option
        n = self.known.sizes[condition]
        return (first if first < n else NEW, second if second < n else NEW, together)
