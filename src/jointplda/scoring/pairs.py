"""Single samples against single samples (paper, section 4.1), at the speed of matrix products.

Under a hypothesis h (for every factor: shared or not) the pair has covariance [[T, C_h], [C_h, T]]. With
R R' = T and R^-1 C_h R^-T = Q diag(lambda) Q', the log-likelihood, less that of "nothing shared", is

    log p_h(m_E, m_T) / p_0 = phi_E' phi_T - 1/2 sum lambda (phi_E^2 + phi_T^2) - 1/2 sum log(1 - lambda^2)
    phi = sqrt(lambda / (1 - lambda^2)) Q' R^-1 (m - mean)

so a matrix of them is one thin product per hypothesis. The LLR is the log of the ratio of two sums over hypotheses.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import Any, Protocol

import numpy as np
from scipy.linalg import block_diag, solve_triangular

from jointplda._parallel import in_pieces
from jointplda._typing import AnyArray, Array, IntArray
from jointplda.linalg import cholesky, spans
from jointplda.model.parameters import CELL, CONDITION, Parameters

Pattern = tuple[bool, ...]
Key = tuple[bool, Pattern]  # whether the speaker is the same, and the pattern: one hypothesis
Score = Callable[[slice], AnyArray]  # of pairs, from the columns of a hypothesis
Indexes = slice | IntArray
PIECE = 512
UNKNOWN = 2  # of the states of a condition: channels that differ are 0, equal ones 1


@dataclass(frozen=True)
class Hypothesis:
    """A ``pattern`` of shared conditions, with the same speaker or not (``same_speaker``).

    Attributes
    ----------
    projection : (d, r)
        The matrix that maps m - mean to phi.
    shares : (r,)
        lambda, the share of the total variance in each direction that the two samples have in common.
    constant : float
        -1/2 sum log(1 - lambda^2).
    """

    same_speaker: bool
    pattern: Pattern
    projection: Array
    shares: Array
    constant: float


@dataclass(frozen=True)
class PairModel:
    """All hypotheses about a pair of samples but "nothing shared", which is the reference."""

    parameters: Parameters
    hypotheses: tuple[Hypothesis, ...]

    @classmethod
    def of(cls, parameters: Parameters) -> "PairModel":
        """Hypotheses about what two samples of a model share: the speaker, channels of conditions, and the cell."""
        conditions, cell = parameters.of_kind(CONDITION), parameters.of_kind(CELL)
        root = cholesky(parameters.total_covariance)
        whitened = {k: solve_triangular(root, parameters.loadings[k], lower=True) for k in (0, *conditions, *cell)}
        hypotheses = []
        for same_speaker in (True, False):
            for pattern in product((False, True), repeat=len(conditions)):
                shared = [0] * same_speaker + [k for k, same in zip(conditions, pattern, strict=True) if same]
                if same_speaker and all(pattern):
                    shared.extend(cell)
                if shared:
                    hypotheses.append(_hypothesis(same_speaker, pattern, [whitened[k] for k in shared], root))
        return cls(parameters, tuple(hypotheses))

    def side(self, X: Any, dtype: Any = np.float64, threads: int | None = None) -> "PreparedSide":
        """Prepare samples X (n, d) once, to be scored many times."""
        P, shares = self._projections, self._shares
        table = np.empty((len(X), P.shape[1] + 2 * len(self.hypotheses)), dtype=dtype)
        columns = spans(len(h.shares) for h in self.hypotheses)

        def work(piece: slice) -> None:
            phi = (np.asarray(X[piece], dtype=np.float64) - self.parameters.mean) @ P
            for span, own in zip(self.spans.values(), columns, strict=True):
                table[piece, span.start : span.stop - 2] = phi[:, own]
                table[piece, span.stop - 1] = 1.0
            np.square(phi, out=phi)
            table[piece, self.offsets] = -0.5 * (phi @ shares)

        in_pieces(work, len(X), PIECE, threads)
        return PreparedSide(self, table)

    @cached_property
    def spans(self) -> dict[Key, slice]:
        """Columns of each hypothesis in the table of prepared samples."""
        keys = [(h.same_speaker, h.pattern) for h in self.hypotheses]
        return dict(zip(keys, spans(len(h.shares) + 2 for h in self.hypotheses), strict=True))

    @cached_property
    def offsets(self) -> list[int]:
        """The column that holds the offset of each hypothesis."""
        return [span.stop - 2 for span in self.spans.values()]

    @cached_property
    def _projections(self) -> Array:
        """Projections of all hypotheses side by side."""
        return np.concatenate([h.projection for h in self.hypotheses], axis=1)

    @cached_property
    def _shares(self) -> Array:
        """Lambda of all hypotheses, each in a column of its own."""
        return np.asarray(block_diag(*(h.shares[:, None] for h in self.hypotheses)))


@dataclass(frozen=True)
class PreparedSide:
    """Samples prepared by a ``model``: for each hypothesis the columns [phi, offset, 1] of the ``table``."""

    model: PairModel
    table: AnyArray

    def __len__(self) -> int:
        return len(self.table)

    def of_type(self, dtype: Any) -> "PreparedSide":
        """The same samples as numbers of another type."""
        return self if self.table.dtype == dtype else PreparedSide(self.model, self.table.astype(dtype))

    @cached_property
    def rounding(self) -> float:
        """Approximate error of scores of these samples by rounding, in nats: it grows with the offsets."""
        largest = float(np.abs(self.table[:, self.model.offsets]).max(initial=0.0))
        return 4.0 * float(np.finfo(self.table.dtype).eps) * largest

    def right(self, weights: dict[Key, float]) -> AnyArray:
        """The columns [phi, 1, offset + constant + log prior] of the other side of a product."""
        table = self.table.copy()
        for h, (key, span) in zip(self.model.hypotheses, self.model.spans.items(), strict=True):
            table[:, span.stop - 2] = 1.0
            table[:, span.stop - 1] = self.table[:, span.stop - 2] + (h.constant + weights.get(key, 0.0))
        return table


def _hypothesis(same_speaker: bool, pattern: Pattern, whitened: list[Array], root: Array) -> Hypothesis:
    """The hypothesis in which the factors with these R^-1 W are shared."""
    A = np.concatenate(whitened, axis=1)
    if A.shape[1] < len(A):
        left, values, _ = np.linalg.svd(A, full_matrices=False)
        shares = values**2
    else:
        shares, left = np.linalg.eigh(A @ A.T)
    shares = np.clip(shares, 0.0, 1.0 - 1e-15)
    gain = np.sqrt(shares / (1.0 - shares**2))
    projection = solve_triangular(root, left * gain, lower=True, trans="T")
    return Hypothesis(same_speaker, pattern, projection, shares, -0.5 * float(np.sum(np.log1p(-(shares**2)))))


class TrialScorer(Protocol):
    """What every scorer of pairs of samples can do: it has both sides, and writes LLRs where it is told to."""

    def fill(self, rows: Indexes, columns: Indexes, out: AnyArray) -> None:
        """Write the LLRs of these rows of one side and these rows of the other as a block of their matrix."""

    def trials(self, pairs: IntArray, out: AnyArray) -> None:
        """Write the LLRs of listed pairs (n, 2) of rows."""


class PairScorer:
    """LLRs of two prepared sides, ``left`` and ``right``; a ``TrialScorer``.

    Parameters
    ----------
    priors : (conditions, 2)
        P(same channel | same speaker), P(same channel | different speakers) of each condition.
    left_codes, right_codes : (n, conditions) int64, optional
        Known channels; -1 if not known. Where both channels of a pair are known, nothing is averaged over.
    """

    def __init__(
        self,
        left: PreparedSide,
        right: PreparedSide,
        priors: Array,
        left_codes: IntArray | None = None,
        right_codes: IntArray | None = None,
    ) -> None:
        self.left, self.spans, self.priors = left.table, left.model.spans, priors
        self.codes = None if left_codes is None or right_codes is None else (left_codes, right_codes)
        self.patterns = list(product((False, True), repeat=len(priors)))
        self.marginal = self._log_priors([UNKNOWN] * len(priors))
        self.right = right.right(self.marginal if self.codes is None else {})
        self._local = threading.local()

    def fill(self, rows: Indexes, columns: Indexes, out: AnyArray) -> None:
        """Write the LLRs of a block of the matrix."""
        left, right = self.left[rows], self.right[columns]

        def score(span: slice) -> AnyArray:
            return np.asarray(left[:, span] @ right[:, span].T)

        if self.codes is not None:
            self._known(score, out, self.codes[0][rows][:, None, :], self.codes[1][columns][None, :, :])
        elif len(self.marginal) == 4 and len(self.priors) == 1:
            self._fill_two(left, right, out)
        elif not len(self.priors):
            span = self.spans[True, ()]
            np.matmul(left[:, span], right[:, span].T, out=out)
        else:
            out[...] = self._ratio(score, self.marginal, folded=True)

    def _fill_two(self, left: AnyArray, right: AnyArray, out: AnyArray) -> None:
        """One condition, not known: log (e^a + e^b) / (e^c + e^d), computed in buffers of this thread."""
        buffers = getattr(self._local, "buffers", None)
        if buffers is None or buffers.shape[1] < out.size:
            buffers = self._local.buffers = np.empty((3, out.size), dtype=out.dtype)
        a, b, c = (buffer[: out.size].reshape(out.shape) for buffer in buffers)
        for key, result in (((True, (True,)), a), ((True, (False,)), b), ((False, (True,)), c)):
            np.matmul(left[:, self.spans[key]], right[:, self.spans[key]].T, out=result)
        d = out.dtype.type(self.marginal[False, (False,)])
        _log_sum_of_two(a, b, out)
        _log_sum_of_two(c, d, b)
        np.subtract(out, b, out=out)
        np.divide(a, c, out=a)
        np.log(a, out=a)
        np.add(out, a, out=out)

    def trials(self, pairs: IntArray, out: AnyArray) -> None:
        """Write the LLRs of listed pairs (n, 2)."""
        left, right = self.left[pairs[:, 0]], self.right[pairs[:, 1]]

        def score(span: slice) -> AnyArray:
            return np.asarray(np.einsum("nd,nd->n", left[:, span], right[:, span]))

        if self.codes is None:
            out[...] = self._ratio(score, self.marginal, folded=True)
        else:
            self._known(score, out, self.codes[0][pairs[:, 0]], self.codes[1][pairs[:, 1]])

    def _known(self, score: Score, out: AnyArray, a: IntArray, b: IntArray) -> None:
        """LLRs of pairs with channels a and b, which are different (0), the same (1) or not known (2)."""
        state = np.where((a < 0) | (b < 0), UNKNOWN, (a == b).astype(np.int64))
        index = (state * 3 ** np.arange(state.shape[-1])).sum(axis=-1)
        cache: dict[int, AnyArray] = {}

        def cached(span: slice) -> AnyArray:
            if span.start not in cache:
                cache[span.start] = score(span)
            return cache[span.start].copy()

        for code in np.unique(index):
            values = self._ratio(cached, self._log_priors((code // 3 ** np.arange(state.shape[-1]) % 3).tolist()))
            np.copyto(out, np.broadcast_to(values, out.shape), where=index == code)

    def _log_priors(self, states: list[int]) -> dict[Key, float]:
        """Log prior of every possible hypothesis, given its speakers and the state of each condition, as in _known."""
        result = {}
        for same_speaker, column in zip((True, False), self.priors.T.tolist(), strict=True):
            priors = [p if s == UNKNOWN else s for s, p in zip(states, column, strict=True)]
            for pattern in self.patterns:
                p = prod(p if same else 1.0 - p for same, p in zip(pattern, priors, strict=True))
                if p > 0.0:
                    result[same_speaker, pattern] = float(np.log(p))
        return result

    def _ratio(self, score: Score, log_priors: dict[Key, float], folded: bool = False) -> AnyArray:
        """Log of the ratio of two sums over patterns; ``folded`` scores include their log priors."""
        terms: dict[bool, list[Any]] = {True: [], False: []}
        for key, log_prior in log_priors.items():
            if key not in self.spans:
                terms[key[0]].append(log_prior)
                continue
            values = score(self.spans[key])
            if not folded and log_prior:
                values += values.dtype.type(log_prior)
            terms[key[0]].append(values)
        (top, top_rest), (bottom, bottom_rest) = _log_sum_parts(terms[True]), _log_sum_parts(terms[False])
        result: AnyArray = np.subtract(top, bottom, out=top)
        if top_rest is not None and bottom_rest is not None:
            top_rest /= bottom_rest
            result += np.log(top_rest, out=top_rest)
        elif top_rest is not None:
            result += np.log(top_rest, out=top_rest)
        elif bottom_rest is not None:
            result -= np.log(bottom_rest, out=bottom_rest)
        return result


def _log_sum_of_two(a: AnyArray, b: Any, largest: AnyArray) -> None:
    """Write the larger of a and b, and overwrite a with exp(-|a - b|) + 1, whose log is the rest of log (e^a + e^b)."""
    np.maximum(a, b, out=largest)
    np.subtract(a, b, out=a)
    np.abs(a, out=a)
    np.negative(a, out=a)
    np.exp(a, out=a)
    np.add(a, 1.0, out=a)


def _log_sum_parts(terms: list[Any]) -> tuple[Any, AnyArray | None]:
    """Log-sum-exp as (largest, sum of exp(term - largest)), the second None for a single term; overwrites the terms."""
    first, *others = sorted(terms, key=np.ndim, reverse=True)  # "nothing shared" is a number, and comes last
    if not others:
        return first, None
    largest = np.empty_like(first)
    if len(others) == 1:
        _log_sum_of_two(first, others[0], largest)
        return largest, first
    np.maximum(first, others[0], out=largest)
    for other in others[1:]:
        np.maximum(largest, other, out=largest)
    rest, scratch = np.zeros_like(first), np.empty_like(first)
    for term in (first, *others):
        rest += np.exp(np.subtract(term, largest, out=scratch), out=scratch)
    return largest, rest
