"""Scores of full matrices as lists of trials, which are written a few rows of the matrix at a time."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from jointplda._typing import AnyArray, IntArray, Names
from jointplda.errors import InputError, Remedy
from jointplda.formats.pair_output import write_lines
from jointplda.formats.sheets import write_sheet
from jointplda.formats.text import check_texts


def write_matrix_list(
    models: Names, samples: Names, left_out: IntArray, bands: Iterable[AnyArray], path: Path, kind: str
) -> int:
    """Write the scores of all pairs of models and samples but those ``left_out`` (k, 2); return how many there are.

    ``bands`` are the rows of the matrix, a few at a time and in order; ``kind`` is "kaldi" or "nist".
    """
    if kind == "wespeaker":
        raise InputError(
            f"{path}: the WeSpeaker format needs a label for every trial.",
            remedy=Remedy("kind", "kaldi", "writes scores without labels"),
        )
    total = len(models) * len(samples) - len(left_out)
    if not total:
        raise InputError(f"{path}: there are no trials to write.")
    names = [*models.tolist(), *samples.tolist()]
    rows = _rows(models, samples, left_out, bands)
    if kind == "nist":
        check_texts(names, path)
        trials = ((model, sample, "a", repr(score)) for model, pairs in rows for sample, score in pairs)
        write_sheet(path, ["modelid", "segmentid", "side", "LLR"], trials)
    else:
        lines = (f"{model} {sample} {score!r}" for model, pairs in rows for sample, score in pairs)
        write_lines(names, path, lines)
    return total


def _rows(
    models: Names, samples: Names, left_out: IntArray, bands: Iterable[AnyArray]
) -> Iterator[tuple[str, Iterable[tuple[str, float]]]]:
    """Every model with its samples and their scores."""
    left_out = left_out[np.argsort(left_out[:, 0], kind="stable")]
    ends = np.searchsorted(left_out[:, 0], np.arange(len(models) + 1))
    every = samples.tolist()
    rows = (row for band in bands for row in band)
    for i, (model, row) in enumerate(zip(models.tolist(), rows, strict=True)):
        without = left_out[ends[i] : ends[i + 1], 1]
        kept = np.delete(samples, without).tolist() if len(without) else every
        yield model, zip(kept, np.delete(row, without).tolist(), strict=True)
