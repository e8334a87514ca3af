"""Single samples against single samples (paper, section 4.1), at the speed of matrix products.

Under a hypothesis h (for every factor: shared or not) the pair has covariance [[T, C_h], [C_h, T]]. With
R R' = T and R^-1 C_h R^-T = Q diag(lambda) Q', the log-likelihood, less that of "nothing shared", is

    log p_h(m_E, m_T) / p_0 = phi_E' phi_T - 1/2 sum lambda (phi_E^2 + phi_T^2) - 1/2 sum log(1 - lambda^2)
    phi = sqrt(lambda / (1 - lambda^2)) Q' R^-1 (m - mean)

so a matrix of them is one thin product per hypothesis. The LLR is the log of the ratio of two sums over hypotheses.
"""

import threading
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, Protocol

import numpy as np
from scipy.linalg import solve_triangular

from jointplda._parallel import in_pieces
from jointplda._typing import AnyArray, Array, IntArray
from jointplda.linalg import cholesky
from jointplda.model.parameters import CELL, CONDITION, Parameters

Pattern = tuple[bool, ...]
PIECE = 512


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
        sizes = [len(h.shares) for h in self.hypotheses]

        def work(piece: slice) -> None:
            phi = (np.asarray(X[piece], dtype=np.float64) - self.parameters.mean) @ P
            start = 0
            for i, size in enumerate(sizes):
                at = start + 2 * i
                table[piece, at : at + size] = phi[:, start : start + size]
                table[piece, at + size + 1] = 1.0
                start += size
            np.square(phi, out=phi)
            table[piece, np.cumsum(sizes) + 2 * np.arange(len(sizes))] = -0.5 * (phi @ shares)

        in_pieces(work, len(X), PIECE, threads)
        return PreparedSide(self, table)

    @cached_property
    def _projections(self) -> Array:
        """Projections of all hypotheses side by side."""
        return np.concatenate(
            [np.zeros((len(self.parameters.mean), 0)), *(h.projection for h in self.hypotheses)], axis=1
        )

    @cached_property
    def _shares(self) -> Array:
        """Lambda of all hypotheses, each in a column of its own."""
        sizes = [len(h.shares) for h in self.hypotheses]
        table = np.zeros((sum(sizes), len(sizes)))
        table[np.arange(sum(sizes)), np.repeat(np.arange(len(sizes)), sizes)] = np.concatenate(
            [np.zeros(0), *(h.shares for h in self.hypotheses)]
        )
        return table


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
        ends = [span.stop - 2 for span in self.spans.values()]
        return 4.0 * float(np.finfo(self.table.dtype).eps) * float(np.abs(self.table[:, ends]).max(initial=0.0))

    @cached_property
    def spans(self) -> dict[tuple[bool, Pattern], slice]:
        """Columns of each hypothesis in the table."""
        spans, start = {}, 0
        for h in self.model.hypotheses:
            spans[h.same_speaker, h.pattern] = slice(start, start + len(h.shares) + 2)
            start += len(h.shares) + 2
        return spans

    def right(self, weights: dict[tuple[bool, Pattern], float]) -> AnyArray:
        """The columns [phi, 1, offset + constant + log prior] of the other side of a product."""
        table = self.table.copy()
        for h in self.model.hypotheses:
            stop = self.spans[h.same_speaker, h.pattern].stop
            table[:, stop - 2] = 1.0
            table[:, stop - 1] = self.table[:, stop - 2] + (h.constant + weights.get((h.same_speaker, h.pattern), 0.0))
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

    def fill(self, rows: slice, columns: slice, out: AnyArray) -> None:
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
        self.left, self.spans, self.priors = left.table, left.spans, priors
        self.codes = None if left_codes is None or right_codes is None else (left_codes, right_codes)
        self.patterns = list(product((False, True), repeat=len(priors)))
        self.marginal = self._log_priors(None)
        folded = {
            (same, pattern): value
            for same, table in zip((True, False), self.marginal, strict=True)
            for pattern, value in table.items()
        }
        self.right = right.right(folded if self.codes is None else {})
        self._local = threading.local()

    def fill(self, rows: slice, columns: slice, out: AnyArray) -> None:
        """Write the LLRs of a block of the matrix."""
        left, right = self.left[rows], self.right[columns]

        def score(key: tuple[bool, Pattern]) -> AnyArray | None:
            span = self.spans.get(key)
            return None if span is None else left[:, span] @ right[:, span].T

        if self.codes is None:
            if len(self.marginal[0]) == len(self.marginal[1]) == 2 and len(self.priors) == 1:
                self._fill_two(left, right, out)
            elif not len(self.priors):
                span = self.spans[True, ()]
                np.matmul(left[:, span], right[:, span].T, out=out)
            else:
                out[...] = self._ratio(score, self.marginal, folded=True)
            return
        a, b = self.codes[0][rows], self.codes[1][columns]
        self._known(score, out, a[:, None, :], b[None, :, :])

    def _fill_two(self, left: AnyArray, right: AnyArray, out: AnyArray) -> None:
        """One condition, not known: log (e^a + e^b) / (e^c + e^d), computed in buffers of this thread."""
        buffers = getattr(self._local, "buffers", None)
        if buffers is None or buffers.shape[1] < out.size:
            buffers = self._local.buffers = np.empty((3, out.size), dtype=out.dtype)
        a, b, c = (buffer[: out.size].reshape(out.shape) for buffer in buffers)
        for key, result in (((True, (True,)), a), ((True, (False,)), b), ((False, (True,)), c)):
            np.matmul(left[:, self.spans[key]], right[:, self.spans[key]].T, out=result)
        d = out.dtype.type(self.marginal[1][(False,)])
        np.maximum(a, b, out=out)
        np.subtract(a, b, out=a)
        np.maximum(c, d, out=b)
        np.subtract(c, d, out=c)
        np.subtract(out, b, out=out)
        for term in (a, c):
            np.abs(term, out=term)
            np.negative(term, out=term)
            np.exp(term, out=term)
            np.add(term, 1.0, out=term)
        np.divide(a, c, out=a)
        np.log(a, out=a)
        np.add(out, a, out=out)

    def trials(self, pairs: IntArray, out: AnyArray) -> None:
        """Write the LLRs of listed pairs (n, 2)."""
        left, right = self.left[pairs[:, 0]], self.right[pairs[:, 1]]

        def score(key: tuple[bool, Pattern]) -> AnyArray | None:
            span = self.spans.get(key)
            return None if span is None else np.einsum("nd,nd->n", left[:, span], right[:, span])

        if self.codes is None:
            out[...] = self._ratio(score, self.marginal, folded=True)
        else:
            self._known(score, out, self.codes[0][pairs[:, 0]], self.codes[1][pairs[:, 1]])

    def _known(self, score: Any, out: AnyArray, a: IntArray, b: IntArray) -> None:
        """LLRs of pairs with channels a and b, which are different (0), the same (1) or not known (2)."""
        state = np.where((a < 0) | (b < 0), 2, (a == b).astype(np.int64))
        index = (state * 3 ** np.arange(state.shape[-1])).sum(axis=-1)
        cache: dict[tuple[bool, Pattern], AnyArray | None] = {}

        def cached(key: tuple[bool, Pattern]) -> AnyArray | None:
            if key not in cache:
                cache[key] = score(key)
            values = cache[key]
            return None if values is None else values.copy()

        for code in np.unique(index):
            known = [int(code) // 3**k % 3 for k in range(state.shape[-1])]
            values = self._ratio(cached, self._log_priors(known))
            np.copyto(out, np.broadcast_to(values, out.shape), where=index == code)

    def _log_priors(self, known: list[int] | None) -> list[dict[Pattern, float]]:
        """Log prior of every possible pattern, given the same speaker and given different speakers."""
        result = []
        for column in (0, 1):
            priors = self.priors[:, column]
            if known is not None:
                priors = np.where(np.array(known, dtype=int) == 2, priors, known)
            table = {}
            for pattern in self.patterns:
                p = float(np.prod(np.where(pattern, priors, 1.0 - priors)))
                if p > 0.0:
                    table[pattern] = float(np.log(p))
            result.append(table)
        return result

    def _ratio(self, score: Any, log_priors: list[dict[Pattern, float]], folded: bool = False) -> AnyArray | float:
        """Log of the ratio of two sums over patterns; ``folded`` scores include their log priors."""
        sides = []
        for same_speaker, table in zip((True, False), log_priors, strict=True):
            terms = []
            for pattern, log_prior in table.items():
                value = score((same_speaker, pattern))
                terms.append(log_prior if value is None else value if folded else _plus(value, log_prior))
            sides.append(_log_sum_parts(terms))
        (top, top_rest), (bottom, bottom_rest) = sides
        result: Any = np.subtract(top, bottom, out=top) if isinstance(top, np.ndarray) else top - bottom
        if top_rest is not None and bottom_rest is not None:
            top_rest /= bottom_rest
            result += np.log(top_rest, out=top_rest)
        elif top_rest is not None:
            result += np.log(top_rest, out=top_rest)
        elif bottom_rest is not None:
            result -= np.log(bottom_rest, out=bottom_rest)
        ratio: AnyArray | float = result
        return ratio


def _plus(value: AnyArray, number: float) -> AnyArray:
    if number:
        value += value.dtype.type(number)
    return value


def _log_sum_parts(terms: list[AnyArray | float]) -> tuple[Any, Any]:
    """Log-sum-exp as (largest, sum of exp(term - largest)), the second None for a single term; overwrites the terms."""
    if len(terms) == 1:
        return terms[0], None
    arrays: list[AnyArray] = [term for term in terms if isinstance(term, np.ndarray)]
    numbers: list[float] = [term for term in terms if not isinstance(term, np.ndarray)]
    if not arrays:
        return float(np.logaddexp.reduce(numbers)), None
    if len(terms) == 2:
        other: Any = arrays[1] if len(arrays) == 2 else arrays[0].dtype.type(numbers[0])
        largest = np.maximum(arrays[0], other)
        rest = arrays[0]
        rest -= other
        np.abs(rest, out=rest)
        np.negative(rest, out=rest)
        np.exp(rest, out=rest)
        rest += 1
        return largest, rest
    largest = arrays[0].copy()
    for term in arrays[1:]:
        np.maximum(largest, term, out=largest)
    for number in numbers:
        np.maximum(largest, largest.dtype.type(number), out=largest)
    rest = np.zeros_like(largest)
    for term in arrays:
        term -= largest
        rest += np.exp(term, out=term)
    for number in numbers:
        rest += np.exp(largest.dtype.type(number) - largest)
    return largest, rest
