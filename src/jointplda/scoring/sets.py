"""Several samples on both sides.

    LLR = log p(A, B | one speaker) - log p(A, B | two speakers)

with the channels of all samples known, or summed over partitions of all samples together. Samples of A come first:
under "two speakers" those of B join channels with the prior for different speakers.
"""

from typing import Any

import numpy as np

from jointplda._typing import Array, IntArray
from jointplda.scoring.evidence import Assignment, solve
from jointplda.scoring.known_channels import NEW, KnownChannels
from jointplda.scoring.partitions import Solver, beam_for, likely_partitions, with_speaker
from jointplda.scoring.projection import Projection


class SetScorer:
    """Scores of pairs of sets, matrices of equal assignments shared among them."""

    def __init__(self, latents: Projection, priors: Array, beam: int | None, seen: KnownChannels | None = None) -> None:
        self.latents, self.priors, self.beam, self.seen = latents, priors, beam, seen
        self.solver = Solver(latents)

    def known(self, a: Array, b: Array, codes: IntArray) -> float:
        """LLR of phi (n_a, r) and (n_b, r) whose channels are ``codes`` (n_a + n_b, conditions), -1 alone."""
        phi = np.concatenate([a, b])[None]
        levels = np.stack([_alone_apart(codes[:, k]) for k in range(codes.shape[1])], axis=1) if codes.size else codes
        values = []
        for speakers in self._speakers(a, b):
            if self.seen is not None and codes.size and ((codes >= 0) & (codes < self.seen.sizes)).any():
                values.append(self._trained(phi, levels, codes, speakers))
            else:
                values.append(float(self._evidence(phi, levels[None], speakers)[0, 0]))
        return values[1] - values[0]

    def _trained(self, phi: Array, levels: IntArray, codes: IntArray, speakers: IntArray) -> float:
        """Evidence where some of the channels are those of training."""
        assert self.seen is not None
        trained = []
        for k in range(codes.shape[1]):
            own = np.full(int(levels[:, k].max()) + 1, NEW, dtype=np.int64)
            own[levels[:, k]] = np.where(codes[:, k] < self.seen.sizes[k], codes[:, k], NEW)
            trained.append(own)
        prior, eta0, constant = self.seen.stacked_prior(int(speakers.max()) + 1, tuple(trained))
        solved = solve(Assignment(np.concatenate([speakers[:, None], levels], axis=1)), self.latents, prior)
        return float(solved.log_evidence(solved.sums(phi) + eta0)[0]) + constant

    def unknown(self, a: Array, b: Array) -> float:
        """LLR of phi (n_a, r) and (n_b, r) with no channel known."""
        phi = np.concatenate([a, b])[None]
        totals = []
        for column, speakers in zip((1, 0), self._speakers(a, b), strict=True):
            priors = self.priors[:, np.repeat([0, column], [len(a), len(b)])].T
            width = beam_for(len(a) + len(b), len(self.priors), self.beam)
            found = likely_partitions(phi[0], priors, self.solver, width, speakers)
            values = self._evidence(phi, found.codes, speakers)[0] + found.log_priors
            totals.append(float(np.logaddexp.reduce(values)))
        return totals[1] - totals[0]

    def _speakers(self, a: Array, b: Array) -> tuple[IntArray, IntArray]:
        """Who speaks, under two speakers and under one."""
        two = np.repeat(np.array([0, 1], dtype=np.int64), [len(a), len(b)])
        return two, np.zeros_like(two)

    def _evidence(self, phi: Array, codes: IntArray, speakers: IntArray) -> Array:
        return self.solver.log_evidence(phi, with_speaker(codes, speakers))


def _alone_apart(codes: IntArray) -> IntArray:
    """Number levels from 0, every -1 a level of its own."""
    alone = codes < 0
    apart = np.where(alone, int(codes.max(initial=-1)) + np.cumsum(alone), codes)
    result: Any = np.unique(apart, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return result  # type: ignore[no-any-return]
