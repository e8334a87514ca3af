"""Reading embeddings in every convention, recognised by their content, and joining them with labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jointplda._identifiers import as_names, listed, no_duplicates
from jointplda.embedding_table import EmbeddingTable, LabelTable
from jointplda.errors import FileError, InputError, warn
from jointplda.file_kinds import suffix_of
from jointplda.formats.columns import as_text
from jointplda.formats.hdf5 import is_hdf5, read_arrays
from jointplda.formats.header_words import ID_NAMES, find_column
from jointplda.formats.kaldi import BINARY, kaldi_column, read_ark, read_scp
from jointplda.formats.label_reader import read_labels
from jointplda.formats.npy import NPY_MAGIC, NPZ_MAGIC, read_npy, read_npz
from jointplda.formats.parquet import is_parquet, read_parquet
from jointplda.formats.text import PathLikeStr, decoded, existing, head, lines

MATRIX_NAMES = ("embeddings", "embedding", "data", "x", "xvectors", "xvector", "vectors", "vector")
_FOLDER_SCRIPTS = ("xvector.scp", "ivector.scp", "embeddings.scp", "feats.scp")

Arrays = Mapping[str, NDArray[Any]]


def read_embeddings(path: PathLikeStr, labels: PathLikeStr | LabelTable | None = None) -> EmbeddingTable:
    """Read embeddings, their ids and their labels.

    The content decides what the file is, not its name:

    - NumPy ``.npz`` and HDF5: ``embeddings`` (or ``data``, ``X``) of shape (n, d), ``ids`` of shape (n,); every other
      array of shape (n,) is a label column. A file without ids gets those of ``labels``, row by row, and without
      ``labels`` the numbers of the rows, from ``"0"``.
    - NumPy ``.npy``: the matrix alone. ``labels``, or a ``.tsv`` or ``.csv`` of the same name beside the matrix, has
      one row for each of its rows, in order.
    - Parquet: an id column, one column of lists, label columns.
    - Kaldi: a script (``key archive:offset``), an archive, or a folder with one script (or several, one of them
      ``xvector.scp``) whose files ``utt2*`` are label columns.

    Parameters
    ----------
    path : path
    labels : path or LabelTable, optional
        Labels to join by id; its columns replace those of the same name. See ``read_labels``. The labels of
        embeddings that have no row there are missing (empty texts).

    Returns
    -------
    table : EmbeddingTable
        ``X`` of shape (n, d), float32 or float64: whole numbers become float64, float16 becomes float32.

    Raises
    ------
    FileError
        If the file is damaged, of another kind, or holds numbers that are not finite.
    InputError
        If ids repeat, or labels do not fit.
    """
    source = Path(path)
    file, table = _from_folder(source) if source.is_dir() else (source, _from_file(existing(source)))
    bare_matrix = not len(table.ids) and head(file).startswith(NPY_MAGIC)
    if bare_matrix:
        table = _with_table_beside(table, file, labels)
    if labels is not None:
        table = _joined(table, labels, file)
    if not len(table.ids):
        if bare_matrix:
            raise InputError(
                f"{file} is a matrix without ids; give a table of labels with one row for each of its {len(table.X)} "
                "rows, in order, or put it beside the matrix as a .tsv or .csv of the same name.",
                parameter="labels",
            )
        table = replace(table, ids=as_names(str(row) for row in range(len(table.X))))
    return _checked(table, file)


def _with_table_beside(table: EmbeddingTable, path: Path, labels: PathLikeStr | LabelTable | None) -> EmbeddingTable:
    """Ids and labels of a matrix from the .tsv or .csv of the same name, unless that is the labels file itself."""
    for suffix in (".tsv", ".csv"):
        beside = path.with_suffix(suffix)
        own = labels is not None and not isinstance(labels, LabelTable) and Path(labels).resolve() == beside.resolve()
        if beside.is_file() and not own:
            rows = read_labels(beside, rows_only=True)
            if len(rows.ids) == len(table.X):
                return EmbeddingTable(rows.ids, rows.columns, X=table.X)
    return table


def _from_file(path: Path) -> EmbeddingTable:
    """A table as the file holds it; without ids if the file has none."""
    start = head(path)
    if start.startswith(NPZ_MAGIC):
        return _from_arrays(read_npz(path), path)
    if start.startswith(NPY_MAGIC):
        return EmbeddingTable(as_names([]), X=_numbers(read_npy(path), "the matrix", path))
    if is_hdf5(start):
        return _from_arrays(read_arrays(path), path)
    if is_parquet(start):
        return _from_arrays(_one_matrix(read_parquet(path)), path)
    if start[8:9] == b"{" and int.from_bytes(start[:8], "little") <= path.stat().st_size:
        raise FileError(f"{path}: expected embeddings, got a safetensors file, such as a model or statistics.")
    if start[:1] == b"\x80" and start[1:2] in b"\2\3\4\5":
        raise FileError(f"{path}: expected embeddings, got a pickle, which is never loaded because it can run code.")
    if b" " + BINARY in start:
        return read_ark(path)
    return _from_kaldi_text(path)


def _one_matrix(arrays: dict[str, NDArray[Any]]) -> Arrays:
    """The columns of a table, in which a single column of lists may have any name."""
    lists = [name for name, values in arrays.items() if values.ndim == 2]
    return {"embeddings" if [name] == lists else name: values for name, values in arrays.items()}


def _from_kaldi_text(path: Path) -> EmbeddingTable:
    number, line = next(lines(path))
    fields = [decoded(field, path, number) for field in line.split(maxsplit=1)]
    if len(fields) == 2 and fields[1].startswith("["):
        return read_ark(path)
    if len(fields) != 2 or (suffix_of(path) != ".scp" and ".ark" not in fields[1]):
        raise FileError(
            f"{path}: expected embeddings (npz, npy, HDF5, Parquet, Kaldi scp or ark), got text that starts with "
            f"{decoded(line, path, number)[:60]!r}. A table of labels goes with embeddings, not in their place."
        )
    return read_scp(path)


def _from_folder(folder: Path) -> tuple[Path, EmbeddingTable]:
    scripts = sorted(folder.glob("*.scp"))
    known = [folder / name for name in _FOLDER_SCRIPTS if (folder / name) in scripts]
    if not known and len(scripts) != 1:
        held = listed(script.name for script in scripts) if scripts else "none"
        raise FileError(
            f"{folder}: a folder of embeddings should hold xvector.scp or one single .scp file, got {held}; "
            "name the file itself."
        )
    script = (known or scripts)[0]
    table = read_scp(existing(script))
    for labels in sorted(folder.glob("utt2*")):
        if labels.is_file() and kaldi_column(labels.name):
            table = _by_id(table, read_labels(labels), labels)
    return script, table


def _from_arrays(arrays: Arrays, path: Path) -> EmbeddingTable:
    names = list(arrays)
    matrix = find_column([name if arrays[name].ndim == 2 else "" for name in names], MATRIX_NAMES)
    if matrix is None:
        held = ", ".join(f"{name} {arrays[name].shape}" for name in names) or "nothing"
        raise FileError(f"{path}: expected an array 'embeddings' (or 'data', 'X') of shape (n, d), got {held}.")
    X = _numbers(arrays[names[matrix]], names[matrix], path)
    where = find_column([name if arrays[name].ndim == 1 else "" for name in names], ID_NAMES)
    ids = as_names([]) if where is None else as_text(arrays[names[where]], names[where], path)
    if where is not None and len(ids) != len(X):
        hint = "; the matrix may be transposed" if len(ids) == X.shape[1] else ""
        raise FileError(f"{path}: {names[matrix]} has {len(X)} rows and {names[where]} {len(ids)} ids{hint}.")
    columns = {
        name: as_text(values, name, path)
        for name, values in arrays.items()
        if values.shape == (len(X),) and name != names[where if where is not None else matrix]
    }
    for name, values in arrays.items():
        if values.ndim == 1 and values.dtype.kind in "USO" and len(values) != len(X):
            warn(f"{path}: {name} has {len(values):,} values for {len(X):,} samples, so it is no label column.")
    return EmbeddingTable(ids, columns, X=X)


def _numbers(X: NDArray[Any], what: str, path: Path) -> NDArray[Any]:
    if X.ndim != 2:
        raise FileError(f"{path}: {what} should have the shape (n, d), got {X.shape}.")
    if X.dtype.kind not in "fiu":
        raise FileError(f"{path}: {what} should hold real numbers, got type {X.dtype}.")
    if not X.size:
        raise FileError(f"{path}: {what} is empty, of shape {X.shape}.")
    if X.dtype == np.float16:
        return X.astype(np.float32)
    return X.astype(np.float32 if X.dtype.kind == "f" and X.dtype.itemsize == 4 else np.float64, copy=False)


def _joined(table: EmbeddingTable, labels: PathLikeStr | LabelTable, path: Path) -> EmbeddingTable:
    by_row = not len(table.ids)
    where = Path("labels") if isinstance(labels, LabelTable) else Path(labels)
    joined = labels if isinstance(labels, LabelTable) else read_labels(where, rows_only=by_row)
    if not by_row:
        return _by_id(table, joined, where)
    if len(joined.ids) != len(table.X):
        raise InputError(
            f"{where}: {path} has no ids, so the labels should have one row for each of its {len(table.X)} rows; "
            f"they have {len(joined.ids)}."
        )
    return replace(table, ids=joined.ids).with_columns(joined.columns)


def _by_id(table: EmbeddingTable, labels: LabelTable, where: Path) -> EmbeddingTable:
    rows = labels.rows(table.ids.tolist())
    if np.all(rows < 0):
        raise InputError(
            f"{where}: none of the {len(rows)} embeddings has a label here; their ids are like {str(table.ids[0])!r}, "
            f"those of the labels like {str(labels.ids[0])!r}."
        )
    return table.with_columns({name: np.where(rows < 0, "", values[rows]) for name, values in labels.columns.items()})


def _checked(table: EmbeddingTable, path: Path) -> EmbeddingTable:
    if np.any(table.ids == ""):
        raise FileError(f"{path}: the id of row {int(np.argmax(table.ids == ''))} is empty.")
    no_duplicates(table.ids, "ids", str(path))
    # A row with a finite sum holds finite numbers only; sums may also overflow, so the other rows are looked through.
    with np.errstate(over="ignore", invalid="ignore"):
        doubtful = np.flatnonzero(~np.isfinite(table.X.sum(axis=1, dtype=np.float64)))
    bad = doubtful[~np.isfinite(table.X[doubtful]).all(axis=1)]
    if len(bad):
        raise FileError(
            f"{path}: embeddings should be finite; that of {str(table.ids[bad[0]])!r} holds NaN or infinity "
            f"({len(bad)} such embeddings in all)."
        )
    return table
