"""What the models have in common as scikit-learn estimators: files, the fitted record, and fitting."""

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from jointplda._typing import Array
from jointplda.calibration.affine import AffineCalibration
from jointplda.errors import InputError, warn
from jointplda.estimators import model_file
from jointplda.estimators.estimator_checks import (
    check_callback,
    checked_model,
    checked_samples,
    checked_training,
    generator,
    unchanged_by_errors,
)
from jointplda.estimators.fit_warnings import warn_of_fit, warn_of_ranks
from jointplda.estimators.model_methods import ModelMethods
from jointplda.labels import MISSING
from jointplda.linalg import cholesky
from jointplda.model.fit import fit, plan_fit, restart
from jointplda.model.fitted import FittedModel
from jointplda.model.plan import READING, Plan
from jointplda.model.resolve import check_speakers, resolve
from jointplda.model.setting_checks import checked_settings
from jointplda.model.settings import RULES, ModelSettings
from jointplda.model.statistics import Statistics, encode_all
from jointplda.model.training_posterior import training_posterior
from jointplda.progress import ProgressCallback
from jointplda.scoring.evidence import apart
from jointplda.scoring.scorer import Scorer
from jointplda.selection.search import Selection


class ModelEstimator(ModelMethods, BaseEstimator):  # type: ignore[misc]
    """An estimator that needs speakers to fit, and that can be stored in a file."""

    selection_: Selection
    n_features_in_: int
    holds_out_speakers: ClassVar[bool] = False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted model to a safetensors file, completely or not at all."""
        check_is_fitted(self)
        model_file.write_model(path, self._description())

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a model that ``save`` wrote."""
        return cls._from_description(model_file.read_model(path, cls.__name__))

    def with_calibration(self, calibration: AffineCalibration | None) -> Self:
        """A copy of the model with another calibration of its scores, or with none."""
        if not isinstance(calibration, AffineCalibration | None):
            problem = f"expected an AffineCalibration or None, got {type(calibration).__name__}."
            raise InputError(problem, parameter="calibration")
        fitted, copy = self._scorer().fitted.with_calibration(calibration), clone(self)
        copy.__dict__.update(self.__dict__)
        copy._take(fitted)
        result: Self = copy
        return result

    def _take(self, fitted: FittedModel) -> None:
        """Set the fitted record of this estimator."""
        raise NotImplementedError

    def _description(self, **place: Any) -> model_file.ModelDescription:
        """The contents of the model's file; ``place`` is its step in a pipeline and the steps before it."""
        return model_file.description(self, self._scorer().fitted, getattr(self, "selection_", None), **place)

    @classmethod
    def _from_description(cls, description: model_file.ModelDescription) -> Self:
        """The fitted estimator from the contents of a file."""
        settings = dict(description.settings)
        if "interaction_prior" in settings:
            settings["interaction_prior"] = tuple(settings["interaction_prior"])
        model = cls(**settings)
        if description.selection is not None:
            model.selection_ = description.selection
        model._take(description.fitted)
        if description.feature_names is not None:
            model.feature_names_in_ = np.array(description.feature_names, dtype=object)
        return model

    def _checked(self, X: Any) -> Any:
        self._scorer()  # raises if the model is not fitted
        return checked_samples(self, X)

    def _transformed(self, X: Any) -> Any:
        return self._checked(X) if hasattr(X, "columns") else X


