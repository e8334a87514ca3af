"""Candidates of the search: what they are, how they did, which is better, and what lies next to one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

LADDER = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


@dataclass(frozen=True)
class Candidate:
    """Settings to try.

    Attributes
    ----------
    noise_prior, speaker_prior : float
        As in ``JointPLDA``.
    channel_ranks : tuple of int
        Rank of U of each condition.
    channel_shares : tuple of float
        Share of what is found between the channels of each condition that is left to them.
    channel_priors : tuple of float
        Strength with which U of each condition is shrunk.
    """

    noise_prior: float
    speaker_prior: float
    channel_ranks: tuple[int, ...]
    channel_shares: tuple[float, ...]
    channel_priors: tuple[float, ...]

    def settings(self) -> dict[str, Any]:
        """The same as arguments of ``JointPLDA``."""
        chosen: dict[str, Any] = {"noise_prior": self.noise_prior, "speaker_prior": self.speaker_prior}
        if self.channel_ranks:
            chosen |= {
                "channel_rank": list(self.channel_ranks),
                "channel_share": list(self.channel_shares),
                "channel_prior": list(self.channel_priors),
            }
        return chosen


@dataclass(frozen=True)
class CandidateResult:
    """How a candidate did on the speakers held out.

    Attributes
    ----------
    candidate : Candidate
    min_cllrs : tuple of float
        The criterion in each fold: minCllr in bits, same- and cross-channel trials counting alike.
    cllrs : tuple of float
        Cllr of the raw log-likelihood ratios of the same trials. (``JointPLDACV.checked_`` has it over all folds at
        once, with the moved targets that a calibration may need.)
    seconds : float
    chosen : bool
    """

    candidate: Candidate
    min_cllrs: tuple[float, ...]
    cllrs: tuple[float, ...]
    seconds: float
    chosen: bool = False

    @property
    def criterion(self) -> float:
        """Mean of the folds."""
        return float(np.mean(self.min_cllrs))

    @property
    def error(self) -> float:
        """Standard error of that mean over folds."""
        return float(np.std(self.min_cllrs, ddof=1) / np.sqrt(len(self.min_cllrs)))


def strongest(tried: Sequence[CandidateResult]) -> CandidateResult:
    """The last of these, in order of strength, that is within one standard error of the best."""
    best = min(tried, key=lambda one: one.criterion)
    return [one for one in tried if not worse(one, best)][-1]


def worse(one: CandidateResult, other: CandidateResult) -> bool:
    """Whether ``one`` is worse by more than one standard error of the difference over folds."""
    difference = np.subtract(one.min_cllrs, other.min_cllrs)
    error = float(np.std(difference, ddof=1) / np.sqrt(len(difference)))
    return bool(difference.mean() > error + 1e-12)


def changed_ranks(candidate: Candidate) -> Sequence[Candidate]:
    """Half the columns of U, and none, of each condition in turn."""
    found = []
    for k, rank in enumerate(candidate.channel_ranks):
        for fewer in dict.fromkeys((rank // 2, 0)):
            if fewer < rank:
                ranks = _with(candidate.channel_ranks, k, fewer)
                priors = candidate.channel_priors if fewer else _with(candidate.channel_priors, k, 0.0)
                found.append(replace(candidate, channel_ranks=ranks, channel_priors=priors))
    return found


def changed_priors(candidate: Candidate) -> Sequence[Candidate]:
    """One of the priors of noise and speaker stronger or weaker by half an order of magnitude."""
    return [
        *(replace(candidate, noise_prior=s) for s in neighbours(candidate.noise_prior)),
        *(replace(candidate, speaker_prior=s) for s in neighbours(candidate.speaker_prior)),
    ]


def changed_channel_priors(candidate: Candidate) -> Sequence[Candidate]:
    """The prior of one U stronger or weaker by half an order of magnitude."""
    return [
        replace(candidate, channel_priors=_with(candidate.channel_priors, k, s))
        for k, strength in enumerate(candidate.channel_priors)
        if strength
        for s in neighbours(strength)
    ]


def _with(values: tuple[Any, ...], k: int, value: Any) -> tuple[Any, ...]:
    """The same values with another in place k."""
    return (*values[:k], value, *values[k + 1 :])


def neighbours(strength: float) -> list[float]:
    """The strengths above and below on the ladder."""
    at = LADDER.index(strength)
    return [LADDER[i] for i in (at - 1, at + 1) if 0 <= i < len(LADDER)]
