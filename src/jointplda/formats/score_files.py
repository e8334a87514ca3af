"""Files of scores: Kaldi, WeSpeaker and NIST text, BOSARIS HDF5, and full matrices with their names."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from jointplda._identifiers import as_names, listed, no_duplicates
from jointplda._typing import AnyArray, Array, Names
from jointplda._validation import check_choice
from jointplda.errors import FileError, InputError, Remedy
from jointplda.file_kinds import FILE_KINDS, kind_of
from jointplda.formats import bosaris, hdf5, npy, zarr_matrix
from jointplda.formats.header_words import SCORE_NAMES, find_column, is_pair_header
from jointplda.formats.pair_output import checked_trials, matrix_of, rows_of, used_names, write_lines, write_nist
from jointplda.formats.pair_rows import read_rows, refuse_contradictions, trials_of
from jointplda.formats.sheets import read_sheet
from jointplda.formats.text import PathLikeStr, check_texts, decoded, existing, head, lines, text_file
from jointplda.trial_list import NONTARGET, TARGET, UNKNOWN, ScoreTable, Trials


def read_scores(path: PathLikeStr) -> ScoreTable:
    """Read the scores of trials.

    The content decides what the file is, not its name: Kaldi (``enroll test score``), WeSpeaker (a label as fourth
    column), a NIST table with a header, BOSARIS HDF5, an ``.npy`` matrix, the names of whose rows and columns are in
    the files beside it that end in ``.rows`` and ``.columns``, one name a line, or a Zarr folder with the arrays
    ``scores``, ``rows`` and ``columns``. Text may be gzipped.

    Returns
    -------
    scores : ScoreTable
        Of n trials in the order of the file (a matrix: row by row). Infinite scores are kept.

    Raises
    ------
    FileError
        If the file cannot be read as scores, holds a NaN, or gives one pair two different scores.
    """
    if zarr_matrix.recognises(Path(path)):
        return _from_matrix(Path(path), *zarr_matrix.read_matrix(Path(path)))
    target = existing(path)
    start = head(target)
    if hdf5.recognises(target, start):
        return bosaris.read_score_matrix(target)
    if npy.recognises(target, start):
        return _from_matrix(target, *_names_beside(target), npy.read_npy(target))
    sheet = read_sheet(target, is_pair_header)
    if sheet.has_header:
        score = find_column(sheet.first, SCORE_NAMES)
        if score is None:
            raise FileError(f"{target}, line 1: expected a column LLR or score, got {', '.join(sheet.first)}.")
        trials, rows = trials_of(sheet, score)
    elif len(sheet.first) in (3, 4):
        rows = read_rows(sheet, 2)
        trials = rows.trials(0, 1, 3 if len(sheet.first) == 4 else None)
    else:
        raise FileError(
            f"{target}, line 1: expected 'enroll test score [label]', got {len(sheet.first)} columns: "
            f"{' '.join(sheet.first)[:80]!r}. A list with commas needs a header such as modelid, segmentid, LLR."
        )
    bad = np.flatnonzero(np.isnan(rows.scores))
    if len(bad):
        raise FileError(f"{target}, line {rows.numbers[bad[0]]}: the score is NaN ({len(bad)} such scores in all).")
    refuse_contradictions(trials, rows.scores, "score", target, rows.numbers)
    return ScoreTable(trials, rows.scores)


def _from_matrix(path: Path, models: Names, samples: Names, matrix: AnyArray) -> ScoreTable:
    shape = (len(models), len(samples))
    if matrix.shape != shape:
        raise FileError(f"{path}: expected a matrix of {shape[0]} models by {shape[1]} samples, got {matrix.shape}.")
    if matrix.dtype.kind not in "iuf":
        raise FileError(f"{path}: scores should be real numbers, got type {matrix.dtype}.")
    no_duplicates(models, "models", str(path))
    no_duplicates(samples, "samples", str(path))
    trials = Trials.marked(models, samples, np.ones(shape))
    return bosaris.checked_scores(trials, matrix.astype(float), path)


def _names_beside(path: Path) -> tuple[Names, Names]:
    """Names of the rows and columns of a matrix, one a line, from the files beside it."""
    rows, columns = (path.with_suffix(suffix) for suffix in FILE_KINDS["scores"]["npy"].beside)
    if not (rows.is_file() and columns.is_file()):
        raise InputError(
            f"{path}: a matrix holds no names; put those of its rows and columns beside it, one a line, as "
            f"{path.stem}.rows and {path.stem}.columns."
        )
    models, samples = (
        as_names([decoded(line, beside, number) for number, line in lines(beside)]) for beside in (rows, columns)
    )
    return models, samples


def write_scores(table: ScoreTable, path: PathLikeStr, kind: str | None = None) -> None:
    """Write scores, whole or not at all, with enough digits to read back the same numbers.

    What is written reads back as the same pairs and scores, or is refused. Labels are kept by wespeaker alone, and of
    the further columns only ``side``, by nist. Matrices (bosaris, npy, zarr) are read back sorted by model and sample.

    Parameters
    ----------
    table : ScoreTable
    path : path
        Text is gzipped if the name ends in ``.gz``.
    kind : {"kaldi", "wespeaker", "nist", "bosaris", "npy", "zarr"}, optional
        By default, from the name: ``.h5`` and ``.hdf5`` bosaris, ``.npy`` npy, ``.zarr`` zarr, ``.tsv`` nist, others
        kaldi. ``"npy"`` and ``"zarr"`` need a score for every pair of a model and a sample; the names of an npy matrix
        are written beside it, as ``.rows`` and ``.columns``.
    """
    kind = check_choice("kind", kind or kind_of("scores", path), tuple(FILE_KINDS["scores"]))
    if len(table.values) != len(table.trials):
        raise InputError(f"{path}: got {len(table.values)} scores for {len(table.trials)} trials.")
    bad = np.flatnonzero(np.isnan(table.values))
    if len(bad):
        raise InputError(f"{path}: {len(bad)} scores are NaN, the first in row {bad[0]}; nothing was written.")
    trials = checked_trials(table.trials, path)
    table = ScoreTable(trials, table.values)
    refuse_contradictions(trials, table.values, "score", Path(path), None)
    if kind == "bosaris":
        bosaris.write_score_matrix(table, path)
    elif kind in ("npy", "zarr"):
        matrix = matrix_of(table, path)
        missing = np.argwhere(np.isnan(matrix))
        if len(missing):
            pairs = listed((f"{trials.models[i]} {trials.samples[j]}" for i, j in missing), len(missing))
            raise InputError(f"{path}: a full matrix needs a score for every pair; these have none: {pairs}.")
        write = zarr_matrix.write_matrix if kind == "zarr" else write_matrix
        write(trials.models, trials.samples, matrix, Path(path))
    elif kind == "nist":
        sides = trials.columns.get("side", np.full(len(trials), "a"))
        write_nist(trials, {"side": sides}, {"LLR": map(repr, table.values.tolist())}, path)
    else:
        if kind == "kaldi":
            trials = replace(trials, target=None)
        elif trials.target is None or np.any(trials.target == UNKNOWN):
            raise InputError(
                f"{path}: the WeSpeaker format needs a label for every trial.",
                remedy=Remedy("kind", "kaldi", "writes scores without labels"),
            )
        endings = {None: "", NONTARGET: " nontarget", TARGET: " target"}
        rows = zip(rows_of(trials), table.values.tolist(), strict=True)
        written = (f"{model} {sample} {score!r}{endings[label]}" for (model, sample, label), score in rows)
        write_lines(used_names(trials), path, written)


def write_matrix(models: Names, samples: Names, scores: Array, path: Path) -> None:
    """Write the scores (models, samples) of all pairs as an .npy matrix, and beside it the names of its rows and
    columns, each name once.
    """
    if np.isnan(scores).any():
        raise InputError(f"{path}: {np.isnan(scores).sum()} scores are NaN; nothing was written.")
    with names_beside(models, samples, path):
        npy.write_npy(path, scores)


@contextmanager
def names_beside(models: Names, samples: Names, path: Path) -> Iterator[None]:
    """Write the names of the rows and columns of a matrix beside it, if no error occurs meanwhile."""
    if path.suffix in FILE_KINDS["scores"]["npy"].beside:
        raise InputError(f"{path}: this name is that of the names beside a matrix; end it in .npy.")
    check_texts([*models.tolist(), *samples.tolist()], path)
    with text_file(path.with_suffix(".rows")) as rows, text_file(path.with_suffix(".columns")) as columns:
        rows.writelines(f"{name}\n" for name in models)
        columns.writelines(f"{name}\n" for name in samples)
        yield
