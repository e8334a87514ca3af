"""Candidates of the search for settings: their results, their comparison, and their neighbours."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jointplda.model.settings import ModelSettings

LADDER = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


@dataclass(frozen=True)
class CandidateResult:
    """The result of a candidate on held-out speakers.

    Attributes
    ----------
    candidate : ModelSettings
    min_cllrs : tuple of float
        The criterion in each fold: minCllr in bits, where same- and cross-channel trials have equal weight.
    cllrs : tuple of float
        Cllr of the raw log-likelihood ratios of the same trials.
    seconds : float
        Time that the fits and scores took.
    chosen : bool
        Whether the search chose this candidate.
    front_end : str
        Name of the front end before the model.
    """

    candidate: ModelSettings
    min_cllrs: tuple[float, ...]
    cllrs: tuple[float, ...]
    seconds: float
    chosen: bool = False
    front_end: str = ""

    @property
    def criterion(self) -> float:
        """Mean of minCllr over folds."""
        return float(np.mean(self.min_cllrs))

    @property
    def error(self) -> float:
        """Standard error of this mean."""
        return _standard_error(self.min_cllrs)

    @property
    def cllr(self) -> float:
        """Mean of Cllr over folds."""
        return float(np.mean(self.cllrs))


def _standard_error(values: Any) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def strongest(results: Sequence[CandidateResult]) -> CandidateResult:
    """The one-standard-error rule: the last result, in order of strength, within one standard error of the best."""
    best = min(results, key=lambda result: result.criterion)
    return [result for result in results if not worse(result, best)][-1]


def best_strength(results: Sequence[CandidateResult], *, by_cllr: bool) -> CandidateResult:
    """The result to keep among priors of several strengths.

    minCllr sees ranks alone, and is noisy where there are few errors. So among results within one standard error of the
    lowest minCllr Cllr decides (if ``by_cllr``), and among those within one standard error of that the strength nearest
    to 1, so that a tie never ends in an extreme prior.
    """
    lowest = min(results, key=lambda result: result.criterion)
    close = [result for result in results if not worse(result, lowest)]
    if by_cllr:
        lowest = min(close, key=lambda result: result.cllr)
        close = [result for result in close if not _above(result.cllrs, lowest.cllrs)]
    return min(close, key=lambda result: (abs(math.log(result.candidate.noise_prior)), result.criterion))


def worse(result: CandidateResult, other: CandidateResult, errors: float = 1.0) -> bool:
    """Whether a result is worse than another by more than so many standard errors of their difference over folds."""
    return _above(result.min_cllrs, other.min_cllrs, errors)


def _above(values: Sequence[float], others: Sequence[float], errors: float = 1.0) -> bool:
    difference = np.subtract(values, others)
    return bool(difference.mean() > errors * _standard_error(difference) + 1e-12)


def changed_settings(
    start: ModelSettings, forms: Sequence[float | str], *, confounded: bool, channel_priors: bool
) -> list[ModelSettings]:
    """Candidates with one other setting each.

    In turn the interaction has another form, scores count on it less, each condition has half the columns of U or none,
    and the prior of each U (only if ``channel_priors``), of the noise and of the speaker is weaker or stronger. Where
    speakers and channels are ``confounded``, no trial shows what scores should count on: then only the form changes.
    """
    others = [form for form in forms if form != start.interaction and any(start.channel_rank)]
    changed = [replace(start, interaction=form) for form in others]
    if confounded:
        return changed
    changed += [replace(start, cell_share=share) for share in ((0.5, 0.0) if start.interaction else ())]
    for k, rank in enumerate(start.channel_rank):
        for fewer in dict.fromkeys((rank // 2, 0)):
            if fewer < rank:
                ranks = with_value(start.channel_rank, k, fewer)
                priors = start.channel_prior if fewer else with_value(start.channel_prior, k, 0.0)
                form = start.interaction if any(ranks) else 0.0
                changed.append(replace(start, channel_rank=ranks, channel_prior=priors, interaction=form))
    for k, strength in enumerate(start.channel_prior if channel_priors else ()):
        weaker_and_stronger = neighbours(strength) if strength else ()
        changed += [replace(start, channel_prior=with_value(start.channel_prior, k, s)) for s in weaker_and_stronger]
    changed += [replace(start, noise_prior=s) for s in neighbours(start.noise_prior)]
    return changed + [replace(start, speaker_prior=s) for s in neighbours(start.speaker_prior)]


def with_value(values: tuple[Any, ...], k: int, value: Any) -> tuple[Any, ...]:
    """The same values with another value at position k."""
    return (*values[:k], value, *values[k + 1 :])


def neighbours(strength: float) -> list[float]:
    """The next weaker and the next stronger prior, about half an order of magnitude apart."""
    at = LADDER.index(strength)
    return [LADDER[i] for i in (at - 1, at + 1) if 0 <= i < len(LADDER)]
