"""Files of scores: Kaldi, WeSpeaker and NIST text, BOSARIS HDF5, and plain matrices."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from jointplda._identifiers import listed, no_duplicates
from jointplda._typing import Names
from jointplda._validation import check_choice
from jointplda.errors import FileError, InputError
from jointplda.formats import bosaris
from jointplda.formats.hdf5 import is_hdf5
from jointplda.formats.names import SCORE_NAMES, TARGET_NAMES, as_names, column
from jointplda.formats.npy import NPY_MAGIC, read_npy, write_npy
from jointplda.formats.pair_rows import Rows, gather, is_pair_header, pair_columns, refuse_contradictions
from jointplda.formats.text import (
    PathLikeStr,
    Sheet,
    existing,
    head,
    read_sheet,
    suffix_of,
    text_file,
    without_spaces,
)
from jointplda.formats.trial_files import rows_of
from jointplda.trial_list import UNKNOWN, ScoreTable, Trials

KINDS = ("kaldi", "wespeaker", "nist", "bosaris", "npy")
AnyNames = Sequence[str] | Names


def read_scores(path: PathLikeStr, models: AnyNames | None = None, samples: AnyNames | None = None) -> ScoreTable:
    """Read the scores of trials.

    Understood are Kaldi (``enroll test score``), WeSpeaker (a label as fourth column), NIST tables with a header,
    BOSARIS HDF5, and an ``.npy`` matrix with its names beside it. Text may be gzipped. The content decides, not the
    name.

    Parameters
    ----------
    path : path
    models, samples : sequence of str, optional
        The names of the rows and columns of an ``.npy`` matrix; default: from the files beside it that end in
        ``.rows`` and ``.columns``.

    Returns
    -------
    scores : ScoreTable
        Of n trials in the order of the file (a matrix: row by row). Infinite scores are kept.

    Raises
    ------
    FileError
        If the file cannot be read as scores, holds a NaN, or gives one pair two different scores.
    """
    target = existing(path)
    start = head(target)
    if is_hdf5(start):
        return bosaris.read_score_matrix(target)
    if start.startswith(NPY_MAGIC):
        return _from_matrix(target, models, samples)
    sheet = read_sheet(target, is_pair_header)
    table, rows = _with_header(sheet) if sheet.header else _without_header(sheet)
    bad = np.flatnonzero(np.isnan(table.values))
    if len(bad):
        raise FileError(f"{target}, line {rows.numbers[bad[0]]}: the score is NaN ({len(bad)} such scores in all).")
    refuse_contradictions(table.trials, table.values, "score", target, rows.numbers)
    return table


def _with_header(sheet: Sheet) -> tuple[ScoreTable, Rows]:
    header = sheet.header or []
    model, sample = pair_columns(sheet)
    score, label = column(header, SCORE_NAMES), column(header, TARGET_NAMES)
    if score is None:
        raise FileError(f"{sheet.path}, line 1: expected a column LLR or score, got {', '.join(header)}.")
    rows = gather(sheet, score)
    found = rows.pairs(model, sample)
    labels = None if label is None else rows.labels(label, may_miss=True)
    further = rows.further(header, (model, sample, score, label))
    trials = Trials(found.models, found.samples, found.enroll, found.test, labels, further)
    return ScoreTable(trials, rows.values(score)), rows


def _without_header(sheet: Sheet) -> tuple[ScoreTable, Rows]:
    if len(sheet.first) not in (3, 4):
        raise FileError(
            f"{sheet.path}, line 1: expected 'enroll test score [label]', got {len(sheet.first)} columns: "
            f"{' '.join(sheet.first)[:80]!r}. A list with commas needs a header such as modelid, segmentid, LLR."
        )
    rows = gather(sheet, 2)
    found = rows.pairs(0, 1)
    labels = rows.labels(3, may_miss=False) if len(sheet.first) == 4 else None
    trials = Trials(found.models, found.samples, found.enroll, found.test, labels)
    return ScoreTable(trials, rows.values(2)), rows


def _from_matrix(path: Path, models: AnyNames | None, samples: AnyNames | None) -> ScoreTable:
    models = _names_beside(path, "rows") if models is None else models
    samples = _names_beside(path, "columns") if samples is None else samples
    if models is None or samples is None:
        raise InputError(
            f"{path}: a matrix holds no names; put those of its rows and columns beside it, one a line, as "
            f"{path.stem}.rows and {path.stem}.columns."
        )
    matrix = read_npy(path)
    shape = (len(models), len(samples))
    if matrix.shape != shape:
        raise FileError(f"{path}: expected a matrix of {shape[0]} models by {shape[1]} samples, got {matrix.shape}.")
    if matrix.dtype.kind not in "iuf":
        raise FileError(f"{path}: scores should be real numbers, got type {matrix.dtype}.")
    no_duplicates(models, "models", str(path))
    no_duplicates(samples, "samples", str(path))
    enroll, test = (index.ravel().astype(np.int64) for index in np.indices(shape))
    return bosaris.checked_scores(Trials(as_names(models), as_names(samples), enroll, test), matrix.astype(float), path)


def _names_beside(path: Path, what: str) -> list[str] | None:
    """Names of the rows or columns of a matrix, from the file beside it that has them."""
    names = path.with_suffix(f".{what}")
    return names.read_text(encoding="utf-8").splitlines() if names.is_file() else None


def _write_matrix(table: ScoreTable, path: Path) -> None:
    """A matrix, and the names of its rows and columns beside it."""
    matrix = full_matrix(table, path)
    for what, names in (("rows", table.trials.models), ("columns", table.trials.samples)):
        with text_file(path.with_suffix(f".{what}")) as stream:
            stream.writelines(f"{name}\n" for name in names)
    write_npy(path, matrix)


def write_scores(table: ScoreTable, path: PathLikeStr, kind: str | None = None) -> None:
    """Write scores, whole or not at all, with digits enough to read back the same numbers.

    Parameters
    ----------
    table : ScoreTable
    path : path
        Text is gzipped if the name ends in ``.gz``.
    kind : {"kaldi", "wespeaker", "nist", "bosaris", "npy"}, optional
        By default, from the name: ``.h5`` and ``.hdf5`` bosaris, ``.npy`` npy, ``.tsv`` nist, others kaldi.
        ``"npy"`` needs a score for every pair of a model and a sample; names are written beside it, as ``.rows`` and
        ``.columns``.
    """
    by_name = {".h5": "bosaris", ".hdf5": "bosaris", ".npy": "npy", ".tsv": "nist"}
    kind = check_choice("kind", kind or by_name.get(suffix_of(path), "kaldi"), KINDS)
    if len(table.values) != len(table.trials):
        raise InputError(f"{path}: got {len(table.values)} scores for {len(table.trials)} trials.")
    bad = np.flatnonzero(np.isnan(table.values))
    if len(bad):
        raise InputError(f"{path}: {len(bad)} scores are NaN, the first in row {bad[0]}; nothing was written.")
    if kind == "bosaris":
        bosaris.write_score_matrix(table, path)
    elif kind == "npy":
        _write_matrix(table, Path(path))
    elif kind == "nist":
        _write_nist(table, path)
    else:
        _write_plain(table, path, with_label=kind == "wespeaker")


def full_matrix(table: ScoreTable, path: PathLikeStr) -> np.ndarray:
    """Scores of all pairs, shape (models, samples)."""
    trials = table.trials
    refuse_contradictions(trials, table.values, "score", Path(path), None)
    matrix = np.full((len(trials.models), len(trials.samples)), np.nan)
    matrix[trials.enroll, trials.test] = table.values
    missing = np.argwhere(np.isnan(matrix))
    if len(missing):
        pairs = listed((f"{trials.models[i]} {trials.samples[j]}" for i, j in missing), len(missing))
        raise InputError(f"{path}: a full matrix needs a score for every pair; these have none: {pairs}.")
    return matrix


def _write_plain(table: ScoreTable, path: PathLikeStr, *, with_label: bool) -> None:
    trials = table.trials
    without_spaces([*trials.models[np.unique(trials.enroll)], *trials.samples[np.unique(trials.test)]], path)
    if with_label and (trials.target is None or np.any(trials.target == UNKNOWN)):
        raise InputError(f"{path}: the WeSpeaker format needs a label for every trial; use kind='kaldi'.")
    with text_file(path) as stream:
        for (model, sample, label), score in zip(rows_of(trials), table.values.tolist(), strict=True):
            word = f" {'target' if label else 'nontarget'}" if with_label else ""
            stream.write(f"{model} {sample} {score!r}{word}\n")


def _write_nist(table: ScoreTable, path: PathLikeStr) -> None:
    sides = table.trials.columns.get("side")
    with text_file(path) as stream:
        sheet = csv.writer(stream, delimiter="\t", lineterminator="\n")
        sheet.writerow(["modelid", "segmentid", "side", "LLR"])
        scores = table.values.tolist()
        for row, (model, sample, _) in enumerate(rows_of(table.trials)):
            sheet.writerow([model, sample, "a" if sides is None else sides[row], repr(scores[row])])
