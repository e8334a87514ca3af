"""Labels of any hashable kind as integer codes (a missing label is -1), and the columns of nuisance conditions."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jointplda._typing import AnyArray, IntArray
from jointplda.errors import Advice, InputError

MISSING = -1


def is_missing(label: Any) -> bool:
    """Whether a label is None, an empty text, unequal to itself (NaN, NaT), pandas' NA or a masked value."""
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
        An array, list, tuple or Series. The values of a list keep their types, so that ``["en", float("nan")]`` is
        one label and one missing value.
    what : str
        The argument that holds the labels, for messages: "y", "channels".

    Returns
    -------
    codes : (n,) int64
        Position in ``levels``; ``MISSING`` for a missing label.
    levels : list
        The distinct labels as Python objects, sorted if they can be compared, else in order of first appearance.
    """
    column = _one_column(labels, what)
    if column.dtype.kind in "iubfUS":
        values, codes = np.unique(column, return_inverse=True)
        numbers, levels = _encode_objects(values.tolist(), what)
        return numbers[codes.reshape(-1)], levels
    return _encode_objects(column, what)


@dataclass(frozen=True)
class ConditionColumns:
    """One column of labels per nuisance condition, with their names, no two alike."""

    names: tuple[str, ...]
    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        twice = [name for i, name in enumerate(self.names) if name in self.names[:i]]
        if twice:
            raise InputError(
                f"expected a name of its own for every condition, got {twice[0]!r} twice; rename one of the columns.",
                parameter="channels",
            )

    def ordered(self, expected: tuple[str, ...]) -> "ConditionColumns":
        """The expected conditions, matched by name if both have names, else by position."""
        order = match_conditions(expected, self.names)
        return ConditionColumns(expected, tuple(self.values[i] for i in order))


def conditions(channels: Any) -> ConditionColumns:
    """Split ``channels`` into one column of labels per nuisance condition.

    One condition is a sequence of labels; several are a DataFrame, a 2-D array, or a list of lists (a list of tuples
    is one column, whose labels are tuples). Columns that come without a name are called "channel", or "channel0",
    "channel1", ...
    """
    if isinstance(channels, ConditionColumns):
        return channels
    if hasattr(channels, "columns") and not isinstance(channels, np.ndarray):
        names = tuple(str(name) for name in channels.columns)
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


def match_conditions(expected: tuple[str, ...], names: tuple[str, ...]) -> list[int]:
    """Positions in ``names`` of the expected conditions: by name if both have names of their own, else by position."""
    if len(expected) != len(names):
        raise InputError(
            f"expected {len(expected)} nuisance condition(s) {_in_brackets(expected)}, got {len(names)} column(s) "
            f"{_in_brackets(names)}.",
            parameter="channels",
        )
    if names == expected or are_placeholders(names) or are_placeholders(expected):
        return list(range(len(names)))
    if len(set(names)) == len(names) and set(names) == set(expected):
        return [names.index(name) for name in expected]
    s, them = ("s", "them") if len(expected) > 1 else ("", "it")
    known, files = ", ".join(f'"{name}"' for name in expected), ", ".join(f"utt2{name}" for name in expected)
    raise InputError(
        f"expected the condition(s) {_in_brackets(expected)}, got {_in_brackets(names)}.",
        parameter="channels",
        remedy=Advice(
            "Rename the columns, or give them without names, in the order of training.",
            f"The model knows the condition{s} {known}; name the file{s} {files}, or give {them} in --labels.",
        ),
    )


def are_placeholders(names: tuple[str, ...]) -> bool:
    """Whether these are the names that columns without a name of their own get."""
    return names == ("channel",) or names == tuple(f"channel{i}" for i in range(len(names)))


def _in_brackets(names: tuple[str, ...]) -> str:
    return f"({', '.join(names)})"


def _objects_2d(rows: Sequence[Any]) -> AnyArray:
    if not all(isinstance(row, (list, np.ndarray)) and len(row) == len(rows[0]) for row in rows):
        raise InputError(
            "expected rows of equal length, one value per condition, got ragged rows.", parameter="channels"
        )
    return np.fromiter((value for row in rows for value in row), dtype=object).reshape(len(rows), len(rows[0]))


def _one_column(labels: Any, what: str) -> AnyArray:
    if isinstance(labels, (list, tuple)):
        return np.fromiter(labels, dtype=object, count=len(labels))
    if isinstance(labels, np.ma.MaskedArray):
        return _one_column(labels.tolist(), what)
    column: AnyArray = np.asarray(labels)
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim != 1:
        got = f"an array of shape {column.shape}" if column.ndim else f"{type(labels).__name__} {labels!r:.50}"
        raise InputError(f"expected one label per sample (a list, an array or a Series), got {got}.", parameter=what)
    return column


def _encode_objects(column: Iterable[Any], what: str) -> tuple[IntArray, list[Hashable]]:
    index: dict[Hashable, int] = {}
    try:
        positions = [MISSING if is_missing(label) else index.setdefault(label, len(index)) for label in column]
    except TypeError as error:
        raise InputError(f"every label must be hashable ({error}); use strings or numbers.", parameter=what) from None
    codes = np.array(positions, dtype=np.int64)
    levels = list(index)
    try:
        order = sorted(range(len(levels)), key=levels.__getitem__)  # type: ignore[arg-type]
    except TypeError:
        return codes, levels
    rank = np.empty(len(levels) + 1, dtype=np.int64)
    rank[order] = np.arange(len(levels))
    rank[MISSING] = MISSING
    return rank[codes], [levels[i] for i in order]
