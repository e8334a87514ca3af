"""The search for settings: candidates are tried on held-out speakers, one is chosen, and all are recorded."""

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from jointplda._parallel import in_pieces
from jointplda._typing import Array, IntArray
from jointplda.errors import InputError
from jointplda.metrics import cllr, min_cllr
from jointplda.model.fitted import FittedModel
from jointplda.model.resolve import default_channel_ranks
from jointplda.model.settings import ModelSettings
from jointplda.preprocessing.front_ends import FrontEnd
from jointplda.progress import Progress, ProgressCallback
from jointplda.scoring.pairs import PairModel, PairScorer, PreparedSide
from jointplda.selection.budget import SECONDS, Budget
from jointplda.selection.candidates import (
    CandidateResult,
    best_strength,
    changed_settings,
    neighbours,
    strongest,
    with_value,
    worse,
)
from jointplda.selection.design import Design
from jointplda.selection.fold_trials import type_weights
from jointplda.selection.folds import Folds, Recipe, moved_samples, other_channels
from jointplda.selection.held_out_calibration import CalibrationTrials, HeldOutCllr

logger = logging.getLogger("jointplda")

FIRST_STRENGTHS = (0.3, 1.0, 3.0)
CONFOUNDED_STRENGTHS = (1.0, 3.0, 10.0, 30.0)
FORMS: tuple[float | str, ...] = ("proportional", "full", 0.0)
CONFOUNDED_FORMS: tuple[float | str, ...] = ("split", "proportional")
MAX_CELL_SIZES = 3
CHANNEL_PRIOR = 1.0
SHIFT_IF_CHANNELS_MATTER, SHIFT_ELSE = 2.0, 1.0
SAME_CHANNEL = 0.5
ERRORS_OF_FRONT_END = 2.0
TOO_EASY, MOST_STRETCH = 0.01, 64.0  # minCllr in bits, and a factor


