"""Matrices of scores with their names as Zarr folders. The one module that imports zarr.

A group holds ``scores`` (models, samples), without compression, and the names ``rows`` and ``columns``.
"""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from jointplda._atomic import checked_target, sync_folder
from jointplda._identifiers import as_names
from jointplda._typing import AnyArray, Names
from jointplda.errors import FileError
from jointplda.formats.named_arrays import optional_package
from jointplda.formats.text import check_texts

SCORES, NAMES = "scores", ("rows", "columns")


def recognises(path: Path) -> bool:
    """Whether a path is that of a Zarr folder."""
    return (path / "zarr.json").is_file()


def create_matrix(
    path: Path, shape: tuple[int, int], dtype: Any, chunks: tuple[int, int], names: tuple[Names, Names] | None
) -> None:
    """Make the folder of a matrix that is still to be filled, with the names of its rows and columns, if there are any.

    Every chunk is a file of its own, so that several processes may write different chunks at the same time.
    """
    zarr = _package(path)
    for values in names or ():
        check_texts(values.tolist(), path)
    group = zarr.create_group(path)
    for what, values in zip(NAMES, names or (), strict=names is not None):
        group.create_array(what, data=values.astype(np.dtypes.StringDType()))
    group.create_array(
        SCORES, shape=shape, chunks=chunks, dtype=dtype, compressors=None, filters=None, fill_value=np.nan,
        config={"write_empty_chunks": True},
    )  # fmt: skip


def opened_matrix(path: Path, *, for_writing: bool = False) -> Any:
    """The scores, which are read or written where they are indexed."""
    return _opened(path, "r+" if for_writing else "r")[SCORES].with_config({"write_empty_chunks": True})


def chunk_file(path: Path, chunk: tuple[int, int]) -> Path:
    """The file of a chunk of the scores."""
    return path / SCORES / "c" / str(chunk[0]) / str(chunk[1])


def publish(path: Path, target: Path) -> None:
    """Rename a finished folder to ``target``, after what killed writers left in it was removed.

    A Zarr folder that is there is moved beside ``path`` first, and removed at the end.
    """
    for part in path.rglob("*.partial"):
        part.unlink()
    before = path.with_name(f"{path.name}.before")
    if target.exists():
        if not recognises(target) and any(target.iterdir()):
            raise FileError(f"{target}: holds files that are no Zarr folder, and is left as it is; use another name.")
        os.replace(target, before)
    os.replace(path, target)
    sync_folder(target.parent)
    shutil.rmtree(before, ignore_errors=True)


def write_matrix(models: Names, samples: Names, scores: AnyArray, path: Path) -> None:
    """Write the scores (models, samples) of all pairs, whole or not at all."""
    target = checked_target(path, folder=True)
    _package(target)
    try:
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:
            made = Path(folder) / target.name
            create_matrix(made, scores.shape, scores.dtype, (min(len(scores), 4096), min(scores.shape[1], 4096)),
                          (models, samples))  # fmt: skip
            opened_matrix(made, for_writing=True)[:] = scores
            publish(made, target)
    except OSError as error:
        raise FileError(f"{path}: cannot be written ({error.strerror or error}).") from None


def read_matrix(path: Path) -> tuple[Names, Names, Any]:
    """The names of the rows and of the columns, and the scores."""
    group = _opened(path, "r")
    missing = [name for name in (*NAMES, SCORES) if name not in group]
    if missing:
        held = ", ".join(sorted(group.keys())) or "nothing"
        raise FileError(f"{path}: expected the arrays scores, rows and columns, got {held}.")
    try:
        rows, columns = (as_names(map(str, group[name][:].tolist())) for name in NAMES)
        return rows, columns, group[SCORES][...]
    except Exception as error:  # Zarr raises errors of many kinds on damaged chunks
        raise FileError(f"{path}: a damaged Zarr folder ({error}).") from None


def _opened(path: Path, mode: str) -> Any:
    zarr = _package(path)
    try:
        return zarr.open_group(path, mode=mode)
    except Exception as error:  # Zarr raises errors of many kinds on damaged folders
        raise FileError(f"{path}: expected a Zarr group of scores, rows and columns ({error}).") from None


def _package(path: Path) -> Any:
    return optional_package("zarr", path, "Zarr", "dask")
