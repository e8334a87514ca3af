"""Enrollment lists: which samples each model is made of."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from jointplda._validation import check_choice
from jointplda.errors import FileError, InputError
from jointplda.formats.pair_rows import is_pair_header, pair_columns
from jointplda.formats.text import (
    PathLikeStr,
    decoded,
    delimiter_of,
    existing,
    lines,
    read_sheet,
    split,
    suffix_of,
    text_file,
    without_spaces,
)


def read_enrollment(path: PathLikeStr) -> dict[str, list[str]]:
    """Read the samples of each model.

    Understood are Kaldi's ``spk2utt`` (``model sample sample ...``), two columns ``model sample`` with a row for each
    sample, and NIST tables with a header (``modelid``, ``segmentid``).

    Parameters
    ----------
    path : path

    Returns
    -------
    samples : dict of str to list of str
        By model, in the order of the file.

    Raises
    ------
    FileError
        If a line cannot be read, or a sample is listed twice for one model.
    """
    target = existing(path)
    number, first = next(lines(target))
    text = decoded(first, target, number)
    header = is_pair_header(split(text, delimiter_of(text), target, number))
    found: dict[str, list[str]] = {}
    seen: set[tuple[str, str]] = set()
    for number, model, samples in _from_sheet(target) if header else _from_lines(target):
        if not model or not all(samples):
            raise FileError(f"{target}, line {number}: expected a model and a sample, one of them is empty.")
        for sample in samples:
            if (model, sample) in seen:
                raise FileError(f"{target}, line {number}: the sample {sample!r} is listed twice for {model!r}.")
            seen.add((model, sample))
        found.setdefault(model, []).extend(samples)
    if not found:
        raise FileError(f"{target}: nothing follows the header.")
    return found


def _from_sheet(path: Path) -> Iterator[tuple[int, str, list[str]]]:
    sheet = read_sheet(path, is_pair_header)
    model, sample = pair_columns(sheet)
    for number, fields in sheet.rows:
        yield number, decoded(fields[model], path, number), [decoded(fields[sample], path, number)]


def _from_lines(path: Path) -> Iterator[tuple[int, str, list[str]]]:
    for number, line in lines(path):
        model, *samples = (decoded(field, path, number) for field in line.split())
        if not samples:
            raise FileError(
                f"{path}, line {number}: expected 'model sample [sample ...]', got {model!r} alone. "
                "A list with commas needs a header such as modelid,segmentid."
            )
        yield number, model, samples


def read_num_utts(path: PathLikeStr) -> dict[str, int]:
    """Read Kaldi's counts of samples: lines ``model count``.

    Parameters
    ----------
    path : path

    Returns
    -------
    counts : dict of str to int
        By model; each at least 1.
    """
    target = existing(path)
    counts: dict[str, int] = {}
    for number, line in lines(target):
        fields = [decoded(field, target, number) for field in line.split()]
        if len(fields) != 2 or not fields[1].isdecimal() or int(fields[1]) < 1:
            raise FileError(f"{target}, line {number}: expected 'model count', got {' '.join(fields)[:60]!r}.")
        if fields[0] in counts:
            raise FileError(f"{target}, line {number}: the model {fields[0]!r} occurs a second time.")
        counts[fields[0]] = int(fields[1])
    return counts


def write_enrollment(enrollment: Mapping[str, Sequence[str]], path: PathLikeStr, kind: str | None = None) -> None:
    """Write the samples of each model.

    Parameters
    ----------
    enrollment : mapping of str to sequence of str
    path : path
        Gzipped if the name ends in ``.gz``.
    kind : {"kaldi", "nist"}, optional
        ``spk2utt``, or a table with a header and a row for each sample. By default nist for names that end in
        ``.tsv``, kaldi for others.
    """
    kind = check_choice("kind", kind or ("nist" if suffix_of(path) == ".tsv" else "kaldi"), ("kaldi", "nist"))
    for model, samples in enrollment.items():
        if not len(samples):
            raise InputError(f"{path}: the model {model!r} has no samples.")
        if kind == "kaldi":
            without_spaces([model, *samples], path)
    with text_file(path) as stream:
        if kind == "kaldi":
            for model, samples in enrollment.items():
                stream.write(f"{model} {' '.join(samples)}\n")
            return
        sheet = csv.writer(stream, delimiter="\t", lineterminator="\n")
        sheet.writerow(["modelid", "segmentid", "side"])
        for model, samples in enrollment.items():
            sheet.writerows([model, sample, "a"] for sample in samples)