class Search:
    """A search over candidates, which keeps the results of all of them.

    The first of the ``front_ends`` stays unless another is clearly better. ``base`` has the settings that are not
    searched. ``channel_priors`` are strengths of the priors of U, and ``interaction`` the form of the interaction, if
    they are not to be chosen. Folds run on ``threads`` threads. ``budget`` is in seconds (see ``budget``).
    """

    def __init__(
        self,
        folds: Folds,
        front_ends: tuple[FrontEnd, ...],
        design: Design,
        base: ModelSettings,
        rng: np.random.Generator,
        callback: ProgressCallback | None = None,
        channel_priors: tuple[float, ...] | None = None,
        interaction: float | str | None = None,
        threads: int | None = None,
        budget: float = SECONDS,
    ) -> None:
        self.folds, self.front_ends, self.design, self.base = folds, front_ends, design, base
        self.callback, self.channel_priors, self.threads = callback, channel_priors, threads
        self.statistics = folds.whole(front_ends[0]).statistics
        self.budget = Budget(self.statistics, len(folds.splits), budget)
        forms = CONFOUNDED_FORMS if design.confounded else FORMS
        cells = [part.cells for part in self.statistics.parts.values() if part.cells is not None]
        sizes = {size for of_part in cells for size in np.unique(of_part.counts).tolist()}
        if len(sizes) > MAX_CELL_SIZES:  # memory grows with the square of their number
            forms = tuple(form for form in forms if form != "full")
        self.forms = forms if interaction is None else (interaction,)
        self.tried: dict[Recipe, CandidateResult] = {}
        self.interrupted, self.stretch = False, 1.0
        self._move(rng)

    def _move(self, rng: np.random.Generator) -> None:
        """Draw channels to which samples are moved if speakers and channels are confounded.

        Target pairs are then scored once more with one sample moved by the difference of the channel means, doubled if
        channels matter. They stand for cross-channel targets, of which there are too few.
        """
        tests = [(k, test) for k, test in enumerate(self.design.tests) if test is not None]
        self.moved_condition, test = max(tests, key=lambda numbered: numbered[1].matters, default=(0, None))
        self.distance = SHIFT_IF_CHANNELS_MATTER if test is not None and test.matters else SHIFT_ELSE
        self.moved_to: list[IntArray] = []
        self.moved_rows = [np.zeros((0, 2), dtype=np.int64) for _ in self.folds.splits]
        if test is not None:
            for i, split in enumerate(self.folds.splits):
                self.moved_to.append(other_channels(self.folds, i, self.moved_condition, rng))
                self.moved_rows[i] = split.pairs.rows[split.pairs.target]

    def run(self) -> Recipe:
        """Try the candidates that the design calls for, and choose."""
        try:
            best = self._widened(self._refined(self._before(self._strength())))
        except KeyboardInterrupt:
            if not self.tried:
                raise
            self.interrupted = True
            best = min(self.tried.values(), key=_criterion)
        chosen = next(recipe for recipe, result in self.tried.items() if result is best)
        self.tried[chosen] = replace(best, chosen=True)
        return chosen

    def _strength(self) -> CandidateResult:
        """Choose one strength for the priors of the noise and of the speaker.

        If speakers and channels are crossed, stronger and weaker priors are tried until the best has worse neighbours.
        If they are confounded, no trial shows how a channel changes a speaker, which shrinkage protects from: the
        strongest within one standard error of the best is taken, among strong priors only.

        Trials so easy that the criterion rests on a handful of them, or on none, are made harder first, for all
        candidates alike: held-out samples are moved to twice, four times ... their distance from their speaker's mean.
        """
        ranks, shares = default_channel_ranks(self.statistics), self.design.shares()
        ranks = tuple(rank if share else 0 for rank, share in zip(ranks, shares, strict=True))
        strengths = self.channel_priors or (CHANNEL_PRIOR,) * len(ranks)
        priors = tuple(prior if rank else 0.0 for rank, prior in zip(ranks, strengths, strict=True))
        form = self.forms[0] if any(ranks) else 0.0
        start = replace(self.base, channel_rank=ranks, channel_share=shares, channel_prior=priors, interaction=form)
        start = replace(start, channel_rank=self.budget.first_ranks(start, confounded=self.design.confounded))
        first = self.front_ends[0]
        while self.stretch < MOST_STRETCH and self._attempts(first, start, [1.0])[1.0].criterion < TOO_EASY:
            self.stretch *= 2.0
            self.tried.clear()
        if self.design.confounded:
            return strongest(list(self._attempts(first, start, CONFOUNDED_STRENGTHS).values()))
        return self._climbed(first, start, FIRST_STRENGTHS)

    def _attempts(
        self, front_end: FrontEnd, start: ModelSettings, strengths: Iterable[float]
    ) -> dict[float, CandidateResult]:
        """Results of priors of the noise and of the speaker that have the same strength."""
        settings = {s: replace(start, noise_prior=s, speaker_prior=s) for s in strengths}
        return {s: self.attempt(front_end, candidate) for s, candidate in settings.items()}

    def _climbed(self, front_end: FrontEnd, start: ModelSettings, strengths: Iterable[float]) -> CandidateResult:
        """The best strength: from the first ones to weaker and stronger ones, until the best has worse neighbours."""
        done = self._attempts(front_end, start, strengths)
        while True:
            best = best_strength(list(done.values()), by_cllr=self.stretch == 1.0)
            untried = [s for s in neighbours(best.candidate.noise_prior) if s not in done]
            if not untried:
                return best
            done |= self._attempts(front_end, start, untried)

    def _before(self, best: CandidateResult) -> CandidateResult:
        """Try other front ends in turn, and take one if it is better by two standard errors.

        Priors have the strength chosen for the first, and others where that already is better by one. Trials that were
        made harder cannot judge a front end that learns from the speakers: it undoes what was stretched.
        """
        strength = best.candidate.noise_prior
        for front_end in self.front_ends[1:]:
            if self.stretch > 1.0 and front_end.supervised:
                continue
            try:
                found = self._attempts(front_end, best.candidate, [strength])[strength]
            except InputError as error:
                logger.info("front end %s is not tried: %s", front_end.name, error)
                continue
            if not self.design.confounded and worse(best, found):
                found = self._climbed(front_end, best.candidate, [strength])
            best = found if worse(best, found, ERRORS_OF_FRONT_END) else best
        return best

    def _refined(self, best: CandidateResult) -> CandidateResult:
        """Try changes of one setting each, the cheapest first, and keep what is clearly better."""
        options = {"confounded": self.design.confounded, "channel_priors": self.channel_priors is None}
        changed, self.budget.front_end = changed_settings(best.candidate, self.forms, **options), best.front_end
        for candidate in sorted(changed, key=self.budget.candidate):
            if self.budget.allows(candidate):
                result = self.attempt(self._front_end(best), candidate)
                best = result if worse(best, result) else best
        return best

    def _widened(self, best: CandidateResult) -> CandidateResult:
        """Double the columns of each U that started with fewer than its channels support, while that is better.

        The prior of a narrow U is chosen anew at every width, since it gives U the columns that it lacks. Where fewer
        columns won, twice those of the start are still tried once: one column may do worse than none, and ten better.
        """
        if self.design.confounded:
            return best
        first = next(iter(self.tried.values())).candidate.channel_rank
        for k, most in enumerate(default_channel_ranks(self.statistics)):
            base = best
            if best.candidate.channel_rank[k] < first[k]:
                same = [one for one in self.tried.values() if one.front_end == best.front_end]
                base = min((one for one in same if one.candidate.channel_rank[k] == first[k]), key=_criterion)
            while 0 < (rank := base.candidate.channel_rank[k]) < most:
                base = self._with_prior(base, k)
                best = base if worse(best, base) else best
                ranks = with_value(base.candidate.channel_rank, k, min(2 * rank, most))
                candidate = replace(base.candidate, channel_rank=ranks)
                if not self.budget.allows(candidate, candidate.max_iter):
                    break
                result = self._with_prior(self.attempt(self._front_end(best), candidate), k)
                if not worse(best, result):
                    break
                best = base = result
        return best

    def _with_prior(self, best: CandidateResult, k: int) -> CandidateResult:
        """The best prior of the U of condition k, by steps while they are better; they take no fits."""
        while self.channel_priors is None:
            priors = best.candidate.channel_prior
            steps = [replace(best.candidate, channel_prior=with_value(priors, k, s)) for s in neighbours(priors[k])]
            result = min((self.attempt(self._front_end(best), one) for one in steps), key=_criterion)
            if not worse(best, result):
                break
            best = result
        return best

    def _front_end(self, result: CandidateResult) -> FrontEnd:
        return next(one for one in self.front_ends if one.name == result.front_end)

    def attempt(self, front_end: FrontEnd, candidate: ModelSettings) -> CandidateResult:
        """Fit a candidate to the speakers of all other folds and score those of each, unless this was done before."""
        recipe, self.budget.front_end = Recipe(front_end, candidate), front_end.name
        if recipe not in self.tried:
            began = time.perf_counter()
            number = len(self.folds.splits)
            criteria, costs = [0.0] * number, [0.0] * number

            def work(piece: slice) -> None:
                for i in range(piece.start, piece.stop):
                    pairs = self.folds.splits[i].pairs
                    values = self._scores(recipe, i, self.stretch)[: len(pairs.target)]
                    weights = type_weights(pairs.target, pairs.same_channel)
                    criteria[i] = min_cllr(values, pairs.target, weights)
                    costs[i] = cllr(values, pairs.target, weights)

            in_pieces(work, number, 1, self.threads)
            seconds = time.perf_counter() - began
            self.budget.spend(candidate)
            result = CandidateResult(candidate, tuple(criteria), tuple(costs), seconds, front_end=front_end.name)
            self.tried[recipe] = result
            if self.callback is not None:
                self.callback(Progress("settings", len(self.tried), None, result))
        return self.tried[recipe]

    def _scores(self, recipe: Recipe, i: int, stretch: float) -> Array:
        """Raw log-likelihood ratios of all pairs of a fold, and of its moved targets, averaged over channels."""
        fold, rows = self.folds.fold(recipe.front_end, i), self.folds.splits[i].pairs.rows
        fold.memory.goes_on = not self.design.confounded
        fitted = fold.fitted(recipe.settings)
        if fitted.trace.interrupted:
            raise KeyboardInterrupt
        model, priors = PairModel.of(fitted.scored), _priors(fitted)
        X = self.folds.stretched(fold, i, stretch)
        side = model.side(X, threads=1)
        scores = [_matrix(side, side, priors)[*rows.T]]
        if len(self.moved_rows[i]):
            to, condition = self.moved_to[i], self.moved_condition
            moved = moved_samples(self.folds, fold, i, condition, to, self.distance, X)
            scores.append(_matrix(side, model.side(moved, threads=1), priors)[*self.moved_rows[i].T])
        return np.concatenate(scores)

    def calibration_trials(self, recipe: Recipe) -> CalibrationTrials:
        """The held-out pairs of all folds, and the moved targets, with the scores of a recipe.

        They are computed again, since the folds remember its fits.
        """
        target, same, fold_of, scores = [], [], [], []
        for i, (split, rows) in enumerate(zip(self.folds.splits, self.moved_rows, strict=True)):
            scores.append(self._scores(recipe, i, 1.0))
            target += [split.pairs.target, np.ones(len(rows), dtype=bool)]
            same += [split.pairs.same_channel, np.zeros(len(rows), dtype=bool)]
            fold_of.append(np.full(len(split.pairs.target) + len(rows), i))
        targets = np.concatenate(target)
        weights = type_weights(targets, np.concatenate(same))
        return CalibrationTrials(np.concatenate(scores), targets, weights, np.concatenate(fold_of))


