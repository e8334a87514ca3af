"""``jointplda convert``: the same contents in another format."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jointplda.commands import options

if TYPE_CHECKING:
    from jointplda.commands.options import Talk

WHAT = ("embeddings", "trials", "scores", "enrollment", "model")
KINDS = {
    "embeddings": ("npz", "npy", "hdf5", "parquet", "kaldi"),
    "trials": ("kaldi", "voxceleb", "nist", "dca", "bosaris"),
    "scores": ("kaldi", "wespeaker", "nist", "bosaris", "npy"),
    "enrollment": ("kaldi", "nist"),
    "model": ("jointplda", "kaldi", "pyannote"),
}


@click.command("convert", short_help="Write files in another format.")
@click.argument("what", type=click.Choice(WHAT))
@click.argument("source", type=options.IN_FILE)
@click.argument("target", type=options.OUT_FILE)
@click.option("--to", "kind", help="Format to write; default: by the suffix of TARGET.")
@options.labels
@click.option("--absorb-channel", is_flag=True, help="Put U U' into the within-speaker covariance of a foreign model.")
@options.force
@options.common
def command(quiet: bool, verbose: bool, **given: Any) -> None:
    """Read SOURCE, whatever its format, and write it as TARGET.

    Formats of TARGET: embeddings npz, npy (with a table beside it), hdf5, parquet, kaldi; trials kaldi, voxceleb, nist,
    dca, bosaris; scores kaldi, wespeaker, nist, bosaris, npy; enrollment kaldi, nist; models jointplda (from Kaldi's
    plda or pyannote's plda.npz), kaldi, pyannote.
    """
    kinds = KINDS[given["what"]]
    if given["kind"] is not None and given["kind"] not in kinds:
        raise click.UsageError(f"--to {given['kind']}: {given['what']} can be written as {', '.join(kinds) or 'text'}.")
    options.check_new(given["target"], given["force"])
    options.check_new_beside(given["target"], _written_beside(given), given["force"])
    with options.talking(quiet, verbose) as talk:
        before = _beside(given["target"])
        said = _CONVERT[given["what"]](given, talk)
        new = sorted(path for path, when in _beside(given["target"]).items() if before.get(path) != when)
        talk.say(f"{said} written to {', '.join(map(str, new)) or given['target']}")


def _written_beside(given: dict[str, Any]) -> tuple[str, ...]:
    """Endings of the files that a conversion writes beside its target."""
    kind = given["kind"] or {".npy": "npy", ".scp": "kaldi", ".ark": "kaldi"}.get(given["target"].suffix)
    endings = {
        ("embeddings", "npy"): (".tsv",),
        ("embeddings", "kaldi"): (".ark", ".scp", ".utt2*"),
        ("scores", "npy"): (".rows", ".columns"),
    }
    return endings.get((given["what"], kind or ""), ())


def _beside(path: Path) -> dict[Path, int]:
    """Files that share a stem with the target, and when they changed: conversions may write several."""
    return {each: each.stat().st_mtime_ns for each in path.parent.glob(f"{glob.escape(path.stem)}*") if each.is_file()}


def _embeddings(given: dict[str, Any], talk: Talk) -> str:
    from jointplda.formats import read_embeddings, write_embeddings

    table = read_embeddings(given["source"], given["labels"])
    write_embeddings(table, given["target"], given["kind"])
    columns = f", columns {', '.join(table.columns)}" if table.columns else ""
    return f"{len(table.ids):,} embeddings of {table.X.shape[1]} dimensions{columns}"


def _trials(given: dict[str, Any], talk: Talk) -> str:
    from jointplda.formats import read_trials, write_trials

    trials = read_trials(given["source"])
    write_trials(trials, given["target"], given["kind"])
    return f"{len(trials):,} trials"


def _scores(given: dict[str, Any], talk: Talk) -> str:
    from jointplda.formats import read_scores, write_scores

    table = read_scores(given["source"])
    write_scores(table, given["target"], given["kind"])
    return f"{len(table.values):,} scores"


def _enrollment(given: dict[str, Any], talk: Talk) -> str:
    from jointplda.formats import read_enrollment, write_enrollment

    models = read_enrollment(given["source"])
    write_enrollment(models, given["target"], given["kind"])
    return f"{len(models):,} models"


def _model(given: dict[str, Any], talk: Talk) -> str:
    from jointplda.estimators.interchange import from_kaldi, to_kaldi
    from jointplda.estimators.pipeline import Pipeline
    from jointplda.formats import write_kaldi_plda, write_pyannote_plda

    by_name = {".safetensors": "jointplda", ".npz": "pyannote", ".plda": "kaldi"}
    kind = given["kind"] or by_name.get(given["target"].suffix, "kaldi" if given["target"].name == "plda" else None)
    if kind is None:
        raise click.UsageError("say what to write: --to jointplda, kaldi or pyannote.")
    foreign = _foreign(given["source"])
    if foreign is None:
        pipe = Pipeline.load(given["source"])
        if kind == "jointplda":
            raise click.ClickException(f"{given['source']}: is a jointplda model already; give --to kaldi or pyannote.")
        steps = ", ".join(type(step).__name__ for _, step in pipe.steps[:-1])
        foreign = to_kaldi(pipe[-1], absorb_channel=given["absorb_channel"])
        if steps:
            talk.say(f"only the model itself is written: apply its preprocessing ({steps}) before it.")
    if kind == "jointplda":
        from_kaldi(foreign).save(given["target"])
    elif kind == "kaldi":
        write_kaldi_plda(foreign, given["target"])
    else:
        write_pyannote_plda(foreign, given["target"])
    return f"a {kind} model of {len(foreign.mean)} dimensions"


def _foreign(path: Path) -> Any:
    """Kaldi's or pyannote's model, or None if the file is one of ours."""
    from jointplda.errors import FileError
    from jointplda.formats import read_kaldi_plda, read_pyannote_plda
    from jointplda.storage.tensors import read_metadata

    with path.open("rb") as file:
        start = file.read(4)
    if start.startswith(b"PK"):
        return read_pyannote_plda(path)
    try:
        read_metadata(path)
    except FileError:
        return read_kaldi_plda(path)
    return None


_CONVERT = {"embeddings": _embeddings, "trials": _trials, "scores": _scores, "enrollment": _enrollment, "model": _model}
