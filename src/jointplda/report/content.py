"""What a report page shows: small arrays and texts, ready to be drawn. Nothing here is computed from scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

CELLS = ("same target", "cross target", "same non-target", "cross non-target")
"""Trials by truth, and by whether both sides share a channel."""


@dataclass(frozen=True)
class Value:
    """A figure and its interval; ``low`` and ``high`` are NaN where none was computed."""

    value: float
    low: float = float("nan")
    high: float = float("nan")


@dataclass(frozen=True)
class Curve:
    """Points (x, y) in drawing order; may hold infinities (drawn at the edge of the plot)."""

    x: Array
    y: Array


@dataclass(frozen=True)
class OperatingPoint:
    """A prior of targets, and where on the DET plane its best and its actual threshold fall."""

    prior: float
    best: tuple[float, float]
    """(P_fa, P_miss) at the threshold that minimises the cost."""
    actual: tuple[float, float] | None
    """(P_fa, P_miss) at the Bayes threshold; None for scores that are not log-likelihood ratios (cosine)."""


@dataclass(frozen=True)
class Distribution:
    """Histogram of one cell's scores: density between ``edges``; ``below`` and ``above`` are shares outside them."""

    edges: Array
    density: Array
    below: float
    above: float
    count: int


@dataclass(frozen=True)
class Channels:
    """Where each channel of one condition sits: posterior mean of x, turned to U's principal axes.

    Parameters
    ----------
    condition : str
        Its name, such as "transmission".
    names : sequence of str, length c
    at : ndarray, shape (c, 2)
        First two coordinates, in the units of the embedding space (U x along U's left singular vectors).
    counts : ndarray of int, shape (c,)
        Training samples of each channel.
    shares : tuple of float
        Share of U U' that each of the two axes carries.
    """

    condition: str
    names: Sequence[str]
    at: Array
    counts: NDArray[np.int64]
    shares: tuple[float, float]


@dataclass(frozen=True)
class Attempt:
    """Settings that were tried on held-out training speakers.

    Parameters
    ----------
    name : str
    value, error : float
        The criterion, and its standard error over folds; lower is better.
    chosen : bool
    """

    name: str
    value: float
    error: float
    chosen: bool


@dataclass(frozen=True)
class Training:
    """How a model came about, for systems that were trained by EM.

    Parameters
    ----------
    objective : ndarray, shape (iterations,)
        What EM maximised, in nats per sample (log-likelihood, or log-posterior with priors).
    objective_name : str
    converged : bool
    singular_values : dict of str to ndarray
        Of "V" and of each condition's U, largest first ("V", "U", or "U (language)").
    channels : sequence of Channels
    attempts : sequence of Attempt
        For settings that were chosen automatically, in the order they were tried.
    """

    objective: Array
    objective_name: str
    converged: bool
    singular_values: Mapping[str, Array]
    channels: Sequence[Channels] = ()
    attempts: Sequence[Attempt] = ()


@dataclass(frozen=True)
class System:
    """One system's results.

    Parameters
    ----------
    name : str
    metrics : dict of str to dict of str to Value
        By part of the trials, then by metric. Parts: "pooled", then "target x non-target" cells
        ("same / same", "cross / same", "same / cross", "cross / cross": channel of targets / channel of non-targets),
        then any "column = value". Metrics: "EER" (a share, 0-1), "minDCF(0.05)", "actDCF(0.05)", ...,
        "Cllr", "minCllr", "calibration loss". A metric that cannot be computed is absent.
    counts : dict of str to tuple of int
        (targets, non-targets) of each part.
    det : dict of str to Curve
        By part ("pooled", "cross / same", ...): x is P_fa, y is P_miss, thinned steps of the ROC.
    points : sequence of OperatingPoint
        On the pooled curve.
    cells : dict of str to Distribution
        By the names in ``CELLS``; only "target" and "non-target" where channels are not known.
    tippett : dict of str to Curve
        "target": share of targets with LLR >= x; "non-target": share of non-targets with LLR >= x.
    pav : Curve
        x the score as given, y the score that pool-adjacent-violators makes of it (may be infinite at both ends).
    is_llr : bool
        False for scores that are not log-likelihood ratios, such as cosines: no Cllr, no actual DCF.
    description : str
        One line: how it was trained.
    training : Training or None
    """

    name: str
    metrics: Mapping[str, Mapping[str, Value]]
    counts: Mapping[str, tuple[int, int]]
    det: Mapping[str, Curve]
    points: Sequence[OperatingPoint]
    cells: Mapping[str, Distribution]
    tippett: Mapping[str, Curve]
    pav: Curve
    is_llr: bool = True
    description: str = ""
    training: Training | None = None


@dataclass(frozen=True)
class Page:
    """A whole report.

    Parameters
    ----------
    title, summary : str
        The heading, and a sentence or two below it (plain text).
    systems : sequence of System
        In the order to be shown; the last is the one the page is about.
    facts : sequence of (str, str)
        Name and value: files, numbers of trials and speakers, draws, version.
    channel : str
        What the cells' "same" and "cross" refer to, such as "transmission"; empty where channels are not known.
    interval : str
        What the intervals are, such as "90 %, 1,000 draws of 40 speakers"; empty where there are none.
    """

    title: str
    summary: str
    systems: Sequence[System]
    facts: Sequence[tuple[str, str]] = ()
    channel: str = ""
    interval: str = ""
    notes: Sequence[str] = field(default_factory=tuple)
