"""Joint PLDA that chooses its own settings and calibrates itself."""

import logging
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from jointplda._validation import check_number
from jointplda.calibration.affine import AffineCalibration, fit_affine
from jointplda.errors import DataWarning, FileError, InputError, warn
from jointplda.estimators.base import Model
from jointplda.estimators.checks import generator, per_condition
from jointplda.estimators.joint import JointPLDA
from jointplda.estimators.model_file import StoredModel
from jointplda.metrics import cllr, min_cllr
from jointplda.model.statistics import Statistics
from jointplda.selection.candidates import Candidate, CandidateResult
from jointplda.selection.channel_test import ChannelTest
from jointplda.selection.folds import make_folds
from jointplda.selection.search import FEW, CalibrationTrials, Design, Search, design_of, warn_of_design

logger = logging.getLogger("jointplda")
OVERCONFIDENT = 0.1  # bits of Cllr above the best
ENOUGH_TRIALS = 20_000
FITTED = (
    "mean_", "V_", "U_", "D_", "channel_ranks_", "reshaping_", "log_likelihoods_", "n_iter_", "converged_",
    "interrupted_", "plan_", "training_", "seen_", "n_features_in_",
)  # fmt: skip


@dataclass(frozen=True)
class Checked:
    """How the chosen settings did on training speakers that the models scoring them had not seen.

    Cllr is in bits, same- and cross-channel trials counting alike.

    Attributes
    ----------
    raw_cllr : float
        Of the model's own log-likelihood ratios; above 1 they are worse than none.
    calibrated_cllr : float
        After the calibration, on the trials it was fitted to.
    min_cllr : float
        After the best calibration possible.
    speakers, trials : int
    cross_channel_targets : bool
        Whether enough speakers were heard in two channels. If not, targets were moved to other channels by rule.
    """

    raw_cllr: float
    calibrated_cllr: float
    min_cllr: float
    speakers: int
    trials: int
    cross_channel_targets: bool

    @property
    def overconfident(self) -> bool:
        """Whether the raw log-likelihood ratios cost 0.1 bits more than they need."""
        return self.raw_cllr > self.min_cllr + OVERCONFIDENT


