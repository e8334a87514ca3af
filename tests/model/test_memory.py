"""Peak memory: nothing of samples x samples, speakers x d x d, or (speakers Rx) x (channels Rx)."""

import tracemalloc

import numpy as np
import pytest

from jointplda import PLDA, JointPLDA, Statistics

SPEAKERS, CHANNELS, D, RY, RX = 20_000, 40, 32, 16, 8
FORBIDDEN = {
    "samples x samples": (3 * SPEAKERS) ** 2,
    "speakers x d x d": SPEAKERS * D * D,
    "(speakers Rx) x (channels Rx)": SPEAKERS * RX * CHANNELS * RX,
}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    s, c = rng.integers(0, SPEAKERS, 3 * SPEAKERS), rng.integers(0, CHANNELS, 3 * SPEAKERS)
    X = rng.normal(size=(SPEAKERS, D))[s] + rng.normal(size=(CHANNELS, D))[c] + rng.normal(size=(len(s), D))
    return X, s, c


def peak(call):
    tracemalloc.start()
    call()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most / 8


@pytest.mark.filterwarnings("ignore:EM did not converge")
@pytest.mark.parametrize("kind", ["joint", "joint, some missing", "plda", "splda"])
def test_fit(data, kind):
    X, s, c = data
    if kind == "joint, some missing":
        c = np.where(np.arange(len(c)) % 10 == 0, None, c.astype(object))
    if kind.startswith("joint"):
        most = peak(lambda: JointPLDA(speaker_rank=RY, channel_rank=RX, max_iter=2, tol=0).fit(X, s, channels=c))
    else:
        most = peak(
            lambda: PLDA(speaker_rank=RY, channel_rank=RX if kind == "plda" else 0, max_iter=2, tol=0).fit(X, s)
        )
    assert most < 0.6 * min(FORBIDDEN.values())


def test_a_memmap_is_read_in_pieces(tmp_path):
    X = np.lib.format.open_memmap(tmp_path / "x.npy", mode="w+", dtype=np.float32, shape=(200_000, 64))
    X[:] = 1.0
    X[::2] = 2.0
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    most = peak(lambda: Statistics.from_samples(mapped, np.zeros(len(mapped), dtype=int)))
    assert most < 0.5 * X.size
