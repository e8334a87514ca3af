"""Samples in several files, and shards that fail. A module of its own, since workers import it."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jointplda import JointPLDA
from jointplda.embedding_table import EmbeddingTable
from jointplda.formats import write_embeddings

D = 8


def samples(speakers=120, each=6, seed=0):
    """Embeddings, speakers and channels, some of which are missing."""
    rng = np.random.default_rng(seed)
    truth = JointPLDA.from_parameters(
        np.full(D, 2.0), rng.normal(size=(D, 4)), rng.normal(size=(D, 2)), np.eye(D), interaction=0.5
    )
    s, c = rng.permutation(np.repeat(np.arange(speakers), each)), rng.integers(0, 4, speakers * each)
    X = truth.sample(s, channels=c, random_state=seed)
    labels = np.array(["en", "fr", "de", "es"])[c]
    labels[rng.random(len(s)) < 0.1] = ""
    return X, np.array([f"speaker {i:03d}" for i in range(speakers)])[s], labels


def written(folder, X, s, c, files=4):
    """The samples in files of different kinds."""
    paths = []
    for k, rows in enumerate(np.array_split(np.arange(len(X)), files)):
        path = Path(folder) / f"part {k}.{('npz', 'parquet', 'h5')[k % 3]}"
        ids = np.array([f"{k}-{i}" for i in rows])
        write_embeddings(EmbeddingTable(ids, {"speaker": s[rows], "language": c[rows]}, X=X[rows]), path)
        paths.append(path)
    return paths


@dataclass(frozen=True)
class Deadly:
    """A shard whose first readers kill their process, as often as ``times``, after a chunk was read."""

    shard: Any
    folder: Path
    times: int = 1

    @property
    def n_features(self):
        return self.shard.n_features

    @property
    def n_samples(self):
        return self.shard.n_samples

    def chunks(self):
        for chunk in self.shard.chunks():
            yield chunk
            for number in range(self.times):
                try:
                    (self.folder / f"killed {number}").touch(exist_ok=False)
                except FileExistsError:
                    continue
                os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Slow:
    """A shard that takes a while, and says when it was read."""

    shard: Any
    folder: Path
    seconds: float

    @property
    def n_features(self):
        return self.shard.n_features

    @property
    def n_samples(self):
        return self.shard.n_samples

    def chunks(self):
        time.sleep(self.seconds)
        (self.folder / f"read {time.monotonic_ns()}").touch()
        yield from self.shard.chunks()


@dataclass(frozen=True)
class Gated(Slow):
    """A shard that is read at once if it is the first, and else after three seconds or when somebody opens the gate."""

    def chunks(self):
        try:
            (self.folder / "first").touch(exist_ok=False)
        except FileExistsError:
            until = time.monotonic() + 3.0
            while not (self.folder / "open").exists() and time.monotonic() < until:
                time.sleep(0.02)
        yield from super().chunks()


@dataclass(frozen=True)
class Broken(Slow):
    """A shard whose reading fails with an error of Python."""

    def chunks(self):
        raise MemoryError("no memory left")
