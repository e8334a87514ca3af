"""Training and scoring on a Dask cluster, on this machine: a scheduler and some worker processes.

Embeddings are drawn from a known model into several files; workers read them for the passes of a fit, and score all
pairs of test samples into a Zarr folder. The same is then done by one process, to compare it bit by bit. Everything is
in a temporary folder, and listens on 127.0.0.1 only.

    python examples/cluster_demo.py [--speakers 600] [--shards 8] [--test 5000] [--workers 2]

Needs pip install "jointplda[dask]".
"""

import argparse
import logging
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from distributed import LocalCluster

from jointplda import JointPLDA, JointPLDACV, Pipeline, Progress
from jointplda._typing import AnyArray
from jointplda.cluster import FileShard, file_shards, fit_on_cluster, score_on_cluster
from jointplda.embedding_table import EmbeddingTable
from jointplda.formats import write_embeddings
from jointplda.score_stores.block_writing import opened_scores

DIMENSION, EACH, LANGUAGES = 48, 20, ("en", "fr", "de", "es", "zh")


def drawn(folder: Path, speakers: int, shards: int, test: int) -> tuple[list[FileShard], list[FileShard]]:
    """Write the samples of training speakers, and of other speakers for the test, as files of row ranges."""
    rng = np.random.default_rng(0)
    V, U = rng.normal(size=(DIMENSION, 10)), rng.normal(size=(DIMENSION, 3))
    truth = JointPLDA.from_parameters(np.zeros(DIMENSION), V, U, np.eye(DIMENSION) / 4)
    sides = []
    for name, owners in (
        ("train", rng.permutation(np.repeat(np.arange(speakers), EACH))),
        ("test", speakers + np.arange(test) // EACH),
    ):
        languages = rng.choice(LANGUAGES, size=len(owners))
        X = truth.sample(owners, channels=languages, random_state=1).astype(np.float32)
        paths = []
        for k, rows in enumerate(np.array_split(np.arange(len(X)), shards)):
            columns = {"speaker": owners[rows].astype(np.str_), "language": languages[rows]}
            paths.append(folder / f"{name}-{k}.npz")
            write_embeddings(EmbeddingTable(np.char.add(name, rows.astype(np.str_)), columns, X=X[rows]), paths[-1])
        sides.append(file_shards(paths, channels=["language"]))
    return sides[0], [FileShard(**{**vars(shard), "channels": ()}) for shard in sides[1]]


class Timed:
    """Tells what was done in which time, and which worker did how much of it."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()

    def count(self, progress: Progress) -> None:
        """Count what a worker has done."""
        if isinstance(progress.detail, str):
            self.done[progress.detail] += 1

    def tell(self, what: str, work: Callable[[], Any]) -> Any:
        """Do the work, and print how long it took."""
        self.done.clear()
        start = time.perf_counter()
        result = work()
        print(f"{what}: {time.perf_counter() - start:.1f} s")
        for worker, number in sorted(self.done.items()):
            print(f"    {worker} did {number} of {self.done.total()}")
        return result


def main(argv: Sequence[str] | None = None) -> None:
    """Train and score on workers, then in one process, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, number in (("speakers", 600), ("shards", 8), ("test", 5000), ("workers", 2)):
        parser.add_argument(f"--{name}", type=int, default=number)
    given, timed = parser.parse_args(argv), Timed()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train, test = drawn(folder, given.speakers, given.shards, given.test)
        samples = sum(shard.n_samples or 0 for shard in train)
        print(f"{samples:,} samples of {given.speakers:,} speakers in {len(train)} files, {given.test:,} test samples")
        here = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "silence_logs": logging.CRITICAL,
                "scheduler_kwargs": {"dashboard": False}}  # fmt: skip
        with LocalCluster(n_workers=given.workers, threads_per_worker=1, processes=True, **here) as cluster:
            address = cluster.scheduler_address
            print(f"scheduler at {address}, {given.workers} worker processes")
            results = [
                everything(folder, "workers", address, train, test, timed),
                everything(folder, "one process", None, train, test, timed),
            ]
    same = results[0].tobytes() == results[1].tobytes()
    print(f"the {results[0].size:,} scores of both are {'the same, bit by bit' if same else 'NOT the same'}")


def everything(
    folder: Path, who: str, cluster: str | None, train: list[FileShard], test: list[FileShard], timed: Timed
) -> AnyArray:
    """Train and score all pairs of test samples; returns the scores."""
    model, out = folder / f"{who}.safetensors", folder / f"{who}.zarr"
    fitted = timed.tell(
        f"{who}: JointPLDACV, shards read in passes",
        lambda: fit_on_cluster(JointPLDACV(random_state=0), train, cluster, callback=timed.count),
    )
    Pipeline([("jointpldacv", fitted)]).save(model)
    timed.tell(
        f"{who}: blocks of scores of all pairs of test samples",
        lambda: score_on_cluster(out, model, test, None, cluster, callback=timed.count),
    )
    return np.asarray(opened_scores(out)[...])


if __name__ == "__main__":
    main()
