"""``jointplda train``: its options and help."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import cloup

from jointplda.commands import options
from jointplda.commands.messages import Messages
from jointplda.commands.training_options import MODEL, STEP_OPTIONS, Step, given_settings, given_steps, preprocessing
from jointplda.model.settings import RULES

DETAILS = """Preprocessing is fitted on DATA and stored with the model; a search fits it without the speakers held
out. Unless settings of your own are given, embeddings are centered, scaled to length one and, where the data support
it, reduced to 150 dimensions; without length norm, or scaled or whitened before it, where held-out speakers say so.
--pca, --whiten and --lda take the place of that PCA; with --center or --length-norm steps are exactly those given.
DATA may also be files of statistics (see "jointplda statistics"), for settings of your own.
--no-auto alone fits by maximum likelihood, without preprocessing. Ctrl-C ends training and writes the model as it is,
if an iteration or a candidate of the search is done (exit code 0); --resume continues from it."""
OF_CELLS = ("interaction", "interaction_rank", "interaction_prior", "cell_share")
"""Settings of the interaction, which needs channels."""
CHOSEN = tuple(name for name, rule in RULES.items() if not rule.kept_if_given)
"""Settings that turn the automatic search off when they are given."""
RESUMED = ("max_iter", "tol")
"""Settings that a model which continues takes from the command line, and not from its file."""
STORED = (*(name for name in RULES if name not in RESUMED), *STEP_OPTIONS, "seed")
"""Settings that --resume takes from the model file."""


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(_option, names))


@dataclass(frozen=True, kw_only=True)
class TrainRequest(options.LabelOptions):
    """Options of ``jointplda train``; ``given`` are the settings of the model that the user gave."""

    data: tuple[Path, ...]
    given: Mapping[str, Any]
    memory: float | None
    scheduler: str | None
    out: Path | None
    plan: bool
    of_sums: bool
    steps: tuple[Step, ...]
    automatic: bool | None
    budget: float | None
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
        return [name for name in CHOSEN if name in self.given]


@cloup.command("train", short_help="Train a model on labelled embeddings.", epilog=DETAILS)
@cloup.argument("data", type=options.IN_FILE, nargs=-1, required=True)
@options.training_data(options.speaker_of_embeddings)
@cloup.option_group(
    "Result",
    cloup.option("--out", type=options.OUT_FILE, help="Model file to write (safetensors)."),
    cloup.option("--plan", is_flag=True, help="Print sizes, memory and time of the training, and write nothing."),
    options.force,
    options.as_json,
)
@preprocessing()
@cloup.option_group(
    "Advanced",
    cloup.option(
        "--auto/--no-auto", "automatic", default=None,
        help="Choose priors, ranks and interaction on held-out training speakers, and calibrate. This is the default "
        f"unless one of these is given: {_listed(CHOSEN)}.",
    ),
    *MODEL,
    options.budget,
    options.memory,
    options.scheduler,
    options.seed,
    cloup.option("--resume", type=options.IN_FILE, help="Model file to continue from, with its preprocessing, ranks "
                 "and priors."),
)  # fmt: skip
@options.common
@click.pass_context
def command(ctx: click.Context, messages: Messages, /, **values: Any) -> None:
    """Train Joint PLDA on the embeddings DATA and write a model file.

    \b
    Example:
      jointplda train train.npz --speaker speaker --channel language \\
          --out model.safetensors

    DATA are files of embeddings or folders of Kaldi; "jointplda convert --help" lists the formats. Priors, ranks and
    interaction are chosen on held-out training speakers, who also calibrate the scores; "jointplda tune" shows the
    search.
    """  # noqa: D301
    of_sums = options.are_sums(values["data"], values["speaker"])
    request = TrainRequest(given=given_settings(values), steps=given_steps(), of_sums=of_sums, **values)
    _check(request, ctx)
    from jointplda.commands.train_run import train

    train(request, messages)


def _check(request: TrainRequest, ctx: click.Context) -> None:
    """Raise if the options do not fit together."""
    if request.out is None and not request.plan:
        raise click.UsageError("Missing option '--out' (or --plan, which writes nothing).")
    for name, value in request.given.items():
        if (RULES[name].per_condition or name in OF_CELLS) and not request.channels and not request.of_sums:
            raise click.UsageError(f"{_option(name)} needs a --channel.")
        if isinstance(value, list) and len(value) != len(request.channels) and request.channels:
            raise click.UsageError(f"{_option(name)}: give one value, or one for every --channel.")
    if request.resume:
        typed = [name for name in STORED if ctx.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE]
        if typed:
            raise click.UsageError(f"{_listed(typed)}: stored in the resumed model; leave it out.")
    of_cells = [name for name in OF_CELLS if name in request.given and name != "interaction"]
    if of_cells and not request.given.get("interaction"):
        needed = "needs an --interaction: proportional, full, split, or a number above 0."
        raise click.UsageError(f"{_option(of_cells[0])} {needed}")
    if request.automatic and request.resume:
        raise click.UsageError("--auto: a resumed model goes on with its settings; leave out --auto, or --resume.")
    if request.automatic and request.own_settings:
        raise click.UsageError(f"{_listed(request.own_settings)}: chosen by --auto; leave it out, or leave out --auto.")
    if request.budget is not None and not request.searches:
        raise click.UsageError("--budget: is for the search for settings, which --auto makes.")
    if request.of_sums and (request.searches or request.resume or request.steps or request.labels or request.plan):
        own = f"Give settings of your own ({_listed(CHOSEN[:3])}, ...), or --no-auto; or train on embeddings."
        advice = own if request.searches else "Leave out preprocessing, --labels, --plan and --resume."
        raise click.UsageError(
            f"{request.data[0]}: holds statistics, whose samples cannot be held out, preprocessed, labelled or planned "
            f"for. {advice}"
        )
    if request.scheduler and (request.resume or request.of_sums or request.plan):
        raise click.UsageError("--dask: workers read embeddings for a new model; leave out --resume and --plan.")
    if request.memory is not None and request.resume:
        raise click.UsageError("--memory: --resume reads all samples into memory; leave out one of them.")
    if not request.plan:
        options.check_new(request.out, request.force)
