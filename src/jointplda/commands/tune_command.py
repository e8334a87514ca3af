"""``jointplda tune``: its options and help."""

from typing import Any

import click
import cloup

from jointplda.commands import options
from jointplda.commands.messages import Messages
from jointplda.commands.training_options import given_steps, preprocessing

DETAILS = """Speakers are held out in turn. The criterion is minCllr of the pairs of held-out speakers; same-channel
and cross-channel pairs have the same weight. "share" is the share of the variance between channels that U keeps,
"prior of U" is the strength of the prior that shrinks U U'. Without preprocessing options front ends are tried too:
centering, scaling to length one and, where the data support it, PCA to 150 dimensions; without length norm; whitening
before it. Ctrl-C ends the search and takes the best candidate so far."""


@cloup.command("tune", short_help="Show the search for settings on held-out training speakers.", epilog=DETAILS)
@cloup.argument("data", type=options.IN_FILE)
@options.training_data()
@cloup.option_group(
    "Result",
    cloup.option("--out", type=options.OUT_FILE, help="Model file to write, with the chosen settings, calibrated."),
    cloup.option("--plot", type=options.OUT_FILE, help="Picture of the candidates to write (SVG)."),
    options.force,
    options.as_json,
)
@preprocessing()
@cloup.option_group(
    "Advanced",
    cloup.option("--folds", type=click.IntRange(2), metavar="N", show_default="4",
                 help="Number of groups of speakers that are held out in turn."),
    options.budget,
    options.seed,
)  # fmt: skip
@options.common
def command(messages: Messages, /, **values: Any) -> None:
    """Search for settings of Joint PLDA on DATA and print the result of every candidate.

    \b
    Example:
      jointplda tune train.npz --speaker speaker --channel language \\
          --plot candidates.svg

    "jointplda train" makes the same search and writes its best model.
    """  # noqa: D301
    force = values.pop("force")
    for path in (values["plot"], values["out"]):
        options.check_new(path, force)
    from jointplda.commands.tune_run import tune

    tune(options.taken(options.LabelledFile, values), messages, steps=given_steps(), **values)
