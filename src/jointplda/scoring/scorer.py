"""All scores of a fitted model.

A score is log p(samples | same speaker) - log p(samples | different speakers) in natural logarithms. At 0 the samples
are equally likely under both; the threshold for prior odds o of the same speaker is -log o.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import log_softmax, softmax

from jointplda import sample_matrix
from jointplda._parallel import Fill, fill_matrix, in_pieces
from jointplda._typing import AnyArray, Array, IntArray
from jointplda.errors import InputError, warn
from jointplda.labels import MISSING, conditions, encode
from jointplda.model.fitted import FittedModel
from jointplda.progress import ProgressCallback
from jointplda.score_stores.score_blocks import ScoreBlocks
from jointplda.scoring.enrollment import Enrollment, enroll_known
from jointplda.scoring.enrollment_scores import EnrollmentScorer
from jointplda.scoring.listed_pairs import ListedPairs
from jointplda.scoring.pairs import PairModel, PairScorer, PreparedSide, TrialScorer
from jointplda.scoring.partitions import Solver
from jointplda.scoring.projection import Projections
from jointplda.scoring.score_arguments import (
    ChannelArguments,
    Labels,
    beam_width,
    check_length,
    checked_pairs,
    chosen_models,
    names_of,
    score_dtype,
)
from jointplda.scoring.sets import SetScorer
from jointplda.scoring.training_channel_pairs import TrainingChannelPairs
from jointplda.scoring.training_channels import TrainingChannels

FLOAT32_ERROR = 2e-3
TRIALS = 2**11
DENSE = 0.02  # of the matrix of their samples, from which on listed trials are computed as pieces of it


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

    @cached_property
    def training_channels(self) -> TrainingChannels:
        """Channels and speakers of training with their posterior; raises if the model does not have it."""
        return TrainingChannels(self.projections, self.fitted)

    def prepare(self, X: Any, dtype: Any = None) -> PreparedSide:
        """Prepare samples X (n, d) once, to be scored many times by ``matrix`` and ``trials``."""
        return self.pair_model.side(self._numbers(X, "X"), score_dtype(dtype, X))

    def matrix(
        self, enroll: Any, test: Any, options: ScoreOptions, callback: ProgressCallback | None = None
    ) -> AnyArray:
        """LLRs of every sample of one side against every sample of the other, (n, m)."""
        fill, shape, dtype = self._pair_filler(enroll, test, options)
        return fill_matrix(fill, np.empty(shape, dtype=dtype), threads=options.threads, callback=callback)

    def blocks(self, enroll: Any, test: Any, options: ScoreOptions, origin: Mapping[str, Any]) -> ScoreBlocks:
        """The same LLRs, to be computed block by block; ``origin`` is what the samples are made of."""
        fill, shape, dtype = self._pair_filler(enroll, test, options)

        def compute(rows: slice, columns: slice) -> AnyArray:
            block = np.empty((rows.stop - rows.start, columns.stop - columns.start), dtype=dtype)
            return fill_matrix(fill, block, (rows.start, columns.start), options.threads)

        return ScoreBlocks(shape, dtype, compute, {**self._origin(options), **origin})

    def trials(self, enroll: Any, test: Any, pairs: Any, options: ScoreOptions) -> AnyArray:
        """LLRs of listed pairs of rows (trials, 2).

        Where they are more than ``DENSE`` of the matrix of their samples, the pieces of that matrix are computed in
        which there are pairs, which is faster.
        """
        scorer, shape, dtype = self._pair_scorer(enroll, test, options)
        rows = checked_pairs(pairs, *shape)
        result = np.empty(len(rows), dtype=dtype)
        listed = ListedPairs.of(rows)
        if listed.share > DENSE:
            listed.fill(scorer.fill, result, options.threads)
        else:
            in_pieces(lambda piece: scorer.trials(rows[piece], result[piece]), len(rows), TRIALS, options.threads)
        return self._calibration(options.calibrated)(result)

    def _pair_filler(self, enroll: Any, test: Any, options: ScoreOptions) -> tuple[Fill, tuple[int, int], Any]:
        """What writes calibrated LLRs of a piece of the matrix of pairs; the shape of the matrix, and its type."""
        scorer, shape, dtype = self._pair_scorer(enroll, test, options)
        calibrate = self._calibration(options.calibrated)

        def fill(rows: slice, columns: slice, block: AnyArray) -> None:
            scorer.fill(rows, columns, block)
            calibrate(block)

        return fill, shape, dtype

    def _origin(self, options: ScoreOptions) -> dict[str, Any]:
        """The model and the settings of scores, by which an unfinished matrix of them is recognised."""
        enroll_channels, test_channels = (None if c is None else conditions(c) for c in options.channels)
        return {
            "the model": replace(self.fitted, calibration=None),
            "the calibration of the model": self.fitted.calibration if options.calibrated else None,
            "the channels of the enrollment side": enroll_channels,
            "the channels of the test side": test_channels,
            "same_channel": np.asarray(options.same_channel, dtype=np.float64),
            "channel_weights": options.channel_weights,
            "use_training": options.use_training,
            "beam": options.beam,
        }

    def _pair_scorer(self, enroll: Any, test: Any, options: ScoreOptions) -> tuple[TrialScorer, tuple[int, int], Any]:
        """The scorer of pairs of samples, the shape of their score matrix, and its type."""
        dtype, (of_enroll, of_test) = score_dtype(options.dtype, enroll, test), options.channels
        E, T = self._side(enroll, "enroll"), self._side(test, "test")
        priors, weights = self.arguments.priors(options.same_channel), options.channel_weights
        trained = self._training_labels(options.use_training or weights is not None)
        first, labels = self.arguments.codes(of_enroll, trained, len(E), "enroll_channels")
        second, labels = self.arguments.codes(of_test, labels, len(T), "test_channels", names_of(of_enroll))
        sides = ((of_enroll, first), (of_test, second))
        given = [codes for channels, codes in sides if channels is not None and any(trained)]
        of_training = [self.arguments.are_of_training(codes, labels, trained) for codes in given]
        if weights is not None or any(of_training):
            for parameter, side in (("enroll", E), ("test", T)):
                if isinstance(side, PreparedSide):
                    problem = "with training channels, give samples that are not prepared."
                    raise InputError(problem, parameter=parameter)
            known = self.training_channels
            weights = None if weights is None else self.arguments.weights(weights, known.training)
            phi_E, phi_T = (self.projections.shared.project(np.asarray(X, dtype=np.float64)) for X in (E, T))
            return TrainingChannelPairs(known, phi_E, phi_T, first, second, priors, weights), (len(E), len(T)), dtype
        left, right = self._prepared(E, T, dtype, exact=options.dtype is not None)
        codes = (None, None) if of_enroll is None and of_test is None else (first, second)
        return PairScorer(left, right, priors, *codes), (len(E), len(T)), left.table.dtype

    def _side(self, X: Any, parameter: str) -> PreparedSide | AnyArray:
        """Samples that this model prepared, or samples in the type that they have, checked."""
        if isinstance(X, PreparedSide) and not self.fitted.scored.equals(X.model.parameters):
            raise InputError("the samples were prepared by another model, or by an earlier fit.", parameter=parameter)
        return X if isinstance(X, PreparedSide) else self._numbers(X, parameter)

    def _prepared(self, E: Any, T: Any, dtype: Any, *, exact: bool) -> tuple[PreparedSide, PreparedSide]:
        """Both sides in this type; float64 if float32 would be inexact, unless that ``exact`` type was asked for."""
        model = self.pair_model
        left, right = (X.of_type(dtype) if isinstance(X, PreparedSide) else model.side(X, dtype) for X in (E, T))
        error = max(left.rounding, right.rounding)
        if dtype == np.float32 and error > FLOAT32_ERROR:
            if not exact and not isinstance(E, PreparedSide) and not isinstance(T, PreparedSide):
                return self._prepared(E, T, np.float64, exact=True)
            warn(f"float32 scores may be off by about {error:.1g} nats, since the noise is small; use dtype=float64.")
        return left, right

    def enroll(self, X: Any, models: Any, channels: Any = None, use_training: bool = True) -> Enrollment:
        """Enroll models of one or more samples each."""
        matrix = self._samples(X, "X")
        codes, labels = encode(models, what="models")
        check_length("models", codes, len(matrix))
        if (codes == MISSING).any():
            rows = np.flatnonzero(codes == MISSING)[:5].tolist()
            raise InputError(f"every sample needs a model, and row(s) {rows} have none.", parameter="models")
        phi, scored = self.projections.shared.project(matrix), self.fitted.scored
        if channels is None and self.projections.conditions:
            order = np.argsort(codes, kind="stable")
            samples = np.split(phi[order], np.cumsum(np.bincount(codes, minlength=len(labels)))[:-1])
            return Enrollment(tuple(labels), False, (), None, False, (), tuple(samples), scored)
        known = self._known_or_none(use_training and channels is not None)
        trained = self._training_labels(known is not None)
        levels, names = self.arguments.codes(channels, trained, len(matrix), "channels")
        groups = enroll_known(phi, codes, levels, len(labels), Solver(self.projections.shared), known)
        return Enrollment(tuple(labels), True, names, names_of(channels), known is not None, groups, (), scored)

    def against(self, enrollment: Enrollment, test: Any, models: Any, options: ScoreOptions) -> AnyArray:
        """LLRs of every model of an enrollment, or of some ``models``, against every test sample, (models, tests)."""
        compute, _ = self._enrollment_scores(enrollment, test, options)
        if models is None:
            return compute(np.arange(len(enrollment)), slice(None))
        positions, row = np.unique(chosen_models(enrollment, models), return_inverse=True)
        return compute(positions, slice(None))[row]

    def enrollment_blocks(
        self, enrollment: Enrollment, test: Any, options: ScoreOptions, origin: Mapping[str, Any]
    ) -> ScoreBlocks:
        """The LLRs of all models of an enrollment, to be computed block by block."""
        scores, dtype = self._enrollment_scores(enrollment, test, options)

        def compute(rows: slice, columns: slice) -> AnyArray:
            return scores(np.arange(rows.start, rows.stop), columns)

        enrolled = [
            (group.models, group.means, group.labels, group.channels, group.solved.stack.codes)
            for group in enrollment.groups
        ]
        parts = [enrollment.models, enrollment.channel_labels, enrolled, enrollment.samples]
        origin = {"the enrolled models": parts, **origin}
        return ScoreBlocks((len(enrollment), len(test)), dtype, compute, {**self._origin(options), **origin})

    def _enrollment_scores(
        self, enrollment: Enrollment, test: Any, options: ScoreOptions
    ) -> tuple[Callable[[IntArray, slice], AnyArray], Any]:
        """A function of positions of models and a slice of tests that returns their calibrated LLRs, and their type."""
        calibrate, test_channels = self._calibration(options.calibrated), options.channels[1]
        if not isinstance(enrollment, Enrollment):
            raise InputError(f"expected an Enrollment, got {type(enrollment).__name__}.", parameter="enrollment")
        if not self.fitted.scored.equals(enrollment.parameters):
            raise InputError("the models were enrolled by another model, or by an earlier fit.", parameter="enrollment")
        matrix = self._numbers(test, "test")
        known, dtype = self.training_channels if enrollment.trained else None, score_dtype(options.dtype, test)
        priors, beam = self.arguments.priors(options.same_channel), beam_width(options.beam)
        codes: IntArray | None = None
        if enrollment.channels_known:
            labels, names = enrollment.channel_labels, enrollment.conditions
            codes, _ = self.arguments.codes(test_channels, labels, len(matrix), "test_channels", names)
            codes = np.where(codes < [len(of_condition) for of_condition in labels], codes, MISSING)
        elif test_channels is not None:
            problem = "the models were enrolled without channels; give enroll() their channels."
            raise InputError(problem, parameter="test_channels")

        def compute(positions: IntArray, columns: slice) -> AnyArray:
            chosen = enrollment if len(positions) == len(enrollment) else enrollment.take(positions)
            scorer = EnrollmentScorer(self.projections, matrix[columns], dtype, known)
            if codes is None:
                return calibrate(scorer.unknown(chosen, priors, beam))
            return calibrate(scorer.known(chosen, codes[columns]))

        return compute, dtype

    def sets(self, sets_a: list[Any], sets_b: list[Any], pairs: Any, options: ScoreOptions) -> Array:
        """LLRs of sets of samples against sets of samples, (len(sets_a), len(sets_b)), or (n,) of listed pairs."""
        sides = [
            [self.projections.shared.project(self._samples(X, parameter)) for X in sets]
            for parameter, sets in (("sets_a", sets_a), ("sets_b", sets_b))
        ]
        labels, known = self._training_labels(options.use_training), self._known_or_none(options.use_training)
        codes = self.arguments.set_codes(sides, options.channels, labels)
        priors = self.arguments.priors(options.same_channel)
        scorer = SetScorer(self.projections.shared, priors, beam_width(options.beam), known)
        shape = len(sides[0]), len(sides[1])
        rows = np.argwhere(np.ones(shape)) if pairs is None else checked_pairs(pairs, *shape)
        result = np.empty(len(rows))
        for at, (i, j) in enumerate(rows):
            a, b = sides[0][i], sides[1][j]
            if codes is None:
                result[at] = scorer.unknown(a, b)
            else:
                result[at] = scorer.known(a, b, np.concatenate([codes[0][i], codes[1][j]]))
        self._calibration(options.calibrated)(result)
        return result if pairs is not None else result.reshape(shape)

    @cached_property
    def speaker_order(self) -> list[int]:
        """Positions of the training speakers in the order of their labels, as far as labels have an order."""
        labels: Any = self.training_channels.training.speakers
        try:
            return sorted(range(len(labels)), key=labels.__getitem__)
        except TypeError:
            return list(range(len(labels)))

    def speaker_log_posterior(self, X: Any, channels: Any = None) -> Array:
        """Log posterior of every training speaker for equal priors, (n, speakers), in ``speaker_order``."""
        known = self.training_channels
        if not known.training.speakers:
            raise InputError("This model does not know its training speakers: there were too many of them to keep.")
        matrix = self._samples(X, "X")
        levels, _ = self.arguments.codes(channels, known.labels, len(matrix), "channels")
        values = known.speaker_log_likelihoods(matrix, known.of_training(levels))
        normalised: Array = log_softmax(values, axis=1)
        return normalised[:, self.speaker_order]

    def channel_posterior(self, X: Any, channel_weights: Any, condition: int) -> tuple[tuple[Any, ...], Array]:
        """The training channels of a condition and None for a new one, and their posterior (n, channels + 1)."""
        known, at = self.training_channels, self.arguments.position(condition)
        matrix = self._samples(X, "X")
        per_condition = [channel_weights if k == condition else "estimated" for k in range(self.arguments.n_conditions)]
        weights = self.arguments.weights(per_condition, known.training)[at]
        with np.errstate(divide="ignore"):
            values = known.channel_log_likelihoods(matrix, at) + np.log(weights)
        return (*known.labels[at], None), softmax(values, axis=1)

    def _known_or_none(self, wanted: bool) -> TrainingChannels | None:
        return self.training_channels if wanted and self.fitted.training is not None else None

    def _training_labels(self, wanted: bool) -> Labels:
        """Labels of the training channels of each condition, if they are wanted and known."""
        conditions, training = self.projections.conditions, self.fitted.training
        return training.channels[: len(conditions)] if wanted and training is not None else ((),) * len(conditions)

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
