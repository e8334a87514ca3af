"""Contents of a report page: small arrays and texts, ready to be drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from jointplda._typing import Array, IntArray
from jointplda.metrics.measure_kind import Estimate, Measure
from jointplda.selection.candidates import CandidateResult


@dataclass(frozen=True)
class Curve:
    """Points (x, y) in drawing order; infinite ones are drawn at the edge of the plot."""

    x: Array
    y: Array


@dataclass(frozen=True)
class OperatingPoint:
    """A target prior, and the error rates at its best and at its actual threshold."""

    prior: float
    best: tuple[float, float]
    """(P_fa, P_miss) at the threshold that minimises the cost."""
    actual: tuple[float, float] | None
    """(P_fa, P_miss) at the Bayes threshold; None for scores that are not log-likelihood ratios (cosine)."""


@dataclass(frozen=True)
class Distribution:
    """Histogram of the scores of a trial type: densities between ``edges``, and shares of scores below and above."""

    edges: Array
    density: Array
    below: float
    above: float
    count: int


@dataclass(frozen=True)
class Channels:
    """Positions of the channels of one condition: posterior means of U x along the principal axes of U.

    Parameters
    ----------
    condition : str
        Name of the condition, such as "transmission".
    names : sequence of str, length c
    at : ndarray, shape (c, 2)
        First two coordinates, along the left singular vectors of U, in the units of the embeddings.
    counts : ndarray of int, shape (c,)
        Number of training samples of each channel.
    shares : tuple of float
        Share of U U' that each of the two axes carries.
    """

    condition: str
    names: Sequence[str]
    at: Array
    counts: IntArray
    shares: tuple[float, float]


@dataclass(frozen=True)
class Training:
    """How a model was trained by EM.

    Parameters
    ----------
    objective : ndarray, shape (iterations,)
        The objective of EM in nats per sample: log-likelihood, or log-posterior with priors.
    objective_name : str
    converged : bool
    singular_values : dict of str to ndarray
        Singular values of "V" and of each "U" ("U (language)" where there are several), largest first.
    variance_shares : dict of str to float
        Shares of the variance of the speaker, each condition, the interaction and the noise; empty if not known.
    channels : sequence of Channels
    attempts : sequence of CandidateResult
        Candidates of an automatic choice of settings, in the order they were evaluated.
    """

    objective: Array
    objective_name: str
    converged: bool
    singular_values: Mapping[str, Array]
    variance_shares: Mapping[str, float] = field(default_factory=dict)
    channels: Sequence[Channels] = ()
    attempts: Sequence[CandidateResult] = ()


@dataclass(frozen=True)
class System:
    """One system's results.

    Parameters
    ----------
    name : str
    metrics : dict of str to dict of Measure to Estimate
        By part of the trials, then by measure. Parts are "pooled", the pairs of trial types (``metrics.TYPE_PAIRS``),
        then any "column = value". A measure that cannot be computed is absent.
    counts : dict of str to tuple of int
        Numbers of targets and of non-targets of each part.
    det : dict of str to Curve
        DET curves by part; x is P_fa, y is P_miss.
    points : sequence of OperatingPoint
        Operating points on the pooled curve.
    histograms : dict of str to Distribution
        By the names in ``metrics.TRIAL_TYPES``; only "target" and "non-target" where channels are not known.
    tippett : dict of str to Curve
        Shares of targets ("target") and of non-targets ("non-target") with a score of at least x.
    pav : Curve
        x is the score, y its log-likelihood ratio after pool-adjacent-violators, which may be infinite at the ends.
    is_llr : bool
        False for scores that are not log-likelihood ratios, such as cosines: no Cllr, no actual DCF.
    description : str
        One line that says what was trained.
    training : Training or None
    """

    name: str
    metrics: Mapping[str, Mapping[Measure, Estimate]]
    counts: Mapping[str, tuple[int, int]]
    det: Mapping[str, Curve]
    points: Sequence[OperatingPoint]
    histograms: Mapping[str, Distribution]
    tippett: Mapping[str, Curve]
    pav: Curve
    is_llr: bool = True
    description: str = ""
    training: Training | None = None

    def estimate(self, part: str, measure: Measure) -> Estimate:
        """A figure of a part; NaN where it is absent."""
        return self.metrics.get(part, {}).get(measure, Estimate(float("nan")))


@dataclass(frozen=True)
class Page:
    """A whole report.

    Parameters
    ----------
    title, summary : str
        The heading, and a sentence or two below it (plain text).
    systems : sequence of System
        Systems in the order to be shown; the last is the one that the page is about.
    facts : sequence of (str, str)
        Name and value: files, numbers of trials and speakers, draws, version.
    channel : str
        The condition that makes the types of trials, such as "transmission"; empty where channels are not known.
    interval : str
        Kind of the intervals, such as "90 %, 1,000 draws of 40 speakers"; empty where there are none.
    """

    title: str
    summary: str
    systems: Sequence[System]
    facts: Sequence[tuple[str, str]] = ()
    channel: str = ""
    interval: str = ""
