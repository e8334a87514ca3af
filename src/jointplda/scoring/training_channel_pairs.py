"""Pairs of samples whose channels may be channels of training.

The log-likelihood of a pair is a quadratic form of phi for each option: which training channels the two samples are in,
and whether they share a new one. The LLR is the log of the ratio of two sums over options.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import product

import numpy as np

from jointplda._typing import AnyArray, Array, IntArray
from jointplda.linalg import equal_rows
from jointplda.scoring.pairs import Indexes
from jointplda.scoring.projection import NEW
from jointplda.scoring.training_channels import TrainingChannels

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

    @classmethod
    def of(cls, known: TrainingChannels, same_speaker: bool, options: tuple[Option, ...]) -> "Form":
        """Log p of a pair with these channels, relative to noise alone."""
        codes = np.zeros((2, 1 + len(options)), dtype=np.int64)
        codes[1] = [not same_speaker, *(not together for _, _, together in options)]
        channels = np.array([option[:2] for option in options], dtype=np.int64).reshape(-1, 2).T
        solved = known.solve(codes, channels)
        K, eta = solved.covariance, solved.eta
        e, t = solved.stack.of_samples
        return cls(
            float(solved.log_evidence(eta[None])[0]),
            (0.5 * K[np.ix_(e, e)], K[e] @ eta),
            (0.5 * K[np.ix_(t, t)], K[t] @ eta),
            K[np.ix_(e, t)],
        )

    def values(self, E: Array, T: Array, paired: bool) -> Array:
        """Values for rows of E with the same rows of T (n,) if ``paired``, else with all rows of T (n, m)."""
        rows, columns, left = _one_side(E, *self.left), _one_side(T, *self.right), E @ self.cross
        if paired:
            return np.asarray(np.sum(left * T, axis=1) + rows + columns + self.constant)
        result: Array = left @ T.T
        result += rows[:, None]
        result += columns + self.constant
        return result


def _one_side(phi: Array, A: Array, a: Array) -> Array:
    """Return phi' A phi + a' phi of every row, (n,)."""
    return np.asarray(np.sum((phi @ A) * phi, axis=1) + phi @ a)


def pair_options(first: int, second: int, prior: Array, weights: Array | None) -> Iterator[tuple[Option, float, float]]:
    """Possible channels of a pair in one condition, with their probabilities given one speaker and given two.

    A channel (``first``, ``second``) is one of training below their number C, new from C on, and not known at -1.
    ``prior`` is P(same channel | same speaker), P(same channel | different speakers). ``weights`` (C + 1,) are the
    probabilities of the training channels and of a new channel (last), for samples whose channel is not known; without
    them such a sample shares the channel of the other with the probability of the prior.
    """
    p, q = float(prior[0]), float(prior[1])
    if first >= 0 and second >= 0:
        yield (first, second, first == second), 1.0, 1.0
    elif weights is None:
        known = max(first, second)
        yield (known, known, True), p, q
        yield (first, second, False), 1.0 - p, 1.0 - q
    else:
        new = len(weights) - 1
        ends = [[(side, 1.0)] if side >= 0 else list(enumerate(weights.tolist())) for side in (first, second)]
        for (a, u), (b, v) in product(*ends):
            if a >= new and b >= new and (first < 0 or second < 0):
                yield (NEW, NEW, True), u * v * p, u * v * q
                yield (NEW, NEW, False), u * v * (1.0 - p), u * v * (1.0 - q)
            else:
                yield (a, b, a == b), u * v, u * v


class TrainingChannelPairs:
    """LLRs of pairs whose channels may be channels of training; a ``TrialScorer``.

    ``E`` (n, r) and ``T`` (m, r) are phi of either side, ``first`` (n, conditions) and ``second`` (m, conditions) their
    channels, numbered as in ``pair_options``; ``priors`` are as in ``PairScorer``, and ``weights``, one for each
    condition, as in ``pair_options``.
    """

    def __init__(
        self,
        known: TrainingChannels,
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

    def fill(self, rows: Indexes, columns: Indexes, out: AnyArray) -> None:
        """Write the LLRs of a block of the matrix."""
        E, T = self.E[rows], self.T[columns]
        for a in np.unique(self.which[0][rows]):
            i = np.flatnonzero(self.which[0][rows] == a)
            for b in np.unique(self.which[1][columns]):
                j = np.flatnonzero(self.which[1][columns] == b)
                out[np.ix_(i, j)] = self._ratio(int(a), int(b), E[i], T[j], paired=False)

    def trials(self, pairs: IntArray, out: AnyArray) -> None:
        """Write the LLRs of listed pairs (n, 2)."""
        kinds = np.stack([self.which[0][pairs[:, 0]], self.which[1][pairs[:, 1]]], axis=1)
        for (a, b), rows in equal_rows(kinds):
            E, T = self.E[pairs[rows, 0]], self.T[pairs[rows, 1]]
            out[rows] = self._ratio(int(a), int(b), E, T, paired=True)

    def _ratio(self, a: int, b: int, E: Array, T: Array, *, paired: bool) -> Array:
        """Log of the ratio of two sums over the possible channels of the pairs."""
        per_condition = [
            list(pair_options(int(x), int(y), self.priors[k], None if self.weights is None else self.weights[k]))
            for k, (x, y) in enumerate(zip(self.kinds[0][a], self.kinds[1][b], strict=True))
        ]
        terms: tuple[list[Array], list[Array]] = [], []
        for choice in product(*per_condition):
            options = tuple(self._as_training_channels(k, option) for k, (option, _, _) in enumerate(choice))
            for side in (0, 1):
                p = float(np.prod([probabilities[side] for _, *probabilities in choice]))
                if p > 0.0:
                    terms[side].append(self._form(side == 0, options).values(E, T, paired) + np.log(p))
        top, bottom = (reduce(np.logaddexp, of_side) for of_side in terms)
        return top - bottom

    def _form(self, same_speaker: bool, options: tuple[Option, ...]) -> Form:
        """The quadratic form of an option, computed once for all blocks."""
        key = (same_speaker, options)
        if key not in self._forms:
            self._forms[key] = Form.of(self.known, same_speaker, options)
        return self._forms[key]

    def _as_training_channels(self, condition: int, option: Option) -> Option:
        """The same option with NEW for every channel that is not one of training."""
        first, second, together = option
        n = self.known.sizes[condition]
        return (first if first < n else NEW, second if second < n else NEW, together)
