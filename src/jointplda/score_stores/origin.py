"""Hashes of what scores depend on, by which an unfinished file is known to be of the same run."""

import hashlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

PIECE = 2**24


def digests(origin: Mapping[str, Any]) -> dict[str, str]:
    """The hash of every part of an origin, by its name."""
    return {name: digest(value) for name, value in origin.items()}


def digest(value: Any) -> str:
    """A hash of numbers, texts, arrays, records, and of lists, mappings and other objects that hold them."""
    found = hashlib.sha256()
    _add(found, value)
    return found.hexdigest()


def _add(found: Any, value: Any) -> None:
    """Add a value to a hash, with its kind and its length, so that different values are different bytes."""
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        found.update(f"array {value.dtype.str} {value.shape}\n".encode())
        rows = np.atleast_1d(value)
        step = max(1, PIECE * len(rows) // max(1, value.nbytes))
        for start in range(0, len(rows), step):
            found.update(np.ascontiguousarray(rows[start : start + step]).tobytes())
    elif isinstance(value, csr_array):
        _add(found, ["csr", value.shape, value.data, value.indices, value.indptr])
    elif is_dataclass(value) and not isinstance(value, type):
        stored = [field.name for field in fields(value) if field.metadata.get("stored", True)]
        _add(found, [type(value).__name__, *((name, getattr(value, name)) for name in stored)])
    elif isinstance(value, Mapping):
        _add(found, ["mapping", *sorted(value.items(), key=lambda item: repr(item[0]))])
    elif isinstance(value, list | tuple | np.ndarray):
        found.update(f"list {len(value)}\n".encode())
        for each in value:
            _add(found, each)
    elif isinstance(value, str | bytes | bool | int | float | np.generic | None):
        plain = value.item() if isinstance(value, np.generic) else value
        text = f"{type(plain).__name__} {plain!r}".encode("utf-8", "surrogatepass")
        found.update(f"{len(text)} ".encode() + text + b"\n")
    elif hasattr(value, "to_numpy"):
        _add(found, value.to_numpy())
    elif hasattr(value, "__dict__"):
        _add(found, [type(value).__qualname__, vars(value)])
    else:
        _add(found, repr(value))
