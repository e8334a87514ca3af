"""Every kind of file that is written, in one table, and the kind that the name of a file asks for.

Readers, writers, help texts and messages follow this table. It imports nothing heavy. The code of a kind of embeddings
is the module of that name in ``jointplda.formats``; see ``formats.embedding_kinds.EmbeddingFormat``.
"""

import json
from contextlib import suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path


@dataclass(frozen=True)
class FileKind:
    """A kind of file.

    Parameters
    ----------
    suffixes : tuple of str
        Suffixes, in lower case, of the names that ask for this kind.
    beside : tuple of str
        Suffixes of the files that are written together with it; they may hold wildcards.
    words : str
        What messages call files of embeddings of this kind.
    has_labels : bool
        Whether a file of embeddings of this kind may be given where a table of labels is expected.
    is_bare : bool
        Whether a file of this kind holds a matrix alone, with ids and labels in a table beside it.
    """

    suffixes: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    words: str = ""
    has_labels: bool = False
    is_bare: bool = False


_HDF5 = (".h5", ".hdf5")

FILE_KINDS = {
    "embeddings": {
        "npz": FileKind((".npz",), words="npz", has_labels=True),
        "npy": FileKind((".npy",), (".tsv",), words="npy", is_bare=True),
        "hdf5": FileKind(_HDF5, words="HDF5", has_labels=True),
        "parquet": FileKind((".parquet",), words="Parquet"),
        "kaldi": FileKind((".scp", ".ark"), (".ark", ".scp", ".utt2*"), words="Kaldi scp or ark"),
    },
    "trials": {
        "kaldi": FileKind(),
        "voxceleb": FileKind(),
        "nist": FileKind((".tsv",)),
        "dca": FileKind(),
        "bosaris": FileKind(_HDF5),
    },
    "scores": {
        "kaldi": FileKind(),
        "wespeaker": FileKind(),
        "nist": FileKind((".tsv",)),
        "bosaris": FileKind(_HDF5),
        "npy": FileKind((".npy",), (".rows", ".columns")),
        "zarr": FileKind((".zarr",)),
    },
    "enrollment": {"kaldi": FileKind(), "nist": FileKind((".tsv",))},
    "model": {
        "jointplda": FileKind((".safetensors",)),
        "kaldi": FileKind((".plda",)),
        "pyannote": FileKind((".npz",)),
    },
}
"""Kinds by what is written and by their names in options. Files of embeddings are compared with them in this order,
those without a mark last.
"""

MATRICES = ("npy", "bosaris", "zarr")
"""Kinds of scores that are matrices of models by samples."""


def suffix_of(path: str | PathLike[str]) -> str:
    """The suffix of a name in lower case, without ``.gz``."""
    name = Path(path)
    return (name.with_suffix("") if name.suffix.lower() == ".gz" else name).suffix.lower()


def kind_of(what: str, path: str | PathLike[str]) -> str | None:
    """The kind that a name asks for; Kaldi's text for lists without a known suffix, None where that is not clear."""
    kind = next((name for name, kind in FILE_KINDS[what].items() if suffix_of(path) in kind.suffixes), None)
    if kind is None and (what in ("trials", "scores", "enrollment") or Path(path).name == "plda"):
        return "kaldi"
    return kind


def kind_of_record(path: Path) -> str | None:
    """What a safetensors file of this program holds ("model", "statistics", ...); None for any other file."""
    if path.is_dir():
        return None
    with open(path, "rb") as stream, suppress(ValueError, LookupError, TypeError):
        start = stream.read(9)
        if start[8:] == b"{" and int.from_bytes(start[:8], "little") <= path.stat().st_size:
            header = json.loads(b"{" + stream.read(int.from_bytes(start[:8], "little") - 1))
            kind = json.loads(header["__metadata__"]["jointplda"])["kind"]
            return str(kind)
    return None
