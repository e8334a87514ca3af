"""Lists of names and ids: where each is, which repeat, and how they are shown in a message."""

from collections.abc import Iterable, Sequence
from itertools import islice

import numpy as np

from jointplda._typing import IntArray, Names
from jointplda.errors import InputError


def positions(names: Iterable[str], among: Sequence[str] | Names) -> IntArray:
    """IntArray in ``among`` of each name, -1 where it is not there."""
    where = {str(name): index for index, name in enumerate(among)}
    return np.fromiter((where.get(str(name), -1) for name in names), dtype=np.int64)


def no_duplicates(names: Sequence[str] | Names, what: str, where: str) -> None:
    """Refuse names that occur twice."""
    if len(set(map(str, names))) == len(names):
        return
    seen: set[str] = set()
    twice = [str(name) for name in names if str(name) in seen or seen.add(str(name))]  # type: ignore[func-returns-value]
    raise InputError(
        f"{where}: {what} should be unique; {listed(twice)} occur more than once. Remove the repeated rows."
    )


def listed(names: Iterable[str], count: int | None = None, show: int = 5) -> str:
    """The first few names and how many there are: ``'a', 'b' (2 in all)``.

    Parameters
    ----------
    names : iterable of str
        All of the names, never the first few: their number is stated.
    count : int, optional
        Their number, for names that are made one by one; only those shown are made then.
    show : int
        How many to show.
    """
    if count is None:
        names = list(names)
        count = len(names)
    shown = ", ".join(repr(str(name)) for name in islice(names, show))
    return f"{shown}{', ...' if count > show else ''} ({count:,} in all)"
