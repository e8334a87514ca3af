"""Sets of samples against sets of samples.

    LLR = log p(A, B | one speaker) - log p(A, B | two speakers)

where the channels of all samples are known, or both terms are sums over the partitions of all samples into channels.
Samples of A come first: under "two speakers" those of B join channels with the prior for different speakers.
"""

from typing import Any

import numpy as np

from jointplda._typing import Array, IntArray
from jointplda.scoring.evidence import solve
from jointplda.scoring.known_channels import NEW, KnownChannels
from jointplda.scoring.partitions import Solver, beam_for, likely_partitions, with_speaker
from jointplda.scoring.projection import Projection


class SetScorer:
    """Scores of pairs of sets, which share the matrices of equal assignments."""

    def __init__(
        self, projection: Projection, priors: Array, beam: int | None, known_channels: KnownChannels | None = None
    ) -> None:
        self.projection, self.priors, self.beam, self.known_channels = projection, priors, beam, known_channels
        self.solver = Solver(projection)

    def known(self, a: Array, b: Array, codes: IntArray) -> float:
        """LLR of sets of phi (n_a, r) and (n_b, r) in channels ``codes`` (n_a + n_b, conditions), -1 if not shared."""
        phi = np.concatenate([a, b])[None]
        levels = np.stack([_alone_apart(codes[:, k]) for k in range(codes.shape[1])], axis=1) if codes.size else codes
        values = []
        for speakers in self._speakers(a, b):
            known = self.known_channels
            if known is not None and codes.size and ((codes >= 0) & (codes < known.sizes)).any():
                values.append(self._evidence_with_training(known, phi, levels, codes, speakers))
            else:
                values.append(float(self._evidence(phi, levels[None], speakers)[0, 0]))
        return values[1] - values[0]

    def _evidence_with_training(
        self, known: KnownChannels, phi: Array, levels: IntArray, codes: IntArray, speakers: IntArray
    ) -> float:
        """Evidence of samples of which some are in channels of training."""
        trained = []
        for k in range(codes.shape[1]):
            own = np.full(int(levels[:, k].max()) + 1, NEW, dtype=np.int64)
            own[levels[:, k]] = np.where(codes[:, k] < known.sizes[k], codes[:, k], NEW)
            trained.append(own)
        assignment = np.concatenate([speakers[:, None], levels], axis=1)
        n_cells = len(np.unique(assignment, axis=0))
        prior, eta0, constant = known.stacked_prior(int(speakers.max()) + 1, tuple(trained), n_cells)
        solved = solve(assignment, self.projection, prior)
        return float(solved.log_evidence(solved.sums(phi) + eta0)[0]) + constant

    def unknown(self, a: Array, b: Array) -> float:
        """LLR of sets of phi (n_a, r) and (n_b, r) whose channels are not known."""
        phi = np.concatenate([a, b])[None]
        totals = []
        for column, speakers in zip((1, 0), self._speakers(a, b), strict=True):
            priors = self.priors[:, np.repeat([0, column], [len(a), len(b)])].T
            width = beam_for(len(a) + len(b), len(self.priors), self.beam)
            partitions = likely_partitions(phi[0], priors, self.solver, width, speakers)
            values = self._evidence(phi, partitions.codes, speakers)[0] + partitions.log_priors
            totals.append(float(np.logaddexp.reduce(values)))
        return totals[1] - totals[0]

    def _speakers(self, a: Array, b: Array) -> tuple[IntArray, IntArray]:
        """The speaker of each sample, if there are two speakers and if there is one."""
        two = np.repeat(np.array([0, 1], dtype=np.int64), [len(a), len(b)])
        return two, np.zeros_like(two)

    def _evidence(self, phi: Array, codes: IntArray, speakers: IntArray) -> Array:
        return self.solver.log_evidence(phi, with_speaker(codes, speakers))


def _alone_apart(codes: IntArray) -> IntArray:
    """Number levels from 0; every -1 becomes a level of its own."""
    alone = codes < 0
    apart = np.where(alone, int(codes.max(initial=-1)) + np.cumsum(alone), codes)
    result: Any = np.unique(apart, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return result  # type: ignore[no-any-return]
