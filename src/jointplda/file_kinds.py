"""Kinds of files that are written, and the kind that the name of a file asks for. Imports nothing heavy."""

from os import PathLike
from pathlib import Path

KINDS = {
    "embeddings": ("npz", "npy", "hdf5", "parquet", "kaldi"),
    "trials": ("kaldi", "voxceleb", "nist", "dca", "bosaris"),
    "scores": ("kaldi", "wespeaker", "nist", "bosaris", "npy"),
    "enrollment": ("kaldi", "nist"),
    "model": ("jointplda", "kaldi", "pyannote"),
}
"""Kinds by what is written."""

_HDF5 = {".h5": "bosaris", ".hdf5": "bosaris"}
SUFFIXES = {
    "embeddings": {
        ".npz": "npz",
        ".npy": "npy",
        ".h5": "hdf5",
        ".hdf5": "hdf5",
        ".parquet": "parquet",
        ".scp": "kaldi",
        ".ark": "kaldi",
    },
    "trials": {**_HDF5, ".tsv": "nist"},
    "scores": {**_HDF5, ".npy": "npy", ".tsv": "nist"},
    "enrollment": {".tsv": "nist"},
    "model": {".safetensors": "jointplda", ".npz": "pyannote", ".plda": "kaldi"},
}
"""Kinds by suffix, in lower case."""


def suffix_of(path: str | PathLike[str]) -> str:
    """The suffix of a name in lower case, without ``.gz``."""
    name = Path(path)
    return (name.with_suffix("") if name.suffix.lower() == ".gz" else name).suffix.lower()


def kind_of(what: str, path: str | PathLike[str]) -> str | None:
    """The kind that a name asks for; Kaldi's text for lists without a known suffix, None where that is not clear."""
    kind = SUFFIXES[what].get(suffix_of(path))
    if kind is None and (what in ("trials", "scores", "enrollment") or Path(path).name == "plda"):
        return "kaldi"
    return kind