class JointPLDACV(Model):
    """Joint PLDA with settings chosen by cross-validation over training speakers, and calibrated on the same.

    Speakers are divided into folds. Every candidate is fitted to the speakers of the other folds and scores the pairs
    of those held out; the best minCllr wins, with same- and cross-channel trials counting alike. Tried are strengths of
    the priors and ranks of U, 0 (plain PLDA) among them. The scores of the held-out speakers then fit an affine
    calibration, which the model carries and applies.

    Where speakers were heard in one channel each, no trial can show what another channel does to a speaker. Then a
    permutation test asks if channels matter at all (if not, U is left out); what is found between channels is trusted
    as far as it exceeds chance (``channel_share``), the strongest shrinkage within one standard error of the best is
    taken, and the calibration is made cautious. A warning says so.

    Parameters
    ----------
    folds : int
        Folds of speakers.
    max_iter, tol, noise, noise_floor
        Of every fit, as in ``JointPLDA``. EM is stopped early on purpose: with few speakers its last small gains cost
        accuracy.
    channel_prior : float or sequence of float, optional
        As in ``JointPLDA``; default: chosen too. 0 keeps U narrow, so that more channels of training can be remembered.
    calibrate : bool
        Whether to fit a calibration.
    threads : int, optional
        Threads for the folds, each of which runs on one; default: one for each core.
    callback : callable, optional
        Called with a ``CandidateResult`` and the number tried so far, after every candidate. Ctrl-C ends the search
        with what has been tried.
    random_state : int, Generator or RandomState, optional
        Seed of the folds. With None too they are the same every time.

    Attributes
    ----------
    settings_ : dict
        Arguments of ``JointPLDA`` that were chosen.
    tried_ : tuple of CandidateResult
        Every candidate, with its results.
    design_ : Design
        How speakers and channels are crossed, and what the tests of channels found.
    calibration_ : AffineCalibration or None
    checked_ : Checked or None
        Cllr on held-out training speakers, before and after calibration.
    mean_, V_, U_, D_, channel_ranks_, log_likelihoods_, n_iter_, converged_, plan_, training_
        As in ``JointPLDA``; the model fitted to all speakers.

    Examples
    --------
    >>> import numpy as np
    >>> from jointplda import JointPLDA
    >>> rng = np.random.default_rng(0)
    >>> truth = JointPLDA.from_parameters(np.zeros(4), rng.normal(size=(4, 2)), rng.normal(size=(4, 1)), np.eye(4))
    >>> speakers, languages = np.repeat(np.arange(50), 6), np.tile(["en", "fr", "de"], 100)
    >>> X = truth.sample(speakers, channels=languages, random_state=0)
    >>> model = JointPLDACV().fit(X, speakers, channels=languages)
    >>> sorted(model.settings_)
    ['channel_prior', 'channel_rank', 'channel_share', 'noise_prior', 'speaker_prior']
    >>> model.checked_.calibrated_cllr < 0.9
    True
    """

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"channels": True}
    __metadata_request__score: ClassVar[dict[str, bool]] = {"channels": True}

    settings_: dict[str, Any]
    tried_: tuple[CandidateResult, ...]
    design_: Design
    calibration_: AffineCalibration | None
    checked_: Checked | None

    def __init__(
        self,
        folds: int = 4,
        max_iter: int = 25,
        tol: float = 1e-3,
        noise: str = "full",
        noise_floor: float = 1e-6,
        channel_prior: float | Sequence[float] | None = None,
        calibrate: bool = True,
        threads: int | None = None,
        callback: Callable[[CandidateResult, int], object] | None = None,
        random_state: Any = None,
    ) -> None:
        self.folds = folds
        self.max_iter = max_iter
        self.tol = tol
        self.noise = noise
        self.noise_floor = noise_floor
        self.channel_prior = channel_prior
        self.calibrate = calibrate
        self.threads = threads
        self.callback = callback
        self.random_state = random_state

    def fit(self, X: Any, y: Any, channels: Any = None) -> Self:
        """Choose settings, fit to all speakers, and calibrate.

        Parameters
        ----------
        X, y, channels
            As in ``JointPLDA.fit``. Without channels V and D are fitted: SPLDA with chosen shrinkage.
        """
        return self._fit_samples(X, y, channels)

    def _fit_samples(self, X: Any, y: Any, channels: Any) -> Self:
        with self._unchanged_by_errors():
            matrix = self._check_samples(X, reset=True)
            number = int(check_number("folds", self.folds, 2, whole=True))
            if not isinstance(self.calibrate, bool | np.bool_):
                raise InputError(f"calibrate must be True or False, got {self.calibrate!r:.60}.")
            if self.callback is not None and not callable(self.callback):
                raise InputError(f"callback must be a function of two arguments, got {self.callback!r:.60}.")
            if y is None:
                raise InputError(
                    "JointPLDACV requires y to be passed, but the target y is None; give every sample's speaker."
                )
            rng = generator(0 if self.random_state is None else self.random_state)
            folds = make_folds(matrix, y, channels, number, rng)
            design = design_of(folds.statistics, rng)
            plain = self._plain()
            settings = plain._settings(plain._diagonal())
            given, conditions = self.channel_prior, len(folds.statistics.conditions)
            priors = None if given is None else per_condition("channel_prior", given, conditions, 0.0, 1e9)
            search = Search(folds, design, settings, rng, self.callback, priors, self.threads)
            best = search.run()
            self.design_, self.tried_ = design, tuple(search.tried.values())
            self._set_model(best.candidate, folds.statistics)
            self._set_calibration(search, best.candidate)
            warn_of_design(design, folds.statistics)
            if search.interrupted:
                warn(f"The search was interrupted; chosen among the {len(self.tried_)} candidate(s) tried so far.")
            return self

    def fit_statistics(self, statistics: Statistics) -> Self:
        """Not possible: pairs of held-out samples are needed."""
        raise InputError(
            "JointPLDACV scores pairs of held-out samples, so statistics are not enough: use fit, or "
            "JointPLDA.fit_statistics with settings of your own."
        )

    def _fixed(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("max_iter", "tol", "noise", "noise_floor")}

    def _plain(self, candidate: Candidate | None = None) -> JointPLDA:
        return JointPLDA(**self._fixed(), **({} if candidate is None else candidate.settings()))

    def _set_model(self, candidate: Candidate, statistics: Statistics) -> None:
        """Fit the candidate to all speakers, and take over what it found."""
        model = self._plain(candidate)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            for known in ("No channels were given", ".*are constant"):  # harmless with a prior
                warnings.filterwarnings("ignore", known, DataWarning)
            model.fit_statistics(statistics)
        for name in FITTED:
            setattr(self, name, getattr(model, name))
        self.settings_ = candidate.settings()

    def _set_calibration(self, search: Search, candidate: Candidate) -> None:
        """Fit the calibration to the pairs of held-out speakers, and say what it was good for."""
        trials = search.calibration_trials(candidate)
        scores, target, weights, _ = trials
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            doubt = 1.0 / (search.folds.speakers + 2)
            if not search.design.confounded and search.folds.speakers >= FEW:
                doubt = min((0.0, doubt), key=lambda share: _cost_of_doubt(trials, share))
            fitted = fit_affine(scores, target, weights=weights, doubt=doubt)
        found = fitted if fitted.scale > 0 else None
        if found is None:
            warn("Held-out speakers score no higher with themselves than with others: the model is not calibrated.")
        after = scores if found is None else found.apply(scores)
        self.calibration_ = found if self.calibrate else None
        self.checked_ = Checked(
            raw_cllr=cllr(scores, target, weights),
            calibrated_cllr=cllr(after, target, weights),
            min_cllr=min_cllr(scores, target, weights),
            speakers=search.folds.speakers,
            trials=len(target),
            cross_channel_targets=not search.design.confounded,
        )
        said = (
            f"Cllr of held-out training speakers: {self.checked_.raw_cllr:.3g} bits raw, "
            f"{self.checked_.calibrated_cllr:.3g} calibrated, {self.checked_.min_cllr:.3g} at best"
        )
        logger.info("%s", said)
        if not self.calibrate and self.checked_.overconfident:
            warn(f"The log-likelihood ratios are overconfident ({said}). Leave calibrate=True, or calibrate scores.")

    def chosen(self) -> JointPLDA:
        """The fitted model as a plain ``JointPLDA`` with the settings that were chosen, and its calibration."""
        check_is_fitted(self)
        model = JointPLDA(**self._fixed(), **self.settings_)
        for name in (*FITTED, "calibration_", "feature_names_in_"):
            if hasattr(self, name):
                setattr(model, name, getattr(self, name))
        return model

    @classmethod
    def _from_stored(cls, stored: StoredModel, path: Any) -> Self:
        model = super()._from_stored(stored, path)
        try:
            model.tried_ = tuple(_tried(one) for one in stored.attributes["tried_"])
            design = stored.attributes["design_"]
            tests = tuple(None if test is None else ChannelTest(**test) for test in design["tests"])
            model.design_ = Design(tuple(design["crossed"]), tests)
            model.checked_ = Checked(**stored.attributes["checked_"])
        except (KeyError, TypeError) as error:
            raise FileError(f"{path}: lacks some of what was tried when its settings were chosen ({error}).") from None
        return model

    @classmethod
    def from_parameters(cls, *args: Any, **kwargs: Any) -> Self:
        """Not possible: use ``JointPLDA.from_parameters``."""
        raise InputError("JointPLDACV chooses its settings from data; use JointPLDA.from_parameters.")

    def _diagonal(self) -> bool:
        return self._plain()._diagonal()

    def _prepared(self, statistics: Statistics) -> tuple[Statistics, tuple[int, ...]]:
        return JointPLDA(**self._fixed(), noise_prior=1.0, speaker_prior=1.0)._prepared(statistics)

    def _channels_are_shared(self) -> bool:
        return True


