"""Laws that statistics obey: they add up in any order, however samples were split and whatever labels are called."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from jointplda import JointPLDA, Statistics

SPEAKERS = ["ann", "bob", ("c", 1), 4]
CHANNELS = ["en", "fr", None, 3.5]


@st.composite
def samples(draw, conditions=2):
    """A few labelled samples around some mean."""
    n = draw(st.integers(2, 24))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    X = draw(st.sampled_from([0.0, 5.0, -300.0])) + rng.normal(size=(n, 3))
    speakers = [SPEAKERS[i] for i in rng.integers(0, len(SPEAKERS), n)]
    channels = np.empty((n, conditions), dtype=object)
    for place, i in np.ndenumerate(rng.integers(0, len(CHANNELS), (n, conditions))):
        channels[place] = CHANNELS[i]
    return X, speakers, channels


def rows_of(X, speakers, channels, rows):
    return X[rows], [speakers[i] for i in rows], channels[rows]


def by_label(statistics):
    """All sums under the names of their labels, around zero: what must not depend on order or shift."""
    table = {"count": statistics.n_samples, "covariance": statistics.covariance, "mean": statistics.mean}
    for pattern, part in statistics.parts.items():
        moved = part.moved(statistics.shift)
        table[pattern, "count"], table[pattern, "total"] = moved.count, moved.total
        table[pattern, "scatter"] = moved.scatter
        for k, levels in moved.levels.items():
            for i, n, total in zip(levels.index, levels.counts, levels.sums):
                table[pattern, k, statistics.labels[k][i]] = np.append(total, n)
        for (k, j), links in moved.links.items():
            for a, b, n in zip(links.rows, links.columns, links.counts):
                table[pattern, k, j, statistics.labels[k][a], statistics.labels[j][b]] = n
    return table


def assert_same(a, b):
    first, second = by_label(a), by_label(b)
    assert first.keys() == second.keys()
    for key, value in first.items():
        assert_allclose(value, second[key], rtol=1e-8, atol=1e-6, err_msg=str(key))


@given(samples(), st.data())
def test_they_add_up_however_the_samples_were_split(data, choices):
    X, speakers, channels = data
    whole = Statistics.from_samples(X, speakers, channels)
    parts = choices.draw(st.integers(1, 4))
    which = np.array(choices.draw(st.lists(st.integers(0, parts - 1), min_size=len(X), max_size=len(X))))
    pieces = [
        Statistics.from_samples(*rows_of(X, speakers, channels, np.flatnonzero(which == p)))
        for p in choices.draw(st.permutations(range(parts)))
        if (which == p).any()
    ]
    assert_same(Statistics.sum(pieces), whole)
    total = pieces[0]
    for piece in pieces[1:]:
        total = piece + total
    assert_same(total, whole)


@given(samples(), st.data())
def test_the_order_of_samples_does_not_matter(data, choices):
    order = list(choices.draw(st.permutations(range(len(data[0])))))
    assert_same(Statistics.from_samples(*rows_of(*data, order)), Statistics.from_samples(*data))


@given(samples(), st.floats(-100, 100))
def test_the_shift_does_not_matter(data, shift):
    assert_same(Statistics.from_samples(*data, shift=np.full(3, shift)), Statistics.from_samples(*data))


@given(samples(), st.data())
def test_a_weight_is_a_number_of_copies(data, choices):
    X, speakers, channels = data
    weights = choices.draw(st.lists(st.integers(0, 3), min_size=len(X), max_size=len(X)).filter(lambda w: any(w)))
    copies = np.repeat(np.arange(len(X)), weights)
    assert_same(
        Statistics.from_samples(X, speakers, channels, sample_weight=weights),
        Statistics.from_samples(*rows_of(X, speakers, channels, copies)),
    )


@given(samples())
def test_they_are_stored_whole(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("statistics") / "file"
    statistics = Statistics.from_samples(*data)
    statistics.save(path)
    loaded = Statistics.load(path)
    assert (loaded.labels, loaded.conditions) == (statistics.labels, statistics.conditions)
    first, second = by_label(loaded), by_label(statistics)
    assert first.keys() == second.keys()
    assert all(np.array_equal(value, second[key]) for key, value in first.items())


def test_names_of_labels_do_not_matter_to_a_fit():
    rng = np.random.default_rng(0)
    s, c = np.repeat(np.arange(12), 6), np.tile(np.arange(3), 24)
    X = rng.normal(size=(12, 4))[s] + rng.normal(size=(3, 4))[c] + rng.normal(size=(72, 4))
    model = JointPLDA(speaker_rank=2, channel_rank=1, tol=1e-6).fit(X, s, channels=c)
    renamed = JointPLDA(speaker_rank=2, channel_rank=1, tol=1e-6).fit(
        X, [f"speaker {99 - i}" for i in s], channels=[("channel", -int(i)) for i in c]
    )
    assert renamed.log_likelihoods_ == pytest.approx(model.log_likelihoods_, rel=1e-10)
    assert_allclose(renamed.V_ @ renamed.V_.T, model.V_ @ model.V_.T, rtol=1e-6, atol=1e-8)


def test_a_long_sum_does_not_number_its_labels_anew(monkeypatch):
    """Every label is looked up once for each summand that has it, and a second sum of the same total is right too."""
    looked_up = []

    class Label(str):
        def __hash__(self):
            looked_up.append(self)
            return super().__hash__()

    def chunk(start, stop):
        return Statistics.from_samples(np.eye(4)[: stop - start], [Label(i) for i in range(start, stop)])

    total, first = chunk(0, 4), chunk(100, 104)
    for start in range(4, 40, 4):
        summand = chunk(start, start + 4)
        looked_up.clear()
        total = total + summand
        assert len(looked_up) <= (8 if start == 4 else 4)
    both, other = total + first, total + chunk(200, 203)
    assert both.labels[0] == (*total.labels[0], *first.labels[0])
    assert other.labels[0] == (*total.labels[0], "200", "201", "202")
    assert (total + first).labels == both.labels
    assert len(total.labels[0]) == 40
