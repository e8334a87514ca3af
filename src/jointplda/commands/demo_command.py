"""``jointplda demo``: systems compared on the bundled voices."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import cloup

from jointplda.commands import options
from jointplda.commands.compare_command import ComparisonRequest, advanced_group, run_comparison
from jointplda.commands.messages import command_messages

if TYPE_CHECKING:
    from jointplda.commands.messages import Messages

EXPORTED_TRIALS = 40_000


@dataclass(frozen=True, kw_only=True)
class DemoRequest(ComparisonRequest):
    """Options of ``jointplda demo``."""

    export: Path | None


@cloup.command("demo", short_help="Compare systems on the bundled voices and write a page.")
@cloup.option_group(
    "Result",
    cloup.option("--report", type=options.OUT_FILE, default=Path("report.html"), show_default=True,
                 help="HTML page to write; an existing one is replaced."),
    cloup.option("--export", type=click.Path(file_okay=False, path_type=Path),
                 help="Folder to write the voices to as files, for the other commands; nothing is compared."),
    options.as_json,
)  # fmt: skip
@advanced_group()
@options.common
def command(quiet: bool, verbose: bool, **values: Any) -> None:
    """Train and compare systems on the voices that come with jointplda, and write a page.

    \b
    Example:
      jointplda demo --report report.html

    Training voices were recorded through one or two transmissions each, test voices through many. PLDA takes the
    transmission for a part of the voice; Joint PLDA models it as a condition of its own.
    """  # noqa: D301
    request = DemoRequest(**values)
    with command_messages(quiet, verbose) as messages:
        if request.export is not None:
            _export(request.export, messages)
            return
        assert request.report is not None
        options.check_new(request.report, True)
        _compare(request, messages)
        click.echo(f"Open {request.report.resolve()} in a browser.", err=request.as_json)


def _compare(request: DemoRequest, messages: Messages) -> None:
    from jointplda.datasets import load_voices
    from jointplda.evaluation.labelled_samples import LabelledSamples
    from jointplda.evaluation.protocol import trials_of
    from jointplda.labels import ConditionColumns

    voices = load_voices()
    train, test = (
        LabelledSamples(part.ids, part.X, part.voice, ConditionColumns(("transmission",), (part.transmission,)))
        for part in (voices.train(), voices.test())
    )
    messages.info(
        f"training: {len(train.ids):,} recordings of {len(set(train.speakers.tolist()))} synthetic voices; "
        f"test: {len(test.ids):,} of {len(set(test.speakers.tolist()))} other voices"
    )
    facts = [("data", "voices that come with jointplda (synthetic; see the data card)")]
    run_comparison(request, trials_of(train, test), facts, messages, "Joint PLDA on the bundled voices")


def _export(folder: Path, messages: Messages) -> None:
    """Write the voices: train.npz, and for two halves of the test voices an npz file and a list of trials each."""
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
            raise click.ClickException(f"{path}: exists already. Choose another folder.")
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    for name, part in sets.items():
        columns = {"voice": part.voice, "language": part.language, "transmission": part.transmission}
        write_embeddings(EmbeddingTable(ids=part.ids, X=part.X, columns=columns), folder / f"{name}.npz")
        if name == "train":
            continue
        pairs = all_pairs(len(part.ids))
        pairs = pairs[np.sort(rng.choice(len(pairs), EXPORTED_TRIALS, replace=False))]
        target = (part.voice[pairs[:, 0]] == part.voice[pairs[:, 1]]).astype(np.int8)
        write_trials(Trials(part.ids, part.ids, pairs[:, 0], pairs[:, 1], target), folder / f"{name}.trials", "kaldi")
    messages.info(f"written: {', '.join(str(path) for path in targets)}")
