"""PLDA without channel labels as a scikit-learn estimator."""

from typing import Any, Self

from jointplda._validation import check_choice
from jointplda.errors import InputError
from jointplda.estimators.base import BasePLDA
from jointplda.model.fitted import FittedModel
from jointplda.model.setting_checks import checked_settings
from jointplda.model.settings import RULES, ModelSettings
from jointplda.model.statistics import Statistics
from jointplda.progress import ProgressCallback


class PLDA(BasePLDA):
    """PLDA without channel labels: SPLDA, or the paper's eq. 1.

    ``channel_rank=0``: m = mean + V y_speaker + e with full D (SPLDA, the two-covariance model).
    ``channel_rank>0``: m = mean + V y_speaker + U x_sample + e, one x per sample, with diagonal D.

    Parameters
    ----------
    channel_rank : int
        Rx, the number of columns of U.
    noise : {"auto", "full", "diagonal"}
        Noise covariance; "auto" is full without U and diagonal with U, which a full noise covariance would make
        superfluous.
    speaker_rank, max_iter, tol, noise_prior, speaker_prior, noise_floor, warm_start, callback
        As in ``JointPLDA``.

    Attributes
    ----------
    mean_, V_, U_, D_, log_likelihoods_, n_iter_, converged_
        As in ``JointPLDA``.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> truth = PLDA.from_parameters(np.zeros(3), rng.normal(size=(3, 2)), None, np.eye(3))
    >>> X = truth.sample(np.repeat(np.arange(40), 5), random_state=0)
    >>> PLDA(speaker_rank=2).fit(X, np.repeat(np.arange(40), 5)).V_.shape
    (3, 2)
    """

    def __init__(
        self,
        *,
        speaker_rank: int | None = None,
        channel_rank: int = 0,
        noise: str = "auto",
        max_iter: int = 100,
        tol: float = 1e-6,
        noise_prior: float = 0.0,
        speaker_prior: float = 0.0,
        noise_floor: float = 1e-6,
        warm_start: bool = False,
        callback: ProgressCallback | None = None,
    ) -> None:
        self.speaker_rank = speaker_rank
        self.channel_rank = channel_rank
        self.noise = noise
        self.max_iter = max_iter
        self.tol = tol
        self.noise_prior = noise_prior
        self.speaker_prior = speaker_prior
        self.noise_floor = noise_floor
        self.warm_start = warm_start
        self.callback = callback

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to embeddings X (n, d) of speakers y (n,)."""
        return self._fit_samples(X, y, None)

    def _settings(self) -> ModelSettings:
        noise = check_choice("noise", self.noise, ("auto", "full", "diagonal"))
        noise = noise if noise != "auto" else "diagonal" if self.channel_rank else "full"
        values = {name: getattr(self, name) for name in RULES if hasattr(self, name)}
        ranks = (self.channel_rank,) if self.channel_rank else ()
        return checked_settings({**values, "noise": noise, "channel_rank": ranks})

    def _of_model(self, statistics: Statistics) -> Statistics:
        return statistics.with_channel_per_sample() if self.channel_rank else statistics.without_channels()

    def _take(self, fitted: FittedModel) -> None:
        super()._take(fitted.with_channel_per_sample() if fitted.channels_shared else fitted)

    def _set_channel_rank(self, ranks: tuple[int, ...]) -> None:
        if len(ranks) > 1:
            raise InputError("PLDA has one U at most; use JointPLDA for several conditions.")
        self.set_params(channel_rank=ranks[0] if ranks else 0)
