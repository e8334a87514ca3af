"""Lists of trials and keys, as text of every convention or as BOSARIS HDF5."""

from pathlib import Path

import numpy as np

from jointplda._validation import check_choice
from jointplda.errors import FileError, InputError, Remedy
from jointplda.file_kinds import FILE_KINDS, kind_of
from jointplda.formats import bosaris, hdf5
from jointplda.formats.header_words import LABEL_WORDS, TARGET_NAMES, is_pair_header
from jointplda.formats.pair_output import NIST, checked_trials, rows_of, used_names, write_lines, write_nist
from jointplda.formats.pair_rows import Rows, read_rows, refuse_contradictions, trials_of
from jointplda.formats.sheets import Sheet, read_sheet
from jointplda.formats.text import PathLikeStr, existing, head
from jointplda.trial_list import NONTARGET, TARGET, UNKNOWN, Trials


def read_trials(path: PathLikeStr) -> Trials:
    """Read a list of trials, with labels (a key) or without.

    The content decides what the file is, not its name. Text may be gzipped.

    - Kaldi: ``enroll test target|nontarget``, with labels ``tgt|imp`` or ``1|0`` too; or two columns.
    - VoxCeleb: ``1 enroll test``; every line starts with 0 or 1. If every line also ends with 0 or 1, it is not clear
      which of them is the label, and the list is refused.
    - NIST: a table with a header.
    - BOSARIS: HDF5 with the names of SIDEKIT, MATLAB or PyBOSARIS.

    Returns
    -------
    trials : Trials
        Of n trials, in the order of the file. ``target`` is None if the list has no labels. ``columns`` holds the
        further columns of a NIST table, among them ``side``.

    Raises
    ------
    FileError
        If the file cannot be read as a list, or gives one pair two different labels.
    """
    target = existing(path)
    if hdf5.recognises(target, head(target)):
        return bosaris.read_key(target)
    sheet = read_sheet(target, is_pair_header)
    trials, rows = trials_of(sheet) if sheet.has_header else _without_header(sheet)
    if trials.target is not None:
        refuse_contradictions(trials, trials.target, "label", target, rows.numbers)
    return trials


def _without_header(sheet: Sheet) -> tuple[Trials, Rows]:
    if len(sheet.first) not in (2, 3):
        raise FileError(
            f"{sheet.path}, line 1: expected 'enroll test [target|nontarget]' or '1 enroll test', got "
            f"{len(sheet.first)} columns: {' '.join(sheet.first)[:80]!r}. A list with commas, or with further columns, "
            "needs a header such as modelid, segmentid, targettype."
        )
    rows = read_rows(sheet)
    if len(sheet.first) == 2:
        return rows.trials(0, 1), rows
    label = _label_column(set(rows.names(0)[0].tolist()), set(rows.names(2)[0].tolist()))
    if label is None:
        raise FileError(
            f"{sheet.path}: every line starts and ends with 0 or 1, so it is not clear which of them is the label; "
            "add a header such as modelid, segmentid, targettype."
        )
    return rows.trials(*((1, 2) if label == 0 else (0, 1)), label), rows


def _label_column(starts: set[str], ends: set[str]) -> int | None:
    """Which of three columns holds the labels, from the distinct fields of the first and the last; None if unclear."""
    digits = {"0", "1"}
    if not starts <= digits or any(word.lower() in LABEL_WORDS for word in ends - digits):
        return 2
    return None if ends <= digits else 0


def write_trials(trials: Trials, path: PathLikeStr, kind: str | None = None) -> None:
    """Write a list of trials, whole or not at all.

    What is written reads back as the same pairs and labels, or is refused. Only nist keeps further columns, and names
    with spaces inside; the other kinds leave further columns out. A BOSARIS key is sorted by model and sample.

    Parameters
    ----------
    trials : Trials
    path : path
        Text is gzipped if the name ends in ``.gz``.
    kind : {"kaldi", "voxceleb", "nist", "dca", "bosaris"}, optional
        By default, from the name: ``.h5`` and ``.hdf5`` bosaris, ``.tsv`` nist, others kaldi.
    """
    kind = check_choice("kind", kind or kind_of("trials", path), tuple(FILE_KINDS["trials"]))
    trials = checked_trials(trials, path)
    if trials.target is not None:
        if kind != "nist" and np.any(trials.target == UNKNOWN):
            raise InputError(f"{path}: some trials have no label, which this format cannot hold.", remedy=NIST)
        refuse_contradictions(trials, trials.target, "label", Path(path), None)
    if kind == "bosaris":
        bosaris.write_key(trials, path)
    elif kind == "nist":
        cells = {UNKNOWN: "", NONTARGET: "nontarget", TARGET: "target"}
        labels = {} if trials.target is None else {"targettype": [cells[label] for label in trials.target.tolist()]}
        own = TARGET_NAMES if trials.target is None else TARGET_NAMES[:1]
        write_nist(trials, trials.columns, labels, path, ("modelid", "segmentid", *own))
    elif kind == "voxceleb":
        if trials.target is None:
            raise InputError(
                f"{path}: a VoxCeleb list needs labels, and these trials have none.",
                remedy=Remedy("kind", "kaldi", "writes a list without labels"),
            )
        if _label_column({"0", "1"}, set(trials.samples[np.unique(trials.test)].tolist())) != 0:
            raise InputError(f"{path}: sample ids such as '0', '1' or 'target' would be read as labels.", remedy=NIST)
        write_lines(used_names(trials), path, (f"{label} {model} {sample}" for model, sample, label in rows_of(trials)))
    else:
        words = ("imp", "tgt") if kind == "dca" else ("nontarget", "target")
        lines = (f"{m} {s}" if label is None else f"{m} {s} {words[label]}" for m, s, label in rows_of(trials))
        write_lines(used_names(trials), path, lines)