def _cost_of_doubt(trials: CalibrationTrials, doubt: float) -> float:
    """Cllr of every fold after a calibration fitted, with such a doubt, to the others; mean over folds.

    Of many trials all targets are taken, and a part of the non-targets.
    """
    costs = []
    others = np.flatnonzero(~trials.target)
    thinned = others[:: 1 + len(others) // ENOUGH_TRIALS]
    scores, target, weights, fold = (
        each[np.sort(np.concatenate([np.flatnonzero(trials.target), thinned]))] for each in trials
    )
    for i in np.unique(fold):
        rest, own = fold != i, fold == i
        fitted = fit_affine(scores[rest], target[rest], weights=weights[rest], doubt=doubt)
        costs.append(cllr(fitted.apply(scores[own]), target[own], weights[own]))
    return float(np.mean(costs))


def _tried(stored: dict[str, Any]) -> CandidateResult:
    candidate = stored["candidate"]
    ranks, shares = tuple(candidate["channel_ranks"]), tuple(candidate["channel_shares"])
    priors = tuple(candidate.get("channel_priors", (0.0,) * len(ranks)))  # older files have none
    return CandidateResult(
        Candidate(candidate["noise_prior"], candidate["speaker_prior"], ranks, shares, priors),
        tuple(stored["min_cllrs"]),
        tuple(stored["cllrs"]),
        stored["seconds"],
        stored["chosen"],
    )
