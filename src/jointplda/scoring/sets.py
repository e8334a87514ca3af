"""Sets of samples against sets of samples.

    LLR = log p(A, B | one speaker) - log p(A, B | two speakers)

where the channels of all samples are known, or both terms are sums over the partitions of all samples into channels.
Samples of A come first: under "two speakers" those of B join channels with the prior for different speakers.
"""

import numpy as np

from jointplda._typing import Array, IntArray
from jointplda.scoring.evidence import apart
from jointplda.scoring.partitions import Solver, beam_for, likely_partitions, with_speaker
from jointplda.scoring.projection import NEW, Projection
from jointplda.scoring.training_channels import TrainingChannels


class SetScorer:
    """Scores of pairs of sets, which share the matrices of equal assignments."""

    def __init__(
        self, projection: Projection, priors: Array, beam: int | None, training_channels: TrainingChannels | None = None
    ) -> None:
        self.priors, self.beam, self.training_channels = priors, beam, training_channels
        self.solver = Solver(projection)

    def known(self, a: Array, b: Array, codes: IntArray) -> float:
        """LLR of sets of phi (n_a, r) and (n_b, r) in channels ``codes`` (n_a + n_b, conditions), -1 if not shared."""
        phi, known = np.concatenate([a, b])[None], self.training_channels
        levels = [np.unique(apart(column), return_inverse=True)[1].reshape(-1) for column in codes.T]
        channels = np.full_like(codes, NEW) if known is None else known.of_training(codes)
        values = []
        for speakers in self._speakers(a, b):
            assignment = np.stack([speakers, *levels], axis=1)
            if known is None or (channels == NEW).all():
                values.append(float(self.solver.log_evidence(phi, assignment[None])[0, 0]))
            else:
                solved = known.solve(assignment, channels)
                values.append(float(solved.log_evidence(solved.sums(phi))[0]))
        return values[1] - values[0]

    def unknown(self, a: Array, b: Array) -> float:
        """LLR of sets of phi (n_a, r) and (n_b, r) whose channels are not known."""
        phi = np.concatenate([a, b])[None]
        totals = []
        for column, speakers in zip((1, 0), self._speakers(a, b), strict=True):
            priors = self.priors[:, np.repeat([0, column], [len(a), len(b)])].T
            width = beam_for(len(a) + len(b), len(self.priors), self.beam)
            partitions = likely_partitions(phi[0], priors, self.solver, width, speakers)
            values = self.solver.log_evidence(phi, with_speaker(partitions.codes, speakers))[0]
            totals.append(float(np.logaddexp.reduce(values + partitions.log_priors)))
        return totals[1] - totals[0]

    def _speakers(self, a: Array, b: Array) -> tuple[IntArray, IntArray]:
        """The speaker of each sample, if there are two speakers and if there is one."""
        two = np.repeat(np.array([0, 1], dtype=np.int64), [len(a), len(b)])
        return two, np.zeros_like(two)
