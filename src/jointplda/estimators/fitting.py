"""From the result of EM to the fitted record, and fits that fail without a trace."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from jointplda.estimators.fit_warnings import warn_of_forgotten_channels
from jointplda.estimators.parameter_checks import canonical
from jointplda.model.channel_shrinkage import ChannelShrinkage
from jointplda.model.fit import FitResult
from jointplda.model.fitted import FittedModel, Trace, TrainingCounts
from jointplda.model.parameters import CONDITION, SAMPLE, Factor
from jointplda.model.statistics import Statistics
from jointplda.model.training_posterior import posterior_fits_in_memory, training_posterior


def fitted_model(
    result: FitResult, statistics: Statistics, kept: list[int], shrinkage: ChannelShrinkage, *, channels_shared: bool
) -> FittedModel:
    """The record of a fit; conditions that are not ``kept`` have a U without columns."""
    parameters = shrinkage.apply(result.fit.parameters)
    V, *others = (replace(factor, loading=canonical(factor.loading)) for factor in parameters.factors)
    kind = CONDITION if channels_shared else SAMPLE
    factors = [Factor(name, np.zeros((len(V.loading), 0)), kind) for name in statistics.conditions]
    for k, U in zip(kept, others, strict=False):
        factors[k] = replace(factors[k], loading=U.loading)
    converged = result.fit.converged and not result.interrupted
    trace = Trace(np.array(result.fit.log_likelihoods, dtype=np.float64), converged, result.interrupted)
    counts = TrainingCounts(statistics.n_samples, statistics.n_speakers, statistics.n_channels)
    fitted = FittedModel(
        mean=parameters.mean,
        factors=(V, *factors, *others[len(kept) :]),
        precision=parameters.precision,
        conditions=statistics.conditions,
        channels_shared=channels_shared,
        trace=trace,
        counts=counts,
        shrinkage=shrinkage,
        plan=result.plan,
    )
    used = statistics.with_conditions(kept)
    posterior = training_posterior(used, fitted.used)
    if posterior is None and posterior_fits_in_memory(used, shrinkage.ranks):
        warn_of_forgotten_channels(sum(used.n_channels), len(V.loading))
    return fitted.with_training(posterior)


@contextmanager
def unchanged_by_errors(estimator: Any) -> Iterator[None]:
    """Restore the estimator if the block raises, so that a failed fit changes nothing."""
    before = dict(estimator.__dict__)
    try:
        yield
    except BaseException:
        estimator.__dict__.clear()
        estimator.__dict__.update(before)
        raise
