"""``jointplda tune``: which settings suit the data, tried on training speakers held out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from jointplda.commands import options
from jointplda.commands.train_command import labelled_data, preprocessing, step_objects

if TYPE_CHECKING:
    from jointplda.commands.options import Talk


@click.command("tune", short_help="Try settings on held-out training speakers, and show what was tried.")
@click.argument("data", type=options.IN_FILE)
@labelled_data
@preprocessing
@click.option("--folds", type=click.IntRange(2), default=4, show_default=True, help="Folds of speakers.")
@click.option("--plot", type=options.OUT_FILE, help="Write a picture of what was tried (SVG).")
@click.option("--out", type=options.OUT_FILE, help="Also write the model with the chosen settings, calibrated.")
@options.seed
@options.allow_missing
@options.force
@options.as_json
@options.common
@click.pass_context
def command(ctx: click.Context, /, quiet: bool, verbose: bool, **given: Any) -> None:
    """Try settings of Joint PLDA on DATA and print what came of each.

    Speakers are held out in turn, fold by fold; the criterion is minCllr of their pairs, same- and cross-channel ones
    counting alike. "share" is how much of the variance between channels is left to them, "prior of U" how strongly U
    is shrunk. What "jointplda train" chooses by default is what this shows. Without preprocessing options embeddings
    are centred, scaled to length one and, where the data support it, reduced to 150 dimensions. Ctrl-C ends the search
    and takes the best so far.
    """
    for path in (given["plot"], given["out"]):
        options.check_new(path, given["force"])
    with options.talking(quiet, verbose) as talk:
        _tune(ctx.meta.get("jointplda.steps", []), given, talk)


def _tune(steps: list[tuple[str, Any]], given: dict[str, Any], talk: Talk) -> None:
    from jointplda.commands import search_output
    from jointplda.commands.console import print_facts, print_json, print_table
    from jointplda.commands.train_command import load_labelled

    X, speakers, conditions = load_labelled(given, talk)
    pipe = search_output.pipeline(step_objects(steps), folds=given["folds"], random_state=given["seed"])
    search_output.fit(pipe, X, speakers, conditions, talk)
    model = pipe[-1]
    if given["plot"] is not None:
        from jointplda.report.gather import training_of
        from jointplda.report.training_plots import write_attempts

        write_attempts(training_of(model), given["plot"])
        talk.say(f"picture written to {given['plot']}")
    if given["out"] is not None:
        pipe.save(given["out"])
        talk.say(f"model written to {given['out']}")
    if given["as_json"]:
        print_json(search_output.as_dict(model))
        return
    print_table("What was tried, best first", search_output.HEADER, search_output.tried_rows(model), left=0)
    print_facts("What was chosen", search_output.facts(model))
