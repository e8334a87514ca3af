"""A real cluster of two worker processes on this machine."""

import pytest


@pytest.fixture(scope="session")
def cluster():
    dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")
    options = {"processes": True, "dashboard_address": None, "host": "127.0.0.1"}
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 2, "distributed.comm.timeouts.connect": "2s"}),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, **options) as local,
    ):
        yield local.scheduler_address
