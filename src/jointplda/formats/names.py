"""Names that columns, arrays and label words go by, and ids gathered once each."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jointplda._identifiers import positions
from jointplda._typing import IntArray, Names
from jointplda.errors import FileError, InputError
from jointplda.formats.text import Field, decoded
from jointplda.trial_list import NONTARGET, TARGET

ID_NAMES = (
    "id", "ids", "utt", "utterance", "uttid", "utteranceid", "segmentid", "segment", "sample", "sampleid", "name",
    "names", "file", "filename", "path",
)  # fmt: skip
MODEL_NAMES = (
    "modelid", "model", "modelname", "enrol", "enroll", "enrolid", "enrollid", "enrolment", "enrollment",
    "enrolmentid", "enrollmentid", "speaker", "spk",
)  # fmt: skip
SAMPLE_NAMES = ("segmentid", "segment", "segmentname", "test", "testid", "testsegment", "sample", "sampleid", *ID_NAMES)
TARGET_NAMES = ("targettype", "targetness", "target", "label", "key", "istarget")
SCORE_NAMES = ("llr", "score", "scores", "loglikelihoodratio")
HEADER_WORDS = ("modelid", "segmentid", "targettype", "targetness", "llr", "enrolid", "enrollid", "testid")

LABEL_WORDS = {
    **dict.fromkeys(("target", "tgt", "tar", "1", "true"), TARGET),
    **dict.fromkeys(("nontarget", "non-target", "imp", "impostor", "non", "0", "false"), NONTARGET),
}


def plain(name: str) -> str:
    """A column name without case, spaces, underscores or hyphens."""
    return re.sub(r"[\s_\-]", "", name).lower()


def column(header: Sequence[str], names: Sequence[str]) -> int | None:
    """Index of the column that goes by the first of the given names that is there."""
    found = [plain(cell) for cell in header]
    return next((found.index(name) for name in names if name in found), None)


def label_of(word: str) -> int | None:
    """1 or 0 for a word that says target or non-target, None for any other."""
    return LABEL_WORDS.get(word.lower())


class Gathered:
    """A column of fields in which each distinct one is kept once."""

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

    def text(self, path: Path, numbers: IntArray) -> Names:
        """Every row's field as text, shape (n,)."""
        return self.names(path, numbers)[self.indexes()]


class Measured:
    """A column of numbers."""

    def __init__(self) -> None:
        self.numbers = array("d")

    def add(self, fields: Iterable[Field]) -> None:
        """Append numbers."""
        self.numbers.extend([float(field) for field in fields])

    def values(self) -> NDArray[np.float64]:
        """All of them, shape (n,)."""
        return np.frombuffer(self.numbers, dtype=np.float64) if self.numbers else np.empty(0)


def as_names(names: Iterable[str]) -> Names:
    """An array of text."""
    return np.asarray(list(names), dtype=np.str_)


def as_text(values: NDArray[np.generic], what: str, path: Path) -> Names:
    """An array of labels or ids as text: bytes decoded, numbers printed, NaN as a missing label."""
    if values.dtype.kind == "U":
        return values.astype(np.str_)
    if values.dtype.kind in "SO":
        return as_names([_one_text(value, what, path) for value in values.tolist()])
    if values.dtype.kind in "iub":
        return values.astype(np.str_)
    if values.dtype.kind == "f":
        return as_names(["" if value != value else str(value) for value in values.tolist()])
    raise FileError(f"{path}: {what} should be text or numbers, got type {values.dtype}.")


def _one_text(value: object, what: str, path: Path) -> str:
    if value is None or value != value:
        return ""
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            raise FileError(f"{path}: {what} should be UTF-8 text, got {value[:60]!r}.") from None
    return str(value)


def match_ids(
    wanted: Sequence[str] | Names,
    available: Sequence[str] | Names,
    what: str,
    where: str,
    allow_missing: bool = False,
    among: str = "the embeddings",
) -> IntArray:
    """Where each wanted id is among the available ones.

    Parameters
    ----------
    wanted, available : sequence of str
    what : str
        What the wanted ids are, for the message: ``"enrollment ids"``.
    where : str
        The file that names them.
    allow_missing : bool
        Give -1 for ids that are not available instead of an error.
    among : str
        What the available ones are of, for the message.

    Returns
    -------
    index : ndarray of int, shape (len(wanted),)
        IntArray into ``available``; -1 where there is none.

    Raises
    ------
    InputError
        If an id is missing and that is not allowed, or if none of them is there at all.
    """
    found = positions(wanted, available)
    missing = np.flatnonzero(found < 0)
    if not len(missing) or (allow_missing and len(missing) < len(found)):
        return found
    shown = ", ".join(repr(str(wanted[i])) for i in missing[:3]) + (", ..." if len(missing) > 3 else ".")
    advice = (
        f"There they are like {str(available[0])!r}; check that both name the same."
        if len(missing) == len(found) and len(available)
        else "Use --allow-missing to leave their trials out."
    )
    raise InputError(f"{where}: {len(missing)} of {len(found)} {what} are not in {among}: {shown} {advice}")
