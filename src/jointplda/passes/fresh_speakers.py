"""The strength of the priors, and the calibration, by speakers from whom nothing was learned.

Strengths of priors are relative to the data, and a sample of speakers needs stronger ones than all of them. So what a
search on the sample chose is looked at once more, with models of all speakers but a few: those who make the trials.
"""

import time
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from jointplda._typing import Array, BoolArray
from jointplda.calibration.affine import AffineCalibration
from jointplda.metrics import cllr, min_cllr
from jointplda.model.fit import FitMemory, fit
from jointplda.model.settings import ModelSettings
from jointplda.model.statistics import Statistics
from jointplda.passes.census import Census
from jointplda.passes.sources import LabelledChunk
from jointplda.passes.speaker_sample import drawn_speakers
from jointplda.preprocessing.front_ends import applied
from jointplda.selection.candidates import LADDER, CandidateResult, best_strength
from jointplda.selection.fold_trials import MOST_SAMPLES, type_weights
from jointplda.selection.folds import Split, make_folds
from jointplda.selection.held_out_calibration import CalibrationTrials, calibrate_held_out
from jointplda.selection.search import Selection, pair_scores

GROUPS = 4  # of speakers, whose samples are paired within each
LEAST_SPEAKERS = 8  # in a group
MOST = 0.05  # of all samples, since what these speakers have is not trained on


def fresh_speakers(census: Census, sampled: BoolArray, rng: np.random.Generator) -> BoolArray:
    """Mask (S,) of speakers outside a sample, with several samples each, for trials; of nobody if there are too few."""
    among = ~sampled & (census.counts > 1)
    rows = min(GROUPS * MOST_SAMPLES, int(MOST * census.n_samples))
    chosen = drawn_speakers(census, rows, rng, among)
    return chosen if np.count_nonzero(chosen) >= GROUPS * LEAST_SPEAKERS else np.zeros_like(chosen)


@dataclass(frozen=True)
class FreshTrials:
    """Pairs of samples of speakers whom no model knows, in groups.

    Attributes
    ----------
    splits : tuple of Split
        The rows of each group, and its pairs.
    X : tuple of (m, d)
        The samples of each group after the front end.
    speakers : int
    """

    splits: tuple[Split, ...]
    X: tuple[Array, ...]
    speakers: int

    @classmethod
    def of(cls, samples: LabelledChunk, steps: tuple[Any, ...], groups: int, rng: np.random.Generator) -> "FreshTrials":
        """Divide the speakers of samples, whose numbers their labels are, among groups."""
        channels = samples.channels if samples.channels.names else None
        folds = make_folds(samples.X, samples.speakers, channels, groups, rng)
        X = [np.asarray(applied(steps, folds.matrix[split.held_out]), dtype=np.float64) for split in folds.splits]
        return cls(folds.splits, tuple(X), folds.speakers)


@dataclass
class SecondLook:
    """Strengths of priors tried on fresh trials, with models of the same ``statistics``."""

    statistics: Statistics
    trials: FreshTrials
    front_end: str
    results: dict[int, CandidateResult] = field(default_factory=dict)
    scores: dict[int, list[Array]] = field(default_factory=dict)
    memory: FitMemory = field(default_factory=FitMemory)

    def chosen(
        self, settings: ModelSettings, before: Selection
    ) -> tuple[ModelSettings, AffineCalibration | None, Selection]:
        """Settings with the best strength of the priors of noise and speaker, a calibration, and all that was tried.

        Both priors become weaker or stronger together, from those of ``settings``, until the best has worse neighbours,
        or until an interrupt, which the first attempt alone hands on.
        """
        try:
            self._climb(settings)
        except KeyboardInterrupt:
            if not self.results:
                raise
        at = self._best()
        calibration, held_out = calibrate_held_out(self._trials(at), self.trials.speakers, confounded=False)
        tried = [replace(result, chosen=False) for result in before.candidates]
        tried += [replace(result, chosen=step == at) for step, result in self.results.items()]
        return self.results[at].candidate, calibration, Selection(tuple(tried), before.design, held_out, before.stretch)

    def _climb(self, settings: ModelSettings) -> None:
        """Attempt weaker and stronger priors until the best has worse neighbours."""
        places = [LADDER.index(strength) for strength in _strengths(settings)]
        possible = set(range(-min(places), len(LADDER) - max(places)))
        untried = {-1, 0, 1} & possible
        while untried:
            for step in sorted(untried):
                self._attempt(settings, step)
            at = self._best()
            untried = {at - 1, at + 1} & possible - self.results.keys()

    def _best(self) -> int:
        """The step whose result is to be kept."""
        best = best_strength(list(self.results.values()), by_cllr=True)
        return next(step for step, result in self.results.items() if result is best)

    def _attempt(self, settings: ModelSettings, step: int) -> None:
        """Fit a model whose priors are so many steps of the ladder stronger, and score the trials."""
        began = time.perf_counter()
        noise, speaker = (LADDER[LADDER.index(strength) + step] for strength in _strengths(settings))
        candidate = replace(settings, noise_prior=noise, speaker_prior=speaker)
        fitted = fit(self.statistics, candidate, memory=self.memory)
        if fitted.trace.interrupted:
            raise KeyboardInterrupt
        scores, criteria, costs = [], [], []
        for split, X in zip(self.trials.splits, self.trials.X, strict=True):
            pairs = split.pairs
            values, weights = pair_scores(fitted, X, pairs.rows), type_weights(pairs.target, pairs.same_channel)
            scores.append(values)
            criteria.append(min_cllr(values, pairs.target, weights))
            costs.append(cllr(values, pairs.target, weights))
        seconds = time.perf_counter() - began
        self.scores[step] = scores
        self.results[step] = CandidateResult(
            candidate, tuple(criteria), tuple(costs), seconds, front_end=self.front_end
        )

    def _trials(self, step: int) -> CalibrationTrials:
        pairs = [split.pairs for split in self.trials.splits]
        target = np.concatenate([one.target for one in pairs])
        weights = type_weights(target, np.concatenate([one.same_channel for one in pairs]))
        groups = np.repeat(np.arange(len(pairs)), [len(one.target) for one in pairs])
        return CalibrationTrials(np.concatenate(self.scores[step]), target, weights, groups)


def _strengths(settings: ModelSettings) -> tuple[float, float]:
    return settings.noise_prior, settings.speaker_prior
