"""Lists of trials and keys, as text of every convention or as BOSARIS HDF5."""

from __future__ import annotations

import csv
from collections.abc import Iterator

import numpy as np

from jointplda._typing import Names
from jointplda._validation import check_choice
from jointplda.errors import FileError, InputError
from jointplda.formats import bosaris
from jointplda.formats.hdf5 import is_hdf5
from jointplda.formats.names import TARGET_NAMES, column, label_of
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
from jointplda.trial_list import UNKNOWN, Trials

KINDS = ("kaldi", "voxceleb", "nist", "dca", "bosaris")
_WORDS = {"kaldi": ("nontarget", "target"), "nist": ("nontarget", "target"), "dca": ("imp", "tgt")}


def read_trials(path: PathLikeStr) -> Trials:
    """Read a list of trials, with labels (a key) or without.

    Understood are Kaldi (``enroll test target|nontarget``, or two columns), VoxCeleb (``1 a b``; every line must start
    with 0 or 1), labels ``tgt|imp`` or ``1|0``, NIST tables with a header, and BOSARIS HDF5 in the dialects of
    SIDEKIT, MATLAB and PyBOSARIS. Text may be gzipped. The content decides, not the name.

    Parameters
    ----------
    path : path

    Returns
    -------
    trials : Trials
        Of n trials, in the order of the file. ``target`` is None if the list has no labels. Columns of a NIST table
        other than names and label are in ``columns``, among them ``side``.

    Raises
    ------
    FileError
        If the file cannot be read as a list, or gives one pair two different labels.
    """
    target = existing(path)
    if is_hdf5(head(target)):
        return bosaris.read_key(target)
    sheet = read_sheet(target, is_pair_header)
    trials, rows = _with_header(sheet) if sheet.header else _without_header(sheet)
    if trials.target is not None:
        refuse_contradictions(trials, trials.target, "label", target, rows.numbers)
    return trials


def _with_header(sheet: Sheet) -> tuple[Trials, Rows]:
    header = sheet.header or []
    model, sample = pair_columns(sheet)
    label = column(header, TARGET_NAMES)
    rows = gather(sheet)
    found = rows.pairs(model, sample)
    further = rows.further(header, (model, sample, label))
    labels = None if label is None else rows.labels(label, may_miss=True)
    return Trials(found.models, found.samples, found.enroll, found.test, labels, further), rows


def _without_header(sheet: Sheet) -> tuple[Trials, Rows]:
    if len(sheet.first) not in (2, 3):
        raise FileError(
            f"{sheet.path}, line 1: expected 'enroll test [target|nontarget]' or '1 enroll test', got "
            f"{len(sheet.first)} columns: {' '.join(sheet.first)[:80]!r}. A list with commas, or with further columns, "
            "needs a header such as modelid, segmentid, targettype."
        )
    rows = gather(sheet)
    if len(sheet.first) == 2:
        return rows.pairs(0, 1), rows
    first = int(_label_comes_first(rows))
    found = rows.pairs(first, first + 1)
    labels = rows.labels(0 if first else 2, may_miss=False)
    return Trials(found.models, found.samples, found.enroll, found.test, labels), rows


def _label_comes_first(rows: Rows) -> bool:
    starts, ends = rows.names(0)[0], rows.names(2)[0]
    return set(starts.tolist()) <= {"0", "1"} and not any(label_of(str(word)) is not None for word in ends)


def write_trials(trials: Trials, path: PathLikeStr, kind: str | None = None) -> None:
    """Write a list of trials, whole or not at all.

    Parameters
    ----------
    trials : Trials
    path : path
        Text is gzipped if the name ends in ``.gz``.
    kind : {"kaldi", "voxceleb", "nist", "dca", "bosaris"}, optional
        By default, from the name: ``.h5`` and ``.hdf5`` bosaris, ``.tsv`` nist, others kaldi. Only nist keeps
        further columns and names with spaces.
    """
    by_name = {".h5": "bosaris", ".hdf5": "bosaris", ".tsv": "nist"}
    kind = check_choice("kind", kind or by_name.get(suffix_of(path), "kaldi"), KINDS)
    if kind == "bosaris":
        bosaris.write_key(trials, path)
    elif kind == "nist":
        _write_nist(trials, path)
    else:
        _write_plain(trials, path, kind)


def _write_plain(trials: Trials, path: PathLikeStr, kind: str) -> None:
    without_spaces([*trials.models[np.unique(trials.enroll)], *trials.samples[np.unique(trials.test)]], path)
    if trials.target is not None and np.any(trials.target == UNKNOWN):
        raise InputError(f"{path}: some trials have no label, which this format cannot hold; use kind='nist'.")
    if kind == "voxceleb" and trials.target is None:
        raise InputError(f"{path}: a VoxCeleb list needs labels, and these trials have none; use kind='kaldi'.")
    with text_file(path) as stream:
        for model, sample, label in rows_of(trials):
            if kind == "voxceleb":
                stream.write(f"{label} {model} {sample}\n")
            else:
                stream.write(f"{model} {sample}\n" if label is None else f"{model} {sample} {_WORDS[kind][label]}\n")


def _write_nist(trials: Trials, path: PathLikeStr) -> None:
    header = ["modelid", "segmentid", *trials.columns]
    cells: list[Names] = list(trials.columns.values())
    with text_file(path) as stream:
        sheet = csv.writer(stream, delimiter="\t", lineterminator="\n")
        sheet.writerow(header if trials.target is None else [*header, "targettype"])
        for row, (model, sample, label) in enumerate(rows_of(trials)):
            word = [] if label is None else ["" if label == UNKNOWN else _WORDS["nist"][label]]
            sheet.writerow([model, sample, *(values[row] for values in cells), *word])


def rows_of(trials: Trials) -> Iterator[tuple[str, str, int | None]]:
    """Model, sample and label of each trial."""
    models, samples = trials.models.tolist(), trials.samples.tolist()
    labels = [None] * len(trials) if trials.target is None else trials.target.tolist()
    for enroll, test, label in zip(trials.enroll.tolist(), trials.test.tolist(), labels, strict=True):
        yield models[enroll], samples[test], label
