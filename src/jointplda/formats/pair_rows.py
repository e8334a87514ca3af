"""Reading what lists of trials and of scores have in common: rows with a model and a sample, none against another."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jointplda._identifiers import as_names
from jointplda._typing import Array, IntArray, Names
from jointplda.errors import FileError
from jointplda.formats.header_words import LABEL_WORDS, MODEL_NAMES, SAMPLE_NAMES, TARGET_NAMES, find_column
from jointplda.formats.sheets import Sheet
from jointplda.formats.text import Field, decoded
from jointplda.trial_list import UNKNOWN, Trials

# Rows gathered at a time: few enough for their fields to stay in the processor's cache (8,192 take twice as long).
_CHUNK = 64


@dataclass(frozen=True)
class Rows:
    """The columns of a list (distinct fields by number, and the number of each row's field), the numbers in its column
    of scores if it has one, and the line of each row.
    """

    path: Path
    columns: list[tuple[dict[Field, int], "array[int]"]]
    scores: Array
    numbers: IntArray

    def names(self, index: int) -> tuple[Names, IntArray]:
        """Distinct names of a column in order of first appearance, and each row's index among them."""
        fields, numbers = self.columns[index]
        codes = np.asarray(numbers, dtype=np.int64)
        try:
            return as_names([f if isinstance(f, str) else f.decode("utf-8") for f in fields]), codes
        except UnicodeDecodeError:
            for field, code in fields.items():
                decoded(field, self.path, int(self.numbers[np.argmax(codes == code)]))
            raise

    def trials(self, model: int, sample: int, label: int | None = None, *, may_miss: bool = False) -> Trials:
        """Trials from the columns of models, of samples and of labels, which may be missing if ``may_miss``."""
        models, enroll = self.names(model)
        samples, test = self.names(sample)
        for names, codes, what in ((models, enroll, "model"), (samples, test, "segment")):
            empty = np.flatnonzero(names == "")
            if len(empty):
                row = int(np.argmax(codes == empty[0]))
                raise FileError(f"{self.path}, line {self.numbers[row]}: the name of the {what} is missing.")
        return Trials(models, samples, enroll, test, None if label is None else self._labels(label, may_miss))

    def texts(self, header: Sequence[str], without: Sequence[int | None] = ()) -> dict[str, Names]:
        """The columns of a header as text, each of shape (n,), without those at these indexes."""
        columns = {name: self.names(index) for index, name in enumerate(header) if index not in without}
        return {name: values[codes] for name, (values, codes) in columns.items()}

    def _labels(self, index: int, may_miss: bool) -> NDArray[np.int8]:
        """The labels in a column: 1 target, 0 non-target, and -1 for an empty cell if labels may be missing."""
        words, codes = self.names(index)
        labels = [LABEL_WORDS.get(word.lower()) for word in words.tolist()]
        for code, (word, label) in enumerate(zip(words, labels, strict=True)):
            if label is None and not (may_miss and word == ""):
                row = int(np.argmax(codes == code))
                raise FileError(
                    f"{self.path}, line {self.numbers[row]}: expected a label (target or nontarget, tgt or imp, "
                    f"1 or 0), got {str(word)!r}.{_score_hint(str(word))}"
                )
        return np.array([UNKNOWN if label is None else label for label in labels], dtype=np.int8)[codes]


def read_rows(sheet: Sheet, score: int | None = None) -> Rows:
    """Read a sheet to its end; the column of scores, if there is one, as numbers."""
    columns: list[tuple[dict[Field, int], array[int]]] = [({}, array("q")) for _ in sheet.first]
    scores, numbers = array("d"), array("q")
    while chunk := list(islice(sheet.rows, _CHUNK)):
        numbers.extend([number for number, _ in chunk])
        for index, fields in enumerate(zip(*[fields for _, fields in chunk], strict=True)):
            if index != score:
                known, codes = columns[index]
                codes.extend([known.setdefault(field, len(known)) for field in fields])
                continue
            try:
                scores.extend(map(float, fields))
            except ValueError:
                # The scores before the one that is no number were added, so that their count is its row.
                line = numbers[len(scores)]
                word = decoded(fields[len(scores) % _CHUNK], sheet.path, line)
                raise FileError(f"{sheet.path}, line {line}: expected a score, got {word[:60]!r}.") from None
    if not numbers:
        raise FileError(f"{sheet.path}: nothing follows the header.")
    return Rows(sheet.path, columns, np.asarray(scores), np.asarray(numbers, dtype=np.int64))


def pair_columns(sheet: Sheet) -> tuple[int, int]:
    """The columns of models and of samples."""
    model, sample = find_column(sheet.first, MODEL_NAMES), find_column(sheet.first, SAMPLE_NAMES)
    if model is None or sample is None:
        wanted = "models (modelid, model, enroll)" if model is None else "segments (segmentid, segment, test)"
        raise FileError(f"{sheet.path}, line 1: expected a column of {wanted}, got {', '.join(sheet.first)}.")
    return model, sample


def trials_of(sheet: Sheet, score: int | None = None) -> tuple[Trials, Rows]:
    """Trials of a sheet with a header, with their labels and further columns; ``score`` is the column of scores."""
    model, sample = pair_columns(sheet)
    label = find_column(sheet.first, TARGET_NAMES)
    rows = read_rows(sheet, score)
    columns = rows.texts(sheet.first, without=(model, sample, score, label))
    return replace(rows.trials(model, sample, label, may_miss=True), columns=columns), rows


def refuse_contradictions(
    trials: Trials, values: NDArray[Any], what: str, where: Path, numbers: IntArray | None
) -> None:
    """Refuse a pair that occurs twice with different values (labels or scores), naming the second occurrence."""
    first, second = repeated_pairs(trials)
    bad = np.flatnonzero(values[first] != values[second])
    if not len(bad):
        return
    at = bad[np.argmin(second[bad])]
    i, j = int(first[at]), int(second[at])
    place = f"{where}" if numbers is None else f"{where}, line {numbers[j]}"
    before = "before" if numbers is None else f"in line {numbers[i]}"
    raise FileError(
        f"{place}: the pair {pair_text(trials, j)} has the {what} {values[j]}, and {values[i]} {before}; "
        "remove one of them."
    )


def repeated_pairs(trials: Trials) -> tuple[IntArray, IntArray]:
    """Rows of pairs that occur more than once: each occurrence but the last, and the one that follows it."""
    order = np.argsort(trials.codes, kind="stable")
    ordered = trials.codes[order]
    again = ordered[1:] == ordered[:-1]
    return order[:-1][again], order[1:][again]


def pair_text(trials: Trials, row: int) -> str:
    """Both names of a trial, for messages."""
    return " ".join(map(repr, trials.pair(row)))


def _score_hint(word: str) -> str:
    try:
        float(word)
    except ValueError:
        return ""
    return " This looks like a file of scores."
