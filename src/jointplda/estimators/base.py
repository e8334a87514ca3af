"""What the models have in common as scikit-learn estimators: files, the fitted record, and fitting."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from jointplda._typing import Array
from jointplda._validation import check_number
from jointplda.calibration.affine import AffineCalibration
from jointplda.errors import InputError, warn
from jointplda.estimators import model_file
from jointplda.estimators.data_checks import checked_samples, require_speakers
from jointplda.estimators.fit_warnings import warn_of_fit
from jointplda.estimators.fitting import fitted_model, unchanged_by_errors
from jointplda.estimators.likelihood_methods import LikelihoodMethods
from jointplda.estimators.parameter_checks import check_callback, checked_model, generator
from jointplda.labels import MISSING
from jointplda.linalg import cholesky
from jointplda.model.channel_shrinkage import ChannelShrinkage
from jointplda.model.fit import FitSettings, Problem, fit, supported_rank
from jointplda.model.fitted import FittedModel
from jointplda.model.interaction import NO_INTERACTION, InteractionSettings, cell_means, held_cells, with_cell_factor
from jointplda.model.parameters import Parameters
from jointplda.model.plan import Plan, make_plan
from jointplda.model.speaker_split import joined_speaker
from jointplda.model.statistics import Statistics, encode_all
from jointplda.scoring.scorer import Scorer

LEAST_FLOOR = 1e-8  # below this, rounding decides


class ModelEstimator(LikelihoodMethods, BaseEstimator):  # type: ignore[misc]
    """An estimator that needs speakers to fit, and that can be stored in a file."""

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

    def _description(self, **place: Any) -> model_file.ModelDescription:
        """The contents of the model's file; ``place`` is its step in a pipeline and the steps before it."""
        raise NotImplementedError

    @classmethod
    def _from_description(cls, description: model_file.ModelDescription) -> Self:
        """The fitted estimator from the contents of a file."""
        raise NotImplementedError

    def _checked(self, X: Any) -> Any:
        self._scorer()  # raises if the model is not fitted
        return checked_samples(self, X)

    def _transformed(self, X: Any) -> Any:
        return self._checked(X) if hasattr(X, "columns") else X


