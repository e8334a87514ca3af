"""``jointplda train``: from labelled embeddings to a model file."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import click

from jointplda.commands import options, search_output

if TYPE_CHECKING:
    from jointplda.commands.options import Talk

KEPT = (
    "speaker_rank", "channel_ranks", "center", "length_norm", "pca", "lda", "noise", "noise_prior", "speaker_prior",
    "channel_shares", "channel_priors", "n_init", "seed",
)  # fmt: skip
"""Options that --resume takes from the model."""
OVERHEAD_SECONDS = 2e-3  # of an iteration, whatever its work


def _remember(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    """Note a preprocessing step in the order of the command line."""
    if value:
        ctx.meta.setdefault("jointplda.steps", []).append((param.name, value))
    return value


def preprocessing(function: Any) -> Any:
    """--center, --length-norm, --pca and --lda, applied in the order they are given."""
    for option in (
        click.option("--lda", type=click.IntRange(1), callback=_remember, help="Keep N dimensions by LDA."),
        click.option("--pca", type=click.IntRange(1), callback=_remember, help="Keep N dimensions by PCA."),
        click.option("--length-norm", is_flag=True, callback=_remember, help="Scale every sample to length one."),
        click.option("--center", is_flag=True, callback=_remember, help="Subtract the training mean."),
    ):
        function = option(function)
    return function


def labelled_data(function: Any) -> Any:
    """--labels, --speaker and --channel."""
    for option in (
        click.option(
            "--channel", "channels", multiple=True, metavar="COL|FILE",
            help="Column of a nuisance (language, microphone, ...), or a file like utt2lang; may be repeated. Without "
            "it ordinary PLDA is trained.",
        ),
        click.option(
            "--speaker", required=True, metavar="COL|FILE", help="Column of the speakers, or a file like utt2spk."
        ),
        options.labels,
    ):  # fmt: skip
        function = option(function)
    return function


@click.command("train", short_help="Train a model on labelled embeddings.")
@click.argument("data", type=options.IN_FILE)
@labelled_data
@click.option(
    "--auto/--no-auto", "automatic", default=None,
    help="Choose priors and ranks on held-out training speakers, and calibrate (the default, unless a rank, "
    "--noise-prior, --speaker-prior, --channel-share or --n-init is given).",
)  # fmt: skip
@click.option("--speaker-rank", type=click.IntRange(1), help="Columns of V; default: what the speakers support.")
@click.option(
    "--channel-rank", "channel_ranks", type=click.IntRange(1), multiple=True,
    help="Columns of U: one number, or one per --channel; default: what the channels support.",
)  # fmt: skip
@click.option("--out", type=options.OUT_FILE, help="Model file to write (safetensors).")
@preprocessing
@click.option("--noise", type=click.Choice(["full", "diagonal"]), default="full", show_default=True, help="Form of D.")
@click.option("--max-iter", type=click.IntRange(1), help="EM iterations at most; default: 100, or 25 with --auto.")
@click.option(
    "--tol", type=click.FloatRange(0),
    help="Stop when an iteration gains less, in nats per sample; default: 1e-6, or 1e-3 with --auto.",
)  # fmt: skip
@click.option("--noise-prior", type=click.FloatRange(0), default=0.0, show_default=True, help="Shrinkage of D^-1.")
@click.option("--speaker-prior", type=click.FloatRange(0), default=0.0, show_default=True, help="Shrinkage of V V'.")
@click.option(
    "--channel-prior", "channel_priors", type=click.FloatRange(0), multiple=True,
    help="Shrinkage of U U': one number, or one per --channel; default: chosen, or 0 with --no-auto.",
)  # fmt: skip
@click.option(
    "--channel-share", "channel_shares", type=click.FloatRange(0, 1), multiple=True,
    help="How much of the variance between channels is left to them, the rest being the speaker's: one number, or one "
    "per --channel; default: 1.",
)  # fmt: skip
@click.option("--n-init", type=click.IntRange(1), default=1, show_default=True, help="Starts to try.")
@options.seed
@click.option(
    "--resume", type=options.IN_FILE, help="Go on from this model file, with its preprocessing, ranks and priors."
)
@click.option("--plan", is_flag=True, help="Only say what would be done: levels, memory, time. Nothing is written.")
@options.allow_missing
@options.force
@options.as_json
@options.common
@click.pass_context
def command(ctx: click.Context, /, quiet: bool, verbose: bool, **given: Any) -> None:
    """Train Joint PLDA on the embeddings DATA and write a model file.

    DATA is an npz, npy, HDF5 or Parquet file, or a Kaldi scp, ark or folder. By default settings are chosen on training
    speakers held out in turn, and the model carries a calibration fitted to them ("jointplda tune" shows what was
    tried); --no-auto fits by maximum likelihood. Preprocessing is fitted on DATA in the order its options are given,
    and stored with the model; with --auto and without any, embeddings are centred, scaled to length one and, where the
    data support it, reduced to 150 dimensions. Ctrl-C ends training and keeps the model so far (exit code 0); --resume
    goes on from it.
    """
    if given["out"] is None and not given["plan"]:
        raise click.UsageError("Missing option '--out' (or --plan, to see what would be done).")
    for option in search_output.PER_CHANNEL:
        if given[option] and not given["channels"]:
            raise click.UsageError(f"{search_output.spelled(option)} needs a --channel.")
        if len(given[option]) not in (0, 1, len(given["channels"])):
            raise click.UsageError(f"give {search_output.spelled(option)} once, or once for every --channel.")
    if given["resume"]:
        fixed = [name for name in KEPT if ctx.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE]
        if fixed:
            raise click.UsageError(
                f"{', '.join(map(search_output.spelled, fixed))}: taken from the resumed model; leave out."
            )
    chooses = search_output.check_unmixed(ctx, given["automatic"])
    given["automatic"] = chooses and not given["resume"]
    given["max_iter"] = given["max_iter"] or (25 if given["automatic"] else 100)
    given["tol"] = (1e-3 if given["automatic"] else 1e-6) if given["tol"] is None else given["tol"]
    if not given["plan"]:
        options.check_new(given["out"], given["force"])
    with options.talking(quiet, verbose) as talk:
        _train(ctx.meta.get("jointplda.steps", []), given, talk)


def load_labelled(given: dict[str, Any], talk: Talk) -> tuple[Any, Any, Any]:
    """Embeddings, their speakers, and their channels (or None), as the options say."""
    from jointplda.commands import data_input
    from jointplda.labels import ConditionColumns

    table = data_input.load(given["data"], given["labels"])
    table, speakers, channels = data_input.labelled(
        table, given["speaker"], given["channels"], talk, allow_missing=given["allow_missing"]
    )
    names = data_input.condition_names(given["channels"], table)
    conditions = ConditionColumns(names, tuple(channels)) if channels else None
    talk.say(f"{len(table.ids):,} samples of {len(set(speakers.tolist())):,} speakers, {table.X.shape[1]} dimensions")
    return table.X, speakers, conditions


def _train(steps: list[tuple[str, Any]], given: dict[str, Any], talk: Talk) -> None:
    X, speakers, conditions = load_labelled(given, talk)
    if given["automatic"]:
        settings: dict[str, Any] = {"noise": given["noise"], "random_state": given["seed"], **_limits(given)}
        settings |= _per_channel(given)
        pipe = search_output.pipeline(step_objects(steps), **settings)
        if given["plan"]:
            _show_plan(pipe, X, speakers, conditions, given)
            return
        search_output.fit(pipe, X, speakers, conditions, talk)
        pipe.save(given["out"])
        _show_result(pipe, given)
        return
    pipe = _resumed(given, conditions) if given["resume"] else _pipeline(steps, given)
    if given["resume"] and conditions is not None and hasattr(pipe[-1], "training_"):
        conditions = conditions.ordered(tuple(pipe[-1].training_["conditions"]))
    if given["plan"]:
        _show_plan(pipe, X, speakers, conditions, given)
        return
    _fit(pipe, X, speakers, conditions, given, talk)
    pipe.save(given["out"])
    _show_result(pipe, given)


def step_objects(steps: list[tuple[str, Any]]) -> list[Any]:
    """Preprocessing in the order given."""
    from jointplda.preprocessing import LDA, PCA, Center, LengthNorm

    make: dict[str, Any] = {
        "center": lambda _: Center(),
        "length_norm": lambda _: LengthNorm(),
        "pca": lambda n: PCA(n),
        "lda": lambda n: LDA(n),
    }
    return [make[name](value) for name, value in steps]


def _pipeline(steps: list[tuple[str, Any]], given: dict[str, Any]) -> Any:
    """Preprocessing in the order given, then the model."""
    from jointplda.estimators.joint import JointPLDA
    from jointplda.estimators.pipeline import make_pipeline
    from jointplda.estimators.plain import PLDA

    settings = {
        "speaker_rank": given["speaker_rank"],
        "noise": given["noise"],
        "noise_prior": given["noise_prior"],
        "speaker_prior": given["speaker_prior"],
        "n_init": given["n_init"],
        "random_state": given["seed"],
        **_limits(given),
    }
    model = JointPLDA(**settings, **_per_channel(given)) if given["channels"] else PLDA(**settings)
    return make_pipeline(*step_objects(steps), model)


def _per_channel(given: dict[str, Any]) -> dict[str, Any]:
    """EvaluationSettings given once, or once for every --channel."""
    return {
        setting: given[option][0] if len(given[option]) == 1 else list(given[option])
        for option, setting in search_output.PER_CHANNEL.items()
        if given[option]
    }


def _limits(given: dict[str, Any]) -> dict[str, Any]:
    return {"max_iter": given["max_iter"], "tol": given["tol"]}


def _resumed(given: dict[str, Any], conditions: Any) -> Any:
    """A stored model, set to go on from where it is."""
    from jointplda.estimators.pipeline import Pipeline

    pipe = Pipeline.load(given["resume"])
    if hasattr(pipe[-1], "chosen"):
        pipe.steps[-1] = ("jointplda", pipe[-1].chosen())
    names = () if conditions is None else conditions.names
    before = pipe[-1].training_["conditions"] if hasattr(pipe[-1], "training_") else names
    if len(names) == len(before) and sorted(names) != sorted(before):
        raise click.ClickException(
            f"{given['resume']}: was trained with --channel {' '.join(before)}, not {' '.join(names)}; give the same, "
            "or train anew."
        )
    if bool(given["channels"]) != bool(pipe[-1].channel_ranks_):
        raise click.ClickException(
            f"{given['resume']}: was trained {'with' if pipe[-1].channel_ranks_ else 'without'} channels; give the "
            "same --channel options as then."
        )
    pipe[-1].set_params(warm_start=True, **_limits(given))
    return pipe


def _fit(pipe: Any, X: Any, speakers: Any, conditions: Any, given: dict[str, Any], talk: Talk) -> None:
    from sklearn.exceptions import ConvergenceWarning

    from jointplda.commands.progress_display import iterations

    carried = getattr(pipe[-1], "calibration_", None) is not None
    with warnings.catch_warnings(), iterations(talk, given["max_iter"]) as callback:
        warnings.simplefilter("ignore", ConvergenceWarning)
        pipe[-1].set_params(callback=callback)
        channels = {} if conditions is None else {"channels": conditions}
        pipe[-1].fit(_preprocessed(pipe, X, speakers, fitted=bool(given["resume"])), speakers, **channels)
    pipe[-1].set_params(callback=None, warm_start=False)
    if given["resume"] and carried:
        talk.say("the calibration of the resumed model no longer fits and was dropped; see jointplda calibrate.")
    if not pipe[-1].converged_:
        end = "was interrupted" if pipe[-1].interrupted_ else "stopped"
        advice = (
            "go on with" if pipe[-1].interrupted_ else f"--tol is {given['tol']:g}: raise --max-iter, or go on with"
        )
        talk.say(
            f"{click.style('warning:', fg='yellow')} EM {end} after {pipe[-1].n_iter_} iterations without converging; "
            f"{advice} --resume {given['out']}."
        )


def _preprocessed(pipe: Any, X: Any, speakers: Any, *, fitted: bool) -> Any:
    """Samples as the model gets them; the steps before it are fitted first, unless they are already."""
    for _, step in pipe.steps[:-1]:
        X = step.transform(X) if fitted else step.fit(X, speakers).transform(X)
    return X


def _show_plan(pipe: Any, X: Any, speakers: Any, conditions: Any, given: dict[str, Any]) -> None:
    from jointplda.commands.console import bytes_text, print_facts, print_json, seconds_text
    from jointplda.commands.progress_display import flops

    X = _preprocessed(pipe, X, speakers, fitted=bool(given["resume"]))
    channels = () if conditions is None else (conditions,)
    plan = pipe[-1].plan(X, speakers, *channels)
    seconds = plan.work / flops() + OVERHEAD_SECONDS
    if given["as_json"]:
        print_json(
            {
                "samples": len(X), "dimensions": X.shape[1], "factors": plan.names, "levels": plan.levels,
                "ranks": plan.ranks, "eliminated": plan.names[plan.eliminated], "components": plan.components,
                "largest": plan.largest, "memory_bytes": plan.memory, "seconds_per_iteration": seconds,
                "max_iterations": given["max_iter"],
            }
        )  # fmt: skip
        return
    print_facts("What training would do (nothing was written)", [
        ("samples", f"{len(X):,}, {X.shape[1]} dimensions after preprocessing"),
        *((f"factor {name}", f"{f'{levels:,} levels' if levels else 'one level per sample'}, rank {rank}")
          for name, levels, rank in zip(plan.names, plan.levels, plan.ranks, strict=True)),
        ("eliminated", plan.names[plan.eliminated]),
        ("linked systems", f"{plan.components:,}, the largest with {plan.largest:,} unknowns"
         if plan.components else "none"),
        ("memory", f"{bytes_text(X.nbytes)} for the samples, about {bytes_text(plan.memory)} for EM"),
        ("time", f"about {seconds_text(seconds)} an iteration, {given['max_iter']} iterations at most "
         f"({seconds_text(seconds * given['max_iter'])})"),
        *([("settings", "chosen by some 20 to 60 such fits to parts of the speakers")] if given["automatic"] else []),
    ])  # fmt: skip


def _with_priors(model: Any) -> str:
    """What to add to the objective of a model that has priors."""
    settings = getattr(model, "settings_", None) or model.get_params(deep=False)
    return ", with the priors' own" if settings["noise_prior"] or settings["speaker_prior"] else ""


def _show_result(pipe: Any, given: dict[str, Any]) -> None:
    from jointplda.commands.console import print_facts, print_json
    from jointplda.commands.info_command import found_ranks

    model = pipe[-1]
    found_speaker, *found_channels = found_ranks(model)
    result = {
        "model": str(given["out"]),
        "class": type(model).__name__,
        "speaker_rank": found_speaker,
        "channel_ranks": found_channels,
        "iterations": model.n_iter_,
        "converged": model.converged_,
        "log_likelihood_per_sample": float(model.log_likelihoods_[-1]) if model.n_iter_ else None,
        "training": model.training_,
    }
    if given["automatic"]:
        result["automatic"] = search_output.as_dict(model)
    if given["as_json"]:
        print_json(result)
        return
    ranks = "".join(
        f", U of rank {rank} ({name})"
        for name, rank in zip(model.training_["conditions"], found_channels, strict=False)
    )
    end = "converged" if model.converged_ else "not converged"
    print_facts(f"{type(model).__name__} written to {given['out']}", [
        ("ranks", f"V of rank {found_speaker}{ranks}"),
        ("EM", f"{model.n_iter_} iterations, {end}"),
        ("log-likelihood", f"{result['log_likelihood_per_sample']:.6g} nats per sample{_with_priors(model)}"),
        *(search_output.facts(model) if given["automatic"] else [
            ("calibration", "none: with few speakers its scores are overconfident; see jointplda calibrate, or --auto")
        ]),
        ("next", f"jointplda score {given['out']} --enroll ... --test ... --trials ... --out scores.txt"),
    ])  # fmt: skip
