"""``jointplda tune``: the search for settings on held-out training speakers, shown candidate by candidate."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import cloup

from jointplda.commands import options
from jointplda.commands.data_input import SampleSource
from jointplda.commands.messages import command_messages
from jointplda.commands.training_options import Step, data_group, preprocessing_group, steps_of

if TYPE_CHECKING:
    from jointplda.commands.messages import Messages

DETAILS = """Speakers are held out in turn. The criterion is minCllr of the pairs of held-out speakers; same-channel
and cross-channel pairs have the same weight. "share" is the share of the variance between channels that U keeps, "prior
of U" is the strength of the prior that shrinks U U'. Without preprocessing options, embeddings are centered, scaled to
length one and, where the data support it, reduced to 150 dimensions. Ctrl-C ends the search and takes the best
candidate so far."""


@dataclass(frozen=True, kw_only=True)
class TuneRequest(SampleSource):
    """Options of ``jointplda tune``."""

    steps: tuple[Step, ...]
    folds: int | None
    plot: Path | None
    out: Path | None
    seed: int
    force: bool
    as_json: bool


@cloup.command("tune", short_help="Show the search for settings on held-out training speakers.", epilog=DETAILS)
@cloup.argument("data", type=options.IN_FILE)
@data_group()
@cloup.option_group(
    "Result",
    cloup.option("--out", type=options.OUT_FILE, help="Model file to write, with the chosen settings, calibrated."),
    cloup.option("--plot", type=options.OUT_FILE, help="Picture of the candidates to write (SVG)."),
    options.force,
    options.as_json,
)
@preprocessing_group()
@cloup.option_group(
    "Advanced",
    cloup.option("--folds", type=click.IntRange(2), metavar="N", show_default="4",
                 help="Number of groups of speakers that are held out in turn."),
    options.seed,
)  # fmt: skip
@options.common
@click.pass_context
def command(ctx: click.Context, /, quiet: bool, verbose: bool, **values: Any) -> None:
    """Search for settings of Joint PLDA on DATA and print the result of every candidate.

    \b
    Example:
      jointplda tune train.npz --speaker speaker --channel language \\
          --plot candidates.svg

    "jointplda train" makes the same search and writes its best model.
    """  # noqa: D301
    request = TuneRequest(**values, steps=steps_of(ctx))
    for path in (request.plot, request.out):
        options.check_new(path, request.force)
    with command_messages(quiet, verbose) as messages:
        _tune(request, messages)


def _tune(request: TuneRequest, messages: Messages) -> None:
    from jointplda.commands.console import print_facts, print_json, print_table
    from jointplda.commands.data_input import read_samples
    from jointplda.commands.search_output import HEADER, candidate_rows, search_facts, search_pipeline, search_result
    from jointplda.commands.train_command import fit_search

    samples = read_samples(request, messages)
    settings = {} if request.folds is None else {"cv": request.folds}
    pipe = search_pipeline(request.steps, random_state=request.seed, **settings)
    fit_search(pipe, samples, messages)
    model = pipe[-1]
    if request.plot is not None:
        from jointplda.report.gather import training_of
        from jointplda.report.training_plots import write_attempts

        write_attempts(training_of(model), request.plot)
        messages.info(f"picture written to {request.plot}")
    if request.out is not None:
        pipe.save(request.out)
        messages.info(f"model written to {request.out}")
    if request.as_json:
        print_json(search_result(model))
        return
    print_table("Candidates, best first", HEADER, candidate_rows(model), left=0)
    print_facts("Chosen settings", search_facts(model))
