"""Columns of files as arrays of text or of numbers."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jointplda._identifiers import as_names
from jointplda._typing import IntArray, Names
from jointplda.errors import FileError
from jointplda.formats.text import Field, decoded


class TextColumn:
    """A column of fields that keeps each distinct field once."""

    def __init__(self) -> None:
        self.index: dict[Field, int] = {}
        self.codes = array("q")

    def add(self, fields: Iterable[Field]) -> None:
        """Append fields."""
        index = self.index
        self.codes.extend([index.setdefault(field, len(index)) for field in fields])

    def indexes(self) -> IntArray:
        """Index of each row's field among the distinct ones, shape (n,)."""
        return np.frombuffer(self.codes, dtype=np.int64) if self.codes else np.empty(0, np.int64)

    def names(self, path: Path, numbers: IntArray) -> Names:
        """The distinct fields as text, in order of first appearance; ``numbers`` are the lines of the rows."""
        try:
            return as_names([f if isinstance(f, str) else f.decode("utf-8") for f in self.index])
        except UnicodeDecodeError:
            for field, code in self.index.items():
                decoded(field, path, int(numbers[np.argmax(self.indexes() == code)]))
            raise


class NumberColumn:
    """A column of numbers."""

    def __init__(self) -> None:
        self.numbers = array("d")

    def add(self, fields: Iterable[Field]) -> None:
        """Append numbers."""
        self.numbers.extend([float(field) for field in fields])

    def values(self) -> NDArray[np.float64]:
        """All of the numbers, shape (n,)."""
        return np.frombuffer(self.numbers, dtype=np.float64) if self.numbers else np.empty(0)


def as_text(values: NDArray[np.generic], what: str, path: Path) -> Names:
    """An array of labels or ids as text: bytes are decoded, numbers printed; NaN becomes a missing label."""
    if values.dtype.kind == "U":
        return values.astype(np.str_)
    if values.dtype.kind in "SO":
        return as_names([_label_text(value, what, path) for value in values.tolist()])
    if values.dtype.kind in "iub":
        return values.astype(np.str_)
    if values.dtype.kind == "f":
        return as_names(["" if value != value else str(value) for value in values.tolist()])
    raise FileError(f"{path}: {what} should be text or numbers, got type {values.dtype}.")


def _label_text(value: object, what: str, path: Path) -> str:
    if value is None or value != value:
        return ""
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            raise FileError(f"{path}: {what} should be UTF-8 text, got {value[:60]!r}.") from None
    return str(value)
