"""Scores of a fitted model: log-likelihood ratios in natural logarithms, with their constant.

A score is log p(samples | same speaker) - log p(samples | different speakers). At 0 the samples are as likely under
both; to accept where the same speaker is more probable, the threshold is -log(prior odds of the same speaker).
"""

from collections.abc import Callable
from os import PathLike
from typing import Any

import numpy as np

from jointplda._parallel import fill_matrix, in_pieces
from jointplda._typing import AnyArray, Array
from jointplda.errors import InputError
from jointplda.estimators.arguments import (
    Arguments,
    beam_width,
    check_length,
    checked_pairs,
    checked_sets,
    chosen_models,
    names_of,
    score_dtype,
)
from jointplda.labels import MISSING, encode
from jointplda.scoring.enrollment import Enrollment, enroll_known, factors_of
from jointplda.scoring.enrollment_scores import EnrollmentScorer
from jointplda.scoring.known_channels import KnownChannelPairs
from jointplda.scoring.pairs import PairScorer, PreparedSide
from jointplda.scoring.partitions import Solver
from jointplda.scoring.projection import Projection
from jointplda.scoring.sets import SetScorer

TRIALS = 2**11


class Scores(Arguments):
    """Scoring methods of a fitted model."""

    def prepare(self, X: Any, dtype: Any = None) -> PreparedSide:
        """Prepare samples X (n, d) once, to be scored many times by ``score_matrix`` and ``score_trials``."""
        model = self._pair_model()
        return model.side(self._numbers(X, "X"), score_dtype(dtype, X))

    def score_matrix(
        self,
        enroll: Any,
        test: Any,
        same_channel: Any = 0.5,
        *,
        enroll_channels: Any = None,
        test_channels: Any = None,
        channel_weights: Any = None,
        use_training: bool = True,
        calibrated: bool = True,
        dtype: Any = None,
        out: str | PathLike[str] | None = None,
        threads: int | None = None,
        callback: Callable[[int, int], object] | None = None,
    ) -> AnyArray:
        """LLRs of every enrollment sample against every test sample, the channels averaged over.

        Parameters
        ----------
        enroll, test : (n, d), (m, d) arrays, or what ``prepare`` gave
        same_channel : float, pair, or (conditions, 2)
            P(same channel | same speaker) and P(same channel | different speakers); one number serves for both,
            one pair for all conditions. 0 and 1 are exact.
        enroll_channels, test_channels : as ``channels`` in ``fit``, optional
            Known channels: equal labels are one channel. A label that training has seen brings what training
            learned of that channel, unless ``use_training`` is False. Missing labels are averaged over.
        channel_weights : "estimated" or mapping, optional
            For missing labels: probabilities of the training channels and of a new one (key None), in place of
            ``same_channel``; "estimated" from the training samples. One mapping per condition if there are several.
        calibrated : bool
            Apply the calibration that the model carries, if any; False gives the model's own LLRs.
        dtype : float32 or float64, optional
            Default: float32 if both sides are.
        out : path, optional
            Write a .npy file block by block, and return it as a memmap.
        threads : int, optional
            Default: one per core.
        callback : callable, optional
            Called with the rows done and the rows in all, for progress.

        Returns
        -------
        (n, m) array
            log p(pair | same speaker) - log p(pair | different speakers), in nats, with its constant: at 0 both are
            as likely. Accept at a prior of P for the same speaker if the LLR is above -log(P / (1 - P)).
        """
        known = enroll_channels, test_channels, channel_weights, use_training
        scorer, shape, kind = self._pair_scorer(enroll, test, self._priors(same_channel), dtype, known)
        calibrate = self._calibration(calibrated)

        def fill(rows: slice, columns: slice, block: AnyArray) -> None:
            scorer.fill(rows, columns, block)
            calibrate(block)

        return fill_matrix(fill, shape, kind, out, threads, callback)

    def score_trials(
        self,
        enroll: Any,
        test: Any,
        pairs: Any,
        same_channel: Any = 0.5,
        *,
        enroll_channels: Any = None,
        test_channels: Any = None,
        channel_weights: Any = None,
        use_training: bool = True,
        calibrated: bool = True,
        dtype: Any = None,
        threads: int | None = None,
    ) -> AnyArray:
        """LLRs of listed trials, without the full matrix: (n,).

        Parameters
        ----------
        pairs : (n, 2) integers
            Row of ``enroll`` and row of ``test`` of each trial.
        enroll, test, same_channel, enroll_channels, test_channels, channel_weights, use_training, calibrated, dtype
            As in ``score_matrix``.
        threads : int, optional
            As in ``score_matrix``.
        """
        known = enroll_channels, test_channels, channel_weights, use_training
        scorer, shape, kind = self._pair_scorer(enroll, test, self._priors(same_channel), dtype, known)
        rows = checked_pairs(pairs, *shape)
        result = np.empty(len(rows), dtype=kind)
        in_pieces(lambda piece: scorer.trials(rows[piece], result[piece]), len(rows), TRIALS, threads)
        self._calibration(calibrated)(result)
        return result

    def _pair_scorer(
        self, enroll: Any, test: Any, priors: Array, dtype: Any, known: tuple[Any, Any, Any, bool]
    ) -> tuple[PairScorer | KnownChannelPairs, tuple[int, int], Any]:
        """What scores pairs of samples, how many there are, and as which type."""
        enroll_channels, test_channels, channel_weights, use_training = known
        if channel_weights is None and not (use_training and self._any_seen(enroll_channels, test_channels)):
            left, right = self._sides(enroll, test, dtype)
            codes = self._pair_codes(enroll_channels, test_channels, len(left), len(right))
            return PairScorer(left, right, priors, *codes), (len(left), len(right)), left.table.dtype
        for what, side in (("enroll", enroll), ("test", test)):
            if isinstance(side, PreparedSide):
                raise InputError(
                    f"{what}: give the samples themselves where training channels matter, not a PreparedSide."
                )
        seen = self._seen()
        E, T = self._samples(enroll, "enroll"), self._samples(test, "test")
        first, labels = self._labels_like(enroll_channels, seen.labels, len(E), "enroll_channels")
        second, _ = self._labels_like(test_channels, labels, len(T), "test_channels")
        weights = None if channel_weights is None else self._weights(channel_weights)
        scorer = KnownChannelPairs(
            seen, seen.latents.project(E), seen.latents.project(T), first, second, priors, weights
        )
        return scorer, (len(E), len(T)), score_dtype(dtype, enroll, test)

    def _calibration(self, calibrated: Any) -> Callable[[AnyArray], AnyArray]:
        """What is done to scores, in place: nothing, or the calibration that the model carries."""
        if not isinstance(calibrated, bool | np.bool_):
            raise InputError(f"calibrated: expected True or False, got {calibrated!r:.60}.")
        found = getattr(self, "calibration_", None)
        if not calibrated or found is None:
            return lambda scores: scores

        def apply(scores: AnyArray) -> AnyArray:
            scores *= found.scale
            scores += found.offset
            return scores

        return apply

    def enroll(self, X: Any, models: Any, channels: Any = None, *, use_training: bool = True) -> Enrollment:
        """Make models of one or more samples each.

        Parameters
        ----------
        X : (n, d) array
        models : (n,) labels
            Which model each sample belongs to.
        channels : as in ``fit``, optional
            Known channels; a missing label is a channel of its own. Without it the channels are not known, and
            scores are sums over which samples may share one.
        use_training : bool
            Whether a label that training has seen brings what training learned of that channel.
        """
        matrix = self._samples(X, "X")
        codes, labels = encode(models, what="models")
        check_length("models", codes, matrix)
        if (codes == MISSING).any():
            raise InputError(f"models: no model given for row(s) {np.flatnonzero(codes == MISSING)[:5].tolist()}.")
        parameters, shareable = self._shareable()
        latents = Projection.of(parameters, factors_of(shareable))
        phi = latents.project(matrix)
        if channels is None and shareable:
            order = np.argsort(codes, kind="stable")
            samples = np.split(phi[order], np.cumsum(np.bincount(codes, minlength=len(labels)))[:-1])
            return Enrollment(tuple(labels), False, (), None, False, (), tuple(samples), self._fingerprint())
        seen = self._seen_or_none() if use_training and channels is not None else None
        names = tuple(() for _ in shareable) if seen is None else seen.labels
        levels, names = self._labels_like(channels, names, len(matrix), "channels")
        groups = enroll_known(phi, codes, levels, len(labels), Solver(latents), seen)
        given = names_of(channels)
        return Enrollment(tuple(labels), True, names, given, seen is not None, groups, (), self._fingerprint())

    def score_enrollment(
        self,
        enrollment: Enrollment,
        test: Any,
        *,
        test_channels: Any = None,
        same_channel: Any = 0.5,
        models: Any = None,
        beam: int | None = None,
        calibrated: bool = True,
        dtype: Any = None,
    ) -> AnyArray:
        """LLRs of every model of an enrollment against every test sample, (models, tests).

        Parameters
        ----------
        test_channels : labels, optional
            Known test channels, for an enrollment with known ones: a label of the enrollment is that channel, any
            other (or none) a new one. Without it the test channel is a new one: the paper's last section.
        same_channel : as in ``score_matrix``
            For an enrollment without channels: the Chinese-restaurant prior over partitions whose two-sample case
            is this prior.
        models : sequence of labels, optional
            Only these models, in this order.
        beam : int, optional
            Partitions kept. Default: all of them up to 4,140 (8 samples, one condition), a beam of 200 above.
        calibrated : bool
            As in ``score_matrix``. The calibration was made for pairs of samples.
        """
        calibrate = self._calibration(calibrated)
        if not isinstance(enrollment, Enrollment):
            raise InputError(f"enrollment: expected what enroll() gave, got {type(enrollment).__name__}.")
        if enrollment.fingerprint != self._fingerprint():
            raise InputError("enrollment: was made by another model, or before this one was fitted again.")
        chosen = chosen_models(enrollment, models)
        matrix = self._samples(test, "test")
        parameters, shareable = self._shareable()
        seen = self._seen() if enrollment.trained else None
        scorer = EnrollmentScorer(parameters, shareable, matrix, score_dtype(dtype, test), seen)
        if enrollment.channels_known:
            codes = None
            if test_channels is not None:
                labels, names = enrollment.channel_labels, enrollment.conditions
                codes, _ = self._labels_like(test_channels, labels, len(matrix), "test_channels", names)
                codes = np.where(codes < [len(some) for some in labels], codes, MISSING)
            scores: AnyArray = scorer.known(enrollment, codes)[chosen]
            return calibrate(scores)
        if test_channels is not None:
            raise InputError("test_channels: the enrollment was made without channels; give enroll() its channels.")
        scores = scorer.unknown(enrollment, self._priors(same_channel), beam_width(beam))[chosen]
        return calibrate(scores)

    def score_sets(
        self,
        sets_a: Any,
        sets_b: Any,
        *,
        channels_a: Any = None,
        channels_b: Any = None,
        same_channel: Any = 0.5,
        pairs: Any = None,
        use_training: bool = True,
        calibrated: bool = True,
        beam: int | None = None,
    ) -> Array:
        """LLRs of sets of samples against sets of samples, by the book: (len(sets_a), len(sets_b)), or (n,) of pairs.

        Parameters
        ----------
        sets_a, sets_b : sequences of (n_i, d) arrays
        channels_a, channels_b : sequences of labels, one per set, optional
            Known channels, as in ``fit``; equal labels are one channel, in both sets of a pair. Give both or none.
        same_channel : as in ``score_matrix``
            Prior of partitions where channels are not known.
        pairs : (n, 2) integers, optional
            Score only these.
        use_training, calibrated, beam
            As in ``enroll`` and ``score_enrollment``; exact up to 8 samples in both sets together.
        """
        parameters, shareable = self._shareable()
        latents = Projection.of(parameters, factors_of(shareable))
        sides = [
            [latents.project(self._samples(X, name)) for X in sets]
            for name, sets in (("sets_a", checked_sets(sets_a, "sets_a")), ("sets_b", checked_sets(sets_b, "sets_b")))
        ]
        seen = self._seen_or_none() if use_training else None
        codes = self._set_codes(sides, channels_a, channels_b, seen)
        scorer = SetScorer(latents, self._priors(same_channel), beam_width(beam), seen)
        if pairs is None:
            rows = np.array([(i, j) for i in range(len(sides[0])) for j in range(len(sides[1]))], dtype=np.int64)
        else:
            rows = checked_pairs(pairs, len(sides[0]), len(sides[1]))
        result = np.empty(len(rows))
        for at, (i, j) in enumerate(rows):
            a, b = sides[0][i], sides[1][j]
            if codes is None and shareable:
                result[at] = scorer.unknown(a, b)
            else:
                known = np.zeros((len(a) + len(b), 0), dtype=np.int64)
                if codes is not None:
                    known = np.concatenate([codes[0][i], codes[1][j]])
                result[at] = scorer.known(a, b, known)
        self._calibration(calibrated)(result)
        return result if pairs is not None else result.reshape(len(sides[0]), len(sides[1]))

    def predict_log_proba(self, X: Any, channels: Any = None) -> Array:
        """Log posterior of every training speaker, all equally probable before: (n, speakers)."""
        seen = self._seen()
        matrix = self._samples(self._check_samples(X), "X")
        levels, _ = self._labels_like(channels, seen.labels, len(matrix), "channels")
        values = seen.speaker_log_likelihoods(matrix, np.where(levels < seen.sizes, levels, MISSING))
        values -= values.max(axis=1, keepdims=True)
        normalised: Array = values - np.log(np.exp(values).sum(axis=1, keepdims=True))
        return normalised

    def predict_proba(self, X: Any, channels: Any = None) -> Array:
        """Posterior of every training speaker (columns as ``classes_``): the closed set.

        A channel that training has seen brings its posterior; any other, or none, is a new one.
        """
        return np.exp(self.predict_log_proba(X, channels))

    def predict(self, X: Any, channels: Any = None) -> AnyArray:
        """The most probable training speaker of each sample, (n,)."""
        best = self.predict_log_proba(X, channels).argmax(axis=1)
        speakers: AnyArray = self.classes_[best]
        return speakers

    @property
    def classes_(self) -> AnyArray:
        """The training speakers, in the order of ``predict_proba``."""
        labels = self._training_or_missing().speakers
        array = np.array(labels) if len({type(label) for label in labels}) == 1 else None
        if array is None or array.ndim != 1:
            array = np.empty(len(labels), dtype=object)
            array[:] = labels
        return array

    def channel_posterior(
        self, X: Any, channel_weights: Any = "estimated", condition: int = 0
    ) -> tuple[tuple[Any, ...], Array]:
        """Which training channel, or a new one.

        Parameters
        ----------
        channel_weights : "estimated" or mapping
            Prior probabilities of the training channels and of a new one (key None).
        condition : int
            Which of several nuisance conditions; the others are taken to be new.

        Returns
        -------
        labels : tuple
            The training channels, then None for a new one.
        probabilities : (n, len(labels))
        """
        seen, at = self._seen(), self._condition(condition)
        matrix = self._samples(X, "X")
        many = [channel_weights if k == condition else "estimated" for k in range(len(self.channel_ranks_))]
        weights = self._weights(many)[at]
        with np.errstate(divide="ignore"):
            values = seen.channel_log_likelihoods(matrix, at) + np.log(weights)
        values -= values.max(axis=1, keepdims=True)
        chances = np.exp(values)
        labels = seen.labels[at]
        return (*labels, None), chances / chances.sum(axis=1, keepdims=True)
