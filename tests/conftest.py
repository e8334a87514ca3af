"""Fixtures that several test files share."""

import logging
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from jointplda import JointPLDACV
from worlds.automatic import far_channels, named_world, quietly
from worlds.files_on_disk import api_model, make_world, trial_lines, trials_among, write_kaldi, write_tables

settings.register_profile(
    "jointplda", max_examples=60, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck)
)
settings.load_profile("jointplda")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("world")
    world, is_train = make_world()
    train, test = world.take(is_train), world.take(~is_train)
    for name, part in (("train", train), ("test", test)):
        write_tables(folder, name, part)
        write_kaldi(folder, f"kaldi-{name}", part)
    np.save(folder / "bare.npy", train.X)
    pairs = trials_among(test)
    (folder / "trials").write_text(trial_lines(test, pairs))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = api_model(train)
    model.save(folder / "api.safetensors")
    return folder, train, test, pairs, model


@pytest.fixture(scope="module")
def crossed():
    """Speakers in several channels each, and the automatic model of them."""
    data = named_world()
    return data, quietly(JointPLDACV(), *data)


@pytest.fixture(scope="module")
def confounded():
    """Speakers in one channel each, and the automatic model of them."""
    data = far_channels()
    return data, quietly(JointPLDACV(), *data)


@pytest.fixture(params=["crossed", "confounded"])
def fitted(request):
    """Either of the two."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def cluster():
    """A real cluster of two worker processes on this machine."""
    dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")
    options = {"dashboard_address": "127.0.0.1:0", "host": "127.0.0.1", "silence_logs": logging.CRITICAL}
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 2, "distributed.comm.timeouts.connect": "2s"}),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, **options) as local,
    ):
        yield local.scheduler_address