class BasePLDA(ModelEstimator):
    """m = mean + V y + U x + e,  e ~ N(0, D^-1), fitted by EM. The record ``fitted_`` holds the whole result."""

    fitted_: FittedModel
    warm_start: bool
    callback: ProgressCallback | None

    def __sklearn_is_fitted__(self) -> bool:
        return "fitted_" in self.__dict__

    def __getstate__(self) -> Any:
        return {name: value for name, value in super().__getstate__().items() if name != "_kept_scorer"}

    @classmethod
    def from_parameters(cls, mean: Any, V: Any, U: Any, D: Any, channel_ranks: Sequence[int] | None = None) -> Self:
        """Make a fitted model from its parameters.

        Parameters
        ----------
        mean : (d,)
        V : (d, Ry)
            Speaker loading.
        U : (d, Rx)
            Channel loadings of all conditions side by side; None or (d, 0) if there are none.
        D : (d, d), or (d,) if diagonal
            Noise precision.
        channel_ranks : sequence of int, optional
            Number of columns of U of each condition; default: all columns belong to one condition.
        """
        return cls._of(checked_model(mean, V, U, D, channel_ranks))

    @classmethod
    def _of(cls, fitted: FittedModel) -> Self:
        """The estimator of a model made from its parameters, with settings that describe it."""
        model = cls()
        model.set_params(speaker_rank=fitted.factors[0].rank, noise=fitted.settings.noise)
        model._set_channel_rank(fitted.channel_ranks)
        model._take(fitted)
        return model

    def _take(self, fitted: FittedModel) -> None:
        self.fitted_, self.n_features_in_ = fitted, len(fitted.mean)
        self._kept_scorer = Scorer(fitted)

    def _scorer(self) -> Scorer:
        if "fitted_" not in self.__dict__:
            check_is_fitted(self)
        kept = self.__dict__.get("_kept_scorer")
        if kept is None or kept.fitted is not self.fitted_:
            self._take(self.fitted_)
        return self._kept_scorer

    @property
    def mean_(self) -> Array:
        """Mean of the samples, (d,)."""
        return self.fitted_.mean

    @property
    def V_(self) -> Array:
        """Speaker loading, (d, Ry), with orthogonal columns, the longest first."""
        return self.fitted_.factors[0].loading

    @property
    def U_(self) -> Array:
        """Channel loadings of all conditions side by side, (d, sum of ranks)."""
        return self.fitted_.U

    @property
    def D_(self) -> Array:
        """Noise precision, (d, d)."""
        return self.fitted_.precision

    @property
    def channel_ranks_(self) -> tuple[int, ...]:
        """Number of columns of U of each condition."""
        return self.fitted_.channel_ranks

    @property
    def log_likelihoods_(self) -> Array:
        """Log-likelihood after each iteration of EM in nats per sample, with every constant, (n_iter_,).

        It is penalised if there is a prior. ``channel_share`` and ``channel_prior`` are applied after the last.
        """
        return self.fitted_.trace.log_likelihoods

    @property
    def n_iter_(self) -> int:
        """Number of iterations of EM."""
        return len(self.fitted_.trace.log_likelihoods)

    @property
    def converged_(self) -> bool:
        """Whether EM converged."""
        return self.fitted_.trace.converged

    @property
    def interrupted_(self) -> bool:
        """Whether the user stopped EM."""
        return self.fitted_.trace.interrupted

    @property
    def calibration_(self) -> AffineCalibration | None:
        """The calibration of scores, if there is one."""
        return self.fitted_.calibration

    @property
    def training_(self) -> dict[str, Any]:
        """Numbers of samples, speakers and channels of training, and the names of its conditions."""
        counts = self.fitted_.counts
        if counts is None:
            raise AttributeError("this model was made from parameters and has no training data")
        numbers = {"samples": counts.samples, "speakers": counts.speakers, "channels": list(counts.channels)}
        return {**numbers, "conditions": list(self.fitted_.conditions or ())}

    @property
    def plan_(self) -> Plan:
        """The factor that was eliminated analytically, and the cost of an iteration; not stored in files."""
        if self.fitted_.plan is None:
            raise AttributeError("the plan is known only right after a fit")
        return self.fitted_.plan

    def fit_statistics(self, statistics: Statistics) -> Self:
        """Fit to sufficient statistics; the result is that of ``fit`` on their samples."""
        if not isinstance(statistics, Statistics):
            raise InputError(f"expected Statistics, got {type(statistics).__name__}.", parameter="statistics")
        with unchanged_by_errors(self):
            self.n_features_in_ = statistics.n_features
            self.__dict__.pop("feature_names_in_", None)
            return self._fit(statistics)

    def sample(self, y: Any, channels: Any = None, random_state: Any = None) -> Array:
        """Draw embeddings (n, d) of these speakers and channels; equal labels share their latents."""
        n = len(y) if np.ndim(y) or isinstance(y, list | tuple) else 0
        fitted = self._scorer().fitted
        parameters = fitted.parameters
        codes, _, _ = encode_all(y, self._conditions(channels, n), n)
        rng = generator(random_state)
        X = parameters.mean + rng.standard_normal((n, len(parameters.mean))) @ cholesky(parameters.noise).T
        shared = codes[:, [0, *(1 + k for k in fitted.conditions_used)]]
        alone = np.where((shared == MISSING).any(axis=1), np.arange(n), -1)
        cells = np.unique(np.column_stack([shared, alone]), axis=0, return_inverse=True)[1].reshape(-1)
        loadings = (*parameters.without_cell().loadings, fitted.cell_loading)
        for column, W in zip((*codes.T, cells), loadings, strict=True):
            levels = apart(column)
            X += rng.standard_normal((int(levels.max(initial=-1)) + 1, W.shape[1]))[levels] @ W.T
        return X

    def plan(self, X: Any, y: Any, channels: Any = None) -> Plan:
        """Plan of a fit to these samples (levels, eliminated factor, memory, work), without fitting."""
        matrix, settings = validate_data(clone(self), X, ensure_all_finite=False), self._settings()
        statistics = Statistics.from_samples(matrix, y, channels, cells=bool(settings.interaction))
        check_speakers(statistics)
        plan = plan_fit(self._of_model(statistics), settings)
        n, d = matrix.shape
        return replace(plan, iterations=settings.max_iter, beside=READING * n * d * d)

    def _fit_samples(self, X: Any, y: Any, channels: Any) -> Self:
        with unchanged_by_errors(self):
            matrix = checked_training(self, X, y)
            return self._fit(Statistics.from_samples(matrix, y, channels, cells=bool(self._settings().interaction)))

    def _fit(self, statistics: Statistics) -> Self:
        """Run EM with the conditions whose rank and share are above 0; the others are left out."""
        check_callback(self.callback)
        check_speakers(statistics)
        statistics, given = self._of_model(statistics), self._settings()
        settings = resolve(given, statistics)
        start = None
        if self.warm_start and "fitted_" in self.__dict__ and len(self.fitted_.mean) == self.n_features_in_:
            start = restart(self.fitted_, settings, statistics.conditions)
        fitted = fit(statistics, settings, start=start, callback=self.callback)
        used = statistics.with_conditions(settings.conditions_used)
        try:
            fitted = fitted.with_training(training_posterior(used, fitted.used, settings.solver))
        except KeyboardInterrupt:
            warn("Interrupted: the model is kept without the posterior of its training channels and speakers.")
        self._take(fitted)
        warn_of_ranks(given, settings, statistics)
        warn_of_fit(fitted, used)
        return self

    def _settings(self) -> ModelSettings:
        """The settings of this estimator; raises if one is out of its range."""
        return checked_settings({name: getattr(self, name) for name in RULES if hasattr(self, name)})

    def _of_model(self, statistics: Statistics) -> Statistics:
        """The statistics with the conditions of this model."""
        return statistics

    def _set_channel_rank(self, ranks: tuple[int, ...]) -> None:
        raise NotImplementedError
