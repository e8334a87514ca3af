"""Safetensors files with a JSON text as metadata, which are written completely or not at all."""

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from jointplda._atomic import replacing
from jointplda._typing import AnyArray
from jointplda.errors import FileError

KEY = "jointplda"
VERSION = 1


def write_tensors(
    path: str | PathLike[str], kind: str, tensors: Mapping[str, AnyArray], metadata: Mapping[str, Any]
) -> None:
    """Write arrays and metadata under a temporary name, read them back, compare, and rename.

    Arrays are converted to C order first, because safetensors stores arrays of another order wrongly without an error.
    The metadata are strict JSON, without NaN and infinity.
    """
    ordered = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    text = json.dumps({"kind": kind, "version": VERSION, **metadata}, sort_keys=True, allow_nan=False)
    with replacing(path) as name:
        save_file(ordered, name, metadata={KEY: text})
        stored, _ = read_tensors(name, kind)
        for key, array in ordered.items():
            if stored[key].dtype != array.dtype or stored[key].tobytes() != array.tobytes():
                raise FileError(f"{path}: {key} does not read back as it was written; no file was kept.")


def read_tensors(path: str | PathLike[str], kind: str) -> tuple[dict[str, AnyArray], dict[str, Any]]:
    """Read what ``write_tensors`` wrote for the same kind; a file of another version is refused."""
    target = Path(path)
    tensors, metadata = _read(target, with_tensors=True)
    if metadata["kind"] != kind:
        raise FileError(f"{target}: expected a jointplda {kind} file, got a jointplda {metadata['kind']} file.")
    if metadata.get("version") != VERSION:
        raise FileError(
            f"{target}: this release reads {kind} files of version {VERSION}, and this file has version "
            f"{metadata.get('version')!r:.20}; use the release that wrote it, or write it anew."
        )
    return tensors, metadata


def read_metadata(path: str | PathLike[str]) -> dict[str, Any]:
    """The metadata of a file, which have "kind" and "version"; the arrays are not read."""
    return _read(Path(path), with_tensors=False)[1]


def _read(target: Path, *, with_tensors: bool) -> tuple[dict[str, AnyArray], dict[str, Any]]:
    if target.is_dir():
        raise FileError(f"{target}: expected a file, got a folder.")
    if not target.is_file():
        raise FileError(f"{target}: no such file.")
    try:
        with safe_open(target, framework="numpy") as stored:
            text = (stored.metadata() or {}).get(KEY)
            names = stored.keys() if with_tensors else ()
            tensors = {name: stored.get_tensor(name) for name in names}
    except (SafetensorError, OSError, ValueError, TypeError) as error:
        raise FileError(f"{target}: not a safetensors file, or a damaged one ({error}).") from None
    try:
        metadata = json.loads(text) if text is not None else {}
    except json.JSONDecodeError:
        metadata = {}
    if not isinstance(metadata, dict) or "kind" not in metadata:
        raise FileError(f"{target}: a safetensors file, but not one that jointplda wrote.")
    return tensors, metadata
