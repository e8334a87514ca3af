"""All scores of a fitted model.

A score is log p(samples | same speaker) - log p(samples | different speakers) in natural logarithms. At 0 the samples
are equally likely under both; the threshold for prior odds o of the same speaker is -log o.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
from scipy.special import log_softmax, softmax

from jointplda import sample_matrix
from jointplda._parallel import fill_matrix, in_pieces
from jointplda._typing import AnyArray, Array
from jointplda.errors import InputError, warn
from jointplda.labels import MISSING, encode
from jointplda.model.fitted import FittedModel
from jointplda.progress import ProgressCallback
from jointplda.scoring.channel_arguments import ChannelArguments, check_length, names_of
from jointplda.scoring.enrollment import Enrollment, enroll_known
from jointplda.scoring.enrollment_scores import EnrollmentScorer
from jointplda.scoring.known_channels import KnownChannels
from jointplda.scoring.known_pairs import KnownChannelPairs
from jointplda.scoring.pairs import PairModel, PairScorer, PreparedSide
from jointplda.scoring.partitions import Solver
from jointplda.scoring.projection import Projection, Projections
from jointplda.scoring.sets import SetScorer
from jointplda.scoring.trial_arguments import beam_width, checked_pairs, chosen_models, score_dtype

FLOAT32_ERROR = 2e-3
TRIALS = 2**11


@dataclass(frozen=True)
class ScoreOptions:
    """Options of scores, which the scoring methods of the estimators explain; ``channels`` are those of both sides."""

    same_channel: Any = 0.5
    channels: tuple[Any, Any] = (None, None)
    channel_weights: Any = None
    use_training: bool = True
    calibrated: bool = True
    dtype: Any = None
    threads: int | None = None
    beam: int | None = None


class Scorer:
    """Scores of one fitted model; the matrices that scoring needs are computed when first used, and kept."""

    def __init__(self, fitted: FittedModel) -> None:
        self.fitted = fitted
        self.arguments = ChannelArguments(fitted)

    @cached_property
    def pair_model(self) -> PairModel:
        """All hypotheses about a pair of samples."""
        return PairModel.of(self.fitted.scored)

    @cached_property
    def projections(self) -> Projections:
        """All projections of samples on the latents."""
        return Projections(self.fitted.scored)

    @property
    def projection(self) -> Projection:
        """The projection that keeps every factor that samples can share."""
        return self.projections.shared

    @cached_property
    def known_channels(self) -> KnownChannels:
        """Channels and speakers of training with their posterior; raises if the model does not have it."""
        return KnownChannels(self.projections, self.fitted)

    def prepare(self, X: Any, dtype: Any = None) -> PreparedSide:
        """Prepare samples X (n, d) once, to be scored many times by ``matrix`` and ``trials``."""
        return self.pair_model.side(self._numbers(X, "X"), score_dtype(dtype, X))

    def matrix(
        self,
        enroll: Any,
        test: Any,
        options: ScoreOptions,
        out: str | PathLike[str] | None = None,
        callback: ProgressCallback | None = None,
    ) -> AnyArray:
        """LLRs of every sample of one side against every sample of the other, (n, m)."""
        scorer, shape, dtype = self._pair_scorer(enroll, test, options)
        calibrate = self._calibration(options.calibrated)

        def fill(rows: slice, columns: slice, block: AnyArray) -> None:
            scorer.fill(rows, columns, block)
            calibrate(block)

        return fill_matrix(fill, shape, dtype, out, options.threads, callback)

    def trials(self, enroll: Any, test: Any, pairs: Any, options: ScoreOptions) -> AnyArray:
        """LLRs of listed pairs of rows (trials, 2)."""
        scorer, shape, dtype = self._pair_scorer(enroll, test, options)
        rows = checked_pairs(pairs, *shape)
        result = np.empty(len(rows), dtype=dtype)
        in_pieces(lambda piece: scorer.trials(rows[piece], result[piece]), len(rows), TRIALS, options.threads)
        return self._calibration(options.calibrated)(result)

    def _pair_scorer(
        self, enroll: Any, test: Any, options: ScoreOptions
    ) -> tuple[PairScorer | KnownChannelPairs, tuple[int, int], Any]:
        """The scorer of pairs of samples, the shape of their score matrix, and its type."""
        priors, channels = self.arguments.priors(options.same_channel), options.channels
        trained = options.use_training and self.arguments.are_training_channels(*channels)
        if options.channel_weights is None and not trained:
            left, right = self._sides(enroll, test, options.dtype)
            codes = self.arguments.pair_codes(*channels, len(left), len(right))
            return PairScorer(left, right, priors, *codes), (len(left), len(right)), left.table.dtype
        for parameter, side in (("enroll", enroll), ("test", test)):
            if isinstance(side, PreparedSide):
                raise InputError("with training channels, give samples that are not prepared.", parameter=parameter)
        known = self.known_channels
        E, T = self._samples(enroll, "enroll"), self._samples(test, "test")
        first, labels = self.arguments.codes_like(channels[0], known.labels, len(E), "enroll_channels")
        second, _ = self.arguments.codes_like(channels[1], labels, len(T), "test_channels", names_of(channels[0]))
        weights = options.channel_weights
        weights = None if weights is None else self.arguments.weights(weights, known.training)
        phi_E, phi_T = known.projection.project(E), known.projection.project(T)
        scorer = KnownChannelPairs(known, phi_E, phi_T, first, second, priors, weights)
        return scorer, (len(E), len(T)), score_dtype(options.dtype, enroll, test)

    def _sides(self, enroll: Any, test: Any, dtype: Any) -> tuple[PreparedSide, PreparedSide]:
        """Both sides in the same type; float64 if float32 would be inexact and was not asked for."""
        left = self._side(enroll, "enroll", dtype, test)
        right = self._side(test, "test", left.table.dtype, enroll)
        if left.table.dtype == np.float32 and max(left.rounding, right.rounding) > FLOAT32_ERROR:
            if dtype is None and not isinstance(enroll, PreparedSide) and not isinstance(test, PreparedSide):
                return self._sides(enroll, test, np.float64)
            error = max(left.rounding, right.rounding)
            warn(f"float32 scores may be off by about {error:.1g} nats, since the noise is small; use dtype=float64.")
        return left, right

    def _side(self, X: Any, parameter: str, dtype: Any, other: Any) -> PreparedSide:
        if isinstance(X, PreparedSide):
            if not self.fitted.scored.equals(X.model.parameters):
                raise InputError(
                    "the samples were prepared by another model, or by an earlier fit.", parameter=parameter
                )
            dtype = X.table.dtype if dtype is None else score_dtype(dtype)
            return X if X.table.dtype == dtype else PreparedSide(X.model, X.table.astype(dtype))
        if dtype is None and isinstance(other, PreparedSide):
            dtype = other.table.dtype
        return self.pair_model.side(self._numbers(X, parameter), score_dtype(dtype, X, other))

    def enroll(self, X: Any, models: Any, channels: Any = None, use_training: bool = True) -> Enrollment:
        """Enroll models of one or more samples each."""
        matrix = self._samples(X, "X")
        codes, labels = encode(models, what="models")
        check_length("models", codes, len(matrix))
        if (codes == MISSING).any():
            rows = np.flatnonzero(codes == MISSING)[:5].tolist()
            raise InputError(f"every sample needs a model, and row(s) {rows} have none.", parameter="models")
        phi, scored = self.projection.project(matrix), self.fitted.scored
        if channels is None and self.projections.conditions:
            order = np.argsort(codes, kind="stable")
            samples = np.split(phi[order], np.cumsum(np.bincount(codes, minlength=len(labels)))[:-1])
            return Enrollment(tuple(labels), False, (), None, False, (), tuple(samples), scored)
        known = self._known_or_none(use_training and channels is not None)
        levels, names = self.arguments.codes_like(channels, self._labels(known), len(matrix), "channels")
        groups = enroll_known(phi, codes, levels, len(labels), Solver(self.projection), known)
        return Enrollment(tuple(labels), True, names, names_of(channels), known is not None, groups, (), scored)

    def against(self, enrollment: Enrollment, test: Any, models: Any, options: ScoreOptions) -> AnyArray:
        """LLRs of every model of an enrollment, or of some ``models``, against every test sample, (models, tests)."""
        calibrate, test_channels = self._calibration(options.calibrated), options.channels[1]
        if not isinstance(enrollment, Enrollment):
            raise InputError(f"expected an Enrollment, got {type(enrollment).__name__}.", parameter="enrollment")
        if not self.fitted.scored.equals(enrollment.parameters):
            raise InputError("the models were enrolled by another model, or by an earlier fit.", parameter="enrollment")
        chosen = chosen_models(enrollment, models)
        matrix = self._samples(test, "test")
        known, dtype = self.known_channels if enrollment.trained else None, score_dtype(options.dtype, test)
        scorer = EnrollmentScorer(self.projections, matrix, dtype, known)
        if enrollment.channels_known:
            codes = None
            if test_channels is not None:
                labels, names = enrollment.channel_labels, enrollment.conditions
                codes, _ = self.arguments.codes_like(test_channels, labels, len(matrix), "test_channels", names)
                codes = np.where(codes < [len(of_condition) for of_condition in labels], codes, MISSING)
            return calibrate(scorer.known(enrollment, codes)[chosen])
        if test_channels is not None:
            problem = "the models were enrolled without channels; give enroll() their channels."
            raise InputError(problem, parameter="test_channels")
        priors = self.arguments.priors(options.same_channel)
        return calibrate(scorer.unknown(enrollment, priors, beam_width(options.beam))[chosen])

    def sets(self, sets_a: list[Any], sets_b: list[Any], pairs: Any, options: ScoreOptions) -> Array:
        """LLRs of sets of samples against sets of samples, (len(sets_a), len(sets_b)), or (n,) of listed pairs."""
        sides = [
            [self.projection.project(self._samples(X, parameter)) for X in sets]
            for parameter, sets in (("sets_a", sets_a), ("sets_b", sets_b))
        ]
        known = self._known_or_none(options.use_training)
        codes = self.arguments.set_codes(sides, *options.channels, self._labels(known))
        scorer = SetScorer(
            self.projection, self.arguments.priors(options.same_channel), beam_width(options.beam), known
        )
        shape = len(sides[0]), len(sides[1])
        rows = np.argwhere(np.ones(shape)) if pairs is None else checked_pairs(pairs, *shape)
        result = np.empty(len(rows))
        for at, (i, j) in enumerate(rows):
            a, b = sides[0][i], sides[1][j]
            if codes is None and self.projections.conditions:
                result[at] = scorer.unknown(a, b)
            else:
                of_pair = np.zeros((len(a) + len(b), 0), dtype=np.int64)
                if codes is not None:
                    of_pair = np.concatenate([codes[0][i], codes[1][j]])
                result[at] = scorer.known(a, b, of_pair)
        self._calibration(options.calibrated)(result)
        return result if pairs is not None else result.reshape(shape)

    @cached_property
    def speaker_order(self) -> list[int]:
        """Positions of the training speakers in the order of their labels, as far as labels have an order."""
        labels: Any = self.known_channels.training.speakers
        try:
            return sorted(range(len(labels)), key=labels.__getitem__)
        except TypeError:
            return list(range(len(labels)))

    def speaker_log_posterior(self, X: Any, channels: Any = None) -> Array:
        """Log posterior of every training speaker for equal priors, (n, speakers), in ``speaker_order``."""
        known = self.known_channels
        matrix = self._samples(X, "X")
        levels, _ = self.arguments.codes_like(channels, known.labels, len(matrix), "channels")
        values = known.speaker_log_likelihoods(matrix, known.of_training(levels))
        normalised: Array = log_softmax(values, axis=1)
        return normalised[:, self.speaker_order]

    def channel_posterior(self, X: Any, channel_weights: Any, condition: int) -> tuple[tuple[Any, ...], Array]:
        """The training channels of a condition and None for a new one, and their posterior (n, channels + 1)."""
        known, at = self.known_channels, self.arguments.position(condition)
        matrix = self._samples(X, "X")
        per_condition = [channel_weights if k == condition else "estimated" for k in range(self.arguments.n_conditions)]
        weights = self.arguments.weights(per_condition, known.training)[at]
        with np.errstate(divide="ignore"):
            values = known.channel_log_likelihoods(matrix, at) + np.log(weights)
        return (*known.labels[at], None), softmax(values, axis=1)

    def _known_or_none(self, wanted: bool) -> KnownChannels | None:
        return self.known_channels if wanted and self.fitted.training is not None else None

    def _labels(self, known: KnownChannels | None) -> tuple[tuple[Any, ...], ...]:
        return tuple(() for _ in self.projections.conditions) if known is None else known.labels

    def _samples(self, X: Any, parameter: str) -> Array:
        """Samples as float64, after the checks of ``_numbers``."""
        return np.asarray(self._numbers(X, parameter), dtype=np.float64)

    def _numbers(self, X: Any, parameter: str) -> AnyArray:
        """Samples in the type that they have; raise if their dimension is wrong or they hold NaN or infinity."""
        matrix = sample_matrix.as_matrix(X, what=parameter)
        d = len(self.fitted.mean)
        if matrix.shape[1] != d:
            raise InputError(f"expected samples of dimension {d}, got {matrix.shape[1]}.", parameter=parameter)
        sample_matrix.check_numbers(matrix)
        return matrix

    def _calibration(self, calibrated: Any) -> Callable[[AnyArray], AnyArray]:
        """A function that calibrates scores in place, or returns them as they are."""
        if not isinstance(calibrated, bool | np.bool_):
            raise InputError(f"expected True or False, got {calibrated!r:.60}.", parameter="calibrated")
        calibration = self.fitted.calibration
        if not calibrated or calibration is None:
            return lambda scores: scores

        def apply(scores: AnyArray) -> AnyArray:
            scores *= calibration.scale
            scores += calibration.offset
            return scores

        return apply
