"""Labels of any hashable kind as integer codes; missing labels as -1."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jointplda._typing import AnyArray, IntArray
from jointplda.errors import InputError

MISSING = -1


def is_missing(label: Any) -> bool:
    """True of None, the empty string, whatever is not equal to itself (NaN, NaT), pandas' NA and masked values."""
    if label is None or label is np.ma.masked or (isinstance(label, (str, bytes)) and len(label) == 0):
        return True
    if type(label).__name__ in ("NAType", "NaTType"):
        return True
    return not isinstance(label, (str, bytes, int, tuple)) and bool(label != label)


def encode(labels: Any, *, what: str) -> tuple[IntArray, list[Hashable]]:
    """Number the distinct labels.

    Parameters
    ----------
    labels : (n,) sequence of hashables
        An array, list, tuple or Series. A list is never turned into one common type, so that
        ``["en", float("nan")]`` is one label and one missing value.
    what : str
        What the labels are, for messages: "speakers", "channels".

    Returns
    -------
    codes : (n,) int64
        Position in ``levels``; ``MISSING`` where there is no label.
    levels : list
        The distinct labels as Python objects, sorted where they can be.
    """
    column = _one_column(labels, what)
    if column.dtype.kind in "iubfUS":
        values, codes = np.unique(column, return_inverse=True)
        return _without_missing(codes.reshape(-1).astype(np.int64), values.tolist())
    return _encode_objects(list(column), what)


@dataclass(frozen=True)
class ConditionColumns:
    """One column of labels per nuisance condition, with their names."""

    names: tuple[str, ...]
    values: tuple[Any, ...]

    def ordered(self, expected: tuple[str, ...]) -> "ConditionColumns":
        """The expected conditions: by name where both have names, else by position."""
        order = match_conditions(expected, self.names)
        return ConditionColumns(expected, tuple(self.values[i] for i in order))


def conditions(channels: Any) -> ConditionColumns:
    """Split ``channels`` into one column of labels per nuisance condition.

    One column is a sequence of labels; several are a DataFrame, a 2-D array, or a list of lists
    (a list of tuples is one column of labels that happen to be tuples). Columns without a name of their own
    are called "channel", or "channel0", "channel1", ...
    """
    if isinstance(channels, ConditionColumns):
        return channels
    if hasattr(channels, "columns") and not isinstance(channels, np.ndarray):
        names = tuple(str(name) for name in channels.columns)
        if hasattr(channels, "iloc"):
            return ConditionColumns(names, tuple(channels.iloc[:, i] for i in range(len(names))))
        return ConditionColumns(names, tuple(channels[name] for name in channels.columns))
    table: Any = channels
    if isinstance(channels, (list, tuple)) and len(channels) and isinstance(channels[0], (list, np.ndarray)):
        table = _objects_2d(channels)
    elif hasattr(channels, "__array__") and not isinstance(channels, np.ndarray) and not hasattr(channels, "name"):
        table = np.asarray(channels)
    if getattr(table, "ndim", 1) == 2 and hasattr(table, "__getitem__"):
        n_columns = np.shape(table)[1]
        names = ("channel",) if n_columns == 1 else tuple(f"channel{i}" for i in range(n_columns))
        return ConditionColumns(names, tuple(table[:, i] for i in range(n_columns)))
    return ConditionColumns((str(getattr(table, "name", None) or "channel"),), (table,))


def match_conditions(expected: tuple[str, ...], given: tuple[str, ...]) -> list[int]:
    """Positions in ``given`` of the expected conditions: by name where both have names, else by position."""
    if len(expected) != len(given):
        raise InputError(
            f"channels: expected {len(expected)} nuisance condition(s) {_listed(expected)}, got {len(given)} column(s) "
            f"{_listed(given)}."
        )
    if given == expected or _unnamed(given) or _unnamed(expected):
        return list(range(len(given)))
    if len(set(given)) == len(given) and set(given) == set(expected):
        return [given.index(name) for name in expected]
    raise InputError(
        f"channels: expected the condition(s) {_listed(expected)}, got {_listed(given)}; rename the columns, or give "
        "them without names in the order of training."
    )


def _unnamed(names: tuple[str, ...]) -> bool:
    return names == ("channel",) or names == tuple(f"channel{i}" for i in range(len(names)))


def _listed(names: tuple[str, ...]) -> str:
    return f"({', '.join(names)})"


def _objects_2d(rows: Sequence[Any]) -> AnyArray:
    if not all(isinstance(row, (list, np.ndarray)) and len(row) == len(rows[0]) for row in rows):
        raise InputError("channels: expected rows of equal length, one value per condition, got ragged rows.")
    table = np.empty((len(rows), len(rows[0])), dtype=object)
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            table[i, j] = value
    return table


def _one_column(labels: Any, what: str) -> AnyArray:
    if isinstance(labels, (list, tuple)):
        objects = np.empty(len(labels), dtype=object)
        for i, label in enumerate(labels):
            objects[i] = label
        return objects
    if isinstance(labels, np.ma.MaskedArray):
        return _one_column(labels.tolist(), what)
    column: AnyArray = np.asarray(labels)
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim != 1:
        got = f"an array of shape {column.shape}" if column.ndim else f"{type(labels).__name__} {labels!r:.50}"
        raise InputError(f"{what}: expected one label per sample (a list, an array or a Series), got {got}.")
    return column


def _encode_objects(column: Iterable[Any], what: str) -> tuple[IntArray, list[Hashable]]:
    index: dict[Hashable, int] = {}
    try:
        found = [MISSING if is_missing(label) else index.setdefault(label, len(index)) for label in column]
    except TypeError as error:
        raise InputError(f"{what}: every label must be hashable ({error}); strings or numbers will do.") from None
    codes = np.array(found, dtype=np.int64)
    levels = list(index)
    try:
        order = sorted(range(len(levels)), key=levels.__getitem__)  # type: ignore[arg-type]
    except TypeError:
        return codes, levels
    rank = np.empty(len(levels) + 1, dtype=np.int64)
    rank[order] = np.arange(len(levels))
    rank[MISSING] = MISSING
    return rank[codes], [levels[i] for i in order]


def _without_missing(codes: IntArray, levels: list[Hashable]) -> tuple[IntArray, list[Hashable]]:
    gone = np.array([is_missing(level) for level in levels], dtype=bool)
    if not gone.any():
        return codes, levels
    rank = np.where(gone, MISSING, np.cumsum(~gone) - 1)
    return rank[codes], [level for level, out in zip(levels, gone, strict=True) if not out]
