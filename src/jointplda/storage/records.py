"""Frozen records as files: numbers and texts in a JSON header, arrays and long lists of labels as tensors.

The type hints of a record decide how its fields are stored, so that a new field needs no code here:

    None, bool, int, float, str         JSON; floats that are not finite are "nan", "inf" or "-inf"
    ndarray, csr_array                  one tensor; three tensors, with the shape in JSON
    tuple[Hashable, ...]                labels, as a tensor that holds JSON text, since the header has limited room
    tuple, Mapping, dataclass           lists and objects of their elements
    Any                                 JSON or an array

A field with ``metadata={"stored": False}`` is not stored, and gets its default when the record is read.
"""

import json
import math
from collections.abc import Hashable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from os import PathLike
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from scipy.sparse import csr_array

from jointplda._disk_rows import DiskRows
from jointplda.errors import FileError
from jointplda.storage.tensors import read_tensors, write_tensors

Record = TypeVar("Record")
Tensors = dict[str, Any]  # arrays, or rows that stay in files


def write_record(path: str | PathLike[str], kind: str, record: Any) -> None:
    """Write a record as a safetensors file of this kind, completely or not at all."""
    tensors: Tensors = {}
    header = encode(record, type(record), kind, tensors)
    write_tensors(path, kind, tensors, {"record": header})


def read_record(
    path: str | PathLike[str], kind: str, record_type: type[Record], *, rows_in_file: bool = False
) -> Record:
    """Read what ``write_record`` wrote for the same kind; large matrices stay in the file if ``rows_in_file``."""
    tensors, metadata = read_tensors(path, kind, rows_in_file=rows_in_file)
    try:
        record: Record = decode(metadata["record"], record_type, tensors)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        raise FileError(f"{path}: a jointplda {kind} file whose content is incomplete or wrong ({error}).") from None
    return record


def encode(value: Any, hint: Any, name: str, tensors: Tensors) -> Any:
    """A value as JSON; its arrays are added to ``tensors`` under names that start with ``name``."""
    hint = _without_none(hint)
    if value is None:
        return None
    if isinstance(value, np.ndarray | DiskRows):
        tensors[name] = value
        return {"tensor": name}
    if isinstance(value, csr_array):
        for part in ("data", "indices", "indptr"):
            array = getattr(value, part)
            tensors[f"{name}.{part}"] = array.astype(np.int64) if array.dtype.kind == "i" else array
        return {"sparse": name, "shape": list(value.shape)}
    if _is_labels(hint):
        text = json.dumps(_plain_label(value), ensure_ascii=False)
        tensors[name] = np.frombuffer(text.encode("utf-8", "surrogatepass"), dtype=np.uint8)
        return {"labels": name}
    if is_dataclass(value) and not isinstance(value, type):
        hints = get_type_hints(type(value))
        return {
            field.name: encode(getattr(value, field.name), hints[field.name], f"{name}.{field.name}", tensors)
            for field in fields(value)
            if field.metadata.get("stored", True)
        }
    if isinstance(value, Mapping):
        of = (get_args(hint) or (Any, Any))[1]
        if all(isinstance(key, str) for key in value):
            return {key: encode(part, of, f"{name}.{key}", tensors) for key, part in value.items()}
        return [
            [list(key) if isinstance(key, tuple) else key, encode(part, of, f"{name}.{i}", tensors)]
            for i, (key, part) in enumerate(value.items())
        ]
    if isinstance(value, tuple | list):
        return [encode(part, _part_hint(hint, i), f"{name}.{i}", tensors) for i, part in enumerate(value)]
    plain = _plain(value, f"{name}: a value")
    return str(plain) if isinstance(plain, float) and not math.isfinite(plain) else plain  # as strict JSON allows it


def decode(value: Any, hint: Any, tensors: Tensors) -> Any:
    """Inverse of ``encode`` for a value of type ``hint``; only where it says ``Rows`` may a matrix stay in its file."""
    rows_may_stay = DiskRows in get_args(hint)
    hint = _without_none(hint)
    if value is None:
        return None
    if _is_labels(hint):
        return _label(json.loads(tensors[value["labels"]].tobytes().decode("utf-8", "surrogatepass")))
    if hint is csr_array:
        data, indices, indptr = (tensors[f"{value['sparse']}.{part}"] for part in ("data", "indices", "indptr"))
        return csr_array((data, indices, indptr), shape=tuple(value["shape"]))
    if hint is Any:
        if isinstance(value, dict) and set(value) != {"tensor"}:
            return {key: decode(part, Any, {}) for key, part in value.items()}
        if not isinstance(value, dict):
            return value
        return tensors[value["tensor"]] if rows_may_stay else np.asarray(tensors[value["tensor"]])
    if get_origin(hint) is np.ndarray:
        return np.asarray(tensors[value["tensor"]])
    if is_dataclass(hint) and isinstance(hint, type):
        hints = get_type_hints(hint)
        stored = [field for field in fields(hint) if field.metadata.get("stored", True)]
        for field in stored:
            if field.name not in value and field.default is MISSING and field.default_factory is MISSING:
                raise KeyError(field.name)
        return hint(**{f.name: decode(value[f.name], hints[f.name], tensors) for f in stored if f.name in value})
    origin = get_origin(hint)
    if origin is tuple:
        return tuple(decode(part, _part_hint(hint, i), tensors) for i, part in enumerate(value))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        of = get_args(hint)
        pairs = value.items() if isinstance(value, dict) else value
        return {tuple(key) if get_origin(of[0]) is tuple else key: decode(part, of[1], tensors) for key, part in pairs}
    if hint is float:
        return float(value)
    if type(value) is not hint:
        raise TypeError(f"expected {hint.__name__}, got {type(value).__name__} {value!r:.40}")
    return value


def _is_labels(hint: Any) -> bool:
    """Whether a type hint is that of labels, a tuple of hashables."""
    return get_origin(hint) is tuple and get_args(hint) == (Hashable, ...)


def _plain_label(label: Hashable) -> Any:
    if isinstance(label, tuple):
        return [_plain_label(part) for part in label]
    return _plain(label, "Labels", "; use strings, numbers, booleans, or tuples of these")


def _label(label: Any) -> Hashable:
    return tuple(_label(part) for part in label) if isinstance(label, list) else label


def _plain(value: Any, what: str, hint: str = "") -> Any:
    """A number or a text as a Python object."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str | bool | int | float):
        return value
    raise FileError(f"{what} of type {type(value).__name__} cannot be stored in a file ({value!r:.50}){hint}.")


def _without_none(hint: Any) -> Any:
    """The type T of a hint ``T | None``."""
    if get_origin(hint) in (Union, UnionType):
        rest = [part for part in get_args(hint) if part is not NoneType]
        return rest[0] if len(rest) == 1 else Any
    return hint


def _part_hint(hint: Any, i: int) -> Any:
    arguments = get_args(hint)
    if not arguments:
        return Any
    return arguments[0] if len(arguments) == 2 and arguments[1] is Ellipsis else arguments[i]
