"""``jointplda demo``: the whole story on the bundled voices."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jointplda.commands import options
from jointplda.commands.compare_command import recipe_options

if TYPE_CHECKING:
    from jointplda.commands.options import Talk

EXPORTED_TRIALS = 40_000


@click.command("demo", short_help="Compare systems on the bundled voices and write a page.")
@click.option("--report", type=options.OUT_FILE, default=Path("report.html"), show_default=True,
              help="Page to write; an earlier one is replaced.")  # fmt: skip
@click.option("--export", type=click.Path(file_okay=False, path_type=Path),
              help="Instead, write the voices as files to this folder, to try the other commands on.")  # fmt: skip
@recipe_options
@options.priors
@options.draws
@options.seed
@options.as_json
@options.common
def command(quiet: bool, verbose: bool, **given: Any) -> None:
    """Train and compare systems on the voices that come with jointplda, and write a page.

    Training voices were heard through one or two transmissions each, test voices through many. PLDA takes the
    transmission for the voice; Joint PLDA knows better.
    """
    with options.talking(quiet, verbose) as talk:
        if given["export"] is not None:
            _export(given["export"], talk)
            return
        options.check_new(given["report"], True)
        from jointplda.commands.compare_command import run
        from jointplda.datasets import load_voices
        from jointplda.evaluation.labelled_samples import LabelledSamples
        from jointplda.evaluation.protocol import trials_of
        from jointplda.labels import ConditionColumns

        voices = load_voices()
        train, test = (
            LabelledSamples(part.ids, part.X, part.voice, ConditionColumns(("transmission",), (part.transmission,)))
            for part in (voices.train(), voices.test())
        )
        talk.say(
            f"{len(train.ids):,} recordings of {len(set(train.speakers.tolist()))} synthetic voices to train on, "
            f"{len(test.ids):,} of {len(set(test.speakers.tolist()))} others to test on"
        )
        experiment = trials_of(train, test)
        facts = [("data", "voices that come with jointplda (synthetic; see the data card)")]
        run(given, experiment, facts, talk, "Joint PLDA on the bundled voices")
        click.echo(f"Open {given['report'].resolve()} in a browser.", err=given["as_json"])


def _export(folder: Path, talk: Talk) -> None:
    """Voices as files: train.npz, and for two halves of the test voices an npz and a key of trials each."""
    import numpy as np

    from jointplda.datasets import load_voices
    from jointplda.embedding_table import EmbeddingTable
    from jointplda.evaluation.protocol import all_pairs
    from jointplda.formats import write_embeddings, write_trials
    from jointplda.trial_list import Trials

    voices = load_voices()
    test = voices.test()
    half = np.isin(test.voice, np.unique(test.voice)[::2])
    sets = {"train": voices.train(), "calibration": test.where(half), "test": test.where(~half)}
    targets = [folder / f"{name}.npz" for name in sets] + [
        folder / f"{name}.trials" for name in sets if name != "train"
    ]
    for path in targets:
        if path.exists():
            raise click.ClickException(f"{path}: is there already. Choose another folder.")
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    for name, part in sets.items():
        columns = {"voice": part.voice, "language": part.language, "transmission": part.transmission}
        write_embeddings(EmbeddingTable(part.ids, part.X, columns), folder / f"{name}.npz")
        if name == "train":
            continue
        pairs = all_pairs(len(part.ids))
        pairs = pairs[np.sort(rng.choice(len(pairs), EXPORTED_TRIALS, replace=False))]
        target = (part.voice[pairs[:, 0]] == part.voice[pairs[:, 1]]).astype(np.int8)
        write_trials(Trials(part.ids, part.ids, pairs[:, 0], pairs[:, 1], target), folder / f"{name}.trials", "kaldi")
    talk.say(f"written: {', '.join(str(path) for path in targets)}")
