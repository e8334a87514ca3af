"""Connections to a Dask cluster. The one module that imports distributed."""

import asyncio
import logging
import platform
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from typing import Any

from jointplda.errors import Advice, ClusterError, FileError, JointPLDAError

CONNECTING = 10.0  # seconds
PATIENCE = 60.0  # seconds without any worker
POLL = 0.02
SAME = ("jointplda", "numpy", "scipy")


@contextmanager
def connected(cluster: Any) -> Iterator[Any]:
    """A client of a cluster whose workers can do our work.

    ``cluster`` is the address of a scheduler, such as "tcp://10.0.0.1:8786", whose connection is closed at the end, or
    a ``distributed.Client``, which stays open.
    """
    distributed = _package()
    with _quiet():
        if isinstance(cluster, distributed.Client):
            check_workers(cluster)
            yield cluster
            return
        if not isinstance(cluster, str):
            kind = type(cluster).__name__
            raise ClusterError(f"expected the address of a scheduler or a distributed.Client, got {kind}.")
        try:
            client = distributed.Client(cluster, set_as_default=False, timeout=CONNECTING)
        except (OSError, ValueError, TypeError) as error:
            problem = f"{cluster}: no scheduler of Dask answers there ({error}). An address is like tcp://10.0.0.1:8786"
            raise ClusterError(f"{problem}, and a scheduler is started by dask scheduler.") from None
        with client:
            check_workers(client)
            yield client


def check_workers(client: Any) -> None:
    """Wait for a worker, and raise unless all workers have the releases of this process."""
    distributed = _package()
    try:
        client.wait_for_workers(1, timeout=PATIENCE)
    except (TimeoutError, distributed.TimeoutError):
        raise without_workers() from None
    try:
        found = client.run(releases, on_error="return")
    except Exception as error:
        raise ClusterError(f"the workers could not be asked for their releases ({error}).") from None
    check_releases(releases(), found)


def check_releases(own: Mapping[str, str], found: Mapping[str, Any]) -> None:
    """Raise unless what each worker found are our ``own`` releases."""
    for worker, its in found.items():
        if isinstance(its, BaseException):
            raise ClusterError(f"the worker {worker} cannot import jointplda ({its}). Install the same release there.")
        other = [f"{name} {its[name]} rather than {own[name]}" for name in own if its[name] != own[name]]
        if other:
            raise ClusterError(f"the worker {worker} has {', '.join(other)}. Install the same releases everywhere.")


def releases() -> dict[str, str]:
    """The releases on which results depend."""
    return {"Python": ".".join(platform.python_version_tuple()[:2]), **{name: version(name) for name in SAME}}


def without_workers() -> ClusterError:
    """The error of a cluster that has no workers."""
    return ClusterError(
        f"the cluster has had no worker for {PATIENCE:.0f} s. Start some: dask worker and the address of the scheduler."
    )


def worker_name() -> str:
    """The address of the worker that runs this."""
    return str(_package().get_worker().address)


def shared(client: Any, value: Any, name: str) -> list[Any]:
    """A value that many tasks need, as tasks that bring it to one worker after the other, so that these spread.

    A value that was scattered would be lost with its worker; a task is done again.
    """
    number = max(1, len(client.nthreads()))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sending large graph")  # steps of many dimensions, lists of speakers
        return [client.submit(_same, value, key=f"{name} for {i}", priority=1) for i in range(number)]


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Failure:
    """What a task comes to that fails; a task that raises would fill the log of its worker.

    Attributes
    ----------
    error : JointPLDAError
        What the client raises.
    """

    error: JointPLDAError


def failure(error: Exception, what: str) -> Failure:
    """The failure of a task that did ``what`` on this worker."""
    if isinstance(error, FileError):
        where = f"It was found by the worker {worker_name()}; every worker must reach a file under the same path."
        return Failure(type(error)(error.problem, remedy=error.remedy or Advice(where, where)))
    if isinstance(error, JointPLDAError):
        return Failure(error)
    return Failure(ClusterError(f"{what}: {type(error).__name__} on the worker {worker_name()}: {error}"))


def completed(client: Any, futures: Sequence[Any], names: Mapping[str, str]) -> Iterator[tuple[Any, Any]]:
    """Futures as they are done, and what they came to; what stops them is an error of this package.

    ``names`` are what its message calls tasks, by their keys.
    """
    distributed = _package()
    waiting, seen = distributed.as_completed(futures, loop=client.loop), time.monotonic()
    try:
        while waiting.count():
            batch = waiting.next_batch(block=False)
            for future in batch:
                found = future.result()
                if isinstance(found, Failure):
                    raise found.error
                yield future, found
            if not batch:
                time.sleep(POLL)
            if batch or (time.monotonic() - seen > 1.0 and client.scheduler_info()["workers"]):
                seen = time.monotonic()
            if time.monotonic() - seen > PATIENCE:
                raise without_workers()
    except distributed.KilledWorker as error:
        raise ClusterError(
            f"workers died again and again, at last those that had {names.get(error.task, 'parts to merge')}; probably "
            "the work needs more memory than they have. Make smaller shards, or give each worker more memory."
        ) from None
    except (asyncio.CancelledError, CancelledError, distributed.comm.CommClosedError):
        raise ClusterError("the connection to the scheduler was lost, or somebody cancelled the tasks.") from None
    except JointPLDAError:
        raise
    except Exception as error:
        raise ClusterError(f"a worker could not take up its task: {type(error).__name__}: {error}") from None


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what distributed says of workers that come and go off the screen, where it logs in this process."""
    handlers = logging.getLogger("distributed").handlers

    def severe(record: logging.LogRecord) -> bool:
        return record.levelno > logging.ERROR

    for handler in handlers:
        handler.addFilter(severe)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(severe)


def _package() -> Any:
    try:
        return import_module("distributed")
    except ImportError:
        raise ClusterError('work on a cluster needs the package distributed: pip install "jointplda[dask]".') from None
