"""Sums of chunks of samples, in memory and in files, against those of all samples at once."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from jointplda import _disk_rows as disk_rows
from jointplda._disk_rows import DiskRows
from jointplda.errors import FileError
from jointplda.model.growing_sums import GrowingSums
from jointplda.model.statistics import Statistics, encode_all

D = 3


def samples(conditions, missing, ordered, n=500):
    rng = np.random.default_rng(conditions)
    s = rng.integers(0, 60, n)
    s = np.sort(s) if ordered else s
    channels = rng.integers(0, 5, (n, conditions)).astype(object)
    channels[rng.random((n, conditions)) < missing] = None
    return 5.0 + rng.normal(size=(n, D)), s, channels if conditions else None


def grown(X, codes, labels, names, chunk, room, cells=True):
    sums = GrowingSums(labels, names, X[:1].mean(axis=0), cells=cells, room=room, samples=len(X))
    for start in range(0, len(X), chunk):
        sums.add(X[start : start + chunk], codes[start : start + chunk])
    return sums.statistics()


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("conditions, missing", [(0, 0.0), (1, 0.0), (1, 0.3), (2, 0.2)])
@pytest.mark.parametrize("chunk, room", [(1, np.inf), (70, np.inf), (500, 1e3), (70, 2e3), (7, 1e3)])
def test_they_are_those_of_all_samples(ordered, conditions, missing, chunk, room, monkeypatch):
    monkeypatch.setattr(disk_rows, "NUMBERS_AT_ONCE", 50)
    X, s, channels = samples(conditions, missing, ordered)
    codes, labels, names = encode_all(s, channels, len(X))
    expected = Statistics.from_codes(X, codes, labels, names, shift=X[0], cells=True)
    found = grown(X, codes, labels, names, chunk, room)
    assert found.parts.keys() == expected.parts.keys()
    for pattern, part in expected.parts.items():
        own = found.parts[pattern]
        assert isinstance(own.cells.sums, DiskRows) == (room < np.inf)
        assert own.count == part.count
        assert_allclose(own.total, part.total, rtol=1e-12, atol=1e-10)
        assert_allclose(own.scatter, part.scatter, rtol=1e-12, atol=1e-10)
        assert own.levels.keys() == part.levels.keys()
        for one, other in [(own.levels[k], part.levels[k]) for k in part.levels]:
            assert np.array_equal(one.index, other.index)
            assert np.array_equal(one.counts, other.counts)
            assert_allclose(np.asarray(one.sums), other.sums, rtol=1e-12, atol=1e-10)
        assert np.array_equal(own.cells.codes, part.cells.codes)
        assert np.array_equal(own.cells.counts, part.cells.counts)
        assert_allclose(np.asarray(own.cells.sums), part.cells.sums, rtol=1e-12, atol=1e-10)
        for pair, links in part.links.items():
            for name in ("rows", "columns", "counts"):
                assert np.array_equal(getattr(own.links[pair], name), getattr(links, name))


def test_cells_are_left_out_where_nobody_asks_for_them():
    X, s, channels = samples(1, 0.0, ordered=False)
    found = grown(X, *encode_all(s, channels, len(X)), 70, 2e3, cells=False)
    assert found.parts[True,].cells is None
    assert isinstance(found.parts[True,].levels[0].sums, DiskRows)


def test_temporary_files_go_with_the_statistics(tmp_path):
    X, s, channels = samples(1, 0.3, ordered=False)
    codes, labels, names = encode_all(s, channels, len(X))
    sums = GrowingSums(labels, names, X[0], cells=True, room=1e3, samples=len(X), folder=tmp_path)
    sums.add(X, codes)
    assert len(list(tmp_path.glob("*/*"))) > 3
    statistics = sums.statistics()
    assert len(list(tmp_path.glob("*/*"))) == 4  # cells and speakers of two patterns
    del sums, statistics
    assert list(tmp_path.iterdir()) == []


def test_no_room_for_temporary_files(tmp_path):
    X, s, _ = samples(0, 0.0, ordered=False)
    codes, labels, names = encode_all(s, None, len(X))
    sums = GrowingSums(labels, names, X[0], room=1e3, samples=len(X), folder=tmp_path / "none")
    with pytest.raises(FileError, match="no temporary files can be written"):
        sums.add(X, codes)
