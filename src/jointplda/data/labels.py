"""Labels of any hashable kind as integer codes; missing labels as -1."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from jointplda.errors import InputError
from jointplda.linalg import AnyArray, IntArray

MISSING = -1


def is_missing(label: Any) -> bool:
    """True of None, NaN, pandas' NA and NaT, and the empty string."""
    if label is None or (isinstance(label, (str, bytes)) and len(label) == 0):
        return True
    if isinstance(label, (float, np.floating)):
        return bool(label != label)
    return type(label).__name__ in ("NAType", "NaTType")


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
    return _encode_objects(column.tolist(), what)


def conditions(channels: Any) -> tuple[list[Any], tuple[str, ...]]:
    """Split ``channels`` into one column of labels per nuisance condition.

    One column is a sequence of labels; several are a DataFrame, a 2-D array, or a list of lists
    (a list of tuples is one column of labels that happen to be tuples).
    """
    if hasattr(channels, "columns") and hasattr(channels, "iloc"):
        names = tuple(str(name) for name in channels.columns)
        return [channels.iloc[:, i] for i in range(len(names))], names
    table: Any = channels
    if isinstance(channels, (list, tuple)) and len(channels) and isinstance(channels[0], (list, np.ndarray)):
        if len({len(row) for row in channels}) != 1:
            raise InputError("channels: expected rows of equal length, one value per condition, got ragged rows.")
        table = _objects_2d(channels)
    if getattr(table, "ndim", 1) == 2:
        n_columns = np.shape(table)[1]
        names = ("channel",) if n_columns == 1 else tuple(f"channel{i}" for i in range(n_columns))
        return [table[:, i] for i in range(n_columns)], names
    return [table], (str(getattr(table, "name", None) or "channel"),)


def _objects_2d(rows: Sequence[Sequence[Any]]) -> AnyArray:
    table = np.empty((len(rows), len(rows[0])), dtype=object)
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            table[i, j] = value
    return table


def _one_column(labels: Any, what: str) -> AnyArray:
    if isinstance(labels, (str, bytes)) or not (hasattr(labels, "__len__") or hasattr(labels, "__array__")):
        raise InputError(f"{what}: expected one label per sample, got {type(labels).__name__} {labels!r:.50}.")
    if isinstance(labels, (list, tuple)):
        objects = np.empty(len(labels), dtype=object)
        for i, label in enumerate(labels):
            objects[i] = label
        return objects
    column: AnyArray = np.asarray(labels)
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim != 1:
        raise InputError(f"{what}: expected one label per sample, got an array of shape {column.shape}.")
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
