"""Which ids and labels a text file gives back unchanged; writers refuse the others.

Files are UTF-8, so lone surrogates cannot be written. Line ends and other control characters end lines and fields or
mark binary files. Readers drop a byte order mark at the start of a file, and spaces around a cell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from jointplda.errors import InputError, Remedy
from jointplda.formats.header_words import is_pair_header
from jointplda.formats.sheets import first_cells
from jointplda.formats.text import PathLikeStr

_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def check_cells(texts: Iterable[str], path: PathLikeStr) -> None:
    """Refuse texts that a cell of a table cannot hold; an empty text, a missing label, is one it can."""
    for text in texts:
        if problem := _problem(text):
            raise _refusal(text, problem, path, None)


def check_names(names: Iterable[str], path: PathLikeStr) -> None:
    """Refuse names of models, samples or columns that a cell of a table cannot hold, and empty ones."""
    for name in names:
        if problem := _problem(name) or ("is empty" if not name else ""):
            raise _refusal(name, problem, path, None)


def check_words(names: Iterable[str], path: PathLikeStr, remedy: Remedy | None = None) -> None:
    """Refuse names that a file separated by whitespace cannot hold.

    Parameters
    ----------
    names : iterable of str
    path : path
    remedy : Remedy, optional
        A kind of file that can hold names with spaces.
    """
    check_names(names := list(names), path)
    for name in names:
        if " " in name:
            raise _refusal(name, "holds a space", path, remedy)


def check_no_header(line: str, path: PathLikeStr) -> None:
    """Refuse a first line that would be read as a header of trials, scores or enrollments."""
    if is_pair_header(first_cells(line, path)):
        raise InputError(
            f"{path}: the first line would be {line[:80]!r}, which would be read as a header; rename its ids.",
            remedy=Remedy("kind", "nist", "can hold them"),
        )


def _problem(text: str) -> str:
    if _UNSAFE.search(text):
        return "holds a control character or a lone surrogate"
    if text.startswith("\ufeff"):
        return "starts with a byte order mark"
    if text != text.strip():
        return "starts or ends with a space"
    return ""


def _refusal(text: str, problem: str, path: PathLikeStr, remedy: Remedy | None) -> InputError:
    return InputError(f"{path}: {text[:80]!r} {problem}, which this format cannot hold; rename it.", remedy=remedy)
