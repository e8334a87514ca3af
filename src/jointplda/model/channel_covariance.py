"""The posterior covariance of the training channels, whole or solved for as scores ask for it."""

from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csr_array

from jointplda._typing import Array, IntArray
from jointplda.linalg import spans
from jointplda.model.coupled.dense import DenseSolver
from jointplda.model.coupled.links import CoupledLinks, PatternArrays
from jointplda.model.coupled.sampled import SampledPosterior, SampledSolver
from jointplda.model.parameters import Parameters
from jointplda.model.precisions import precisions

KEPT_NUMBERS = 2**26
DENSE_UNKNOWNS = 6000  # whose covariance takes some seconds, and 300 MB while scores need it


@dataclass(frozen=True)
class ChannelLinks:
    """What the precision P of the channel latents of training is made of, beside the parameters.

    Attributes
    ----------
    sizes : (conditions,) int64
        Number of channels of each condition.
    speaker_counts, slots, observed, cell_sizes
        As in ``TrainingPosterior``.
    between : tuple of dict of sparse (channels, channels)
        For each part, e_bb' of every pair of conditions k < l (1 is the first) that its samples have labels of.
    """

    sizes: IntArray
    speaker_counts: Array
    slots: csr_array
    observed: Array
    cell_sizes: Array
    between: tuple[dict[tuple[int, int], csr_array], ...]

    def coupled(self, n_factors: int) -> CoupledLinks:
        """The same as links of the coupled levels, for a model with so many factors, without sums of samples."""
        group_counts, group = np.unique(self.speaker_counts, axis=0, return_inverse=True)
        group = group.reshape(-1)
        order = np.argsort(group, kind="stable")
        n_parts, B = len(self.observed), int(self.sizes.sum())
        own = spans(self.sizes.tolist())
        counts: Array = np.asarray(self.slots.sum(axis=0), dtype=np.float64).reshape(n_parts, B)
        nothing = np.zeros(0)
        parts = []
        for p, row in enumerate(self.observed.astype(bool)):
            has_labels: list[bool] = row.tolist()
            observed = (True, *has_labels)
            parts.append(
                PatternArrays(
                    observed=(*observed, *[False] * (n_factors - len(observed))),
                    cell_size=float(self.cell_sizes[p]),
                    count=float(self.speaker_counts[:, p].sum()),
                    total=nothing,
                    scatter=nothing,
                    level_sums={},
                    level_counts={1 + k: counts[p][own[k]] for k, has_label in enumerate(has_labels) if has_label},
                    links=self.between[p],
                )
            )
        return CoupledLinks(
            factors=tuple(range(1, 1 + len(self.sizes))),
            sizes=tuple(self.sizes.tolist()),
            parts=tuple(parts),
            eliminated_parts=tuple(range(n_parts)),
            slots=self.slots[order],
            group=group[order],
            group_counts=group_counts,
        )


@dataclass
class SolvedCovariance:
    """Sigma = P^-1, channel by channel by conjugate gradients, as exact as dense; the latest are kept.

    ``kept`` holds the columns (size, r_k) of a channel by its number among the channels of all conditions, and
    ``starts`` (channels + 1,) says where the latents of each begin.
    """

    posterior: SampledPosterior
    starts: IntArray
    kept: OrderedDict[int, Array] = field(default_factory=OrderedDict)

    def block(self, rows: IntArray, columns: IntArray) -> Array:
        """Sigma[rows, columns]."""
        result = np.empty((len(rows), len(columns)))
        channels = np.searchsorted(self.starts, columns, side="right") - 1
        for channel in np.unique(channels).tolist():
            own = np.flatnonzero(channels == channel)
            result[:, own] = self._columns(channel)[np.ix_(rows, columns[own] - self.starts[channel])]
        return result

    def _columns(self, channel: int) -> Array:
        """The columns of one channel. They are solved for together, so that they do not depend on earlier questions."""
        if channel not in self.kept:
            self.kept[channel] = self.posterior.columns(np.arange(self.starts[channel], self.starts[channel + 1]))
        self.kept.move_to_end(channel)
        found = self.kept[channel]
        while len(self.kept) * found.size > KEPT_NUMBERS and len(self.kept) > 1:
            self.kept.popitem(last=False)
        return found


@dataclass(frozen=True)
class WholeCovariance:
    """Sigma as a matrix (size, size)."""

    matrix: Array

    def block(self, rows: IntArray, columns: IntArray) -> Array:
        """Sigma[rows, columns]."""
        result: Array = self.matrix[np.ix_(rows, columns)]
        return result


def channel_covariance(links: ChannelLinks, parameters: Parameters) -> WholeCovariance | SolvedCovariance:
    """The covariance under a model whose conditions are those of the links, whole where that is quicker."""
    kappa, cell = 0.0, parameters.cell
    if cell is not None and cell.kappa is not None:
        kappa, parameters = cell.kappa, parameters.without_cell()
    coupled = links.coupled(len(parameters.factors))
    precision = precisions(coupled, parameters, 0, kappa).coupled
    nothing = tuple(np.zeros((n, r)) for n, r in zip(coupled.sizes, precision.ranks, strict=True))
    if sum(side.size for side in nothing) <= DENSE_UNKNOWNS:
        return WholeCovariance(DenseSolver.of(coupled).solve(precision, nothing).joint_covariance())
    solver = SampledSolver.of(coupled, precision.ranks, probes=0)
    starts = np.concatenate([[0], np.cumsum(np.repeat(precision.ranks, coupled.sizes))])
    return SolvedCovariance(solver.solve(precision, nothing), starts)
