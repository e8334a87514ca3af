"""``jointplda convert``: files in another format, also models of Kaldi and pyannote, and models for them."""

from pathlib import Path

import click

from jointplda import formats
from jointplda.commands.model_facts import scoring_pipeline
from jointplda.errors import FileError
from jointplda.estimators.interchange import from_kaldi, to_kaldi
from jointplda.estimators.pipeline import Pipeline
from jointplda.formats.text import head
from jointplda.storage.tensors import read_metadata


def convert(
    what: str, source: Path, target: Path, kind: str | None, labels: Path | None, *, absorb_channel: bool
) -> str:
    """Convert a file; returns what was written."""
    if what == "model":
        return _convert_model(source, target, kind, absorb_channel)
    if what == "embeddings":
        table = formats.read_embeddings(source, labels)
        formats.write_embeddings(table, target, kind)
        columns = f", columns {', '.join(table.columns)}" if table.columns else ""
        return f"{len(table.ids):,} embeddings of {table.X.shape[1]} dimensions{columns}"
    if what == "trials":
        trials = formats.read_trials(source)
        formats.write_trials(trials, target, kind)
        return f"{len(trials):,} trials"
    if what == "scores":
        scores = formats.read_scores(source)
        formats.write_scores(scores, target, kind)
        return f"{len(scores.values):,} scores"
    models = formats.read_enrollment(source)
    formats.write_enrollment(models, target, kind)
    return f"{len(models):,} models"


def _convert_model(source: Path, target: Path, kind: str | None, absorb_channel: bool) -> str:
    """Convert a model; returns what it is."""
    if kind is None:
        raise click.UsageError("the suffix of TARGET names no format; use --to jointplda, kaldi or pyannote.")
    foreign, steps = _foreign(source), ""
    if foreign is None:
        if kind == "jointplda":
            raise click.ClickException(f"{source}: is a jointplda model already; use --to kaldi or pyannote.")
        pipe = Pipeline.load(source)
        foreign = to_kaldi(pipe[-1], absorb_channel=absorb_channel)
        names = ", ".join(type(step).__name__ for _, step in scoring_pipeline(pipe).steps[:-1])
        steps = f" without its preprocessing ({names}), which embeddings need first," if names else ""
    if kind == "jointplda":
        from_kaldi(foreign).save(target)
    elif kind == "kaldi":
        formats.write_kaldi_plda(foreign, target)
    else:
        formats.write_pyannote_plda(foreign, target)
    return f"a {kind} model of {len(foreign.mean)} dimensions{steps}"


def _foreign(path: Path) -> formats.KaldiPlda | None:
    """A Kaldi or pyannote model, or None if the file is a jointplda model."""
    if head(path, 2) == b"PK":
        return formats.read_pyannote_plda(path)
    try:
        read_metadata(path)
    except FileError:
        return formats.read_kaldi_plda(path)
    return None
