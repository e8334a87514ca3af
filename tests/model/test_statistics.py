"""Statistics: additive, exact under shifts, and equal however they were read."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from jointplda import FileError, InputError, Statistics, sample_matrix
from jointplda.model import row_sums
from jointplda.model.estep import e_step
from jointplda.model.layout import lay_out
from worlds.designs import DESIGNS, draw, relative, statistics_of


def by_label(statistics):
    """Everything in a form that does not depend on the order of levels, around the shift zero."""
    result = {}
    for pattern, part in statistics.parts.items():
        part = part.moved(statistics.shift)
        result[pattern, "N"] = part.count
        result[pattern, "total"] = part.total
        result[pattern, "S"] = part.scatter
        for k, level in part.levels.items():
            for b, n, f in zip(level.index, level.counts, level.sums):
                result[pattern, k, statistics.labels[k][b]] = np.append(f, n)
        for (k, j), links in part.links.items():
            for a, b, n in zip(links.rows, links.columns, links.counts):
                result[pattern, statistics.labels[k][a], statistics.labels[j][b]] = n
    return result


def assert_same(a, b, rel=1e-12):
    a, b = by_label(a), by_label(b)
    assert a.keys() == b.keys()
    for key in a:
        assert a[key] == pytest.approx(b[key], rel=rel, abs=1e-9), key


@pytest.mark.parametrize("name", DESIGNS)
def test_sums_are_those_of_a_naive_loop(name):
    X, columns, _ = draw(name)
    expected = {}
    for i, row in enumerate(X):
        pattern = tuple(column[i] is not None for column in columns[1:])
        labels = [(k, column[i]) for k, column in enumerate(columns) if column[i] is not None]
        additions = {(pattern, "N"): 1.0, (pattern, "total"): row, (pattern, "S"): np.outer(row, row)}
        additions |= {(pattern, k, label): np.append(row, 1.0) for k, label in labels}
        additions |= {(pattern, a, b): 1.0 for k, a in labels for j, b in labels if k < j}
        for key, value in additions.items():
            expected[key] = expected.get(key, 0.0) + value
    found = by_label(statistics_of(X, columns))
    assert found.keys() == expected.keys()
    for key in found:
        assert found[key] == pytest.approx(expected[key], rel=1e-11, abs=1e-10)


@pytest.mark.parametrize("name", DESIGNS)
def test_parts_add_up_to_the_whole(name):
    X, columns, _ = draw(name)
    whole = statistics_of(X, columns)
    cuts = [0, 3, 4, 11, 19, len(X)]
    pieces = [statistics_of(X[a:b], [c[a:b] for c in columns]) for a, b in pairwise(cuts)]
    assert_same(Statistics.sum(pieces), whole)
    assert_same(sum(pieces), whole)
    assert_same(pieces[4] + (pieces[1] + pieces[0]) + (pieces[3] + pieces[2]), whole)


def test_chunks_from_an_iterator():
    X, columns, _ = draw("joint, Rx < Ry")
    whole = statistics_of(X, columns)
    chunks = ((X[a : a + 7], columns[0][a : a + 7], columns[1][a : a + 7]) for a in range(0, 30, 7))
    assert_same(Statistics.from_chunks(chunks), whole)
    assert_same(Statistics.from_chunks((X[a::3], columns[0][a::3]) for a in range(3)), statistics_of(X, columns[:1]))
    with pytest.raises(InputError, match="at least one chunk"):
        Statistics.from_chunks([])


def test_reading_in_small_pieces_changes_nothing(monkeypatch):
    X, columns, _ = draw("two conditions, some missing")
    whole = statistics_of(X, columns)
    monkeypatch.setattr(sample_matrix, "CHUNK_ROWS", 4)
    assert_same(statistics_of(X, columns), whole)


def test_shifts_are_exact_far_from_zero():
    """Around 1e6 with unit spread, S - N mean mean' would lose twelve digits without the shift."""
    X, columns, _ = draw("joint, Rx < Ry")
    near, far = statistics_of(X, columns), statistics_of(X + 1e6, columns)
    assert relative(far.covariance, near.covariance) < 1e-9
    halves = [Statistics.from_samples(X[i::2] + 1e6, columns[0][i::2], columns[1][i::2]) for i in (0, 1)]
    assert not np.array_equal(halves[0].shift, halves[1].shift)
    assert relative((halves[0] + halves[1]).covariance, near.covariance) < 1e-9
    assert near.mean == pytest.approx(X.mean(axis=0), rel=1e-12)
    assert relative(near.covariance, np.cov(X.T, bias=True)) < 1e-12


def test_weights_count_samples_several_times():
    X, columns, parameters = draw("joint, some channels missing")
    rng = np.random.default_rng(0)
    weight = rng.integers(0, 4, len(X))
    repeated = [list(np.repeat(np.array(c, dtype=object), weight)) for c in columns]
    weighted = Statistics.from_samples(X, columns[0], columns[1], sample_weight=weight)
    again = statistics_of(np.repeat(X, weight, axis=0), repeated)
    assert_same(weighted, again)
    values = [e_step(lay_out(s, parameters.ranks), parameters)[1] for s in (weighted, again)]
    assert values[0] == pytest.approx(values[1], rel=1e-12)