class BasePLDA(ModelEstimator):
    """m = mean + V y + U x + e,  e ~ N(0, D^-1), fitted by EM. The record ``fitted_`` holds the whole result."""

    fitted_: FittedModel
    n_features_in_: int

    # Settings, which the constructors of the subclasses set.
    speaker_rank: int | None
    noise: str
    max_iter: int
    tol: float
    noise_prior: float
    speaker_prior: float
    noise_floor: float
    warm_start: bool
    callback: Callable[..., object] | None

    cell_share: float = 1.0
    """The share of the interaction that scoring counts on."""

    channels_shared = True
    """Whether two samples can be in the same channel."""

    def __sklearn_is_fitted__(self) -> bool:
        return "fitted_" in self.__dict__

    def __getstate__(self) -> Any:
        return {name: value for name, value in super().__getstate__().items() if name != "_kept_scorer"}

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        if "fitted_" in self.__dict__:
            self._take(self.fitted_)

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
        fitted = checked_model(mean, V, U, D, channel_ranks, channels_shared=cls.channels_shared)
        model = cls()
        off_diagonal = bool(np.any(np.diag(np.diagonal(fitted.precision)) != fitted.precision))
        model.set_params(speaker_rank=fitted.factors[0].rank, noise="full" if off_diagonal else "diagonal")
        model._set_channel_rank(fitted.channel_ranks)
        model._take(fitted)
        return model

    def _take(self, fitted: FittedModel) -> None:
        """Set the fitted record of this estimator."""
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
        """Log-likelihood after each iteration of EM in nats per sample, (n_iter_,)."""
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

    def with_calibration(self, calibration: AffineCalibration | None) -> Self:
        """A copy of the model with another calibration of its scores, or with none."""
        if not isinstance(calibration, AffineCalibration | None):
            problem = f"expected an AffineCalibration or None, got {type(calibration).__name__}."
            raise InputError(problem, parameter="calibration")
        copy: Self = clone(self)
        copy.__dict__.update(self.__getstate__())
        copy._take(self._scorer().fitted.with_calibration(calibration))
        return copy

    def fit_statistics(self, statistics: Statistics) -> Self:
        """Fit to sufficient statistics; the result is that of ``fit`` on their samples."""
        if not isinstance(statistics, Statistics):
            raise InputError(f"expected Statistics, got {type(statistics).__name__}.", parameter="statistics")
        with unchanged_by_errors(self):
            self.n_features_in_ = statistics.n_features
            self.__dict__.pop("feature_names_in_", None)
            return self._fit(statistics)

    def _description(self, **place: Any) -> model_file.ModelDescription:
        return model_file.description(self, self.fitted_, **place)

    @classmethod
    def _from_description(cls, description: model_file.ModelDescription) -> Self:
        settings = dict(description.settings)
        if "interaction_prior" in settings:
            settings["interaction_prior"] = tuple(settings["interaction_prior"])
        model = cls(**settings)
        model._take(description.fitted)
        model_file.restore_feature_names(model, description)
        return model

    def sample(self, y: Any, channels: Any = None, random_state: Any = None) -> Array:
        """Draw embeddings (n, d) of these speakers and channels; equal labels share their latents."""
        n = len(y) if np.ndim(y) or isinstance(y, list | tuple) else 0
        parameters = self._scorer().fitted.parameters
        codes, labels, _ = encode_all(y, self._conditions(channels, n), n)
        rng = generator(random_state)
        X = parameters.mean + rng.standard_normal((n, len(parameters.mean))) @ cholesky(parameters.noise).T
        for k, W in enumerate(parameters.without_cell().loadings):
            alone = codes[:, k] == MISSING
            index = np.where(alone, len(labels[k]) + np.cumsum(alone) - 1, codes[:, k])
            X += rng.standard_normal((len(labels[k]) + int(alone.sum()), W.shape[1]))[index] @ W.T
        G = self.fitted_.cell_loading
        if G.shape[1]:
            codes = codes[:, [0, *(1 + k for k in self.fitted_.conditions_used)]]
            apart = np.where((codes == MISSING).any(axis=1), np.arange(n), -1)
            cells = np.unique(np.column_stack([codes, apart]), axis=0, return_inverse=True)[1].reshape(-1)
            X += rng.standard_normal((int(cells.max()) + 1, G.shape[1]))[cells] @ G.T
        return X

    def plan(self, X: Any, y: Any, channels: Any = None) -> Plan:
        """Plan of a fit to these samples (levels, eliminated factor, memory, work), without fitting."""
        matrix = validate_data(clone(self), X, ensure_all_finite=False)
        interaction = self._interaction(matrix.shape[1])
        interacting, full = interaction.in_em, interaction.form == "full"
        statistics, ranks = self._ranked(Statistics.from_samples(matrix, y, channels, cells=interacting))
        kept, shrinkage = self._kept_conditions(ranks)
        used = statistics.with_conditions(kept)
        if interaction.form == "fixed" or (interaction.form == "proportional" and self._settings().noise_prior):
            return make_plan(held_cells(used, interaction.kappa, even=0.0)[0], shrinkage.ranks)
        means = cell_means(used)[0] if interacting else used
        if full:
            return make_plan(with_cell_factor(means), (*shrinkage.ranks, interaction.rank))
        return make_plan(means, shrinkage.ranks)

    def _fit_samples(self, X: Any, y: Any, channels: Any) -> Self:
        with unchanged_by_errors(self):
            matrix = checked_samples(self, X, reset=True)
            require_speakers(self, y)
            cells = self._interaction(matrix.shape[1]).form != "none"
            return self._fit(Statistics.from_samples(matrix, y, channels, cells=cells))

    def _fit(self, statistics: Statistics) -> Self:
        """Run EM with the conditions whose rank and share are above 0; the others are left out."""
        settings = replace(self._settings(), interaction=self._interaction(statistics.n_features))
        statistics, ranks = self._ranked(statistics)
        kept, shrinkage = self._kept_conditions(ranks)
        used = statistics.with_conditions(kept)
        warm = self._warm_parameters(statistics.conditions, kept, shrinkage.ranks)
        if not kept:  # without channels a cell is a speaker
            settings = replace(settings, interaction=NO_INTERACTION)
        problem = Problem.of(used, shrinkage.ranks, settings.interaction, noise_prior=bool(settings.noise_prior))
        result = fit(problem, settings, warm)
        fitted = fitted_model(result, statistics, kept, shrinkage, channels_shared=self.channels_shared)
        self._take(fitted.with_cell_share(float(self.cell_share)))
        warn_of_fit(result, used, self.tol, settings.noise_floor)
        return self

    def _settings(self) -> FitSettings:
        check_number("max_iter", self.max_iter, 1, whole=True)
        check_number("tol", self.tol, 0.0)
        check_number("noise_prior", self.noise_prior, 0.0, 1e9)
        check_number("speaker_prior", self.speaker_prior, 0.0, 1e9)
        check_number("noise_floor", self.noise_floor, 0.0, 1.0)
        check_callback(self.callback)
        return FitSettings(
            diagonal=self._diagonal(),
            max_iter=int(self.max_iter),
            tol=float(self.tol),
            noise_prior=float(self.noise_prior),
            speaker_prior=float(self.speaker_prior),
            noise_floor=max(float(self.noise_floor), LEAST_FLOOR),
            callback=self.callback,
        )

    def _speaker_rank(self, statistics: Statistics) -> int:
        d, supported = statistics.n_features, supported_rank(statistics, 0)
        if self.speaker_rank is None:
            return d if self.speaker_prior else supported
        rank = int(check_number("speaker_rank", self.speaker_rank, 1, d, whole=True))
        if self.speaker_prior and rank < d:
            problem = f"a speaker prior needs V of full rank ({d}), got {rank}. Leave the rank or the prior out."
            raise InputError(problem, parameter="speaker_rank")
        if rank > supported and not self.speaker_prior:
            problem = f"{rank} is more than {statistics.n_speakers} speakers support ({supported})."
            warn(problem, parameter="speaker_rank")
        return rank

    def _kept_conditions(self, ranks: tuple[int, ...]) -> tuple[list[int], ChannelShrinkage]:
        """Conditions whose rank and share are above 0, and the changes of their loadings after EM."""
        shares, priors = self._channel_shrinkage(len(ranks) - 1)
        kept = [k for k, (rank, share) in enumerate(zip(ranks[1:], shares, strict=True)) if rank and share]
        active = (ranks[0], *(ranks[1 + k] for k in kept))
        return kept, ChannelShrinkage(active, tuple(shares[k] for k in kept), tuple(priors[k] for k in kept))

    def _warm_parameters(self, names: tuple[str, ...], kept: list[int], ranks: tuple[int, ...]) -> Parameters | None:
        """The present parameters as a start, if ``warm_start`` is set and they are of the same conditions and ranks."""
        if not (self.warm_start and "fitted_" in self.__dict__):
            return None
        before = self.fitted_
        old = before.used if before.shrinkage is None else before.shrinkage.undo(before.used)
        old_kept = [k for k, rank in enumerate(before.channel_ranks) if rank]
        same = before.conditions in (None, names) and old_kept == kept and old.without_cell().ranks == ranks
        interaction, cell = self._interaction(len(old.mean)), old.cell
        form, full = interaction.form, cell is not None and cell.kappa is None
        if form == "split" and full:
            old = joined_speaker(old)
        else:
            same &= full == (form == "full") and (form != "none" or cell is None)
            same &= not full or cell is None or cell.rank == interaction.rank
        return old if same and len(old.mean) == self.n_features_in_ else None

    def _channel_shrinkage(self, conditions: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """For each condition, the share of U U' left to its channels, and the strength of the prior of U."""
        return (1.0,) * conditions, (0.0,) * conditions

    def _interaction(self, d: int) -> InteractionSettings:
        """How the interaction of speaker and channel is fitted in d dimensions."""
        return NO_INTERACTION

    def _diagonal(self) -> bool:
        """Whether D is diagonal."""
        raise NotImplementedError

    def _ranked(self, statistics: Statistics) -> tuple[Statistics, tuple[int, ...]]:
        """The statistics with the conditions of this model, and the rank of each factor."""
        raise NotImplementedError

    def _set_channel_rank(self, ranks: tuple[int, ...]) -> None:
        raise NotImplementedError
