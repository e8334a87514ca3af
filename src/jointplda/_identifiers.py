"""Lists of ids and names: where each is, which of them repeat or are missing, and how a message shows them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Sized
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from jointplda._typing import IntArray, Names
from jointplda.errors import InputError, Remedy

_HASHED_AT_ONCE = 16_384


def as_names(names: Iterable[str]) -> Names:
    """An array of text."""
    return np.asarray(list(names), dtype=np.str_)


def positions(names: Iterable[str], among: Sequence[str] | Names) -> IntArray:
    """Index in ``among`` of each name; -1 for a name that is not there."""
    return found(names, index_of(among))


def index_of(names: Iterable[str]) -> dict[str, int]:
    """Index of each name, for ``found``."""
    return {str(name): index for index, name in enumerate(_plain(names))}


def found(names: Iterable[str], index: Mapping[str, int]) -> IntArray:
    """What the index says of each name; -1 for a name that is not there."""
    return np.fromiter((index.get(str(name), -1) for name in _plain(names)), dtype=np.int64)


def _plain(names: Iterable[str]) -> Iterable[str]:
    """The same names; those of an array as a list, which is faster to go through."""
    return names.tolist() if isinstance(names, np.ndarray) else names


def hashes(names: Sequence[str] | Names) -> NDArray[np.uint64]:
    """A number of 64 bits for each name, shape (n,), equal for equal names.

    It is sum_j m_j c_j modulo 2^64, for the characters c_j of a name and fixed random multipliers m_j.
    """
    texts = np.ascontiguousarray(names, dtype=np.str_)
    codes = texts.view(np.uint32).reshape(len(texts), texts.itemsize // 4)
    multipliers = np.random.default_rng(0).integers(0, 2**64, codes.shape[1], dtype=np.uint64)
    numbers = np.empty(len(texts), np.uint64)
    for first in range(0, len(texts), _HASHED_AT_ONCE):
        numbers[first : first + _HASHED_AT_ONCE] = codes[first : first + _HASHED_AT_ONCE] @ multipliers
    return numbers


def repeated(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The numbers that occur more than once, sorted; one that occurs k times is there k - 1 times."""
    ordered = np.sort(numbers)
    again: NDArray[np.uint64] = ordered[1:][ordered[1:] == ordered[:-1]]
    return again


def no_duplicates(names: Sequence[str] | Names, what: str, where: str) -> None:
    """Refuse names that occur more than once."""
    if not len(repeated(hashes(names))):
        return
    again = [name for name, count in Counter(map(str, names)).items() if count > 1]
    if again:
        raise InputError(
            f"{where}: {what} should be unique; more than once occur {listed(again)}. Remove the repeated rows."
        )


def listed(names: Iterable[str], count: int | None = None, show: int = 5) -> str:
    """The first few (``show``) of all ``names``, and how many there are: ``'a', 'b' (2 in all)``.

    A generator of names makes no more of them than are shown if their number is given as ``count``.
    """
    if count is None:
        names = names if isinstance(names, Sized) else list(names)
        count = len(names)
    shown = ", ".join(repr(str(name)) for name in islice(names, show))
    return f"{shown}{', ...' if count > show else ''} ({count:,} in all)"


def match_ids(
    wanted: Sequence[str] | Names,
    available: Sequence[str] | Names,
    what: str,
    where: str,
    allow_missing: bool = False,
    among: str = "the embeddings",
) -> IntArray:
    """Find each wanted id among the available ones.

    Parameters
    ----------
    wanted, available : sequence of str
    what : str
        What the wanted ids are, for the message: ``"enrollment ids"``.
    where : str
        The file that names the wanted ids.
    allow_missing : bool
        Return -1 for ids that are not available, instead of raising an error.
    among : str
        What the available ids belong to, for the message.

    Returns
    -------
    index : ndarray of int, shape (len(wanted),)
        Index of each wanted id in ``available``; -1 if it is not there.

    Raises
    ------
    InputError
        If an id is missing and that is not allowed, or if all of them are.
    """
    index = positions(wanted, available)
    missing = np.flatnonzero(index < 0)
    if not len(missing) or (allow_missing and len(missing) < len(index)):
        return index
    shown = ", ".join(repr(str(wanted[i])) for i in missing[:3]) + (", ..." if len(missing) > 3 else ".")
    problem = f"{where}: {len(missing):,} of {len(index):,} {what} are not in {among}: {shown}"
    if len(missing) == len(index) and len(available):
        raise InputError(f"{problem} There the ids are like {str(available[0])!r}; check that both name the same.")
    raise InputError(problem, remedy=Remedy("allow_missing", True, "leaves their trials out"))
