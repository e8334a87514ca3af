"""Keys and scores of BOSARIS: matrices of models by segments in HDF5, as SIDEKIT, MATLAB or PyBOSARIS name them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jointplda._identifiers import no_duplicates
from jointplda._typing import Names
from jointplda.errors import FileError
from jointplda.formats.hdf5 import read_arrays, write_arrays
from jointplda.formats.named_arrays import Arrays, as_text
from jointplda.formats.pair_output import matrix_of, refuse_repeats
from jointplda.formats.pair_rows import pair_text
from jointplda.formats.text import PathLikeStr
from jointplda.trial_list import NONTARGET, TARGET, ScoreTable, Trials

_MODELS = ("modelset", "ID/row_ids", "model_names")
_SAMPLES = ("segset", "ID/column_ids", "test_names")
_TARGETS = ("tar_mask", "target_mask", "tar")
_NONTARGETS = ("non_mask", "nontarget_mask", "non")


def read_key(path: Path) -> Trials:
    """The trials of a key, in the order of models and then segments.

    A ``trial_mask`` without a negative number is a list without labels, as SIDEKIT and MATLAB store those.
    """
    arrays = read_arrays(path)
    models, samples = _names(arrays, _MODELS, path), _names(arrays, _SAMPLES, path)
    shape = (len(models), len(samples))
    targets, nontargets = _first(arrays, _TARGETS), _first(arrays, _NONTARGETS)
    if targets is not None and nontargets is not None:
        target, nontarget = _mask(targets, shape, path) > 0, _mask(nontargets, shape, path) > 0
        if np.any(target & nontarget):
            raise FileError(f"{path}: some pairs are marked as target and as non-target.")
        mask, labelled = target.astype(np.int8) - nontarget, True
    elif "trial_mask" in arrays:
        mask = _mask(arrays["trial_mask"], shape, path)
        labelled = bool((mask < 0).any())
    else:
        raise FileError(f"{path}: expected trial_mask, or tar_mask and non_mask, {_contents(arrays)}.")
    trials = Trials.marked(models, samples, mask)
    if not len(trials):
        raise FileError(f"{path}: the key marks no trial.")
    labels = np.where(mask[trials.enroll, trials.test] > 0, TARGET, NONTARGET).astype(np.int8) if labelled else None
    return replace(trials, target=labels)


def read_score_matrix(path: Path) -> ScoreTable:
    """The scores that ``score_mask`` marks (all of them if there is no mask)."""
    arrays = read_arrays(path)
    models, samples = _names(arrays, _MODELS, path), _names(arrays, _SAMPLES, path)
    shape = (len(models), len(samples))
    scores = _first(arrays, ("scores", "score_mat", "scoremat"))
    if scores is None:
        hint = " This looks like a key." if "trial_mask" in arrays else ""
        raise FileError(f"{path}: expected scores, {_contents(arrays)}.{hint}")
    scores = _oriented(scores, shape, path, "scores").astype(np.float64)
    mask = _first(arrays, ("score_mask", "scoremask"))
    trials = Trials.marked(models, samples, np.ones(shape) if mask is None else _mask(mask, shape, path))
    if not len(trials):
        raise FileError(f"{path}: score_mask marks no score.")
    return checked_scores(trials, scores, path)


def checked_scores(trials: Trials, matrix: NDArray[np.float64], path: Path) -> ScoreTable:
    """The scores of trials from a matrix; raises if one of them is NaN."""
    values = matrix[trials.enroll, trials.test]
    bad = np.flatnonzero(np.isnan(values))
    if len(bad):
        pair = pair_text(trials, int(bad[0]))
        raise FileError(f"{path}: the score of the pair {pair} is NaN ({len(bad)} such scores in all).")
    return ScoreTable(trials, values)


def write_key(trials: Trials, path: PathLikeStr) -> None:
    """Write a key under the names of SIDEKIT; every trial has a label, or none has."""
    refuse_repeats(trials, path)
    mask = np.zeros((len(trials.models), len(trials.samples)), np.int8)
    mask[trials.enroll, trials.test] = 1 if trials.target is None else np.where(trials.target == TARGET, 1, -1)
    arrays = {"modelset": trials.models, "segset": trials.samples, "trial_mask": mask}
    if trials.target is not None and not np.any(mask < 0):
        arrays |= {"tar_mask": mask, "non_mask": np.zeros_like(mask)}
    write_arrays(path, arrays)


def write_score_matrix(table: ScoreTable, path: PathLikeStr) -> None:
    """Write scores and their mask under the names of SIDEKIT."""
    scores = matrix_of(table, path)
    arrays = {"modelset": table.trials.models, "segset": table.trials.samples}
    mask = ~np.isnan(scores)
    write_arrays(path, {**arrays, "scores": np.where(mask, scores, 0.0), "score_mask": mask.astype(np.int8)})


def _names(arrays: Arrays, names: tuple[str, ...], path: Path) -> Names:
    values = _first(arrays, names)
    if values is None:
        raise FileError(f"{path}: expected one of {', '.join(names)}, {_contents(arrays)}.")
    text = as_text(values.ravel(), names[0], path)
    no_duplicates(text, f"names in {names[0]}", str(path))
    return text


def _mask(values: NDArray[Any], shape: tuple[int, int], path: Path) -> NDArray[np.int8]:
    mask = _oriented(values, shape, path, "a mask", "whole numbers")
    signed: NDArray[Any] = mask.astype(np.int8) if mask.dtype.kind in "ub" else mask
    return np.asarray(np.sign(signed), dtype=np.int8)


def _oriented(values: NDArray[Any], shape: tuple[int, int], path: Path, what: str, of: str = "numbers") -> NDArray[Any]:
    """A matrix of models by segments, which column-major programs may store the other way round."""
    if values.dtype.kind not in "iubf":
        raise FileError(f"{path}: {what} should hold {of}, got type {values.dtype}.")
    if values.shape == shape:
        return values
    if values.shape == shape[::-1]:
        return values.T
    raise FileError(f"{path}: {what} should have the shape {shape} (models, segments), got {values.shape}.")


def _first(arrays: Arrays, names: tuple[str, ...]) -> NDArray[Any] | None:
    return next((arrays[name] for name in names if name in arrays), None)


def _contents(arrays: Arrays) -> str:
    return "got nothing" if not arrays else f"got {', '.join(sorted(arrays))[:200]}"
