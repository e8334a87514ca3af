"""A real cluster of two worker processes on this machine."""

import logging

import pytest


@pytest.fixture(scope="session")
def cluster():
    dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")
    options = {"dashboard_address": "127.0.0.1:0", "host": "127.0.0.1", "silence_logs": logging.CRITICAL}
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 2, "distributed.comm.timeouts.connect": "2s"}),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, **options) as local,
    ):
        yield local.scheduler_address
