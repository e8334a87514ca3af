"""Trials, sets, models and types of numbers in the arguments of scoring methods, checked."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from jointplda._typing import IntArray
from jointplda._validation import check_number
from jointplda.errors import InputError
from jointplda.scoring.enrollment import Enrollment
from jointplda.scoring.pairs import PreparedSide


def score_dtype(dtype: Any, *sides: Any) -> Any:
    """The type of scores: ``dtype``, or that of the first prepared side, or float32 if all sides are float32."""
    if dtype is None:
        prepared = [side.table.dtype for side in sides if isinstance(side, PreparedSide)]
        single = all(getattr(side, "dtype", np.float64) == np.float32 for side in sides)
        return prepared[0] if prepared else np.float32 if single else np.float64
    if np.dtype(dtype) not in (np.float32, np.float64):
        raise InputError(f"expected float32 or float64, got {dtype!r}.", parameter="dtype")
    return np.dtype(dtype)


def beam_width(beam: Any) -> int | None:
    """The number of partitions to keep, or None for the default."""
    return None if beam is None else int(check_number("beam", beam, 1, whole=True))


def checked_pairs(pairs: Any, n: int, m: int) -> IntArray:
    """Trials as integers (trials, 2); raise unless they are rows of the two sides."""
    rows = np.asarray(pairs)
    if rows.size == 0:
        return np.zeros((0, 2), dtype=np.int64)
    if rows.ndim != 2 or rows.shape[1] != 2 or rows.dtype.kind not in "iu":
        problem = f"expected integers of shape (trials, 2), got {rows.dtype} of shape {rows.shape}."
        raise InputError(problem, parameter="pairs")
    rows = rows.astype(np.int64, copy=False)
    bad = np.flatnonzero((rows < 0).any(axis=1) | (rows[:, 0] >= n) | (rows[:, 1] >= m))
    if len(bad):
        problem = f"row {bad[0]} is {rows[bad[0]].tolist()}, out of range for {n} enrollment and {m} test rows."
        raise InputError(problem, parameter="pairs")
    return rows


def checked_sets(sets: Any, parameter: str) -> list[Any]:
    """Sets of samples as a list; raise unless there is one or more."""
    if isinstance(sets, np.ndarray) and sets.ndim != 3:
        got = f"an array of shape {sets.shape}"
    elif not isinstance(sets, Iterable):
        got = type(sets).__name__
    else:
        listed = list(sets)
        if listed:
            return listed
        raise InputError("expected at least one set of samples.", parameter=parameter)
    raise InputError(f"expected a list of (n, d) arrays, one per set, got {got}.", parameter=parameter)


def chosen_models(enrollment: Enrollment, models: Any) -> Any:
    """Positions of these models in an enrollment; None is all of them."""
    if models is None:
        return slice(None)
    if isinstance(models, str) or not isinstance(models, Iterable):
        raise InputError(f"expected a list of labels, got {models!r:.60}.", parameter="models")
    index = {label: i for i, label in enumerate(enrollment.models)}
    models = list(models)
    unknown = [label for label in models if label not in index]
    if unknown:
        raise InputError(f"{len(unknown)} of the models were not enrolled, such as {unknown[:3]}.", parameter="models")
    return [index[label] for label in models]
