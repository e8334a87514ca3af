"""``jointplda tune``: the search for settings on held-out training speakers, shown candidate by candidate."""

from pathlib import Path

from jointplda.commands import settings_search
from jointplda.commands.console import print_facts, print_json, print_table
from jointplda.commands.data_input import SampleReader
from jointplda.commands.messages import Messages
from jointplda.commands.options import LabelledFile
from jointplda.commands.training_options import Step
from jointplda.report.gather import training_of
from jointplda.report.training_plots import write_attempts


def tune(
    source: LabelledFile, messages: Messages, *,
    steps: tuple[Step, ...], folds: int | None, budget: float | None, plot: Path | None, out: Path | None, seed: int,
    as_json: bool,
) -> None:  # fmt: skip
    """Search for settings, and show and write what was asked for."""
    samples = SampleReader(source, messages).read(source.data)
    settings = {name: value for name, value in (("cv", folds), ("budget", budget)) if value is not None}
    pipe = settings_search.search_pipeline(steps, random_state=seed, **settings)
    settings_search.fit_search(pipe, samples, messages)
    model = pipe[-1]
    if plot is not None:
        write_attempts(training_of(model), plot)
        messages.info(f"picture written to {plot}")
    if out is not None:
        pipe.save(out)
        messages.info(f"model written to {out}")
    if as_json:
        print_json(settings_search.search_result(model))
        return
    print_table("Candidates, best first", settings_search.HEADER, settings_search.candidate_rows(model), left=0)
    print_facts("Chosen settings", settings_search.search_facts(model))
