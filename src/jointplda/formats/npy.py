"""NumPy files. Arrays of Python objects, which NumPy stores as pickles, are neither read nor written."""

from __future__ import annotations

import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from jointplda.errors import FileError, InputError
from jointplda.formats.text import PathLikeStr, target_file

NPY_MAGIC = b"\x93NUMPY"
NPZ_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
# What NumPy and zipfile raise on damaged headers, members and sizes.
_DAMAGE = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    NotImplementedError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


def read_npy(path: Path) -> NDArray[Any]:
    """The array of an ``.npy`` file."""
    try:
        with open(path, "rb") as stream:
            return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))
    except _DAMAGE as error:
        raise FileError(f"{path}: {_why(error)}") from None


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """Every array of an ``.npz`` file, by name."""
    arrays = {}
    name = ""
    try:
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as stored:
            for name in stored.files:
                array = stored[name]
                if isinstance(array, np.ndarray):
                    arrays[name] = array
    except _DAMAGE as error:
        raise FileError(f"{path}: {_why(error, name)}") from None
    return arrays


def write_npy(path: PathLikeStr, array: NDArray[Any]) -> None:
    """Write one array."""
    with target_file(path) as name, open(name, "wb") as stream:
        np.lib.format.write_array(stream, array, allow_pickle=False)


def write_npz(path: PathLikeStr, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays by name."""
    for key in arrays:
        if key.endswith(".npy") or not key.isprintable():
            raise InputError(f"{path}: an .npz file cannot hold a column named {key!r}; rename it.")
    with target_file(path) as name, zipfile.ZipFile(name, "w") as packed:
        for key, array in arrays.items():
            with packed.open(f"{key}.npy", "w", force_zip64=True) as stream:
                np.lib.format.write_array(cast(BinaryIO, stream), np.asanyarray(array), allow_pickle=False)


def _why(error: Exception, name: str = "") -> str:
    if "Object arrays" in str(error):
        what = f"the array {name!r}" if name else "the array"
        return f"{what} holds Python objects, which are never loaded; store text as type str, numbers as float."
    return f"a damaged NumPy file ({error})."
