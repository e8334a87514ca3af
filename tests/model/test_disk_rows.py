"""Statistics whose sums are in files: every fit is that of the same sums in memory."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array

from jointplda import _disk_rows as disk_rows
from jointplda._disk_rows import Collector, DiskRows, Scratch
from jointplda.errors import FileError
from jointplda.estimators.statistics_file import read_statistics, write_statistics
from jointplda.model import swept_levels
from jointplda.model.cell_sums import CellSums
from jointplda.model.fit import fit
from jointplda.model.setting_checks import checked_settings
from jointplda.model.statistics import Statistics
from jointplda.model.sums import Levels
from jointplda.preprocessing import Whiten
from jointplda.storage import tensors


def on_disk(rows, scratch):
    path = scratch.new()
    scratch.append(path, rows)
    return DiskRows(path, rows.shape, scratch)


def moved_to_files(statistics):
    """The same statistics with the sums of speakers and cells in files."""
    scratch, parts = Scratch(), {}
    for pattern, part in statistics.parts.items():
        own, cells = part.levels[0], part.cells
        levels = {**part.levels, 0: Levels(own.index, own.counts, on_disk(own.sums, scratch))}
        if cells is not None:
            cells = CellSums(cells.codes, cells.counts, on_disk(cells.sums, scratch))
        parts[pattern] = replace(part, levels=levels, cells=cells)
    return replace(statistics, parts=parts)


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch):
    monkeypatch.setattr(disk_rows, "NUMBERS_AT_ONCE", 40)


def samples(missing, conditions=1, n=400, d=4):
    rng = np.random.default_rng(7)
    s = rng.integers(0, 50, n)
    c = np.stack([rng.integers(0, 6 - k, n) for k in range(conditions)], axis=1)
    X = rng.normal(size=(50, d))[s] + rng.normal(size=(n, d))
    for k in range(conditions):
        X += rng.normal(size=(6, d))[c[:, k]]
    X += 0.7 * rng.normal(size=(300, d))[6 * s + c[:, 0]]
    channels = c.astype(object)
    channels[rng.random(c.shape) < missing] = None
    return X, s, channels


FORMS = [
    {"interaction": 0.0},
    {"interaction": 0.3},
    {"interaction": "proportional"},
    {"interaction": "proportional", "noise_prior": 0.5, "speaker_prior": 0.5},
    {"interaction": "full"},
    {"interaction": "split"},
    {"interaction": 0.3, "channel_share": 0.0},
]


@pytest.mark.parametrize("given", FORMS)
@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("conditions", [1, 2])
def test_fits_are_those_in_memory(given, missing, conditions):
    X, s, channels = samples(missing, conditions)
    statistics = Statistics.from_samples(X, s, channels, cells=True)
    settings = checked_settings({"max_iter": 8, **given})
    expected, found = (fit(one, settings) for one in (statistics, moved_to_files(statistics)))
    assert_allclose(found.trace.log_likelihoods, expected.trace.log_likelihoods, rtol=1e-10)
    assert_allclose(found.mean, expected.mean, rtol=0, atol=1e-9)
    assert_allclose(found.precision, expected.precision, rtol=0, atol=1e-8)
    for factor, same in zip(found.factors, expected.factors):
        assert_allclose(factor.loading @ factor.loading.T, same.loading @ same.loading.T, rtol=0, atol=1e-8)


@pytest.mark.parametrize("kept", [(), (1,), (0, 1)])
def test_fewer_conditions_have_the_same_sums(kept):
    statistics = Statistics.from_samples(*samples(0.2, 2), cells=True)
    expected, found = (one.with_conditions(kept) for one in (statistics, moved_to_files(statistics)))
    for pattern, part in expected.parts.items():
        same = found.parts[pattern]
        assert np.array_equal(part.cells.codes, same.cells.codes)
        assert_allclose(np.asarray(same.cells.sums), part.cells.sums, rtol=1e-12, atol=1e-12)
        assert_allclose(np.asarray(same.levels[0].sums), part.levels[0].sums, rtol=1e-12, atol=1e-12)


def test_sums_around_another_shift():
    X, s, channels = samples(0.0)
    statistics, step = Statistics.from_samples(X, s, channels, cells=True), np.array([1.0, -2.0, 0.5, 3.0])
    part = moved_to_files(statistics).parts[True,].moved(step)
    expected = Statistics.from_samples(X + step, s, channels, cells=True, shift=statistics.shift).parts[True,]
    assert isinstance(part.cells.sums, DiskRows)
    assert_allclose(np.asarray(part.cells.sums), expected.cells.sums, rtol=1e-11, atol=1e-11)
    assert_allclose(np.asarray(part.levels[0].sums), expected.levels[0].sums, rtol=1e-11, atol=1e-11)


def test_a_block_has_all_cells_of_its_speakers():
    X, s, channels = samples(0.0)
    cells = Statistics.from_samples(X, s, channels, cells=True).parts[True,].cells
    blocks = list(cells.blocks())
    assert [block.start for block in blocks] == [0, *(block.stop for block in blocks[:-1])]
    assert blocks[-1].stop == len(cells.codes)
    assert len(blocks) > 5
    owners = [set(cells.codes[block, 0].tolist()) for block in blocks]
    assert sum(map(len, owners)) == len(set.union(*owners)) == 50


def test_rows_of_a_file():
    scratch, values = Scratch(), np.arange(30.0).reshape(10, 3)
    rows = Collector(DiskRows(scratch.new(), (0, 3), scratch))
    for start in range(0, 10, 4):
        rows.add(values[start : start + 4])
    found = rows.rows()
    assert found.shape == (10, 3)
    assert np.array_equal(found[2:7], values[2:7])
    assert np.array_equal(np.asarray(found), values)
    assert found[5:5].shape == (0, 3)
    folder = scratch.folder
    with open(found.path, "r+b") as stream:
        stream.truncate(100)
    with pytest.raises(FileError, match="cut short"):
        found[8:10]
    del scratch, rows, found
    assert not folder.exists()


def test_many_levels_are_solved_for_as_few_are(monkeypatch):
    """Conjugate gradients explain the scatter that the generalised inverse does, also where levels are not linked."""
    rng = np.random.default_rng(3)
    H = csr_array(rng.poisson(0.04, (200, 60)).astype(float))
    counts = np.maximum(np.asarray(H.sum(axis=1)).ravel(), 1.0)
    A = swept_levels.swept_gram(counts, H, [np.asarray(H.sum(axis=0)).ravel()], {})
    b = A @ rng.normal(size=(60, 3))
    expected = swept_levels.explained_scatter(A, b)
    monkeypatch.setattr(swept_levels, "MOST_DENSE", 10)
    assert_allclose(swept_levels.explained_scatter(A, b), expected, rtol=1e-10, atol=1e-10 * np.abs(expected).max())


def test_only_sums_of_levels_stay_in_a_file(tmp_path, monkeypatch):
    """Square matrices of long embeddings are as large as rows, and are read."""
    monkeypatch.setattr(tensors, "NUMBERS_AT_ONCE", 4)
    X, s, channels = samples(0.3)
    expected = Statistics.from_samples(X, s, channels, cells=True)
    expected.save(tmp_path / "sums")
    found = Statistics.load(tmp_path / "sums", rows_in_file=True)
    assert all(isinstance(part.scatter, np.ndarray) for part in found.parts.values())
    assert isinstance(found.parts[True,].cells.sums, DiskRows)
    assert_allclose(found.without_channels().covariance, expected.covariance, rtol=1e-12)
    for name in ("one", "two"):
        write_statistics(tmp_path / name, expected, [("whiten", Whiten().fit(X, s))])
    total, steps = read_statistics([tmp_path / "one", tmp_path / "two"])
    assert total.n_samples == 2 * len(X)
    assert isinstance(steps[0][1].matrix_, np.ndarray)
