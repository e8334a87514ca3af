"""Joint PLDA that chooses its own settings and calibrates itself."""

import logging
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from jointplda._validation import check_number
from jointplda.calibration.affine import AffineCalibration
from jointplda.errors import InputError, MildWarning, warn
from jointplda.estimators.base import ModelEstimator
from jointplda.estimators.estimator_checks import (
    check_callback,
    checked_training,
    generator,
    unchanged_by_errors,
)
from jointplda.estimators.fit_warnings import FROM_PRIOR, warn_of_design
from jointplda.estimators.joint import JointPLDA
from jointplda.estimators.model_file import ModelDescription, described_steps, restored_steps
from jointplda.estimators.pipeline import Pipeline, make_pipeline
from jointplda.model.fitted import FittedModel
from jointplda.model.plan import READING, Plan
from jointplda.model.resolve import default_channel_ranks, resolve
from jointplda.model.setting_checks import checked_settings, per_condition
from jointplda.model.settings import ModelSettings
from jointplda.model.statistics import Statistics
from jointplda.preprocessing.front_ends import applied, front_ends_of
from jointplda.progress import ProgressCallback
from jointplda.scoring.scorer import Scorer
from jointplda.selection.budget import SECONDS, Budget
from jointplda.selection.candidates import CandidateResult
from jointplda.selection.design import Design, design_of
from jointplda.selection.folds import Recipe, Whole, make_folds
from jointplda.selection.held_out_calibration import HeldOutCllr, calibrate_held_out
from jointplda.selection.search import Search, Selection

logger = logging.getLogger("jointplda")


class Choice(NamedTuple):
    """What held-out speakers decided, a recipe and a calibration, and what its front end makes of all samples."""

    recipe: Recipe
    calibration: AffineCalibration | None
    whole: Whole