def pair_scores(fitted: FittedModel, X: Array, rows: IntArray) -> Array:
    """Raw log-likelihood ratios of pairs of samples X (n, d), whose rows (m, 2) are given, averaged over channels."""
    side = PairModel.of(fitted.scored).side(X, threads=1)
    scores: Array = _matrix(side, side, _priors(fitted))[*rows.T]
    return scores


def _priors(fitted: FittedModel) -> Array:
    return np.full((len(fitted.conditions_used), 2), SAME_CHANNEL)


def _criterion(result: CandidateResult) -> float:
    return result.criterion


def _matrix(left: PreparedSide, right: PreparedSide, priors: Array) -> Array:
    """Log-likelihood ratios of every sample of one side against every sample of the other."""
    scores = np.empty((len(left), len(right)))
    PairScorer(left, right, priors).fill(slice(None), slice(None), scores)
    return scores


@dataclass(frozen=True)
class Selection:
    """A finished search.

    Attributes
    ----------
    candidates : tuple of CandidateResult
        All candidates in the order in which they were tried; one of them is chosen.
    design : Design
        How speakers and channels are crossed in training.
    held_out : HeldOutCllr
        Cllr on held-out training speakers, before and after calibration.
    stretch : float
        How many times as far from the mean of their speaker the held-out samples were moved to compare candidates, 1 if
        the trials were hard enough as they are.
    """

    candidates: tuple[CandidateResult, ...]
    design: Design
    held_out: HeldOutCllr
    stretch: float = 1.0

    @cached_property
    def best_index(self) -> int:
        """Position of the chosen candidate."""
        return next(i for i, result in enumerate(self.candidates) if result.chosen)

    @property
    def chosen(self) -> CandidateResult:
        """The candidate that was chosen."""
        return self.candidates[self.best_index]

    def results(self) -> dict[str, Any]:
        """Columns with one entry per candidate, as in scikit-learn's ``cv_results_``.

        ``test_score`` is -minCllr in bits, so that greater is better; ``cllr`` is that of raw scores. EM of a candidate
        starts where that of an earlier one ended, so a fit from scratch may differ in the third digit.
        """
        params = [result.candidate.searched for result in self.candidates]
        names = list(dict.fromkeys(name for settings in params for name in settings))
        scores = -np.array([result.min_cllrs for result in self.candidates])
        means = scores.mean(axis=1)
        return {
            "params": params,
            "front_end": [result.front_end for result in self.candidates],
            **{f"param_{name}": _objects([settings.get(name) for settings in params]) for name in names},
            **{f"split{i}_test_score": column for i, column in enumerate(scores.T)},
            "mean_test_score": means,
            "std_test_score": scores.std(axis=1),
            "rank_test_score": np.array([1 + int(np.sum(means > mean)) for mean in means]),
            "mean_cllr": np.array([result.cllrs for result in self.candidates]).mean(axis=1),
            "fit_time": np.array([result.seconds for result in self.candidates]),
            "chosen": np.array([result.chosen for result in self.candidates]),
        }


def _objects(values: list[Any]) -> Any:
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column
