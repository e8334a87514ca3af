"""The likelihood and the posterior of labelled samples, as methods that all estimators have."""

from typing import Any

import numpy as np

from jointplda.errors import InputError
from jointplda.estimators.scoring_methods import ScoringMethods
from jointplda.model.interaction import CellProblem
from jointplda.model.posterior import Posterior, posterior
from jointplda.model.statistics import Statistics


class LikelihoodMethods(ScoringMethods):
    """Exact log-likelihood and posterior under the fitted model."""

    def log_likelihood(self, X: Any, y: Any, channels: Any = None) -> float:
        """Exact log p(M) of labelled samples, all latents integrated out, in nats.

        Parameters
        ----------
        X : (n, d) array
        y : (n,) labels
            The speaker of each sample. None of them counts as a training speaker.
        channels : as in ``fit``, optional
            Default: every sample is in a channel of its own.
        """
        matrix = self._checked(X)
        return self._log_likelihood(self._statistics(matrix, y, channels))

    def score(self, X: Any, y: Any, *, channels: Any = None, sample_weight: Any = None) -> float:
        """Mean log-likelihood per sample: ``log_likelihood`` divided by the number of samples.

        A sample of weight w counts as w samples. ``channels`` must be named, because scikit-learn passes weights as
        the third argument.
        """
        matrix = self._checked(X)
        statistics = self._statistics(matrix, y, channels, sample_weight)
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
        return posterior(matrix, y, self._conditions(channels, len(matrix)), fitted.parameters)

    def _statistics(self, matrix: Any, y: Any, channels: Any, sample_weight: Any = None) -> Statistics:
        cells, channels = self._scorer().fitted.interacts, self._conditions(channels, len(matrix))
        return Statistics.from_samples(matrix, y, channels, sample_weight=sample_weight, cells=cells)

    def _log_likelihood(self, statistics: Statistics) -> float:
        fitted = self._scorer().fitted
        kept = [k for k, rank in enumerate(fitted.channel_ranks) if rank]
        problem = CellProblem.of(statistics.with_conditions(kept), fitted.used)
        return problem.log_likelihood(problem.solved()[1])

    def _conditions(self, channels: Any, n: int) -> Any:
        """Channels with one column per condition of the fitted model, in the order of training."""
        scorer = self._scorer()
        if channels is None:
            conditions = len(scorer.fitted.channel_ranks)
            return np.full((n, conditions), None, dtype=object) if conditions else None
        if not scorer.fitted.channels_shared:
            raise InputError("PLDA has no channels: leave them out, or use JointPLDA.", parameter="channels")
        return scorer.arguments.ordered(channels)
