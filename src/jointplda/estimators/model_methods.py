"""The methods of fitted models that all estimators and pipelines have: scores, likelihoods and posteriors."""

from os import PathLike
from typing import Any

import numpy as np

from jointplda._typing import AnyArray, Array
from jointplda.errors import InputError
from jointplda.model.posterior import Posterior, posterior, solve_samples
from jointplda.model.statistics import Statistics
from jointplda.progress import ProgressCallback
from jointplda.score_stores.block_writing import opened_scores, write_blocks
from jointplda.score_stores.score_blocks import ScoreBlocks
from jointplda.scoring.enrollment import Enrollment
from jointplda.scoring.pairs import PreparedSide
from jointplda.scoring.score_arguments import checked_sets
from jointplda.scoring.scorer import ScoreOptions, Scorer


class ModelMethods:
    """Methods of the model of ``_scorer``, for samples that ``_transformed`` preprocesses."""

    def _scorer(self) -> Scorer:
        """The scorer of the fitted model."""
        raise NotImplementedError

    def _transformed(self, X: Any) -> Any:
        """Samples as the model takes them; a pipeline preprocesses them."""
        return X

    def _preprocessing(self) -> list[Any]:
        """The fitted steps that ``_transformed`` applies."""
        return []

    def _checked(self, X: Any) -> Any:
        """The same after scikit-learn's checks of the names and the number of features."""
        return self._transformed(X)

    def prepare(self, X: Any, dtype: Any = None) -> PreparedSide:
        """Prepare samples X (n, d) once, so that ``score_matrix`` and ``score_trials`` can score them many times."""
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
        resume: bool = False,
        threads: int | None = None,
        callback: ProgressCallback | None = None,
    ) -> AnyArray:
        """Log-likelihood ratios of every enrollment sample against every test sample.

        Parameters
        ----------
        enroll, test : (n, d), (m, d) arrays, or results of ``prepare``
        same_channel : float, pair, or (conditions, 2)
            P(same channel | same speaker) and P(same channel | different speakers), by which scores are averaged over
            unknown channels. One number stands for both, one pair for all conditions. 0 and 1 are exact.
        enroll_channels, test_channels : as ``channels`` in ``fit``, optional
            Known channels: equal labels are the same channel, and missing labels are averaged over.
        channel_weights : "estimated" or mapping, optional
            Probabilities of the training channels and of a new one (key None), which replace ``same_channel`` for
            missing labels; "estimated" takes them from the training samples. Several conditions need a list of these.
        use_training : bool
            Whether a label of a training channel brings the posterior of that channel.
        calibrated : bool
            Whether to apply the calibration of the model, if it has one.
        dtype : float32 or float64, optional
            Type of the scores; default: float32 if both sides are float32.
        out : path, optional
            A file to write block by block instead, whose name ends in .npy, .h5 or .zarr. Its scores are returned as a
            read-only memmap, HDF5 dataset or Zarr array. ``jointplda.score_stores.write_blocks`` writes names too.
        resume : bool
            Whether to go on with what an interrupted run has left of ``out``, with the blocks that it finished.
        threads : int, optional
            Number of threads; default: one per core.
        callback : callable, optional
            Called with a ``jointplda.Progress`` after every few rows, or every block of a file.

        Returns
        -------
        (n, m) array
            log p(pair | same speaker) - log p(pair | different speakers) in nats; at 0 the pair is equally likely under
            both. With a prior P of the same speaker, accept if the LLR is above -log(P / (1 - P)).
        """
        channels = (enroll_channels, test_channels)
        options = ScoreOptions(same_channel, channels, channel_weights, use_training, calibrated, dtype, threads)
        if out is None:
            return self._scorer().matrix(self._side(enroll), self._side(test), options, callback)
        write_blocks(out, self._blocks(enroll, test, options), resume=resume, callback=callback)
        stored: AnyArray = opened_scores(out)
        return stored

    def score_blocks(
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
        threads: int | None = None,
    ) -> ScoreBlocks:
        """The same scores as of ``score_matrix``, to be computed block by block; all parameters are as there."""
        channels = (enroll_channels, test_channels)
        options = ScoreOptions(same_channel, channels, channel_weights, use_training, calibrated, dtype, threads)
        return self._blocks(enroll, test, options)

    def _blocks(self, enroll: Any, test: Any, options: ScoreOptions) -> ScoreBlocks:
        origin = {
            "the preprocessing": self._preprocessing(),
            "the embeddings of the enrollment side": _source(enroll),
            "the embeddings of the test side": _source(test),
        }
        return self._scorer().blocks(self._side(enroll), self._side(test), options, origin)

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
            Row of ``enroll`` and row of ``test`` of each trial. All other parameters are as in ``score_matrix``.
        """
        channels = (enroll_channels, test_channels)
        options = ScoreOptions(same_channel, channels, channel_weights, use_training, calibrated, dtype, threads)
        return self._scorer().trials(self._side(enroll), self._side(test), pairs, options)

    def enroll(self, X: Any, models: Any, channels: Any = None, *, use_training: bool = True) -> Enrollment:
        """Enroll models of one or more samples each.

        Parameters
        ----------
        X : (n, d) array
        models : (n,) labels
            The model that each sample belongs to.
        channels : as in ``fit``, optional
            Known channels; a missing label is a channel of its own. Without this argument no channel is known, and
            scores are sums over the ways in which samples may share channels.
        use_training : bool
            As in ``score_matrix``.
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
        enrollment : Enrollment
            From ``enroll``.
        test : (m, d) array
        test_channels : labels, optional
            Channels of the test samples, if the channels of the enrollment are known. Any label that the enrollment
            does not have is a new channel; so are all channels by default, as in the paper's last section.
        same_channel : as in ``score_matrix``
            If the channels of the enrollment are not known: P(same channel) of two samples, from which follows a
            Chinese-restaurant prior over the partitions of more samples into channels.
        models : sequence of labels, optional
            Score only these models, in this order.
        beam : int, optional
            Number of partitions kept; default: all of them up to 4,140 (8 samples, one condition), else 200.
        calibrated, dtype
            As in ``score_matrix``. The calibration was fitted to pairs of single samples.
        """
        options = ScoreOptions(same_channel, (None, test_channels), calibrated=calibrated, dtype=dtype, beam=beam)
        return self._scorer().against(enrollment, self._transformed(test), models, options)

    def enrollment_blocks(
        self,
        enrollment: Enrollment,
        test: Any,
        *,
        test_channels: Any = None,
        same_channel: Any = 0.5,
        beam: int | None = None,
        calibrated: bool = True,
        dtype: Any = None,
    ) -> ScoreBlocks:
        """The same scores as of ``score_enrollment``, to be computed block by block; all parameters are as there."""
        options = ScoreOptions(same_channel, (None, test_channels), calibrated=calibrated, dtype=dtype, beam=beam)
        origin = {"the preprocessing": self._preprocessing(), "the embeddings of the test side": _source(test)}
        return self._scorer().enrollment_blocks(enrollment, self._transformed(test), options, origin)

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
            Known channels of the samples, as in ``fit``; give both or none.
        pairs : (n, 2) integers, optional
            Score only these pairs of sets.
        same_channel, use_training, calibrated, beam
            As in ``score_enrollment`` and ``score_matrix``; the number of samples is that of both sets together.
        """
        scorer = self._scorer()
        a = [self._transformed(X) for X in checked_sets(sets_a, "sets_a")]
        b = [self._transformed(X) for X in checked_sets(sets_b, "sets_b")]
        channels = (channels_a, channels_b)
        options = ScoreOptions(same_channel, channels, use_training=use_training, calibrated=calibrated, beam=beam)
        return scorer.sets(a, b, pairs, options)

    def predict_log_proba(self, X: Any, channels: Any = None) -> Array:
        """Log posterior of every training speaker for equal priors, (n, speakers); see ``predict_proba``."""
        return self._scorer().speaker_log_posterior(self._checked(X), channels)

    def predict_proba(self, X: Any, channels: Any = None) -> Array:
        """Posterior of every training speaker for equal priors, (n, speakers), in the order of ``classes_``.

        A channel of training brings its posterior; any other channel, or a missing label, is a new channel. With an
        interaction, a speaker who was heard in the channel shares that cell, unless cells were too many to keep (4
        million numbers).
        """
        return np.exp(self.predict_log_proba(X, channels))

    def predict(self, X: Any, channels: Any = None) -> AnyArray:
        """The most probable training speaker of each sample, (n,)."""
        best = self.predict_log_proba(X, channels).argmax(axis=1)
        return np.asarray(self.classes_[best])

    @property
    def classes_(self) -> AnyArray:
        """Labels of the training speakers, sorted if they can be: the columns of ``predict_proba``."""
        scorer = self._scorer()
        if scorer.fitted.training is None or not scorer.fitted.training.speakers:
            raise AttributeError("this model does not know its training speakers")
        labels = [scorer.fitted.training.speakers[i] for i in scorer.speaker_order]
        array = np.array(labels) if len({type(label) for label in labels}) == 1 else None
        if array is None or array.ndim != 1:
            array = np.empty(len(labels), dtype=object)
            array[:] = labels
        return array

    def channel_posterior(
        self, X: Any, channel_weights: Any = "estimated", condition: int = 0
    ) -> tuple[tuple[Any, ...], Array]:
        """Posterior of the training channels of a condition, and of a new channel.

        Parameters
        ----------
        X : (n, d) array
        channel_weights : "estimated" or mapping
            Prior probabilities of the training channels and of a new one (key None).
        condition : int
            Position of the nuisance condition, if there are several; the channels of the others count as new.

        Returns
        -------
        labels : tuple
            The training channels, then None for a new one.
        probabilities : (n, len(labels))
        """
        return self._scorer().channel_posterior(self._transformed(X), channel_weights, condition)

    def log_likelihood(self, X: Any, y: Any, channels: Any = None) -> float:
        """Log p(M) of labelled samples, all latents integrated out, in nats.

        It is exact, but for samples of so many channels that the solver is sampled (see ``solver``): then it is an
        estimate.

        Parameters
        ----------
        X : (n, d) array
        y : (n,) labels
            The speaker of each sample. None of them counts as a training speaker.
        channels : as in ``fit``, optional
            Default: every sample is in a channel of its own.
        """
        return self._log_likelihood(self._statistics(X, y, channels))

    def score(self, X: Any, y: Any, *, channels: Any = None, sample_weight: Any = None) -> float:
        """Mean log-likelihood per sample: ``log_likelihood`` divided by the number of samples.

        A sample of weight w counts as w samples. ``channels`` must be named, because scikit-learn passes weights as
        the third argument.
        """
        statistics = self._statistics(X, y, channels, sample_weight)
        return self._log_likelihood(statistics) / statistics.n_samples

    def posterior(self, X: Any, y: Any, channels: Any = None) -> Posterior:
        """Posterior means and covariances of every y and x given labelled samples.

        Returns
        -------
        Posterior
            ``.speakers`` and ``.channels`` (one per condition), each with ``labels``, ``index`` (the level
            of each sample), ``means`` (levels, r) and ``covariances`` (levels, r, r).
        """
        matrix = self._checked(X)
        fitted = self._scorer().fitted
        channels = self._conditions(channels, len(matrix))
        return posterior(matrix, y, channels, fitted.parameters, fitted.settings.solver)

    def _statistics(self, X: Any, y: Any, channels: Any, sample_weight: Any = None) -> Statistics:
        matrix, cells = self._checked(X), self._scorer().fitted.interacts
        channels = self._conditions(channels, len(matrix))
        return Statistics.from_samples(matrix, y, channels, sample_weight=sample_weight, cells=cells)

    def _log_likelihood(self, statistics: Statistics) -> float:
        fitted = self._scorer().fitted
        kept = [k for k, rank in enumerate(fitted.channel_ranks) if rank]
        statistics = statistics.with_conditions(kept)
        return solve_samples(statistics, fitted.used, solver=fitted.settings.solver)[1].log_likelihood

    def _conditions(self, channels: Any, n: int) -> Any:
        """Channels with one column per condition of the fitted model, in the order of training."""
        scorer = self._scorer()
        if channels is None:
            conditions = len(scorer.fitted.channel_ranks)
            return np.full((n, conditions), None, dtype=object) if conditions else None
        if not scorer.fitted.channels_shared:
            raise InputError("PLDA has no channels: leave them out, or use JointPLDA.", parameter="channels")
        return scorer.arguments.ordered(channels)

    def _side(self, X: Any) -> Any:
        return X if isinstance(X, PreparedSide) else self._transformed(X)


def _source(X: Any) -> Any:
    """Samples as they were given: numbers, or the table of a prepared side."""
    return X.table if isinstance(X, PreparedSide) else np.asarray(X)
