"""Results of one system: all measures, pooled, by types of trials and by condition, with intervals."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jointplda._typing import Array, BoolArray, IntArray
from jointplda.errors import InputError, warn
from jointplda.labels import encode
from jointplda.metrics._checks import as_trials
from jointplda.metrics.measure_kind import Estimate, Measure
from jointplda.metrics.measures import PRIORS, Measures, measure
from jointplda.metrics.speaker_bootstrap import bootstrap, speaker_codes
from jointplda.metrics.trial_types import type_pairs
from jointplda.progress import ProgressCallback

POOLED = "pooled"
MOST_CONDITIONS = 50


@dataclass(frozen=True)
class Part:
    """Results on a part of the trials, with the numbers of its ``targets`` and ``nontargets``.

    ``measures`` are None where one of both is missing; ``estimates`` hold every figure with its interval.
    """

    measures: Measures | None
    estimates: Mapping[Measure, Estimate]
    targets: int
    nontargets: int

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """Lower and upper end of every interval, by the names of ``Measures.named``; empty without draws."""
        return {str(kind): (each.low, each.high) for kind, each in self.estimates.items() if not np.isnan(each.low)}


@dataclass(frozen=True)
class Evaluation:
    """One system's trials and results.

    Parameters
    ----------
    scores : ndarray, shape (n,)
    target : ndarray of bool, shape (n,)
    same_channel : ndarray of int8, shape (n,), or None
        1 where both sides of a trial share their channel, 0 where they do not, -1 where it is not known.
    parts : dict of str to Part
        "pooled", the pairs of trial types ("same / same", ...), then "column = value".
    is_llr : bool
        Whether the scores are log-likelihood ratios.
    draws, speakers : int
        Number of bootstrap draws, and of speakers drawn from; 0 without intervals.
    level : float
        Coverage of the intervals.
    """

    scores: Array
    target: BoolArray
    same_channel: NDArray[np.int8] | None
    parts: Mapping[str, Part]
    is_llr: bool
    draws: int
    speakers: int
    level: float

    @property
    def pooled(self) -> Part:
        """Results on all trials."""
        return self.parts[POOLED]


@dataclass(frozen=True)
class Coded:
    """One label per trial, as a position in a short list of names; -1 where there is no label."""

    codes: NDArray[np.int64]
    names: Sequence[str]

    @classmethod
    def of(cls, labels: Any, what: str) -> "Coded":
        """Codes of labels (n,); labels that are coded already are returned as they are."""
        if isinstance(labels, Coded):
            return labels
        codes, levels = encode(labels, what=what)
        return cls(codes, [str(level) for level in levels])


@dataclass(frozen=True)
class EvaluationSettings:
    """Settings of an evaluation: those of ``metrics.bootstrap``, and no intervals with 0 draws."""

    draws: int = 1000
    level: float = 0.9
    priors: Sequence[float] = PRIORS
    is_llr: bool = True
    seed: int = 0


@dataclass(frozen=True)
class TrialSides:
    """What is known of both sides of each trial.

    Parameters
    ----------
    enroll_speakers, test_speakers : array-like, shape (n,), or None
        Speakers of both sides, for intervals. Integers from 0 on are fastest.
    same_channel : array-like of int, shape (n,), or None
        1 where both sides share their channel, 0 where they do not, -1 where it is not known.
    conditions : dict of str to Coded or array-like, each of shape (n,)
        Further labels of trials; each value makes a part of its own. An empty string is no value.
    """

    enroll_speakers: Any = None
    test_speakers: Any = None
    same_channel: Any = None
    conditions: Mapping[str, Any] = field(default_factory=dict)


def evaluate(
    scores: ArrayLike,
    target: ArrayLike,
    sides: TrialSides | None = None,
    settings: EvaluationSettings | None = None,
    callback: ProgressCallback | None = None,
) -> Evaluation:
    """Measure scored trials, pooled and in parts.

    ``scores`` (n,) are natural-log likelihood ratios, unless the settings say otherwise, and ``target`` (n,) is True
    for targets. ``sides`` has the speakers for intervals, the channels for types of trials, and conditions. As draws
    are done, ``callback`` is called with a ``Progress`` of stage "bootstrap, <part>".
    """
    values, mask = as_trials(scores, target)
    if np.median(values[mask]) < np.median(values[~mask]):
        warn(
            "the median score of targets is below that of non-targets. Check the key, and that higher scores mean the "
            "same speaker.",
            parameter="scores",
        )
    sides, settings = sides or TrialSides(), settings or EvaluationSettings()
    same = None if sides.same_channel is None else np.asarray(sides.same_channel, dtype=np.int8)
    if same is not None and same.shape != mask.shape:
        raise InputError(
            f"expected one value for each of the {len(mask):,} scores, got shape {same.shape}.",
            parameter="same_channel",
        )
    drawn = settings.draws if sides.enroll_speakers is not None and sides.test_speakers is not None else 0
    speakers = speaker_codes(sides.enroll_speakers, sides.test_speakers, len(mask))[:2] if drawn else None
    parts, most = {}, 0
    for name, chosen in _members(mask, same, sides.conditions):
        pairs = None if speakers is None else (speakers[0][chosen], speakers[1][chosen])
        parts[name], count = _part(name, values[chosen], mask[chosen], pairs, settings, callback)
        most = max(most, count)
    return Evaluation(values, mask, same, parts, settings.is_llr, drawn, most, settings.level)


def _part(
    name: str,
    scores: Array,
    target: BoolArray,
    pairs: tuple[IntArray, IntArray] | None,
    settings: EvaluationSettings,
    callback: ProgressCallback | None,
) -> tuple[Part, int]:
    """Results on one part, and the number of speakers drawn from; without intervals where speakers are not known.

    ``callback`` is told of the part beside the stage.
    """
    targets = int(np.count_nonzero(target))
    nontargets = len(target) - targets
    if not targets or not nontargets:
        return Part(None, {}, targets, nontargets), 0
    measures = measure(scores, target, settings.priors, is_llr=settings.is_llr)
    intervals, count = {}, 0
    if pairs is not None:
        report = None if callback is None else lambda step: callback(replace(step, stage=f"{step.stage}, {name}"))
        result = bootstrap(scores, target, *pairs, **vars(settings), callback=report)
        intervals, count = {kind: result.interval(kind) for kind in result.draws}, result.speakers
    estimates = {kind: Estimate(value, *intervals.get(kind, ())) for kind, value in measures.figures().items()}
    return Part(measures, estimates, targets, nontargets), count


def _members(
    target: BoolArray, same: NDArray[np.int8] | None, conditions: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """The name of each part, and an index of its trials."""
    yield POOLED, slice(None)
    if same is not None:
        for name, members in type_pairs(target, same == 1).items():
            yield name, members & (same >= 0)
    for column, labels in conditions.items():
        coded = Coded.of(labels, column)
        if coded.codes.shape != target.shape:
            raise InputError(
                f"expected one label of {column!r} for each of the {len(target):,} scores, got {coded.codes.shape}.",
                parameter="conditions",
            )
        counts = np.bincount(coded.codes[coded.codes >= 0], minlength=len(coded.names))
        for code in np.sort(np.argsort(-counts, kind="stable")[:MOST_CONDITIONS]):
            if counts[code]:
                yield f"{column} = {coded.names[code]}", coded.codes == code
