"""Safetensors files with a JSON text as metadata, which are written completely or not at all."""

import json
import math
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from jointplda._atomic import replacing
from jointplda._disk_rows import NUMBERS_AT_ONCE, DiskRows, row_slices
from jointplda._typing import AnyArray
from jointplda.errors import FileError

KEY = "jointplda"
VERSION = 1
NAMES = {"<f8": "F64", "<f4": "F32", "<i8": "I64", "<i4": "I32", "|u1": "U8", "|b1": "BOOL"}
"""What safetensors calls the types of arrays."""


def write_tensors(
    path: str | PathLike[str], kind: str, tensors: Mapping[str, AnyArray | DiskRows], metadata: Mapping[str, Any]
) -> None:
    """Write arrays and metadata under a temporary name, read them back, compare, and rename.

    Arrays are converted to C order first, because safetensors stores arrays of another order wrongly without an error.
    Rows that are in files are copied a block at a time. The metadata are strict JSON, without NaN and infinity.
    """
    ordered = {name: row if isinstance(row, DiskRows) else np.ascontiguousarray(row) for name, row in tensors.items()}
    text = json.dumps({"kind": kind, "version": VERSION, **metadata}, sort_keys=True, allow_nan=False)
    arrays = {name: rows for name, rows in ordered.items() if not isinstance(rows, DiskRows)}
    with replacing(path) as name:
        if len(arrays) < len(ordered):
            _write_in_blocks(name, ordered, text)
        else:
            try:
                save_file(arrays, name, metadata={KEY: text})
            except SafetensorError as error:
                raise FileError(f"{path}: could not be written ({error}); no file was kept.") from None
        stored, _ = read_tensors(name, kind, rows_in_file=len(arrays) < len(ordered))
        for key, array in ordered.items():
            if not _equal(stored[key], array):
                raise FileError(f"{path}: {key} does not read back as it was written; no file was kept.")


def _equal(stored: AnyArray | DiskRows, given: AnyArray | DiskRows) -> bool:
    """Whether two arrays have the same type and bytes."""
    if isinstance(stored, DiskRows) or isinstance(given, DiskRows):
        slices = row_slices(len(given), given.shape[1])
        same = (np.array_equal(np.asarray(stored[rows]), np.asarray(given[rows]), equal_nan=True) for rows in slices)
        return stored.shape == given.shape and all(same)
    return stored.dtype == given.dtype and stored.tobytes() == given.tobytes()


def _write_in_blocks(path: Path, tensors: Mapping[str, AnyArray | DiskRows], text: str) -> None:
    """Write a safetensors file: the length of its header, the header as JSON, and the numbers of all tensors."""
    header: dict[str, Any] = {"__metadata__": {KEY: text}}
    end = 0
    for name, rows in tensors.items():
        start = end
        dtype = np.dtype(np.float64) if isinstance(rows, DiskRows) else rows.dtype
        end += math.prod(rows.shape) * dtype.itemsize
        header[name] = {"dtype": NAMES[dtype.str], "shape": list(rows.shape), "data_offsets": [start, end]}
    words = json.dumps(header).encode()
    words += b" " * (-len(words) % 8)
    with open(path, "wb") as stream:
        stream.write(len(words).to_bytes(8, "little") + words)
        for rows in tensors.values():
            if isinstance(rows, DiskRows):
                for piece in row_slices(len(rows), rows.shape[1]):
                    rows[piece].tofile(stream)
            else:
                rows.tofile(stream)


def read_tensors(
    path: str | PathLike[str], kind: str, *, rows_in_file: bool = False
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read what ``write_tensors`` wrote for the same kind; a file of another version is refused.

    With ``rows_in_file`` matrices of 16 MiB and more are ``DiskRows``, which read the file when they are asked to.
    """
    target = Path(path)
    tensors, metadata = _read(target, with_tensors=True, rows_in_file=rows_in_file)
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


def _read(
    target: Path, *, with_tensors: bool, rows_in_file: bool = False
) -> tuple[dict[str, AnyArray | DiskRows], dict[str, Any]]:
    if target.is_dir():
        raise FileError(f"{target}: expected a file, got a folder.")
    if not target.is_file():
        raise FileError(f"{target}: no such file.")
    try:
        with safe_open(target, framework="numpy") as stored:
            text = (stored.metadata() or {}).get(KEY)
            names = stored.keys() if with_tensors else ()
            in_file = _matrices_in_file(target) if rows_in_file else {}
            tensors = {name: in_file[name] if name in in_file else stored.get_tensor(name) for name in names}
    except (SafetensorError, OSError, ValueError, TypeError) as error:
        raise FileError(f"{target}: not a safetensors file, or a damaged one ({error}).") from None
    try:
        metadata = json.loads(text) if text is not None else {}
    except json.JSONDecodeError:
        metadata = {}
    if not isinstance(metadata, dict) or "kind" not in metadata:
        raise FileError(f"{target}: a safetensors file, but not one that jointplda wrote.")
    return tensors, metadata


def _matrices_in_file(path: Path) -> dict[str, AnyArray | DiskRows]:
    """The large matrices of a file that the library has found in order, as rows that stay there."""
    with open(path, "rb") as stream:
        size = int.from_bytes(stream.read(8), "little")
        header = json.loads(stream.read(size))
    found: dict[str, AnyArray | DiskRows] = {}
    for name, entry in header.items():
        if name == "__metadata__" or entry["dtype"] != "F64" or len(entry["shape"]) != 2:
            continue
        if math.prod(entry["shape"]) >= NUMBERS_AT_ONCE:
            found[name] = DiskRows(path, tuple(entry["shape"]), None, 8 + size + entry["data_offsets"][0])
    return found
