"""Channels that one sample carries: the same statistics, and the same fits, as without these labels."""

import numpy as np
import pytest

from jointplda import JointPLDA, Statistics
from jointplda.model.estep import e_step
from jointplda.model.layout import lay_out
from jointplda.model.single_levels import without_single_levels
from worlds.designs import draw_parameters, relative


def labels(rng, n, *levels):
    """Codes of conditions with so many levels, some of them rare."""
    return np.stack([np.minimum(rng.geometric(2.0 / many, n), many) for many in levels], axis=1).astype(object)


def unlabelled(c):
    """The same labels without those that occur once."""
    result = c.copy()
    for column in result.T:
        values = [v for v in column if v is not None]
        for i, value in enumerate(column):
            if values.count(value) == 1:
                column[i] = None
    return result


def world(seed, *levels, missing=0.0):
    rng = np.random.default_rng(seed)
    n = 80
    s, c = rng.integers(0, 12, n), labels(rng, n, *levels)
    c[rng.random(c.shape) < missing] = None
    return rng.normal(size=(n, 4)), s, c


DESIGNS = [((40,), 0.0), ((40,), 0.3), ((40, 30), 0.0), ((40, 4, 60), 0.2)]


@pytest.mark.parametrize("levels, missing", DESIGNS)
@pytest.mark.parametrize("cells", [False, True])
def test_statistics_are_those_of_samples_without_these_labels(levels, missing, cells):
    X, s, c = world(1, *levels, missing=missing)
    statistics = Statistics.from_samples(X, s, c, cells=cells)
    found = without_single_levels(statistics)
    expected = Statistics.from_samples(X, s, unlabelled(c), shift=statistics.shift, cells=cells)
    assert expected.n_channels != statistics.n_channels
    expected = Statistics(found.labels, found.conditions, found.shift, {}) + expected  # labels in the same order
    assert [len(one) for one in expected.labels] == [len(one) for one in found.labels]
    assert set(found.parts) == set(expected.parts)
    for pattern, part in found.parts.items():
        other = expected.parts[pattern]
        assert part.count == other.count
        np.testing.assert_allclose(part.total, other.total, atol=1e-12)
        np.testing.assert_allclose(part.scatter, other.scatter, atol=1e-12)
        for k, own in part.levels.items():
            np.testing.assert_array_equal(own.index, other.levels[k].index)
            np.testing.assert_array_equal(own.counts, other.levels[k].counts)
            np.testing.assert_allclose(own.sums, other.levels[k].sums, atol=1e-12)
        for pair, links in part.links.items():
            for name in ("rows", "columns", "counts"):
                np.testing.assert_array_equal(getattr(links, name), getattr(other.links[pair], name))
        if cells and all(pattern):
            np.testing.assert_array_equal(part.cells.codes, other.cells.codes)
            np.testing.assert_array_equal(part.cells.counts, other.cells.counts)
            np.testing.assert_allclose(part.cells.sums, other.cells.sums, atol=1e-12)


@pytest.mark.parametrize("levels, missing", DESIGNS)
def test_likelihood_and_moments_do_not_change(levels, missing):
    X, s, c = world(2, *levels, missing=missing)
    statistics = Statistics.from_samples(X, s, c)
    parameters = draw_parameters(np.random.default_rng(0), 4, (3, *[2] * len(levels)))
    (moments, ll), (same, same_ll) = (
        e_step(lay_out(one, parameters.ranks, 0), parameters) for one in (statistics, without_single_levels(statistics))
    )
    assert same_ll == pytest.approx(ll, rel=1e-12)
    assert relative(same.R, moments.R) < 1e-11
    assert relative(same.T, moments.T) < 1e-11
    for a, b in zip(same.levels, moments.levels):
        assert a.count == b.count
        assert relative(a.second, b.second) < 1e-11


@pytest.mark.filterwarnings("ignore:EM did not converge")
@pytest.mark.parametrize("interaction", [0.0, 0.5, "proportional", "full"])
@pytest.mark.parametrize("priors", [{}, {"noise_prior": 0.5, "speaker_prior": 0.5}])
def test_fits_do_not_change(interaction, priors, monkeypatch):
    X, s, c = world(3, 40, 6)
    settings = dict(channel_rank=2, interaction=interaction, max_iter=10, tol=0.0, noise="full", **priors)
    monkeypatch.setattr("jointplda.model.interaction.forms.without_single_levels", lambda statistics: statistics)
    kept = JointPLDA(**settings).fit(X, s, channels=c)
    taken = []

    def absorbed(statistics):
        taken.append(statistics)
        return without_single_levels(statistics)

    monkeypatch.setattr("jointplda.model.interaction.forms.without_single_levels", absorbed)
    monkeypatch.setattr(
        "jointplda.model.interaction.forms.estimated_work", lambda samples, *rest: len(samples.labels[1])
    )
    other = JointPLDA(**settings).fit(X, s, channels=c)
    assert taken
    assert other.plan_.levels[1] < kept.plan_.levels[1]
    np.testing.assert_allclose(other.log_likelihoods_, kept.log_likelihoods_, rtol=1e-9)
    for name in ("mean_", "V_", "U_", "D_"):
        assert relative(getattr(other, name), getattr(kept, name)) < 1e-7
    assert other.training_ == kept.training_


def test_samples_that_are_weighted_keep_their_labels():
    """A level of two samples of weight one half is not a level of one sample."""
    X, s, c = world(4, 40)
    statistics = Statistics.from_samples(X, s, c, sample_weight=np.full(len(X), 0.5))
    assert without_single_levels(statistics) is statistics
    both = statistics + Statistics.from_samples(X, s, c)
    assert without_single_levels(both) is both
    weighted_by_one = Statistics.from_samples(X, s, c, sample_weight=np.ones(len(X)))
    assert without_single_levels(weighted_by_one).n_channels < statistics.n_channels


@pytest.mark.filterwarnings("ignore:EM did not converge")
def test_a_channel_for_every_sample_costs_what_no_labels_cost():
    rng = np.random.default_rng(5)
    X, s = rng.normal(size=(600, 6)), np.repeat(np.arange(120), 5)
    settings = dict(channel_rank=2, noise="diagonal", max_iter=3, tol=0.0)
    own, none = np.arange(600), np.full((600, 1), None)
    labelled = JointPLDA(**settings).fit(X, s, channels=own)
    absent = JointPLDA(**settings).fit(X, s, channels=none)
    assert labelled.plan_.levels == absent.plan_.levels == (120, 0)
    assert labelled.plan_.work == absent.plan_.work
