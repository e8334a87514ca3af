"""Fits to samples that need not fit into memory."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from jointplda._memory import give_back
from jointplda._validation import check_number
from jointplda.errors import Advice, InputError, warn
from jointplda.estimators.automatic import JointPLDACV
from jointplda.estimators.base import BasePLDA
from jointplda.estimators.estimator_checks import generator, unchanged_by_errors
from jointplda.estimators.pipeline import Pipeline
from jointplda.model.statistics import Statistics
from jointplda.passes.census import Census
from jointplda.passes.fresh_speakers import FreshTrials, SecondLook, fresh_speakers
from jointplda.passes.learned_steps import learned_front_end, summed
from jointplda.passes.readers import Reader, Room, SourceReader
from jointplda.passes.sources import SampleSource
from jointplda.passes.speaker_sample import drawn_speakers, gathered
from jointplda.preprocessing.front_ends import GIVEN, FrontEnd
from jointplda.preprocessing.steps import Step
from jointplda.progress import Progress, ProgressCallback
from jointplda.selection.folds import Whole

Model = TypeVar("Model", JointPLDACV, BasePLDA, Pipeline)

LEAST_MEMORY = 1e8
SEARCH_SHARE, SUMS_SHARE = 0.6, 0.2
SEARCH_COPIES = 24.0  # double-precision numbers that a search holds for each number of its samples
LEAST_ROWS = 2000
IN_A_SEARCH = Advice("JointPLDACV(front_end=[...]) takes other steps.", "")


def fit_in_passes(
    model: Model,
    source: SampleSource,
    *,
    memory: float = 2e9,
    folder: str | Path | None = None,
    callback: ProgressCallback | None = None,
) -> Model:
    """Fit a model to samples that are read in passes, a chunk at a time, within a bounded memory.

    A first pass counts speakers and channels. The settings of a ``JointPLDACV``, its front end and its calibration are
    chosen on a random sample of speakers, as large as the memory allows; speakers heard in several channels come first
    up to a quarter of it. What was chosen is then learned from all samples: each step of the front end takes a pass,
    and the statistics take the last one. Since a sample needs stronger priors than all speakers do, their strength and
    the calibration are decided anew, by some 200 speakers whom neither the sample nor these passes have. What does not
    fit of the statistics goes to temporary files, by speaker; EM does not see the samples. Where all samples fit into
    the sample of speakers the result is that of ``fit``, to rounding.

    Parameters
    ----------
    model : JointPLDACV, JointPLDA, PLDA, or a Pipeline of steps and JointPLDA or PLDA
        The steps of a pipeline are not fitted. They are those of ``jointplda.preprocessing``; a front end of a
        ``JointPLDACV`` may have others, which then learn from the sample of speakers alone.
    source : SampleSource
        The samples, such as an ``ArraySource`` of a memmap.
    memory : float
        Bytes that the fit may take, beside what the program takes before.
    folder : path, optional
        Where temporary files are made; by default the system's folder for them.
    callback : callable, optional
        Called with a ``Progress`` after every chunk, counted in samples; its stage says what the pass is for, and its
        detail at the end is the census, or the sample of speakers. A search and EM call the model's own callback.

    Returns
    -------
    model
        The same object, fitted.
    """
    check_number("memory", memory, LEAST_MEMORY)
    room = Room(SUMS_SHARE * memory, None if folder is None else Path(folder))
    return fit_by(SourceReader(source, room, callback), model, memory)


def fit_by(reader: Reader, model: Model, memory: float) -> Model:
    """Fit a model to samples whose passes a ``reader`` makes, with so many bytes of memory in this process.

    The model and the memory are as in ``fit_in_passes``.
    """
    check_number("memory", memory, LEAST_MEMORY)
    with unchanged_by_errors(model):
        census = Census.of(reader)
        if isinstance(model, JointPLDACV):
            return _searched(model, reader, census, memory)
        if isinstance(model, BasePLDA):
            return model.fit_statistics(summed(reader, census, (), cells=_interacts(model)))
        return _fitted_pipeline(model, reader, census)


def statistics_in_passes(
    source: SampleSource,
    steps: Sequence[Any] = (),
    *,
    cells: bool = True,
    memory: float = 2e9,
    folder: str | Path | None = None,
    callback: ProgressCallback | None = None,
) -> Statistics:
    """Statistics of samples that are read in two passes, a census and the sums, within a bounded memory.

    Parameters
    ----------
    source, memory, folder, callback
        As in ``fit_in_passes``.
    steps : sequence of fitted transformers
        What the samples go through before they are summed.
    cells : bool
        Whether to sum by cell too, which a fit with an interaction needs, and so does adding up large statistics.
    """
    check_number("memory", memory, LEAST_MEMORY)
    room = Room(SUMS_SHARE * memory, None if folder is None else Path(folder))
    reader = SourceReader(source, room, callback)
    census = Census.of(reader)
    return summed(reader, census, steps, cells=cells and bool(census.conditions))


def _interacts(model: BasePLDA) -> bool:
    return bool(model._settings().interaction)


def _searched(model: JointPLDACV, reader: Reader, census: Census, memory: float) -> JointPLDACV:
    """Choose settings on a sample of speakers, look at their strength again with all others, and fit to these."""
    rows = sample_rows(reader.n_features, memory)
    rng = generator(0 if model.random_state is None else model.random_state).spawn(1)[0]
    sampled = drawn_speakers(census, rows, rng)
    fresh = fresh_speakers(census, sampled, rng)
    both = gathered(reader, census, sampled | fresh, rows, rng)
    sample, apart = (both.take(mask[both.speakers]) for mask in (sampled, fresh))
    if reader.callback is not None and not sampled.all():
        reader.callback(Progress("sample", len(sample.X), len(sample.X), sample))
    channels = sample.channels if sample.channels.names else None
    recipe, calibration, whole = model._choose(sample.X, sample.speakers, channels)
    settings, steps, before = recipe.settings, whole.steps, model.selection_
    del whole, both, sample
    give_back()  # what the search took
    looks_again = fresh.any() and not before.design.confounded and before.stretch == 1.0
    if looks_again:
        reader = reader.without(frozenset(census.labels[0][i] for i in np.flatnonzero(fresh)))
        census = census.without(fresh)
    steps = learned_front_end(recipe.front_end, reader, census, steps)
    statistics = summed(reader, census, steps, cells=bool(settings.interaction)).with_used_levels()
    if looks_again:
        trials = FreshTrials.of(apart, steps, len(before.chosen.min_cllrs), rng)
        look = SecondLook(statistics, trials, recipe.front_end.name)
        try:
            settings, calibration, model.selection_ = look.chosen(settings, before)
        except KeyboardInterrupt:
            warn("Interrupted: the strength of the priors and the calibration are those of the sample of speakers.")
    return model._fit_choice(settings, calibration, Whole(steps, statistics))


def sample_rows(n_features: int, memory: float) -> int:
    """Number of samples on which a search stays within its share of the memory."""
    return max(LEAST_ROWS, int(SEARCH_SHARE * memory / (8.0 * SEARCH_COPIES * n_features)))


def _fitted_pipeline(pipeline: Pipeline, reader: Reader, census: Census) -> Pipeline:
    """The steps of a pipeline learned one after the other, and its model fitted to what they make of the samples."""
    *steps, (_, model) = pipeline.steps
    if not isinstance(model, BasePLDA) or not all(isinstance(step, Step) for _, step in steps):
        names = ", ".join(type(step).__name__ for _, step in pipeline.steps)
        problem = f"expected steps of jointplda.preprocessing, then JointPLDA or PLDA, got {names}."
        raise InputError(problem, parameter="model", remedy=IN_A_SEARCH)
    learned = learned_front_end(FrontEnd(GIVEN, tuple(step for _, step in steps)), reader, census, ())
    model.fit_statistics(summed(reader, census, learned, cells=_interacts(model)))
    pipeline.steps = [*((name, step) for (name, _), step in zip(steps, learned, strict=True)), pipeline.steps[-1]]
    return pipeline