@pytest.mark.parametrize("weight", [[1.0], np.full(30, -1.0), np.zeros(30), np.full(30, np.nan)])
def test_bad_weights(weight):
    X, columns, _ = draw("joint, Rx < Ry")
    with pytest.raises(InputError, match="sample_weight"):
        Statistics.from_samples(X, columns[0], columns[1], sample_weight=weight)


@pytest.mark.parametrize("name", DESIGNS)
def test_save_and_load(name, tmp_path):
    X, columns, _ = draw(name)
    statistics = statistics_of(X, columns)
    statistics.save(tmp_path / "s.safetensors")
    loaded = Statistics.load(tmp_path / "s.safetensors")
    assert loaded.labels == statistics.labels
    assert loaded.conditions == statistics.conditions
    assert by_label(loaded).keys() == by_label(statistics).keys()
    for key, value in by_label(statistics).items():
        assert np.array_equal(by_label(loaded)[key], value)
    assert [p.name for p in tmp_path.iterdir()] == ["s.safetensors"]


def test_labels_of_several_kinds_survive_a_file(tmp_path):
    labels = ["a", 1, 2.5, True, ("tuple", 3), "ü\n\x00 ", "z" * 1000, -7]
    statistics = Statistics.from_samples(np.eye(8), labels, labels)
    statistics.save(tmp_path / "s.safetensors")
    assert Statistics.load(tmp_path / "s.safetensors").labels == statistics.labels
    with pytest.raises(FileError, match=r"frozenset.*use strings"):
        Statistics.from_samples(np.eye(2), [frozenset("a"), frozenset("b")]).save(tmp_path / "t.safetensors")
    assert [p.name for p in tmp_path.iterdir()] == ["s.safetensors"]


def test_what_cannot_be_added():
    X, columns, _ = draw("joint, Rx < Ry")
    with pytest.raises(InputError, match="dimension 4 and 3"):
        statistics_of(X, columns) + statistics_of(X[:, :3], columns)
    with pytest.raises(InputError, match=r"expected 1 nuisance condition\(s\) \(channel\), got 0"):
        statistics_of(X, columns) + statistics_of(X, columns[:1])
    with pytest.raises(TypeError):
        statistics_of(X, columns) + 3


def test_forgetting_conditions():
    X, columns, _ = draw("two conditions, some missing")
    whole = statistics_of(X, columns)
    assert_same(whole.without_channels(), statistics_of(X, columns[:1]))
    assert_same(whole.with_conditions([1]), statistics_of(X, [columns[0], columns[2]]))
    assert_same(whole.with_channel_per_sample(), statistics_of(X, [columns[0], [None] * len(X)]))


def test_dataframe_columns_are_conditions():
    X, columns, _ = draw("two conditions, some missing")
    frame = pd.DataFrame({"language": columns[1], "room": columns[2]})
    named = Statistics.from_samples(X, pd.Series(columns[0]), frame)
    assert named.conditions == ("language", "room")
    assert_same(named, statistics_of(X, columns))
    one = Statistics.from_samples(X, columns[0], pd.Series(columns[1], name="language"))
    assert one.conditions == ("language",)


def test_a_dimension_is_constant_only_up_to_rounding():
    X = np.column_stack([np.full(50, 1e6), 1e6 + 1e-3 * np.arange(50), np.zeros(50)])
    statistics = Statistics.from_samples(X, np.arange(50) % 5)
    assert statistics.constant.tolist() == [True, False, True]
    assert statistics.scales[0] == statistics.scales[2] == statistics.covariance[1, 1]


def test_very_many_float32_samples_are_squared_in_single_precision(monkeypatch):
    """The scatter of three chunks is right to 3e-7, all else to the last digits; as float64 all of it is."""
    rng = np.random.default_rng(0)
    s, c, w = rng.integers(0, 50, 9_000), rng.integers(0, 4, 9_000), rng.uniform(0.5, 2.0, 9_000)
    X = (3.0 + rng.normal(size=(9_000, 6))).astype(np.float32)
    for weights in (None, w):
        double = Statistics.from_samples(X, s, c, sample_weight=weights).parts[True,]
        with monkeypatch.context() as patch:
            patch.setattr(row_sums, "MANY_ROWS", 9_000)
            single = Statistics.from_samples(X, s, c, sample_weight=weights).parts[True,]
            same = Statistics.from_samples(X.astype(np.float64), s, c, sample_weight=weights).parts[True,]
            asked = Statistics.from_samples(X, s, c, sample_weight=weights, double=True).parts[True,]
        error = np.abs(single.scatter - double.scatter).max() / np.abs(double.scatter).max()
        assert 0.0 < error < 3e-7
        assert_array_equal(same.scatter, double.scatter)
        assert_array_equal(asked.scatter, double.scatter)
        for k in (0, 1):
            assert_array_equal(single.levels[k].sums, double.levels[k].sums)
        assert_array_equal(single.total, double.total)
