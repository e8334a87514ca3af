"""The scoring methods that all estimators have: models, models that choose their settings, and pipelines."""

from os import PathLike
from typing import Any

import numpy as np

from jointplda._typing import AnyArray, Array
from jointplda.progress import ProgressCallback
from jointplda.scoring.enrollment import Enrollment
from jointplda.scoring.pairs import PreparedSide
from jointplda.scoring.scorer import PairOptions, Scorer
from jointplda.scoring.trial_arguments import checked_sets


class ScoringMethods:
    """Scores of samples that ``_transformed`` makes ready for the model of ``_scorer``."""

    def _scorer(self) -> Scorer:
        """The scorer of the fitted model."""
        raise NotImplementedError

    def _transformed(self, X: Any) -> Any:
        """Samples as the model takes them: preprocessed, in a pipeline."""
        return X

    def _checked(self, X: Any) -> Any:
        """The same, with the checks of scikit-learn (names and numbers of features) where X is a whole data set."""
        return self._transformed(X)

    def prepare(self, X: Any, dtype: Any = None) -> PreparedSide:
        """Prepare samples X (n, d) once, to be scored many times by ``score_matrix`` and ``score_trials``."""
        return self._scorer().prepare(self._transformed(X), dtype)

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
        callback: ProgressCallback | None = None,
    ) -> AnyArray:
        """Log-likelihood ratios of every enrollment sample against every test sample, averaged over the channels.

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
            ``same_channel``; "estimated" takes them from the training samples. One mapping per condition if there are
            several.
        calibrated : bool
            Apply the calibration that the model carries, if any; False gives the model's own LLRs.
        dtype : float32 or float64, optional
            Default: float32 if both sides are.
        out : path, optional
            Write a .npy file block by block, and return it as a memmap.
        threads : int, optional
            Default: one per core.
        callback : callable, optional
            Called with a ``jointplda.Progress`` after every block of rows.

        Returns
        -------
        (n, m) array
            log p(pair | same speaker) - log p(pair | different speakers), in nats, with its constant: at 0 both are
            as likely. Accept at a prior of P for the same speaker if the LLR is above -log(P / (1 - P)).
        """
        options = PairOptions(
            same_channel, enroll_channels, test_channels, channel_weights, use_training, calibrated, dtype, threads
        )
        return self._scorer().matrix(self._side(enroll), self._side(test), options, out, callback)

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
        """Log-likelihood ratios of listed trials, without the full matrix: (trials,).

        Parameters
        ----------
        pairs : (trials, 2) integers
            Row of ``enroll`` and row of ``test`` of each trial.
        enroll, test, same_channel, enroll_channels, test_channels, channel_weights, use_training, calibrated, dtype
            As in ``score_matrix``.
        threads : int, optional
            As in ``score_matrix``.
        """
        options = PairOptions(
            same_channel, enroll_channels, test_channels, channel_weights, use_training, calibrated, dtype, threads
        )
        return self._scorer().trials(self._side(enroll), self._side(test), pairs, options)

    def enroll(self, X: Any, models: Any, channels: Any = None, *, use_training: bool = True) -> Enrollment:
        """Make models of one or more samples each.

        Parameters
        ----------
        X : (n, d) array
        models : (n,) labels
            The model that each sample belongs to.
        channels : as in ``fit``, optional
            Known channels; a missing label is a channel of its own. Without it the channels are not known, and
            scores are sums over which samples may share one.
        use_training : bool
            Whether a label that training has seen brings what training learned of that channel.
        """
        return self._scorer().enroll(self._transformed(X), models, channels, use_training)

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
        """Log-likelihood ratios of every model of an enrollment against every test sample, (models, tests).

        Parameters
        ----------
        test_channels : labels, optional
            Known test channels, for an enrollment with known ones: a label of the enrollment is that channel, any
            other (or none) a new one. Without it the test channel is a new one: the paper's last section.
        same_channel : as in ``score_matrix``
            For an enrollment without channels: the Chinese-restaurant prior over partitions whose two-sample case
            is this prior.
        models : sequence of labels, optional
            Score only these models, in this order.
        beam : int, optional
            Partitions kept. Default: all of them up to 4,140 (8 samples, one condition), a beam of 200 above.
        calibrated : bool
            As in ``score_matrix``. The calibration was made for pairs of samples.
        dtype : float32 or float64, optional
            As in ``score_matrix``.
        """
        return self._scorer().against(
            enrollment,
            self._transformed(test),
            test_channels=test_channels,
            same_channel=same_channel,
            models=models,
            beam=beam,
            calibrated=calibrated,
            dtype=dtype,
        )

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
        """Log-likelihood ratios of sets of samples against sets: (len(sets_a), len(sets_b)), or (n,) of listed pairs.

        Parameters
        ----------
        sets_a, sets_b : sequences of (n_i, d) arrays
        channels_a, channels_b : sequences of labels, one per set, optional
            Known channels, as in ``fit``; equal labels are one channel, in both sets of a pair. Give both or none.
        same_channel : as in ``score_matrix``
            Prior of partitions where channels are not known.
        pairs : (n, 2) integers, optional
            Score only these pairs of sets.
        use_training, calibrated, beam
            As in ``enroll`` and ``score_enrollment``; exact up to 8 samples in both sets together.
        """
        scorer = self._scorer()
        named = (("sets_a", sets_a), ("sets_b", sets_b))
        sides = [[self._transformed(X) for X in checked_sets(sets, name)] for name, sets in named]
        return scorer.sets(
            *sides,
            channels_a=channels_a,
            channels_b=channels_b,
            same_channel=same_channel,
            pairs=pairs,
            use_training=use_training,
            calibrated=calibrated,
            beam=beam,
        )

    def predict_log_proba(self, X: Any, channels: Any = None) -> Array:
        """Log posterior of every training speaker, all equally probable before: (n, speakers)."""
        return self._scorer().speaker_log_posterior(self._checked(X), channels)

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
        training = self._scorer().fitted.training
        if training is None:
            raise AttributeError("this model does not know its training speakers")
        labels = training.speakers
        array = np.array(labels) if len({type(label) for label in labels}) == 1 else None
        if array is None or array.ndim != 1:
            array = np.empty(len(labels), dtype=object)
            array[:] = labels
        return array

    def channel_posterior(
        self, X: Any, channel_weights: Any = "estimated", condition: int = 0
    ) -> tuple[tuple[Any, ...], Array]:
        """Posterior over the training channels of a condition, and a new channel.

        Parameters
        ----------
        channel_weights : "estimated" or mapping
            Prior probabilities of the training channels and of a new one (key None).
        condition : int
            Position of the nuisance condition, where there are several; the channels of the others are taken to be
            new.

        Returns
        -------
        labels : tuple
            The training channels, then None for a new one.
        probabilities : (n, len(labels))
        """
        return self._scorer().channel_posterior(self._transformed(X), channel_weights, condition)

    def _side(self, X: Any) -> Any:
        return X if isinstance(X, PreparedSide) else self._transformed(X)