class JointPLDACV(ModelEstimator):
    """Joint PLDA with settings chosen, and scores calibrated, by cross-validation over training speakers.

    The speakers are divided into folds. Every candidate is fitted to the speakers of the other folds and scores the
    pairs of those held out; the candidate of lowest minCllr is chosen, where same- and cross-channel trials have equal
    weight. Candidates differ in the strengths of the priors, in the interaction of speaker and channel, and in the rank
    of U, which may be 0 (PLDA). An affine calibration is then fitted to the scores of the held-out speakers, and the
    model applies it.

    If speakers were heard in one channel each, channels and speakers are confounded, and no trial shows how a channel
    changes a speaker. A permutation test then decides if channels matter at all (if not, U is left out), the variance
    between channels is left to them as far as it exceeds chance (``channel_share``), the one-standard-error rule
    chooses the strength of the priors, and the calibration is cautious. A warning says so.

    Parameters
    ----------
    front_end : "auto", "none", or a pipeline or list of steps that are not fitted
        What comes before the model, fitted without the speakers who are held out. "auto" centres, scales to length one
        and reduces by PCA to 150 dimensions if the data support it; it also tries this without length normalisation,
        and with features scaled or whitened before it, and takes one of them if it is better by two standard errors.
        ``score`` is the log-likelihood of what the front end makes of samples: it does not compare front ends, as
        ``best_score_`` does.
    cv : int, scikit-learn splitter, or iterable of (train, test) rows
        Number of folds among which the speakers are divided at random; or splits in which no speaker is on both
        sides, such as ``GroupKFold(5)``, whose groups are the speakers.
    max_iter, tol, noise, noise_floor, solver
        As in ``JointPLDA``, for every fit. The defaults stop EM early, since with few speakers its last small gains
        cost accuracy.
    channel_prior : float or sequence of float, optional
        As in ``JointPLDA``; default: chosen with the other settings.
    interaction : float or str, optional
        As in ``JointPLDA``; default: chosen with the other settings. 0 is the paper's model.
    calibrate : bool
        Whether to calibrate scores.
    budget : float
        Seconds that the fits of the search may take on a processor that does 2e10 operations a second, as estimated
        beforehand. Where many channels would take more, U starts with fewer columns, and more are tried at the end as
        far as the budget goes; a warning says what was left out.
    n_jobs : int
        Number of folds that are fitted at the same time, on threads; -1 is one per core.
    callback : callable, optional
        Called after every candidate with a ``jointplda.Progress`` whose detail is a ``CandidateResult``. Ctrl-C ends
        the search and keeps the best candidate so far.
    random_state : int, Generator or RandomState, optional
        Seed of the folds; None is a fixed seed.

    Attributes
    ----------
    best_estimator_ : Pipeline
        The front end, and a JointPLDA with the chosen settings, fitted to all speakers and calibrated.
    best_params_, best_score_, best_index_, n_splits_, cv_results_, candidates_
        The search, as in scikit-learn; each is explained where it is defined.
    design_, held_out_cllr_, calibration_
        The design of the training data, and the calibration.

    Examples
    --------
    >>> import numpy as np
    >>> from jointplda import JointPLDA
    >>> rng = np.random.default_rng(0)
    >>> truth = JointPLDA.from_parameters(np.zeros(4), rng.normal(size=(4, 2)), rng.normal(size=(4, 1)), np.eye(4))
    >>> speakers, languages = np.repeat(np.arange(50), 6), np.tile(["en", "fr", "de"], 100)
    >>> X = truth.sample(speakers, channels=languages, random_state=0)
    >>> model = JointPLDACV().fit(X, speakers, channels=languages)
    >>> sorted(model.best_params_)
    ['cell_share', 'channel_prior', 'channel_rank', 'channel_share', 'interaction', 'noise_prior', 'speaker_prior']
    >>> model.held_out_cllr_.calibrated_cllr < 0.9
    True
    """

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"channels": True}
    __metadata_request__score: ClassVar[dict[str, bool]] = {"channels": True}

    holds_out_speakers: ClassVar[bool] = True
    best_estimator_: Pipeline

    def __init__(
        self,
        *,
        front_end: Any = "auto",
        cv: Any = 4,
        max_iter: int = 25,
        tol: float = 1e-3,
        noise: str = "full",
        noise_floor: float = 1e-6,
        solver: str = "auto",
        channel_prior: float | Sequence[float] | None = None,
        interaction: float | str | None = None,
        calibrate: bool = True,
        budget: float = SECONDS,
        n_jobs: int | None = -1,
        callback: ProgressCallback | None = None,
        random_state: Any = None,
    ) -> None:
        self.front_end = front_end
        self.cv = cv
        self.max_iter = max_iter
        self.tol = tol
        self.noise = noise
        self.noise_floor = noise_floor
        self.solver = solver
        self.channel_prior = channel_prior
        self.interaction = interaction
        self.calibrate = calibrate
        self.budget = budget
        self.n_jobs = n_jobs
        self.callback = callback
        self.random_state = random_state

    def fit(self, X: Any, y: Any, channels: Any = None) -> Self:
        """Choose settings, fit to all speakers, and calibrate.

        The parameters are as in ``JointPLDA.fit``. Without channels this is SPLDA with chosen shrinkage.
        """
        with unchanged_by_errors(self):
            recipe, calibration, whole = self._choose(X, y, channels)
            return self._fit_choice(recipe.settings, calibration, whole)

    def _choose(self, X: Any, y: Any, channels: Any) -> "Choice":
        """Choose settings and a calibration by what held-out speakers of these samples show."""
        matrix = checked_training(self, X, y)
        if not isinstance(self.calibrate, bool | np.bool_):
            raise InputError(f"expected True or False, got {self.calibrate!r:.60}.", parameter="calibrate")
        check_callback(self.callback)
        rng = generator(0 if self.random_state is None else self.random_state)
        folds = make_folds(matrix, y, channels, self.cv, rng)
        fewest = min(len(split.training) for split in folds.splits)
        size = (len(matrix), matrix.shape[1], len(folds.labels[0]), fewest)
        front_ends = tuple(front_end.sized(*size) for front_end in front_ends_of(self.front_end))
        statistics = folds.whole(front_ends[0]).statistics
        design = design_of(statistics, rng)
        priors = None
        if self.channel_prior is not None:
            priors = per_condition("channel_prior", self.channel_prior, len(statistics.conditions))
        search = Search(
            folds, front_ends, design, self._settings(), rng,
            self.callback, priors, self.interaction, self._threads(), check_number("budget", self.budget, 1.0),
        )  # fmt: skip
        best = search.run()
        calibration, checked = calibrate_held_out(
            search.calibration_trials(best), folds.speakers, confounded=design.confounded
        )
        self.selection_ = Selection(tuple(search.tried.values()), design, checked, search.stretch)
        self._warn(calibration, design, statistics, interrupted=search.interrupted)
        search.budget.warn(best.settings)
        return Choice(best, calibration, folds.whole(best.front_end))

    def _fit_choice(self, settings: ModelSettings, calibration: AffineCalibration | None, whole: Whole) -> Self:
        """Fit the chosen settings to what the front end makes of all samples."""
        model = self._fitted_to_all(settings, whole.statistics, confounded=self.design_.confounded)
        model = model.with_calibration(calibration if self.calibrate else None)
        self.best_estimator_ = make_pipeline(*whole.steps, model)
        return self

    def _fitted_to_all(self, candidate: ModelSettings, statistics: Statistics, *, confounded: bool) -> JointPLDA:
        model = JointPLDA(**self._fixed(), **candidate.searched)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", MildWarning)
            if confounded:
                warnings.filterwarnings("ignore", f".*{FROM_PRIOR}")  # warn_of_design says so
            return model.fit_statistics(statistics)

    def _warn(
        self, calibration: AffineCalibration | None, design: Design, statistics: Statistics, *, interrupted: bool
    ) -> None:
        if calibration is None:
            warn("Held-out targets score no higher than held-out non-targets: the model is not calibrated.")
        logger.info("%s", self.held_out_cllr_)
        if not self.calibrate and self.held_out_cllr_.overconfident:
            what = f"The log-likelihood ratios are overconfident ({self.held_out_cllr_})"
            warn(f"{what}. Let the model calibrate its scores.")
        warn_of_design(design, statistics)
        if interrupted:
            warn(f"The search was interrupted: the best of {len(self.candidates_)} candidate(s) so far is kept.")

    def _settings(self) -> ModelSettings:
        """The settings that are not searched; raises if one of all is out of its range."""
        if self.interaction is not None:
            checked_settings({"interaction": self.interaction})
        return checked_settings(self._fixed())

    def _fixed(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("max_iter", "tol", "noise", "noise_floor", "solver")}

    def _threads(self) -> int:
        try:
            return int(effective_n_jobs(self.n_jobs))
        except (TypeError, ValueError):
            problem = f"expected a whole number other than 0, got {self.n_jobs!r:.60}."
            raise InputError(problem, parameter="n_jobs") from None

    @property
    def best_params_(self) -> dict[str, Any]:
        """The chosen settings of ``JointPLDA``."""
        return self.selection_.chosen.candidate.searched

    @property
    def best_score_(self) -> float:
        """-minCllr of the chosen candidate on held-out speakers, in bits."""
        return -self.selection_.chosen.criterion

    @property
    def best_index_(self) -> int:
        """Position of the chosen candidate in ``cv_results_``."""
        return self.selection_.best_index

    @property
    def n_splits_(self) -> int:
        """Number of folds."""
        return len(self.selection_.chosen.min_cllrs)

    @property
    def cv_results_(self) -> dict[str, Any]:
        """One entry per candidate in every column, as in scikit-learn's searches; usable as a DataFrame."""
        return self.selection_.results()

    @property
    def candidates_(self) -> tuple[CandidateResult, ...]:
        """Every candidate that was tried, with its results."""
        return self.selection_.candidates

    @property
    def design_(self) -> Design:
        """How speakers and channels are crossed, and the results of the tests of channels."""
        return self.selection_.design

    @property
    def held_out_cllr_(self) -> HeldOutCllr:
        """Cllr on held-out training speakers, before and after calibration."""
        return self.selection_.held_out

    @property
    def calibration_(self) -> AffineCalibration | None:
        """The calibration of scores, if there is one."""
        calibration: AffineCalibration | None = self.best_estimator_[-1].calibration_
        return calibration

    def plan(self, X: Any, y: Any, channels: Any = None) -> Plan:
        """Plan of the fits that the search starts with, and the work of all of it, without fitting."""
        folds = make_folds(X, y, channels, self.cv, generator(0))
        n, d = np.shape(X)
        front_ends = front_ends_of(self.front_end)
        kept = front_ends[0].dimension(n, d, len(folds.labels[0]))
        zeros = np.broadcast_to(np.zeros(kept), (n, kept))
        statistics = Statistics.from_codes(zeros, folds.codes, folds.labels, folds.conditions, cells=True)
        form = "proportional" if self.interaction is None else self.interaction
        ranks = default_channel_ranks(statistics)
        settings = resolve(replace(self._settings(), channel_rank=ranks, interaction=form), statistics)
        budget = Budget(statistics, len(folds.splits), check_number("budget", self.budget, 1.0))
        plan = budget.planned(settings, sum(len(split.pairs.target) for split in folds.splits))
        readings = len(front_ends) * (1 + len(folds.splits))
        return replace(plan, beside=plan.beside + readings * READING * n * d * d)

    def _description(self, **place: Any) -> ModelDescription:
        return super()._description(front_end=described_steps(self.best_estimator_.steps[:-1]), **place)

    @classmethod
    def _from_description(cls, description: ModelDescription) -> Self:
        if description.selection is None:
            raise InputError("The file lacks the candidates of its search for settings.")
        steps = [step for _, step in restored_steps(description.front_end)]
        settings = {"front_end": [clone(step) for step in steps], **description.settings}
        model = super()._from_description(replace(description, settings=settings))
        model.best_estimator_ = make_pipeline(*steps, model.best_estimator_[-1])
        model.n_features_in_ = model.best_estimator_[0].n_features_in_
        return model

    def _take(self, fitted: FittedModel) -> None:
        before = self.__dict__["best_estimator_"].steps[:-1] if "best_estimator_" in self.__dict__ else []
        model = JointPLDA(**self._fixed(), **self.best_params_)
        model._take(fitted)
        self.best_estimator_ = Pipeline([*before, ("jointplda", model)])

    def _scorer(self) -> Scorer:
        if "best_estimator_" not in self.__dict__:
            check_is_fitted(self)
        return self.best_estimator_._scorer()

    def _checked(self, X: Any) -> Any:
        return applied(self._front_end, super()._checked(X))

    def _preprocessing(self) -> list[Any]:
        return self._front_end

    def _transformed(self, X: Any) -> Any:
        return self._checked(X) if hasattr(X, "columns") else applied(self._front_end, X)

    @property
    def _front_end(self) -> list[Any]:
        """The fitted steps before the model."""
        if "best_estimator_" not in self.__dict__:
            check_is_fitted(self)
        return [step for _, step in self.best_estimator_.steps[:-1]]
