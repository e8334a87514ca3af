"""``jointplda tune``: the search for settings on held-out training speakers, shown candidate by candidate."""

from jointplda.commands import settings_search
from jointplda.commands.console import print_facts, print_json, print_table
from jointplda.commands.data_input import SampleReader
from jointplda.commands.messages import Messages
from jointplda.commands.tune_command import TuneRequest
from jointplda.report.gather import training_of
from jointplda.report.training_plots import write_attempts


def tune(request: TuneRequest, messages: Messages) -> None:
    """Search for settings, and show and write what was asked for."""
    samples = SampleReader(request, messages).read()
    settings = {} if request.folds is None else {"cv": request.folds}
    pipe = settings_search.search_pipeline(request.steps, random_state=request.seed, **settings)
    settings_search.fit_search(pipe, samples, messages)
    model = pipe[-1]
    if request.plot is not None:
        write_attempts(training_of(model), request.plot)
        messages.info(f"picture written to {request.plot}")
    if request.out is not None:
        pipe.save(request.out)
        messages.info(f"model written to {request.out}")
    if request.as_json:
        print_json(settings_search.search_result(model))
        return
    print_table("Candidates, best first", settings_search.HEADER, settings_search.candidate_rows(model), left=0)
    print_facts("Chosen settings", settings_search.search_facts(model))
