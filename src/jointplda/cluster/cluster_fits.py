"""Statistics of shards and fits to them, whose passes the workers of a cluster make."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from jointplda.cluster.cluster_reader import ClusterReader
from jointplda.cluster.connection import connected
from jointplda.errors import InputError
from jointplda.model.statistics import Statistics
from jointplda.passes.readers import Reader, ShardReader, check_shards
from jointplda.passes.sources import SampleSource
from jointplda.passes.summing import LevelSums
from jointplda.passes.training import Model, fit_by
from jointplda.progress import ProgressCallback


def fit_on_cluster(
    model: Model,
    shards: Sequence[SampleSource],
    cluster: Any,
    *,
    memory: float = 2e9,
    callback: ProgressCallback | None = None,
) -> Model:
    """Fit a model to shards that the workers of a Dask cluster read.

    The passes are those of ``passes.fit_in_passes``: workers make them, a shard at a time, and merge what they
    found; the settings are chosen and EM runs in this process. The result does not depend on the number of workers,
    nor on which of them does what or is lost on the way.

    Parameters
    ----------
    model : JointPLDACV, JointPLDA, PLDA, or a Pipeline of steps and JointPLDA or PLDA
        As in ``passes.fit_in_passes``.
    shards : sequence of SampleSource
        The samples, such as ``file_shards`` makes. Their order counts, to rounding.
    cluster : str, distributed.Client or None
        The address of a scheduler, or a client of it. None has this process read the shards one after the other.
    memory : float
        Bytes that the search for settings may take in this process; the merged statistics come on top.
    callback : callable, optional
        Called with a ``Progress`` after every shard, counted in shards; its stage says what the pass is for, and its
        detail is the address of the worker. A search and EM call the model's own callback.

    Returns
    -------
    model
        The same object, fitted.
    """
    with _reader(shards, cluster, callback) as reader:
        return fit_by(reader, model, memory)


def statistics_on_cluster(
    shards: Sequence[SampleSource],
    cluster: Any,
    steps: Sequence[Any] = (),
    *,
    cells: bool = True,
    callback: ProgressCallback | None = None,
) -> Statistics:
    """Sum shards up to ``Statistics`` on the workers of a Dask cluster, in one pass.

    Parameters
    ----------
    shards, cluster, callback
        As in ``fit_on_cluster``.
    steps : sequence of fitted transformers
        What the samples go through before they are summed.
    cells : bool
        Whether to sum by cell too, which a fit with an interaction needs, if there are channels.
    """
    with _reader(shards, cluster, callback) as reader:
        found = reader.made(LevelSums("statistics", tuple(steps), cells=cells))
    if found is None:
        raise InputError("expected samples, got none.", parameter="shards")
    return found.statistics


@contextmanager
def _reader(shards: Sequence[SampleSource], cluster: Any, callback: ProgressCallback | None) -> Iterator[Reader]:
    """Who reads the shards: a cluster, or this process."""
    if cluster is None:
        yield ShardReader(shards, callback)
        return
    check_shards(shards)  # before anybody is asked to work
    with connected(cluster) as client:
        yield ClusterReader(shards, callback, client=client)
