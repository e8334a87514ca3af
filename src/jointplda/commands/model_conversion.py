"""``jointplda convert model``: models of Kaldi and pyannote, and models for them."""

from pathlib import Path

import click

from jointplda.commands.convert_command import ConvertRequest
from jointplda.errors import FileError
from jointplda.estimators.interchange import from_kaldi, to_kaldi
from jointplda.estimators.pipeline import Pipeline
from jointplda.file_kinds import kind_of
from jointplda.formats import (
    KaldiPlda,
    read_kaldi_plda,
    read_pyannote_plda,
    write_kaldi_plda,
    write_pyannote_plda,
)
from jointplda.storage.tensors import read_metadata


def convert_model(request: ConvertRequest) -> str:
    """Convert a model; returns what it is."""
    kind = request.kind or kind_of("model", request.target)
    if kind is None:
        raise click.UsageError("the suffix of TARGET names no format; use --to jointplda, kaldi or pyannote.")
    foreign, steps = _foreign(request.source), ""
    if foreign is None:
        if kind == "jointplda":
            raise click.ClickException(f"{request.source}: is a jointplda model already; use --to kaldi or pyannote.")
        pipe = Pipeline.load(request.source)
        foreign = to_kaldi(pipe[-1], absorb_channel=request.absorb_channel)
        names = ", ".join(type(step).__name__ for _, step in pipe.steps[:-1])
        steps = f" without its preprocessing ({names}), which embeddings need first," if names else ""
    if kind == "jointplda":
        from_kaldi(foreign).save(request.target)
    elif kind == "kaldi":
        write_kaldi_plda(foreign, request.target)
    else:
        write_pyannote_plda(foreign, request.target)
    return f"a {kind} model of {len(foreign.mean)} dimensions{steps}"


def _foreign(path: Path) -> KaldiPlda | None:
    """A Kaldi or pyannote model, or None if the file is a jointplda model."""
    with path.open("rb") as file:
        start = file.read(4)
    if start.startswith(b"PK"):
        return read_pyannote_plda(path)
    try:
        read_metadata(path)
    except FileError:
        return read_kaldi_plda(path)
    return None
