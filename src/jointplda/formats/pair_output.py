"""Writing what lists of trials and of scores have in common; what would not read back the same is refused."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

import numpy as np

from jointplda._identifiers import as_names
from jointplda._typing import Array, IntArray, Names
from jointplda.errors import InputError, Remedy
from jointplda.formats.header_words import folded, is_pair_header
from jointplda.formats.pair_rows import pair_text, repeated_pairs
from jointplda.formats.sheets import first_cells, write_sheet
from jointplda.formats.text import PathLikeStr, check_texts, text_file
from jointplda.trial_list import NONTARGET, TARGET, UNKNOWN, ScoreTable, Trials

NIST = Remedy("kind", "nist", "can hold them")


def checked_trials(trials: Trials, path: PathLikeStr) -> Trials:
    """The trials with each name once, after a check that their arrays fit together."""
    if not len(trials):
        raise InputError(f"{path}: there are no trials to write.")
    for names, indexes, what in ((trials.models, trials.enroll, "models"), (trials.samples, trials.test, "samples")):
        if len(indexes) != len(trials):
            raise InputError(f"{path}: the trials have {len(trials)} models and {len(indexes)} samples.")
        if indexes.min() < 0 or indexes.max() >= len(names):
            raise InputError(
                f"{path}: the indexes of {what} should be from 0 to {len(names) - 1}, got {indexes.min()} to "
                f"{indexes.max()}."
            )
    for name, values in trials.columns.items():
        if len(values) != len(trials):
            raise InputError(f"{path}: there are {len(trials)} trials, and {len(values)} values in {name!r}.")
    models, enroll = _each_once(trials.models, trials.enroll)
    samples, test = _each_once(trials.samples, trials.test)
    target = None if trials.target is None else np.asarray(trials.target)
    if target is not None:
        if target.shape != (len(trials),) or not np.isin(target, (TARGET, NONTARGET, UNKNOWN)).all():
            raise InputError(f"{path}: every trial needs a label 1 (target), 0 (non-target) or -1 (not known).")
        target = target.astype(np.int8)
    return Trials(models, samples, enroll, test, target, trials.columns)


def _each_once(names: Names, indexes: IntArray) -> tuple[Names, IntArray]:
    """Distinct names, and the indexes into them."""
    index: dict[str, int] = {}
    places = [index.setdefault(name, len(index)) for name in names.tolist()]
    return as_names(index), np.asarray(places, dtype=np.int64)[indexes]


def refuse_repeats(trials: Trials, path: PathLikeStr) -> None:
    """Refuse pairs that occur more than once, which a matrix cannot hold."""
    _, again = repeated_pairs(trials)
    if len(again):
        raise InputError(
            f"{path}: {len(again):,} trials repeat a pair, such as {pair_text(trials, int(again[0]))}, which this "
            "format cannot hold; remove them.",
            remedy=NIST,
        )


def matrix_of(table: ScoreTable, path: PathLikeStr) -> Array:
    """The scores (models, samples) of trials without repeats; NaN for pairs without a score."""
    trials = table.trials
    refuse_repeats(trials, path)
    matrix = np.full((len(trials.models), len(trials.samples)), np.nan)
    matrix[trials.enroll, trials.test] = table.values
    return matrix


def used_names(trials: Trials) -> list[str]:
    """The names that occur in a trial."""
    models, samples = trials.models[np.unique(trials.enroll)], trials.samples[np.unique(trials.test)]
    return [*models.tolist(), *samples.tolist()]


def write_lines(names: Iterable[str], path: PathLikeStr, lines: Iterable[str]) -> None:
    """Write a list without header, whose fields are separated by spaces, after a check of the names in it."""
    check_texts(names, path, may_have_spaces=False, remedy=NIST)
    lines = iter(lines)
    first = next(lines)
    if is_pair_header(first_cells(first, path)):
        raise InputError(
            f"{path}: the first line would be {first[:80]!r}, which would be read as a header; rename its ids.",
            remedy=NIST,
        )
    with text_file(path) as stream:
        stream.writelines(f"{line}\n" for line in chain((first,), lines))


def write_nist(
    trials: Trials,
    columns: Mapping[str, Names],
    results: Mapping[str, Iterable[str]],
    path: PathLikeStr,
    own: Iterable[str] = (),
) -> None:
    """Write a table with a header: models and samples, further ``columns``, then those of ``results``.

    Refuse names and further columns that it cannot hold, or that would be read as its ``own`` columns.
    """
    check_texts((*used_names(trials), *columns), path)
    for name, values in columns.items():
        if folded(name) in own:
            raise InputError(f"{path}: a further column may not be named {name!r}; rename it.")
        check_texts(np.unique(values).tolist(), path, may_be_empty=True)
    models = map(trials.models.tolist().__getitem__, trials.enroll.tolist())
    samples = map(trials.samples.tolist().__getitem__, trials.test.tolist())
    cells = (values.tolist() for values in columns.values())
    rows = zip(models, samples, *cells, *results.values(), strict=True)
    write_sheet(path, ["modelid", "segmentid", *columns, *results], rows)


def rows_of(trials: Trials) -> Iterator[tuple[str, str, int | None]]:
    """Model, sample and label of each trial."""
    models, samples = trials.models.tolist(), trials.samples.tolist()
    labels = [None] * len(trials) if trials.target is None else trials.target.tolist()
    for enroll, test, label in zip(trials.enroll.tolist(), trials.test.tolist(), labels, strict=True):
        yield models[enroll], samples[test], label
