"""``jointplda demo``: the whole story on the bundled voices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from jointplda.commands import options
from jointplda.commands.compare import recipe_options


@click.command("demo", short_help="Compare systems on the bundled voices and write a page.")
@click.option("--report", type=options.OUT_FILE, default=Path("report.html"), show_default=True,
              help="Page to write; an earlier one is replaced.")  # fmt: skip
@recipe_options
@options.priors
@options.draws
@options.seed
@options.as_json
@options.common
def command(quiet: bool, verbose: bool, debug: bool, **given: Any) -> None:
    """Train and compare systems on the voices that come with jointplda, and write a page.

    Training voices were heard through one or two transmissions each, test voices through many. PLDA takes the
    transmission for the voice; Joint PLDA knows better.
    """
    options.check_new(given["report"], True)
    with options.talking(quiet, verbose) as talk:
        from jointplda.commands.compare import run
        from jointplda.datasets import load_voices
        from jointplda.evaluation.protocol import Samples, trials_of

        voices = load_voices()
        train, test = (
            Samples(part.ids, part.X, part.voice, part.transmission[:, None])
            for part in (voices.train(), voices.test())
        )
        talk.say(
            f"{len(train.ids):,} recordings of {len(set(train.speakers.tolist()))} synthetic voices to train on, "
            f"{len(test.ids):,} of {len(set(test.speakers.tolist()))} others to test on"
        )
        training, testing, sides, target = trials_of(train, test, ["transmission"])
        facts = [("data", "voices that come with jointplda (synthetic; see the data card)")]
        run(given, training, testing, sides, target, facts, talk, "Joint PLDA on the bundled voices")
        click.echo(f"Open {given['report'].resolve()} in a browser.", err=given["as_json"])
