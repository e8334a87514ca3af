"""What all models of the family share, as scikit-learn estimators."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from os import PathLike
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from jointplda import sample_matrix
from jointplda._typing import Array
from jointplda._validation import check_choice, check_number
from jointplda.calibration.affine import AffineCalibration
from jointplda.errors import InputError, InputTypeError, warn
from jointplda.estimators import model_file
from jointplda.estimators.checks import (
    canonical,
    check_parameter_shapes,
    finite,
    generator,
    warn_of_end,
    warn_of_width,
)
from jointplda.estimators.scoring import Scores
from jointplda.labels import MISSING, conditions
from jointplda.linalg import cholesky, inverse, symmetric
from jointplda.model.channel_shrinkage import ChannelShrinkage
from jointplda.model.estep import solve
from jointplda.model.fit import FitResult, FitSettings, Problem, fit, supported_rank, warn_of_floor, warn_of_labels
from jointplda.model.layout import lay_out
from jointplda.model.parameters import Parameters
from jointplda.model.plan import Plan, make_plan
from jointplda.model.posterior import Posterior, posterior
from jointplda.model.statistics import Statistics, encode_all
from jointplda.model.training_posterior import can_be_remembered, remember

LEAST_FLOOR = 1e-8  # below this, rounding decides


class Model(Scores, BaseEstimator):  # type: ignore[misc]
    """What all models of the family share: m = mean + V y + U x + e, e ~ N(0, D^-1)."""

    mean_: Array
    V_: Array
    U_: Array
    D_: Array
    channel_ranks_: tuple[int, ...]
    log_likelihoods_: Array
    n_iter_: int
    converged_: bool
    interrupted_: bool

    # Parameters of fitting, by name; the constructors of the subclasses set them.
    speaker_rank: int | None
    noise: str
    max_iter: int
    tol: float
    init: str
    n_init: int
    noise_prior: float
    speaker_prior: float
    noise_floor: float
    warm_start: bool
    callback: Callable[..., object] | None
    random_state: Any
    training_: dict[str, Any]
    calibration_: AffineCalibration | None
    reshaping_: ChannelShrinkage | None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "D_")

    @classmethod
    def from_parameters(cls, mean: Any, V: Any, U: Any, D: Any, channel_ranks: Sequence[int] | None = None) -> Self:
        """Make a fitted model from given parameters.

        Parameters
        ----------
        mean : (d,)
        V : (d, Ry)
            Speaker loading.
        U : (d, Rx)
            Channel loadings side by side; None or (d, 0) for none.
        D : (d, d), or (d,) when diagonal
            Noise precision.
        channel_ranks : sequence of int, optional
            How the columns of U divide among the conditions; default: one condition.
        """
        mean, V = finite(mean, "mean"), finite(V, "V")
        D = finite(D, "D")
        d = mean.size
        U = np.zeros((d, 0)) if U is None else finite(U, "U")
        ranks = check_parameter_shapes(mean, V, U, D, channel_ranks)
        D = np.diag(D) if D.ndim == 1 else D
        try:
            cholesky(symmetric(D))
        except np.linalg.LinAlgError:
            raise InputError(
                "D: expected a positive definite precision matrix; is it a covariance or singular?"
            ) from None
        if not np.allclose(D, D.T, rtol=1e-6, atol=1e-9 * float(np.abs(D).max())):
            raise InputError("D: expected a symmetric precision matrix.")
        model = cls()
        off_diagonal = bool(np.any(np.diag(np.diagonal(D)) != D))
        model.set_params(speaker_rank=V.shape[1], noise="full" if off_diagonal else "diagonal")
        model._set_channel_rank(ranks)
        model.mean_, model.V_, model.U_, model.D_ = mean.copy(), V.copy(), U.copy(), symmetric(D)
        model.channel_ranks_ = ranks
        model.n_features_in_ = d
        model._set_trace((), False)
        model.calibration_ = model.reshaping_ = model.seen_ = None
        return model

    @property
    def parameters_(self) -> Parameters:
        """The fitted parameters as one record; a condition of rank 0 has a loading (d, 0)."""
        check_is_fitted(self)
        ends = np.cumsum([0, *self.channel_ranks_])
        channels = tuple(self.U_[:, a:b] for a, b in pairwise(ends))
        return Parameters(self.mean_, (self.V_, *channels), inverse(self.D_)[0])

    def fit_statistics(self, statistics: Statistics) -> Self:
        """Fit to sufficient statistics: the same fit as ``fit`` on the samples they were made of."""
        if not isinstance(statistics, Statistics):
            raise InputError(f"Expected jointplda.Statistics, got {type(statistics).__name__}.")
        with self._unchanged_by_errors():
            self.n_features_in_ = statistics.n_features
            self.__dict__.pop("feature_names_in_", None)
            return self._fit(statistics)

    @contextmanager
    def _unchanged_by_errors(self) -> Iterator[None]:
        """A fit that fails leaves the model as it was."""
        before = dict(self.__dict__)
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted model to a safetensors file, whole or not at all."""
        check_is_fitted(self)
        model_file.write(path, model_file.describe_model(self), [])

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a model that ``save`` wrote."""
        stored, steps = model_file.read(path)
        if steps:
            raise InputError(f"{path}: holds a pipeline with {len(steps)} step(s) before the model; use Pipeline.load.")
        return cls._from_stored(stored, path)

    @classmethod
    def _from_stored(cls, stored: model_file.StoredModel, path: Any) -> Self:
        if stored.name != cls.__name__:
            raise InputError(f"{path}: holds a {stored.name}, not a {cls.__name__}; use {stored.name}.load.")
        model = cls(**stored.settings)
        for name, value in stored.attributes.items():
            setattr(model, name, value)
        return model

    def log_likelihood(self, X: Any, y: Any, channels: Any = None) -> float:
        """Exact log p(M) of labelled samples, all latents integrated out, in nats.

        Parameters
        ----------
        X : (n, d) array
        y : (n,) labels
            Speakers; tied among these samples, and none of them is taken to be a training speaker.
        channels : as in ``fit``, optional
            Without it every sample is in a channel of its own.
        """
        matrix = self._check_samples(X)
        statistics = Statistics.from_samples(matrix, y, self._check_channels(channels, len(matrix)))
        return self._log_likelihood(statistics)

    def score(self, X: Any, y: Any, channels: Any = None, sample_weight: Any = None) -> float:
        """Mean log-likelihood per sample: ``log_likelihood`` divided by the number of samples.

        A sample of weight w counts as w samples.
        """
        matrix = self._check_samples(X)
        statistics = Statistics.from_samples(
            matrix, y, self._check_channels(channels, len(matrix)), sample_weight=sample_weight
        )
        return self._log_likelihood(statistics) / statistics.n_samples

    def posterior(self, X: Any, y: Any, channels: Any = None) -> Posterior:
        """Posterior means and covariances of every y and x given labelled samples.

        Returns
        -------
        Posterior
            ``.speakers`` and ``.channels`` (one per condition), each with ``labels``, ``index`` (the level
            of each sample), ``means`` (levels, r) and ``covariances`` (levels, r, r).
        """
        matrix = self._check_samples(X)
        return posterior(matrix, y, self._check_channels(channels, len(matrix)), self.parameters_)

    def sample(self, y: Any, channels: Any = None, random_state: Any = None) -> Array:
        """Draw embeddings (n, d) for given labels; equal labels share their latents."""
        check_is_fitted(self)
        n = len(y) if np.ndim(y) or isinstance(y, (list, tuple)) else 0
        codes, labels, _ = encode_all(y, self._check_channels(channels, n), n)
        rng, parameters = generator(random_state), self.parameters_
        X = parameters.mean + rng.standard_normal((n, len(self.mean_))) @ cholesky(parameters.noise).T
        for k, W in enumerate(parameters.loadings):
            alone = codes[:, k] == MISSING
            index = np.where(alone, len(labels[k]) + np.cumsum(alone) - 1, codes[:, k])
            X += rng.standard_normal((len(labels[k]) + int(alone.sum()), W.shape[1]))[index] @ W.T
        return X

    def _check_samples(self, X: Any, reset: bool = False) -> Any:
        """X as an array of the right dimension; NaN and infinity are found when it is read."""
        if not reset:
            check_is_fitted(self)
        sample_matrix.check_not_masked(X)
        least = 2 if reset else 1
        try:
            return validate_data(
                self, X, dtype="numeric", reset=reset, ensure_all_finite=False, ensure_min_samples=least
            )
        except ValueError as error:
            raise InputError(f"X: {error}") from None
        except TypeError as error:
            raise InputTypeError(f"X: {error}") from None

    def _check_channels(self, channels: Any, n: int) -> Any:
        """Channels as the fitted model needs them: one column per condition, in the order of training."""
        wanted = len(self.channel_ranks_)
        if channels is None:
            return np.full((n, wanted), None, dtype=object) if wanted else None
        return conditions(channels).ordered(self._condition_names())

    def _log_likelihood(self, statistics: Statistics) -> float:
        active, kept = self.parameters_.active()
        return solve(lay_out(statistics.with_conditions(kept), active.ranks), active).log_likelihood

    def _settings(self, diagonal: bool) -> FitSettings:
        check_number("max_iter", self.max_iter, 1, whole=True)
        check_number("n_init", self.n_init, 1, whole=True)
        check_number("tol", self.tol, 0.0)
        check_number("noise_prior", self.noise_prior, 0.0, 1e9)
        check_number("speaker_prior", self.speaker_prior, 0.0, 1e9)
        check_number("noise_floor", self.noise_floor, 0.0, 1.0)
        check_choice("init", self.init, ("moments", "speaker", "random"))
        if self.callback is not None and not callable(self.callback):
            raise InputError(f"expected a function of one argument, got {self.callback!r:.60}.", parameter="callback")
        return FitSettings(
            diagonal=diagonal,
            max_iter=int(self.max_iter),
            tol=float(self.tol),
            init=self.init,
            n_init=int(self.n_init),
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
            raise InputError(
                f"speaker_rank={rank} with speaker_prior={self.speaker_prior:g}: the prior shrinks V V' towards a "
                f"scaled identity, so V must have full rank. Set speaker_rank=None (here {d}), or speaker_prior=0."
            )
        if rank > supported and not self.speaker_prior:
            warn(f"speaker_rank={rank} is more than {statistics.n_speakers} speakers support ({supported}).")
        return rank

    def _run(self, statistics: Statistics, ranks: tuple[int, ...], settings: FitSettings) -> Self:
        """EM on statistics whose conditions have ``ranks[1:]``; conditions of rank 0 are left out."""
        kept, reshaping = self._kept_conditions(ranks)
        used = statistics.with_conditions(kept)
        warm = self._warm(statistics.conditions, kept, reshaping.ranks)
        result = fit(Problem.of(used, reshaping.ranks), settings, generator(self.random_state), warm)
        self._set_result(result, statistics, kept, reshaping)
        warn_of_labels(used)
        warn_of_floor(result, used, settings.noise_floor)
        warn_of_end(result, self.tol)
        return self

    def _kept_conditions(self, ranks: tuple[int, ...]) -> tuple[list[int], ChannelShrinkage]:
        """Conditions that have a rank and a share, and what is done to their loadings after EM."""
        shares, priors = self._shares(len(ranks) - 1), self._channel_priors(len(ranks) - 1)
        kept = [k for k, (rank, share) in enumerate(zip(ranks[1:], shares, strict=True)) if rank and share]
        active = (ranks[0], *(ranks[1 + k] for k in kept))
        return kept, ChannelShrinkage(active, tuple(shares[k] for k in kept), tuple(priors[k] for k in kept))

    def _warm(self, names: tuple[str, ...], kept: list[int], ranks: tuple[int, ...]) -> Parameters | None:
        """The parameters to go on from, where ``warm_start`` asks for it and they are of the same conditions."""
        if not (self.warm_start and hasattr(self, "D_")):
            return None
        old, before = self.parameters_.active()
        old = old if self.reshaping_ is None else self.reshaping_.undo(old)
        known = tuple(getattr(self, "training_", {}).get("conditions", names))
        same = known == names and before == kept and old.ranks == ranks
        return old if same and len(old.mean) == self.n_features_in_ else None

    def _shares(self, conditions: int) -> tuple[float, ...]:
        """How much of the variance found between channels each condition keeps."""
        return (1.0,) * conditions

    def _channel_priors(self, conditions: int) -> tuple[float, ...]:
        """How strongly U of each condition is shrunk after EM."""
        return (0.0,) * conditions

    def _set_result(
        self, result: FitResult, statistics: Statistics, kept: list[int], reshaping: ChannelShrinkage
    ) -> None:
        """Take over what EM found; U of the conditions ``kept``, none of the others."""
        parameters = reshaping.apply(result.fit.parameters)
        V, *channels = (canonical(W) for W in parameters.loadings)
        ranks = [0] * len(statistics.conditions)
        for k, U in zip(kept, channels, strict=True):
            ranks[k] = U.shape[1]
        self.mean_, self.V_ = parameters.mean, V
        self.U_ = np.ascontiguousarray(np.concatenate([np.zeros((len(V), 0)), *channels], axis=1))
        self.D_ = parameters.precision
        self.channel_ranks_, self.reshaping_ = tuple(ranks), reshaping
        self.plan_ = result.plan
        self.training_ = {
            "samples": statistics.n_samples,
            "speakers": statistics.n_speakers,
            "channels": list(statistics.n_channels),
            "conditions": list(statistics.conditions),
        }
        self.interrupted_ = result.interrupted
        self.calibration_ = None
        self._set_trace(result.fit.log_likelihoods, result.fit.converged and not result.interrupted)
        used = statistics.with_conditions(kept)
        self.seen_ = remember(used, self.parameters_.active()[0])
        if self.seen_ is None and can_be_remembered(used, reshaping.ranks):
            warn_of_width(sum(used.n_channels), len(V))

    def _set_trace(self, log_likelihoods: Sequence[float], converged: bool) -> None:
        self.log_likelihoods_ = np.array(log_likelihoods, dtype=np.float64)
        self.n_iter_ = len(log_likelihoods)
        self.converged_ = converged

    def _fit_samples(self, X: Any, y: Any, channels: Any) -> Self:
        with self._unchanged_by_errors():
            matrix = self._check_samples(X, reset=True)
            if y is None:
                raise InputError(
                    f"{type(self).__name__} requires y to be passed, but the target y is None; "
                    "give every sample's speaker."
                )
            return self._fit(Statistics.from_samples(matrix, y, channels))

    def plan(self, X: Any, y: Any, channels: Any = None) -> Plan:
        """What ``fit`` would do with these samples: levels, eliminated factor, memory and work; nothing is fitted."""
        matrix = validate_data(clone(self), X, ensure_all_finite=False)
        statistics, ranks = self._prepared(Statistics.from_samples(matrix, y, channels))
        kept, reshaping = self._kept_conditions(ranks)
        return make_plan(statistics.with_conditions(kept), reshaping.ranks)

    def _fit(self, statistics: Statistics) -> Self:
        settings = self._settings(self._diagonal())
        return self._run(*self._prepared(statistics), settings)

    def _diagonal(self) -> bool:
        """Whether D is diagonal."""
        raise NotImplementedError

    def _prepared(self, statistics: Statistics) -> tuple[Statistics, tuple[int, ...]]:
        """The statistics as this model takes them, and the rank of each factor."""
        raise NotImplementedError

    def _set_channel_rank(self, ranks: tuple[int, ...]) -> None:
        raise NotImplementedError
