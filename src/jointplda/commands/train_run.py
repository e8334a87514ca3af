"""``jointplda train``: from labelled embeddings to a model file."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import click
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from jointplda.cluster import fit_on_cluster
from jointplda.commands import settings_search
from jointplda.commands.cluster_input import shards_of
from jointplda.commands.console import bytes_text, print_facts, print_json
from jointplda.commands.data_input import SampleReader, step_objects
from jointplda.commands.messages import Messages
from jointplda.commands.model_facts import em_ranks, interaction_fact, scoring_model, scoring_pipeline
from jointplda.commands.plan_output import planned_dimension, print_plan
from jointplda.commands.progress_display import em_progress, pass_progress
from jointplda.commands.streamed_input import FileSource, given_memory
from jointplda.commands.train_command import RESUMED, TrainRequest
from jointplda.estimators.joint import JointPLDA
from jointplda.estimators.pipeline import Pipeline, make_pipeline
from jointplda.estimators.plain import PLDA
from jointplda.estimators.statistics_file import read_statistics
from jointplda.evaluation.protocol import LabelledSamples
from jointplda.passes.census import Census
from jointplda.passes.sources import LabelledChunk
from jointplda.passes.training import SEARCH_COPIES, SUMS_SHARE, fit_in_passes
from jointplda.progress import Progress, ProgressCallback

FIT_COPIES = 4.0  # double-precision numbers that a fit without a search holds for each number of its samples


def train(request: TrainRequest, messages: Messages) -> None:
    """Train a model, or print what training would do."""
    memory = given_memory(request.memory)
    if request.of_sums:
        pipe = _of_sums(memory, request, messages)
    else:
        pipe = _make_pipe(request)
        source = FileSource(request.data, SampleReader(request, messages))
        if request.plan:
            _plan(pipe, source, memory, request)
            return
        if request.scheduler:
            _on_cluster(pipe, request.scheduler, memory, request, messages)
        elif request.resume or memory_in_one_piece(source, searches=request.searches) <= memory:
            pipe = _in_memory(pipe, request, messages)
        else:
            _in_passes(pipe, source, memory, request, messages)
    assert request.out is not None
    pipe.save(request.out)
    _print_result(pipe, request)


def memory_in_one_piece(source: FileSource, *, searches: bool) -> float:
    """Bytes that training takes which reads all samples into memory."""
    return 8.0 * source.numbers * (SEARCH_COPIES if searches else FIT_COPIES)


def _plan(pipe: Pipeline, source: FileSource, memory: float, request: TrainRequest) -> None:
    samples = source.without_embeddings()
    if request.resume:
        pipe, samples = _resumed(request, samples)
    dimension = len(pipe[-1].mean_) if request.resume else planned_dimension(pipe, samples)
    in_passes = not request.resume and memory_in_one_piece(source, searches=request.searches) > memory
    print_plan(pipe, samples, dimension, searches=request.searches, in_passes=in_passes, as_json=request.as_json)


def _in_memory(pipe: Pipeline, request: TrainRequest, messages: Messages) -> Pipeline:
    """Read all samples, and fit the pipeline to them or go on with a stored one."""
    samples = SampleReader(request, messages).read(*request.data)
    messages.info(_size_text(len(samples.ids), len(set(samples.speakers.tolist())), samples.X.shape[1]))
    if request.resume:
        pipe, samples = _resumed(request, samples)
    if request.searches:
        settings_search.fit_search(pipe, samples, messages)
    else:
        with _fitting(pipe, request, messages):
            _fit(pipe, samples, request)
    return pipe


def _in_passes(pipe: Pipeline, source: FileSource, memory: float, request: TrainRequest, messages: Messages) -> None:
    """Fit the pipeline to samples that are read in passes, within so many bytes."""
    messages.info(f"training reads the samples in passes, within {bytes_text(memory)}.")
    with _telling(pipe, request, messages, "samples") as callback:
        fit_in_passes(pipe[-1] if request.searches else pipe, source, memory=memory, callback=callback)


def _on_cluster(pipe: Pipeline, scheduler: str, memory: float, request: TrainRequest, messages: Messages) -> None:
    """Fit the pipeline to samples that the workers of a cluster read."""
    shards = shards_of(request.data, request)
    messages.info(f"the workers of {scheduler} read {len(shards):,} shard(s).")
    with _telling(pipe, request, messages, "shards") as callback:
        model = pipe[-1] if request.searches else pipe
        fit_on_cluster(model, shards, scheduler, memory=memory, callback=callback)


@contextmanager
def _telling(pipe: Pipeline, request: TrainRequest, messages: Messages, unit: str) -> Iterator[ProgressCallback]:
    """A callback for passes, counted in this unit, which also says what was found; and the progress of the fit."""
    working = settings_search.searching(pipe, messages) if request.searches else _fitting(pipe, request, messages)
    speakers = 0
    with pass_progress(messages, unit) as shown, working:

        def callback(progress: Progress) -> None:
            nonlocal speakers
            shown(progress)
            found = progress.detail
            if isinstance(found, Census):
                speakers = len(found.labels[0])
                messages.info(_size_text(found.n_samples, len(found.labels[0]), len(found.mean)))
            elif isinstance(found, LabelledChunk):
                own = len(np.unique(found.speakers))
                messages.info(f"settings are chosen on {len(found.X):,} samples of {own:,} of these speakers.")

        yield callback
    apart = speakers - scoring_model(pipe).training_["speakers"]
    if apart:
        messages.info(
            f"{apart:,} speakers are not in the model: they decided the strength of its priors and its calibration."
        )


def _of_sums(memory: float, request: TrainRequest, messages: Messages) -> Pipeline:
    """Fit a model to statistics of some or all of their conditions, after the front end that they came through."""
    statistics, steps = read_statistics(request.data, SUMS_SHARE * memory)
    for name in request.channels:
        if name not in statistics.conditions:
            held = ", ".join(statistics.conditions) or "none"
            raise click.ClickException(f"--channel {name}: the statistics have no such condition (they have: {held}).")
    if request.channels:
        statistics = statistics.with_conditions([statistics.conditions.index(name) for name in request.channels])
    messages.info(_size_text(int(statistics.n_samples), statistics.n_speakers, statistics.n_features))
    model = JointPLDA(**request.given) if statistics.conditions else PLDA(**request.given)
    pipe = make_pipeline(*(step for _, step in steps), model)
    with _fitting(pipe, request, messages):
        model.fit_statistics(statistics)
    return pipe


def _size_text(samples: int, speakers: int, dimensions: int) -> str:
    return f"{samples:,} samples of {speakers:,} speakers, {dimensions} dimensions"


def _make_pipe(request: TrainRequest) -> Pipeline:
    """Preprocessing and a model that is not fitted yet."""
    if request.searches:
        given = dict(request.given) if request.budget is None else {**request.given, "budget": request.budget}
        return settings_search.search_pipeline(request.steps, random_state=request.seed, **given)
    model = JointPLDA(**request.given) if request.channels else PLDA(**request.given)
    return make_pipeline(*step_objects(request.steps), model)


def _resumed(request: TrainRequest, samples: LabelledSamples) -> tuple[Pipeline, LabelledSamples]:
    """A stored pipeline to continue from, and the samples with their conditions in its order."""
    path = request.resume
    assert path is not None
    pipe = scoring_pipeline(Pipeline.load(path))
    model = pipe[-1]
    names = samples.channels.names
    before = model.training_["conditions"] if hasattr(model, "training_") else names
    if bool(names) != bool(model.channel_ranks_):
        raise click.ClickException(
            f"{path}: was trained {'with' if model.channel_ranks_ else 'without'} channels; use the same "
            "--channel options as then."
        )
    if len(names) == len(before) and sorted(names) != sorted(before):
        raise click.ClickException(
            f"{path}: was trained with --channel {' '.join(before)}, not {' '.join(names)}; use the same, "
            "or train a new model."
        )
    given = {name: request.given[name] for name in RESUMED if name in request.given}
    model.set_params(warm_start=True, **given)
    return pipe, replace(samples, channels=samples.channels.ordered(tuple(before)))


@contextmanager
def _fitting(pipe: Pipeline, request: TrainRequest, messages: Messages) -> Iterator[None]:
    """Show the progress of EM, and say afterwards how it ended."""
    model = pipe[-1]
    was_calibrated = request.resume is not None and model.calibration_ is not None
    with warnings.catch_warnings(), em_progress(messages) as callback:
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.set_params(callback=callback)
        yield
    model.set_params(callback=None, warm_start=False)
    if was_calibrated:
        messages.warning(
            "the resumed model was calibrated, and the new one is not, since that calibration does not fit its scores; "
            "see jointplda calibrate, or train anew."
        )
    if model.interrupted_:
        messages.warning(f"EM was interrupted after {model.n_iter_} iterations; continue with --resume {request.out}.")
    elif not model.converged_:
        messages.warning(
            f"EM stopped after {model.n_iter_} iterations without converging (--tol {model.tol:g}); raise --max-iter, "
            f"or continue with --resume {request.out}."
        )


def _fit(pipe: Pipeline, samples: LabelledSamples, request: TrainRequest) -> None:
    channels = settings_search.channel_arguments(samples)
    if request.resume:
        # The preprocessing stays as it was stored: the model continues in the same space.
        X = pipe[:-1].transform(samples.X) if len(pipe.steps) > 1 else samples.X
        pipe[-1].fit(X, samples.speakers, **channels)
    else:
        pipe.fit(samples.X, samples.speakers, **channels)


def _print_result(pipe: Pipeline, request: TrainRequest) -> None:
    model = scoring_model(pipe)
    speaker_rank, *channel_ranks = em_ranks(model)
    likelihood = float(model.log_likelihoods_[-1]) if model.n_iter_ else None
    if request.as_json:
        result = {
            "model": str(request.out), "class": type(pipe[-1]).__name__, "speaker_rank": speaker_rank,
            "channel_ranks": channel_ranks, "iterations": model.n_iter_, "converged": model.converged_,
            "log_likelihood_per_sample": likelihood, "training": model.training_,
            "interaction": model.interaction_ if model.fitted_.interacts else 0.0,
            "variance_shares": model.fitted_.variance_shares,
        }  # fmt: skip
        print_json(result | ({"automatic": settings_search.search_result(pipe[-1])} if request.searches else {}))
        return
    ranks = "".join(
        f", U of rank {rank} ({name})" for name, rank in zip(model.fitted_.condition_names, channel_ranks, strict=True)
    )
    trace = model.fitted_.trace
    facts = [("ranks", f"V of rank {speaker_rank}{ranks}")]
    if model.fitted_.interacts:
        facts.append(("interaction", interaction_fact(model)))
    if not request.searches:  # a search stops EM early on purpose
        facts.append(("EM", f"{model.n_iter_} iterations, {'converged' if trace.converged else 'not converged'}"))
    prior = ", log-prior included" if trace.penalised else ""
    facts.append(("log-likelihood", f"{likelihood:.6g} nats per sample{prior}"))
    if request.searches:
        facts += settings_search.search_facts(pipe[-1])
    else:
        advice = "none: scores may be overconfident, the more so with few speakers; see jointplda calibrate, or --auto"
        facts.append(("calibration", advice))
    facts.append(("next", f"jointplda score {request.out} --enroll ... --test ... --trials ... --out scores.txt"))
    with_channels = model.fitted_.condition_names
    kind = type(pipe[-1]).__name__ if with_channels else "PLDA (without --channel there are no channels to model)"
    print_facts(f"{kind} written to {request.out}", facts)
