"""The posterior of the channels, speakers and cells of training, as scores need it.

A channel of training has the posterior N(xhat_c, Sigma_c) in the place of the prior N(0, I) of a new channel, and
several of them are jointly Gaussian. With known labels, the ratio equals that of two joint likelihoods of all training
data and the trial.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from jointplda._typing import Array, IntArray
from jointplda.errors import InputError
from jointplda.linalg import equal_rows, inverse, spans, symmetric
from jointplda.model.channel_covariance import SolvedCovariance, WholeCovariance
from jointplda.model.fitted import FittedModel
from jointplda.model.parameters import Factor, Parameters
from jointplda.model.training_posterior import CellMeans
from jointplda.scoring.evidence import Solved, Stack, solve_with_prior
from jointplda.scoring.projection import NEW, Gaussian, Projection, Projections, log_evidence


@dataclass(frozen=True)
class TrainingCells:
    """Cells of training, whose samples share G w with a new sample of the same speaker and channel.

    Given y and x, the mean mbar of the n training samples of a cell and a new sample m of it have

        E[m | mbar] = mean + W z + B (mbar - mean - W z),     B = s G G' (G G' + C / n)^-1,     W z = V y + U x
        Cov[m | mbar] = C + G G' - B s G G'

    where s is the ``share`` of G G' that scoring counts on, and G the loading of ``interaction``, the cell of the
    parameters.
    """

    parameters: Parameters
    interaction: Factor
    share: float
    cells: CellMeans

    def of_channels(self, channels: IntArray) -> dict[int, int]:
        """Position of the cell of each speaker who has one with these channels (conditions,)."""
        codes = self.cells.codes
        rows = np.flatnonzero((codes[:, 1:] == channels).all(axis=1))
        return dict(zip(codes[rows, 0].tolist(), rows.tolist(), strict=True))

    def log_likelihoods(self, X: Array, latents: Gaussian, cells: IntArray) -> Array:
        """Log p(m | cell) without its 2 pi, of samples X (n, d) and cells (M,), (n, M).

        ``latents`` are the posteriors of z = [y, x] with one mean for each cell.
        """
        mean, C, G = self.parameters.mean, self.parameters.noise, self.interaction.loading
        W = np.concatenate(self.parameters.without_cell().loadings, axis=1)
        GG, centred, out = G @ G.T, X - mean, np.empty((len(X), len(cells)))
        sizes = self.cells.counts[cells]
        for n in np.unique(sizes):
            own = np.flatnonzero(sizes == n)
            B = self.share * GG @ inverse(GG + C / n)[0]
            rest = W - B @ W
            spread = C + GG - B @ (self.share * GG) + rest @ latents.covariance @ rest.T
            precision, log_det = inverse(symmetric(spread))
            centres = (self.cells.means[cells[own]] - mean) @ B.T + latents.means[own] @ rest.T
            squares = np.sum((centred @ precision) * centred, axis=1)[:, None]
            squares = squares - 2.0 * centred @ precision @ centres.T + np.sum((centres @ precision) * centres, axis=1)
            out[:, own] = -0.5 * squares - 0.5 * log_det
        return out


class TrainingChannels:
    """A model together with the posterior of its training channels and speakers, which ``fitted`` has.

    The ``projections`` are those of the parameters that scores use.
    """

    def __init__(self, projections: Projections, fitted: FittedModel) -> None:
        if fitted.training is None:
            raise InputError(
                "This model does not know its training channels and speakers: it was made from parameters, or there "
                "were too many of them to keep."
            )
        self.projections, self.training, self.parameters = projections, fitted.training, fitted.used
        self.projection, self.ranks = projections.shared, projections.shared.ranks
        self.cells, cell = None, fitted.used.cell if projections.parameters.cell else None
        if cell is not None and fitted.training.cells is not None:
            self.cells = TrainingCells(fitted.used, cell, fitted.settings.cell_share, fitted.training.cells)
        self.sizes = np.array([len(labels) for labels in self.labels], dtype=np.int64)
        latents = self.sizes * np.array(self.ranks[1 : 1 + len(self.sizes)], dtype=np.int64)
        self.starts = np.concatenate([[0], np.cumsum(latents)]).astype(np.int64)

    @cached_property
    def covariance(self) -> WholeCovariance | SolvedCovariance:
        """Sigma of the latents of the training channels."""
        return self.training.covariance(self.parameters)

    @property
    def labels(self) -> tuple[tuple[Hashable, ...], ...]:
        """Labels of the training channels of every condition."""
        return self.training.channels[: len(self.projections.conditions)]

    def of_training(self, codes: IntArray) -> IntArray:
        """Codes (n, conditions) that number the training channels first, with NEW for every other channel."""
        return np.where(codes < self.sizes, codes, NEW)

    def places(self, condition: int, channel: int) -> IntArray:
        """Positions of the latents of a training channel among those of all training channels."""
        rank = self.ranks[1 + condition]
        return np.arange(rank) + int(self.starts[condition] + channel * rank)

    def solve(self, codes: IntArray, channels: IntArray) -> Solved:
        """Lambda of an assignment of which some samples are in channels of training.

        ``codes`` (n, 1 + conditions) are the speaker and the channels of each sample, numbered from 0, and ``channels``
        (n, conditions) the training channels that it is in, NEW for another channel.
        """
        stack = Stack.of(codes, self.projection)
        at, places = self.training_latents(stack, channels)
        size = int(stack.starts[-1])
        precision, eta, constant = np.eye(size), np.zeros(size), 0.0
        if len(at):
            mean = self.training.channel_means[places]
            known, log_det = inverse(self.covariance.block(places, places))
            precision[np.ix_(at, at)] = known
            eta[at] = known @ mean
            constant = -0.5 * float(mean @ eta[at]) - 0.5 * log_det
        return solve_with_prior(stack, self.projection, precision, eta, constant)

    def training_latents(self, stack: Stack, channels: IntArray) -> tuple[IntArray, IntArray]:
        """Positions in a stack of the latents of training channels, and their places in the training posterior."""
        at, places = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
        for k, channel in enumerate(channels.T):
            known = np.stack([stack.codes[:, 1 + k], channel], axis=1)[channel != NEW]
            for level, trained in np.unique(known, axis=0).tolist():
                at.append(stack.latents(1 + k, level))
                places.append(self.places(k, trained))
        return np.concatenate(at), np.concatenate(places)

    def extended(self, prior: Gaussian, at: IntArray, known: IntArray, extra: IntArray) -> Gaussian:
        """Add training channels that an enrollment does not have to its latents.

        ``prior`` is the posterior of all stacked latents of the enrollment. Those ``at`` (n,) belong to training
        channels, and have the places ``known`` (n,) in the training posterior. The latents to add have the places
        ``extra`` (m,) there, and depend on the enrollment through its own training channels only.
        """
        Sigma, xhat = self.covariance, self.training.channel_means
        crossing = Sigma.block(extra, known).T
        B = np.linalg.solve(Sigma.block(known, known), crossing).T
        means = xhat[extra] + (prior.means[:, at] - xhat[known]) @ B.T
        cross = B @ prior.covariance[at]
        own = Sigma.block(extra, extra) - B @ crossing + cross[:, at] @ B.T
        covariance = np.block([[prior.covariance, cross.T], [cross, own]])
        return Gaussian(np.concatenate([prior.means, means], axis=1), covariance)

    @cached_property
    def _speaker_precisions(self) -> list[tuple[IntArray, Array, Array, IntArray]]:
        """Groups of speakers with equal counts, with L^-1 and A = sum_b h_b J_b' (Ry, latents) of each, and the places
        of the latents, those of the channels that these speakers were heard in.
        """
        training, rank = self.training, self.ranks[0]
        grams, crosses = [], []
        for observed, size in zip(training.observed, training.cell_sizes, strict=True):
            factors = (0, *(k + 1 for k, has_label in enumerate(observed) if has_label))
            projection = Projection.of(self.parameters.of_cell_means(float(size)), factors)
            grams.append(projection.G[:rank, :rank])
            positions = zip(factors, spans(projection.ranks), strict=True)
            crosses.append({k: projection.G[span, :rank] for k, span in positions})
        places = [self.places(k, channel) for k, size in enumerate(self.sizes) for channel in range(size)]
        condition = np.repeat(np.arange(len(self.sizes)), self.sizes)
        result, B = [], int(self.sizes.sum())
        for speakers in self._alike():
            counts = training.speaker_counts[speakers[0]]
            L = np.eye(rank) + np.tensordot(counts, np.stack(grams), 1)
            h = training.slots[[speakers[0]]].tocoo()
            channels = np.unique(h.col % max(B, 1))
            pieces = {b: np.zeros((rank, len(places[b]))) for b in channels.tolist()}
            for slot, count in zip(h.col.tolist(), h.data.tolist(), strict=True):
                pieces[slot % B] += count * crosses[slot // B][1 + condition[slot % B]].T
            A = np.concatenate([np.zeros((rank, 0)), *pieces.values()], axis=1)
            at = np.concatenate([np.zeros(0, dtype=np.int64), *(places[b] for b in pieces)])
            result.append((speakers, inverse(L)[0], A, at))
        return result

    def _alike(self) -> list[IntArray]:
        """Groups of training speakers with the same number of samples in every channel and part."""
        training, slots = self.training, self.training.slots.copy()
        groups: dict[tuple[bytes, ...], list[int]] = {}
        slots.sort_indices()
        for s, counts in enumerate(training.speaker_counts):
            own = slice(slots.indptr[s], slots.indptr[s + 1])
            key = counts.tobytes(), slots.indices[own].tobytes(), slots.data[own].tobytes()
            groups.setdefault(key, []).append(s)
        return [np.array(speakers, dtype=np.int64) for speakers in groups.values()]

    def speaker_log_likelihoods(self, X: Array, channels: IntArray) -> Array:
        """Log p(m | speaker s) of samples X (n, d) and all training speakers, up to a constant of the sample: (n, S).

        ``channels`` (n, conditions) are the training channels of the samples; NEW is another channel. With an
        interaction, a speaker who was heard in these channels brings the samples of that cell.
        """
        out = np.empty((len(X), len(self.training.speakers)))
        Sigma, means = self.covariance, self.training.channel_means
        for kind, tests in equal_rows(channels):
            matched = [k for k, channel in enumerate(kind) if channel != NEW]
            projection = self.projections.of((0, *(1 + k for k in matched)))
            phi = projection.project(X[tests])
            reference = projection.log_noise(X[tests])
            at = np.concatenate([np.zeros(0, dtype=np.int64), *(self.places(k, kind[k]) for k in matched)])
            heard = self.cells.of_channels(kind) if self.cells is not None and len(matched) == len(kind) else {}
            here = Sigma.block(at, at)
            for speakers, Linv, A, heard_at in self._speaker_precisions:
                spread = Linv @ A
                own = Linv + spread @ Sigma.block(heard_at, heard_at) @ spread.T
                crossing = -spread @ Sigma.block(heard_at, at)
                covariance = np.block([[own, crossing], [crossing.T, here]])
                y = self.training.speaker_means[speakers]
                z = np.concatenate([y, np.broadcast_to(means[at], (len(y), len(at)))], axis=1)
                rows, columns, left = log_evidence(Gaussian(z, covariance), phi, projection.G)
                out[np.ix_(tests, speakers)] = (rows[:, None] + columns + left @ phi.T).T + reference[:, None]
                again = np.flatnonzero(np.isin(speakers, list(heard)))
                if self.cells is not None and len(again):
                    cells = np.array([heard[s] for s in speakers[again].tolist()])
                    found = self.cells.log_likelihoods(X[tests], Gaussian(z[again], covariance), cells)
                    out[np.ix_(tests, speakers[again])] = found
        return out

    def channel_log_likelihoods(self, X: Array, condition: int) -> Array:
        """Log p(m | channel c) of all training channels of a condition, and of a new channel (last): (n, C + 1)."""
        projection = self.projections.of((1 + condition,))
        phi, rank = projection.project(X), self.ranks[1 + condition]
        means = self.training.channel_means
        at = [self.places(condition, channel) for channel in range(self.sizes[condition])]
        latents = [Gaussian(means[None, places], self.covariance.block(places, places)) for places in at]
        out = np.empty((len(X), len(at) + 1))
        for channel, x in enumerate([*latents, Gaussian(np.zeros((1, rank)), np.eye(rank))]):
            rows, columns, left = log_evidence(x, phi, projection.G)
            out[:, channel] = rows[0] + columns + phi @ left[0]
        return out
