"""A sample of speakers, with all that is theirs, on which settings are chosen where not all fit into memory."""

from typing import Any

import numpy as np

from jointplda._typing import AnyArray, BoolArray
from jointplda.labels import ConditionColumns
from jointplda.passes.census import Census, counted
from jointplda.passes.sources import LabelledChunk, SampleSource
from jointplda.progress import ProgressCallback

CROSSED_SHARE = 0.25
MOST_OF_ONE = 0.02  # of all rows


def drawn_speakers(census: Census, rows: int, rng: np.random.Generator) -> BoolArray:
    """Mask (S,) of speakers drawn at random, who have at most so many samples together.

    A quarter of the samples is kept for speakers who were heard in several channels, if there are enough of them:
    where few were, a plain draw would lose what shows how channels change a speaker.
    """
    counts = np.minimum(census.counts, _most_of_one(rows))
    drawn = rng.permutation(len(counts))
    crossed = drawn[census.crossed[drawn]]
    chosen = np.zeros(len(counts), dtype=np.bool_)
    chosen[crossed[np.cumsum(counts[crossed]) <= CROSSED_SHARE * rows]] = True
    others = drawn[~chosen[drawn]]
    chosen[others[np.cumsum(counts[others]) <= rows - counts[chosen].sum()]] = True
    return chosen


def _most_of_one(rows: int) -> int:
    """Samples of one speaker that are used at most, drawn at random."""
    return max(8, int(MOST_OF_ONE * rows))


def gathered(
    source: SampleSource,
    census: Census,
    speakers: BoolArray,
    rows: int,
    rng: np.random.Generator,
    callback: ProgressCallback | None = None,
) -> LabelledChunk:
    """Read the samples of these speakers; of a speaker with very many samples, a random part of them."""
    share = np.where(speakers, np.minimum(1.0, _most_of_one(rows) / census.counts), 0.0)
    found: list[AnyArray] = []
    owners: list[Any] = []
    columns: list[list[Any]] = [[] for _ in census.conditions]
    for chunk in counted(source, "sample", callback):
        codes = census.codes(chunk)
        own = np.flatnonzero(rng.random(len(codes)) < share[codes[:, 0]])
        found.append(np.asarray(chunk.X)[own])
        owners.append(codes[own, 0])
        for k, column in enumerate(columns, start=1):
            column.append(codes[own, k])
    X, speakers_of = np.concatenate(found), np.concatenate(owners)
    channels = [_labels_at(census.labels[k], np.concatenate(column)) for k, column in enumerate(columns, start=1)]
    return LabelledChunk(X, speakers_of, ConditionColumns(census.conditions, tuple(channels)))


def _labels_at(labels: tuple[Any, ...], codes: AnyArray) -> AnyArray:
    """Labels (n,) of codes, None where they are missing."""
    table = np.fromiter((*labels, None), dtype=object, count=len(labels) + 1)
    return np.asarray(table[codes])
