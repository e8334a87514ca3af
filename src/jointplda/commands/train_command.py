"""``jointplda train``: from labelled embeddings to a model file."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import cloup

from jointplda.commands import options
from jointplda.commands.data_input import SampleSource
from jointplda.commands.messages import command_messages
from jointplda.commands.training_options import Step, data_group, preprocessing_group, step_objects, steps_of

if TYPE_CHECKING:
    from jointplda.commands.messages import Messages
    from jointplda.estimators.pipeline import Pipeline
    from jointplda.evaluation.labelled_samples import LabelledSamples

CHOSEN = ("speaker_rank", "channel_rank", "noise_prior", "speaker_prior", "channel_share", "cell_share", "n_init")
"""Settings that the automatic search chooses; giving one of them turns it off."""
PER_CONDITION = ("channel_rank", "channel_share", "channel_prior")
"""Settings of which there is one value, or one for every --channel."""
GIVEN = ("noise", "max_iter", "tol", "channel_prior", "interaction")
"""Settings that the automatic search takes as they are given."""
STORED = (*CHOSEN, "channel_prior", "interaction", "noise", "center", "length_norm", "pca", "lda", "seed")
"""Settings that --resume takes from the model file."""

EACH = "one number, or one per --channel"
DETAILS = """Preprocessing is fitted on DATA and stored with the model. Without preprocessing options, and unless
settings of your own are given, embeddings are centered, scaled to length one and, where the data support it, reduced
to 150 dimensions. --no-auto alone fits by maximum likelihood. Ctrl-C ends training and writes the model as it is (exit
code 0); --resume continues from it."""


class Interaction(click.ParamType):  # type: ignore[type-arg]
    """A form of the interaction, or kappa."""

    name = "interaction"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | str:
        """The number, or the word."""
        if isinstance(value, str) and value.lower() in ("proportional", "full", "split"):
            return value.lower()
        try:
            return float(value)
        except ValueError:
            self.fail(f"{value!r} is not proportional, full, split or a number.", param, ctx)


@dataclass(frozen=True, kw_only=True)
class TrainRequest(SampleSource):
    """Options of ``jointplda train``; None (or no value) stands for the default of the estimator."""

    out: Path | None
    plan: bool
    steps: tuple[Step, ...]
    automatic: bool | None
    speaker_rank: int | None
    channel_rank: tuple[int, ...]
    noise: str | None
    noise_prior: float | None
    speaker_prior: float | None
    channel_prior: tuple[float, ...]
    channel_share: tuple[float, ...]
    interaction: float | str | None
    cell_share: float | None
    max_iter: int | None
    tol: float | None
    n_init: int | None
    seed: int
    resume: Path | None
    force: bool
    as_json: bool

    @property
    def searches(self) -> bool:
        """Whether settings are chosen on held-out training speakers."""
        return self.resume is None and (self.automatic is True or (self.automatic is None and not self.own_settings))

    @property
    def own_settings(self) -> list[str]:
        """Settings in ``CHOSEN`` that the user gave."""
        return list(self.settings(*CHOSEN))

    def settings(self, *names: str) -> dict[str, Any]:
        """Those of the named settings that the user gave, as arguments of an estimator."""
        values = {name: getattr(self, name) for name in names}
        return {
            name: (value[0] if len(value) == 1 else list(value)) if isinstance(value, tuple) else value
            for name, value in values.items()
            if value not in (None, ())
        }


@cloup.command("train", short_help="Train a model on labelled embeddings.", epilog=DETAILS)
@cloup.argument("data", type=options.IN_FILE)
@data_group()
@cloup.option_group(
    "Result",
    cloup.option("--out", type=options.OUT_FILE, help="Model file to write (safetensors)."),
    cloup.option("--plan", is_flag=True, help="Print sizes, memory and time of the training, and write nothing."),
    options.force,
    options.as_json,
)
@preprocessing_group()
@cloup.option_group(
    "Advanced",
    cloup.option(
        "--auto/--no-auto", "automatic", default=None,
        help="Choose priors, ranks and interaction on held-out training speakers, and calibrate. This is the default "
        "unless a rank, --noise-prior, --speaker-prior, --channel-share, --cell-share or --n-init is given.",
    ),
    options.count("--speaker-rank", "Columns of V.", "as many as the speakers support"),
    options.count("--channel-rank", f"Columns of U: {EACH}.", "as many as the channels support", multiple=True),
    options.real("--noise-prior", "Strength of the prior that shrinks the noise covariance D^-1.", "0 with --no-auto"),
    options.real("--speaker-prior", "Strength of the prior that shrinks V V'.", "0 with --no-auto"),
    options.real("--channel-prior", f"Strength of the prior that shrinks U U': {EACH}.", "chosen, or 0 with --no-auto",
                 multiple=True),
    options.probability("--channel-share", "Share of the variance between channels that U keeps, while V takes the "
                        f"rest: {EACH}.", "1", multiple=True),
    cloup.option("--interaction", type=Interaction(), metavar="FORM|KAPPA", show_default="chosen, or 0 with --no-auto",
                 help="What a speaker and a channel do together: proportional (to the noise), full, split (off V), or "
                 "a number, kappa; 0 is the paper's model."),
    options.probability("--cell-share", "Share of the interaction that scores take two samples of one speaker in one "
                        "channel to have in common; the rest is noise.", "1"),
    cloup.option("--noise", type=click.Choice(["full", "diagonal"]), show_default="full",
                 help="Noise covariance: full or diagonal."),
    options.count("--max-iter", "EM iterations at most.", "25, or 100 with --no-auto"),
    options.real("--tol", "Stop EM when an iteration gains less, in nats per sample.",
                 "0.001, or 1e-06 with --no-auto"),
    options.count("--n-init", "Number of EM restarts.", "1"),
    options.seed,
    cloup.option("--resume", type=options.IN_FILE, help="Model file to continue from, with its preprocessing, ranks "
                 "and priors."),
)  # fmt: skip
@options.common
@click.pass_context
def command(ctx: click.Context, /, quiet: bool, verbose: bool, **values: Any) -> None:
    """Train Joint PLDA on the embeddings DATA and write a model file.

    \b
    Example:
      jointplda train train.npz --speaker speaker --channel language \\
          --out model.safetensors

    DATA is a file of embeddings or a folder of Kaldi; "jointplda convert --help" lists the formats. Priors, ranks and
    interaction are chosen on held-out training speakers, who also calibrate the scores; "jointplda tune" shows the
    search.
    """  # noqa: D301
    request = TrainRequest(**values, steps=steps_of(ctx))
    _check(request, ctx)
    with command_messages(quiet, verbose) as messages:
        _train(request, messages)


def _check(request: TrainRequest, ctx: click.Context) -> None:
    """Raise if the options do not fit together."""
    if request.out is None and not request.plan:
        raise click.UsageError("Missing option '--out' (or --plan, which writes nothing).")
    for name in PER_CONDITION:
        count = len(getattr(request, name))
        if count and not request.channels:
            raise click.UsageError(f"{_option(name)} needs a --channel.")
        if count not in (0, 1, len(request.channels)):
            raise click.UsageError(f"{_option(name)}: give one value, or one for every --channel.")
    for name in ("interaction", "cell_share"):
        if getattr(request, name) is not None and not request.channels:
            raise click.UsageError(f"{_option(name)} needs a --channel.")
    if request.resume:
        typed = [name for name in STORED if ctx.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE]
        if typed:
            raise click.UsageError(f"{_listed(typed)}: stored in the resumed model; leave it out.")
    if request.cell_share is not None and not request.interaction:
        raise click.UsageError("--cell-share needs an --interaction: proportional, full, split, or a number above 0.")
    if request.automatic and request.own_settings:
        raise click.UsageError(f"{_listed(request.own_settings)}: chosen by --auto; leave it out, or leave out --auto.")
    if not request.plan:
        options.check_new(request.out, request.force)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _listed(names: list[str]) -> str:
    return ", ".join(map(_option, names))


def _train(request: TrainRequest, messages: Messages) -> None:
    from jointplda.commands.data_input import read_samples
    from jointplda.commands.plan_output import planned_dimension, print_plan

    samples = read_samples(request, messages)
    messages.info(
        f"{len(samples.ids):,} samples of {len(set(samples.speakers.tolist())):,} speakers, "
        f"{samples.X.shape[1]} dimensions"
    )
    pipe = make_pipe(request)
    if request.resume:
        pipe, samples = _resumed(request.resume, samples)
    if request.plan:
        dimension = len(pipe[-1].mean_) if request.resume else planned_dimension(pipe, samples)
        print_plan(pipe, samples, dimension, searches=request.searches, as_json=request.as_json)
        return
    if request.searches:
        fit_search(pipe, samples, messages)
    else:
        _fit(pipe, samples, request, messages)
    assert request.out is not None
    pipe.save(request.out)
    _print_result(pipe, request)


def make_pipe(request: TrainRequest) -> Pipeline:
    """Preprocessing and a model that is not fitted yet."""
    from jointplda.commands.search_output import search_pipeline
    from jointplda.estimators.joint import JointPLDA
    from jointplda.estimators.pipeline import make_pipeline
    from jointplda.estimators.plain import PLDA

    settings = {"random_state": request.seed, **request.settings(*GIVEN)}
    if request.searches:
        return search_pipeline(request.steps, **settings)
    settings |= request.settings(*CHOSEN)
    return make_pipeline(*step_objects(request.steps), JointPLDA(**settings) if request.channels else PLDA(**settings))


def fit_search(pipe: Pipeline, samples: LabelledSamples, messages: Messages) -> None:
    """Choose the settings of the pipeline's model and fit it, with progress.

    If the speakers are too few for a search but enough for one fit, the error says how to do without a search.
    """
    from jointplda.commands.progress_display import search_progress
    from jointplda.errors import InputError, Remedy

    with search_progress(messages) as callback:
        pipe[-1].set_params(callback=callback)
        try:
            pipe.fit(samples.X, samples.speakers, **channel_arguments(samples))
        except InputError as error:
            counts = Counter(samples.speakers.tolist()).values()
            several = sum(count > 1 for count in counts)
            if error.remedy is not None or min(len(counts) // 2, several) >= 2 or len(counts) < 2 or not several:
                raise
            remedy = Remedy("no_auto", True, "trains without a search")
            raise InputError(error.problem, parameter=error.parameter, remedy=remedy) from None
        finally:
            pipe[-1].set_params(callback=None)


def channel_arguments(samples: LabelledSamples) -> dict[str, Any]:
    """The argument ``channels`` of a fit, where there are conditions."""
    return {"channels": samples.channels} if samples.channels.names else {}


def _resumed(path: Path, samples: LabelledSamples) -> tuple[Pipeline, LabelledSamples]:
    """A stored pipeline to continue from, and the samples with their conditions in its order."""
    from jointplda.commands.model_facts import scoring_model
    from jointplda.estimators.pipeline import Pipeline

    pipe = Pipeline.load(path)
    model = scoring_model(pipe)
    pipe.steps[-1] = ("jointplda", model)
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
    return pipe, replace(samples, channels=samples.channels.ordered(tuple(before)))


def _fit(pipe: Pipeline, samples: LabelledSamples, request: TrainRequest, messages: Messages) -> None:
    from sklearn.exceptions import ConvergenceWarning

    from jointplda.commands.progress_display import em_progress

    model = pipe[-1]
    was_calibrated = request.resume is not None and model.calibration_ is not None
    with warnings.catch_warnings(), em_progress(messages) as callback:
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.set_params(callback=callback)
        if request.resume:
            # The preprocessing stays as it was stored: the model continues in the same space.
            model.set_params(warm_start=True, **request.settings("max_iter", "tol"))
            X = pipe[:-1].transform(samples.X) if len(pipe.steps) > 1 else samples.X
            model.fit(X, samples.speakers, **channel_arguments(samples))
        else:
            pipe.fit(samples.X, samples.speakers, **channel_arguments(samples))
    model.set_params(callback=None, warm_start=False)
    if was_calibrated:
        messages.info(
            "the calibration of the resumed model does not fit the new one and was dropped; see jointplda calibrate."
        )
    if model.interrupted_:
        messages.warning(f"EM was interrupted after {model.n_iter_} iterations; continue with --resume {request.out}.")
    elif not model.converged_:
        messages.warning(
            f"EM stopped after {model.n_iter_} iterations without converging (--tol {model.tol:g}); raise --max-iter, "
            f"or continue with --resume {request.out}."
        )


def _print_result(pipe: Pipeline, request: TrainRequest) -> None:
    from jointplda.commands.console import print_facts, print_json
    from jointplda.commands.model_facts import em_ranks, interaction_fact, scoring_model
    from jointplda.commands.search_output import search_facts, search_result

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
        print_json(result | ({"automatic": search_result(pipe[-1])} if request.searches else {}))
        return
    ranks = "".join(
        f", U of rank {rank} ({name})" for name, rank in zip(model.fitted_.condition_names, channel_ranks, strict=True)
    )
    believed = getattr(model, "interaction", 0.0) in ("proportional", "full") and model.interaction_prior[1] > 0
    has_prior = model.noise_prior or model.speaker_prior or believed
    facts = [("ranks", f"V of rank {speaker_rank}{ranks}")]
    if model.fitted_.interacts:
        facts.append(("interaction", interaction_fact(model)))
    facts += [
        ("EM", f"{model.n_iter_} iterations, {'converged' if model.converged_ else 'not converged'}"),
        ("log-likelihood", f"{likelihood:.6g} nats per sample{', log-prior included' if has_prior else ''}"),
    ]
    if request.searches:
        facts += search_facts(pipe[-1])
    else:
        advice = "none: trained on few speakers, its scores are overconfident; see jointplda calibrate, or --auto"
        facts.append(("calibration", advice))
    facts.append(("next", f"jointplda score {request.out} --enroll ... --test ... --trials ... --out scores.txt"))
    print_facts(f"{type(pipe[-1]).__name__} written to {request.out}", facts)
