"""Results of one system: all measures, pooled, in the four cells and by condition, with intervals."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jointplda._typing import Array, BoolArray
from jointplda.errors import InputError, warn
from jointplda.labels import encode
from jointplda.metrics._checks import as_trials
from jointplda.metrics.cells import CELL_PARTS, cell_parts
from jointplda.metrics.measures import PRIORS, Measures, measure
from jointplda.metrics.speaker_bootstrap import bootstrap, speaker_codes

POOLED = "pooled"
MOST_CONDITIONS = 50
IntArray = NDArray[np.int64]
Progress = Callable[[str, int, int], object]


@dataclass(frozen=True)
class Part:
    """Some of the trials and what they give.

    Parameters
    ----------
    measures : Measures or None
        None where the part lacks targets or non-targets.
    intervals : dict of str to (float, float)
        By the names of ``Measures.named``; empty if no draws were made.
    targets, nontargets : int
    """

    measures: Measures | None
    intervals: Mapping[str, tuple[float, float]]
    targets: int
    nontargets: int


@dataclass(frozen=True)
class Evaluation:
    """One system's trials and results.

    Parameters
    ----------
    scores : ndarray, shape (n,)
    target : ndarray of bool, shape (n,)
    same_channel : ndarray of int8, shape (n,), or None
        1 same, 0 cross, -1 not known.
    parts : dict of str to Part
        "pooled", the cells ("same / same", ...), then "column = value".
    is_llr : bool
    draws, speakers : int
        How many draws, of how many speakers; 0 without intervals.
    level : float
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
        """All trials."""
        return self.parts[POOLED]


@dataclass(frozen=True)
class Coded:
    """One label per trial, as a position in a short list of names.

    Parameters
    ----------
    codes : ndarray of int, shape (n,)
        -1 where there is no label.
    names : sequence of str
    """

    codes: NDArray[np.int64]
    names: Sequence[str]

    @classmethod
    def of(cls, labels: Any, what: str) -> "Coded":
        """Codes of labels (n,); what is coded already stays as it is."""
        if isinstance(labels, Coded):
            return labels
        codes, levels = encode(labels, what=what)
        return cls(codes, [str(level) for level in levels])


@dataclass(frozen=True)
class EvaluationSettings:
    """How to measure.

    Parameters
    ----------
    draws : int
        Bootstrap draws; 0 for no intervals.
    level : float
        Coverage of the intervals.
    priors : sequence of float
        Target priors of the detection costs.
    is_llr : bool
        False for scores such as cosines.
    seed : int
    """

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
        Needed for intervals. Whole numbers from 0 are quickest.
    same_channel : array-like of int, shape (n,), or None
        1 where both sides share their channel, 0 where they do not, -1 where it is not known.
    conditions : dict of str to Coded or array-like, each of shape (n,)
        Further labels of trials, each value a part of its own; empty text is no value.
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
    callback: Progress | None = None,
) -> Evaluation:
    """Measure scored trials, pooled and in parts.

    Parameters
    ----------
    scores : array-like, shape (n,)
        Natural-log likelihood ratios.
    target : array-like of bool, shape (n,)
    sides : TrialSides, optional
        Speakers (for intervals), channels (for the cells) and conditions.
    settings : EvaluationSettings, optional
    callback : callable, optional
        Called with (part, draws done, draws).

    Returns
    -------
    Evaluation
    """
    values, mask = as_trials(scores, target)
    if np.median(values[mask]) < np.median(values[~mask]):
        warn("targets score lower than non-targets in the middle: do higher scores mean the same speaker?")
    sides, settings = sides or TrialSides(), settings or EvaluationSettings()
    same = None if sides.same_channel is None else np.asarray(sides.same_channel, dtype=np.int8)
    if same is not None and same.shape != mask.shape:
        raise InputError(f"same_channel should have one value for each of the {len(mask):,} scores, got {same.shape}.")
    drawn = settings.draws if sides.enroll_speakers is not None and sides.test_speakers is not None else 0
    speakers = speaker_codes(sides.enroll_speakers, sides.test_speakers, len(mask))[:2] if drawn else None
    measured = _Measurer(values, mask, speakers, settings, drawn, callback)
    parts = {name: measured.part(name, members) for name, members in _members(mask, same, sides.conditions)}
    return Evaluation(values, mask, same, parts, settings.is_llr, drawn, measured.speakers, settings.level)


@dataclass
class _Measurer:
    """Measures one part after the other."""

    scores: Array
    target: BoolArray
    pairs: tuple[IntArray, IntArray] | None
    settings: EvaluationSettings
    draws: int
    callback: Progress | None
    speakers: int = 0

    def part(self, name: str, members: BoolArray | None) -> Part:
        """The trials of one part; all of them where ``members`` is None."""
        chosen: Any = slice(None) if members is None else members
        scores, target = self.scores[chosen], self.target[chosen]
        targets = int(np.count_nonzero(target))
        nontargets = len(target) - targets
        if not targets or not nontargets:
            return Part(None, {}, targets, nontargets)
        found = measure(scores, target, self.settings.priors, is_llr=self.settings.is_llr)
        return Part(found, self._intervals(name, scores, target, chosen), targets, nontargets)

    def _intervals(self, name: str, scores: Array, target: BoolArray, chosen: Any) -> dict[str, tuple[float, float]]:
        if self.pairs is None:
            return {}
        result = bootstrap(
            scores,
            target,
            self.pairs[0][chosen],
            self.pairs[1][chosen],
            draws=self.draws,
            level=self.settings.level,
            priors=self.settings.priors,
            is_llr=self.settings.is_llr,
            seed=self.settings.seed,
            callback=None if self.callback is None else lambda done, of: self._report(name, done, of),
        )
        self.speakers = max(self.speakers, result.speakers)
        return {measure_name: result.interval(measure_name) for measure_name in result.draws}

    def _report(self, name: str, done: int, of: int) -> None:
        if self.callback is not None:
            self.callback(name, done, of)


def _members(
    target: BoolArray, same: NDArray[np.int8] | None, conditions: Mapping[str, Any]
) -> Iterator[tuple[str, BoolArray | None]]:
    """Each part's name and its trials; None for all of them."""
    yield POOLED, None
    if same is not None:
        known = same >= 0
        cells = cell_parts(target, same == 1)
        for name in CELL_PARTS:
            yield name, cells[name] & known
    for column, labels in conditions.items():
        coded = Coded.of(labels, column)
        if coded.codes.shape != target.shape:
            raise InputError(f"{column!r} should have one label for each of the {len(target):,} scores.")
        counts = np.bincount(coded.codes[coded.codes >= 0], minlength=len(coded.names))
        for code in np.sort(np.argsort(-counts, kind="stable")[:MOST_CONDITIONS]):
            if counts[code]:
                yield f"{column} = {coded.names[code]}", coded.codes == code
