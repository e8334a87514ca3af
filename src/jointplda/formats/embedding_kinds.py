"""Kinds of files of embeddings, recognised by their content, and what the module of each kind has."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np

from jointplda.embedding_table import EmbeddingTable, LabelTable
from jointplda.errors import FileError
from jointplda.file_kinds import FILE_KINDS
from jointplda.formats.text import decoded, existing, head, lines

KINDS = FILE_KINDS["embeddings"]


class EmbeddingRows(Protocol):
    """The rows of a file of embeddings, which is opened anew for every pass over them."""

    @property
    def n_samples(self) -> int | None:
        """The number of rows; None where only a pass tells."""

    @property
    def n_features(self) -> int:
        """The number of columns."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the embeddings, float32 or float64."""

    @property
    def has_ids(self) -> bool:
        """Whether the file has ids; else the tables have none."""

    @property
    def joined(self) -> tuple[tuple[Path, LabelTable], ...]:
        """Labels that files beside this one hold by id, with these files."""

    def tables(self, rows: int, start: int, stop: int | None, labels_only: bool) -> Iterator[EmbeddingTable]:
        """Tables of the rows from ``start`` to before ``stop``, in order, of ``rows`` rows each but the last.

        For ``labels_only`` the embeddings are not read, and ``X`` of k rows has the shape (k, 0).
        """


class EmbeddingFormat(Protocol):
    """What the module of a kind of embeddings has."""

    def recognises(self, path: Path, start: bytes) -> bool:
        """Whether a file, which starts with these bytes, is of this kind."""

    def open_rows(self, path: Path) -> EmbeddingRows:
        """The rows of a file; what can be checked without reading them is checked."""

    def write_table(self, table: EmbeddingTable, path: Path) -> None:
        """Write a table that was checked already, whole or not at all; refuse what would not read back the same."""


def format_of(kind: str) -> EmbeddingFormat:
    """The module of a kind."""
    return cast(EmbeddingFormat, import_module(f"jointplda.formats.{kind}"))


def recognised_kind(path: Path) -> str:
    """The kind of a file, by its content; raise if it holds no embeddings."""
    if path.is_dir():
        return "kaldi"
    start = head(existing(path))
    if start[8:9] == b"{" and int.from_bytes(start[:8], "little") <= path.stat().st_size:
        raise FileError(f"{path}: expected embeddings, got a safetensors file, such as a model or statistics.")
    if start[:1] == b"\x80" and start[1:2] in b"\2\3\4\5":
        raise FileError(f"{path}: expected embeddings, got a pickle, which is never loaded because it can run code.")
    for kind in KINDS:
        if format_of(kind).recognises(path, start):
            return kind
    number, line = next(lines(path))
    raise FileError(
        f"{path}: expected embeddings ({', '.join(each.words for each in KINDS.values())}), got text that starts with "
        f"{decoded(line, path, number)[:60]!r}. A table of labels goes with embeddings, not in their place."
    )
