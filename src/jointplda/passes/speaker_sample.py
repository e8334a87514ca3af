"""A sample of speakers, with all that is theirs, on which settings are chosen where not all fit into memory."""

from collections.abc import Hashable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from jointplda._typing import AnyArray, BoolArray
from jointplda.labels import ConditionColumns
from jointplda.passes.census import Census, encoded
from jointplda.passes.readers import Reader
from jointplda.passes.sources import LabelledChunk

CROSSED_SHARE = 0.25
MOST_OF_ONE = 0.02  # of all rows


def drawn_speakers(census: Census, rows: int, rng: np.random.Generator, among: BoolArray | None = None) -> BoolArray:
    """Mask (S,) of speakers drawn at random (``among`` some of them), who have at most so many samples together.

    A quarter of the samples is kept for speakers who were heard in several channels, if there are enough of them:
    where few were, a plain draw would lose what shows how channels change a speaker.
    """
    counts = np.minimum(census.counts, _most_of_one(rows))
    drawn = rng.permutation(len(counts))
    drawn = drawn if among is None else drawn[among[drawn]]
    crossed = drawn[census.crossed[drawn]]
    chosen = np.zeros(len(counts), dtype=np.bool_)
    chosen[crossed[np.cumsum(counts[crossed]) <= CROSSED_SHARE * rows]] = True
    others = drawn[~chosen[drawn]]
    chosen[others[np.cumsum(counts[others]) <= rows - counts[chosen].sum()]] = True
    return chosen


def _most_of_one(rows: int) -> int:
    """Samples of one speaker that are used at most, drawn at random."""
    return max(8, int(MOST_OF_ONE * rows))


def gathered(reader: Reader, census: Census, speakers: BoolArray, rows: int, rng: np.random.Generator) -> LabelledChunk:
    """Read the samples of these speakers; of a speaker with very many samples, a random part of them."""
    share = np.minimum(1.0, _most_of_one(rows) / census.counts)
    wanted = {census.labels[0][i]: (int(i), float(share[i])) for i in np.flatnonzero(speakers)}
    streams = (rng, *rng.spawn(reader.n_shards - 1))
    found = reader.made(Gathering(wanted, streams))
    X, codes = np.concatenate([one.X for one in found]), np.concatenate([one.speakers for one in found])
    columns = (np.concatenate(column) for column in zip(*(one.channels.values for one in found), strict=True))
    return LabelledChunk(X, codes, ConditionColumns(census.conditions, tuple(columns)))


@dataclass(frozen=True)
class Gathering:
    """The pass that takes the samples of some speakers.

    Attributes
    ----------
    wanted : mapping
        The number of each of these speakers, and the share of his or her samples that is taken.
    streams : tuple of Generator
        Random numbers for each shard, the same whoever reads it.
    """

    wanted: dict[Hashable, tuple[int, float]]
    streams: tuple[np.random.Generator, ...]

    stage = "sample"

    def read(self, chunks: Iterator[LabelledChunk], shard: int) -> tuple[LabelledChunk, ...]:
        """The samples of a shard that are taken; their speakers are numbers."""
        rng = deepcopy(self.streams[shard])
        return tuple(self._taken(chunk, rng) for chunk in chunks)

    def _taken(self, chunk: LabelledChunk, rng: np.random.Generator) -> LabelledChunk:
        codes, labels, names = encoded(chunk)
        number, share = np.array([self.wanted.get(label, (-1, 0.0)) for label in labels[0]]).T
        own = np.flatnonzero(rng.random(len(codes)) < share[codes[:, 0]])
        channels = tuple(_labels_at(labels[k], codes[own, k]) for k in range(1, codes.shape[1]))
        speakers = number[codes[own, 0]].astype(np.int64)
        return LabelledChunk(np.asarray(chunk.X)[own], speakers, ConditionColumns(names, channels))

    def merged(self, first: tuple[LabelledChunk, ...], second: tuple[LabelledChunk, ...]) -> tuple[LabelledChunk, ...]:
        """The samples of both."""
        return first + second


def _labels_at(labels: tuple[Any, ...], codes: AnyArray) -> AnyArray:
    """Labels (n,) of codes, None where they are missing."""
    table = np.fromiter((*labels, None), dtype=object, count=len(labels) + 1)
    return np.asarray(table[codes])
