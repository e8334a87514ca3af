"""``jointplda convert``: embeddings, trials, scores and enrollments in another format."""

from jointplda.commands.convert_command import ConvertRequest
from jointplda.formats import (
    read_embeddings,
    read_enrollment,
    read_scores,
    read_trials,
    write_embeddings,
    write_enrollment,
    write_scores,
    write_trials,
)


def convert_file(request: ConvertRequest) -> str:
    """Convert a file that is no model; returns what it holds."""
    return _CONVERT[request.what](request)


def _embeddings(request: ConvertRequest) -> str:
    table = read_embeddings(request.source, request.labels)
    write_embeddings(table, request.target, request.kind)
    columns = f", columns {', '.join(table.columns)}" if table.columns else ""
    return f"{len(table.ids):,} embeddings of {table.X.shape[1]} dimensions{columns}"


def _trials(request: ConvertRequest) -> str:
    trials = read_trials(request.source)
    write_trials(trials, request.target, request.kind)
    return f"{len(trials):,} trials"


def _scores(request: ConvertRequest) -> str:
    table = read_scores(request.source)
    write_scores(table, request.target, request.kind)
    return f"{len(table.values):,} scores"


def _enrollment(request: ConvertRequest) -> str:
    models = read_enrollment(request.source)
    write_enrollment(models, request.target, request.kind)
    return f"{len(models):,} models"


_CONVERT = {"embeddings": _embeddings, "trials": _trials, "scores": _scores, "enrollment": _enrollment}
