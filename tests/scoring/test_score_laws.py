"""Laws that scores obey whatever the model: symmetry, and invariance under moves of the space and names of channels."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from jointplda import JointPLDA
from jointplda.scoring.partitions import beam_for, bell

D = 4


def drawn(seed, ranks):
    """A model and the generator that goes on drawing."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(D, D))
    loadings = [rng.normal(size=(D, rank)) for rank in ranks]
    U = np.concatenate(loadings[1:], axis=1) if len(loadings) > 1 else None
    model = JointPLDA.from_parameters(
        rng.normal(size=D), loadings[0], U, np.linalg.inv(noise @ noise.T / D + 0.5 * np.eye(D)), ranks[1:] or None
    )
    return model, rng


def channels_of(rng, n, conditions):
    """Labels of n samples; some are missing."""
    values = rng.integers(0, 3, (n, conditions)).astype(object)
    values[rng.random((n, conditions)) < 0.25] = None
    return values


seeds = st.integers(0, 10**6)
ranks = st.sampled_from([(2,), (2, 1), (4, 4), (1, 2, 1)])


def scores(model, E, T, ce, ct, same):
    """Every scoring function that needs no training, with channels known and not known."""
    found = [model.score_matrix(E, T, same), model.score_sets([E[:2], E[2:]], [T[:1], T[1:]], same_channel=same)]
    models = list("aabb")
    found.append(model.score_enrollment(model.enroll(E, models), T, same_channel=same))
    if ce.shape[1]:
        found.append(model.score_matrix(E, T, same, enroll_channels=ce, test_channels=ct))
        found.append(model.score_enrollment(model.enroll(E, models, channels=ce), T, test_channels=ct))
        given = {"channels_a": [ce[:2], ce[2:]], "channels_b": [ct[:1], ct[1:]]}
        found.append(model.score_sets([E[:2], E[2:]], [T[:1], T[1:]], **given))
    return found


@given(seeds, ranks, st.floats(0.0, 1.0))
def test_pairs_and_sets_are_symmetric(seed, ranks, same):
    model, rng = drawn(seed, ranks)
    E, T = rng.normal(size=(4, D)), rng.normal(size=(2, D))
    ce, ct = (channels_of(rng, n, len(ranks) - 1) for n in (4, 2))
    assert_allclose(model.score_matrix(E, T, same), model.score_matrix(T, E, same).T, rtol=1e-9, atol=1e-9)
    sets = model.score_sets([E[:2], E[2:]], [T[:1], T[1:]], same_channel=same)
    turned = model.score_sets([T[:1], T[1:]], [E[:2], E[2:]], same_channel=same)
    assert_allclose(sets, turned.T, rtol=1e-8, atol=1e-8)
    if ce.shape[1]:
        known = model.score_matrix(E, T, same, enroll_channels=ce, test_channels=ct)
        assert_allclose(
            known, model.score_matrix(T, E, same, enroll_channels=ct, test_channels=ce).T, rtol=1e-9, atol=1e-9
        )


@settings(max_examples=40)
@given(seeds, ranks, st.floats(0.0, 1.0))
def test_a_move_of_the_whole_space_changes_nothing(seed, ranks, same):
    """A shift and any invertible map of samples and parameters alike, a rotation among them."""
    model, rng = drawn(seed, ranks)
    E, T = rng.normal(size=(4, D)), rng.normal(size=(2, D))
    ce, ct = (channels_of(rng, n, len(ranks) - 1) for n in (4, 2))
    Q = np.linalg.qr(rng.normal(size=(D, D)))[0]
    for A in (Q, Q * rng.uniform(0.2, 5.0, D)):
        shift = rng.normal(size=D)
        inverse = np.linalg.inv(A)
        moved = JointPLDA.from_parameters(
            A @ model.mean_ + shift, A @ model.V_, A @ model.U_, inverse.T @ model.D_ @ inverse, ranks[1:] or None
        )
        before = scores(model, E, T, ce, ct, same)
        after = scores(moved, E @ A.T + shift, T @ A.T + shift, ce, ct, same)
        for x, y in zip(before, after):
            assert_allclose(x, y, rtol=1e-7, atol=1e-7)


@given(seeds, ranks.filter(lambda r: len(r) > 1), st.permutations(["x", ("y", 1), 7]))
def test_other_names_for_channels_change_nothing(seed, ranks, names):
    model, rng = drawn(seed, ranks)
    E, T = rng.normal(size=(4, D)), rng.normal(size=(2, D))
    ce, ct = (channels_of(rng, n, len(ranks) - 1) for n in (4, 2))

    def renamed(codes):
        values = np.empty_like(codes)
        for place, code in np.ndenumerate(codes):
            values[place] = None if code is None else names[code]
        return values

    before, after = scores(model, E, T, ce, ct, 0.3), scores(model, E, T, renamed(ce), renamed(ct), 0.3)
    for x, y in zip(before, after):
        assert_allclose(x, y, rtol=1e-9, atol=1e-9)


@given(seeds, ranks, st.permutations(range(4)))
def test_the_order_of_samples_changes_nothing(seed, ranks, order):
    model, rng = drawn(seed, ranks)
    E, T = rng.normal(size=(4, D)), rng.normal(size=(2, D))
    codes, order = channels_of(rng, 4, len(ranks) - 1), list(order)
    assert_allclose(model.score_matrix(E[order], T), model.score_matrix(E, T)[order], rtol=1e-10, atol=1e-10)
    models = np.array(["a", "b", "b", "b"])
    known = {"channels": codes} if codes.shape[1] else {}
    turned = {"channels": codes[order]} if codes.shape[1] else {}
    before = model.score_enrollment(model.enroll(E, models, **known), T)
    after = model.score_enrollment(model.enroll(E[order], models[order], **turned), T)
    assert_allclose(before, after, rtol=1e-8, atol=1e-8)


@given(seeds, ranks)
def test_one_sample_each_is_a_pair_in_every_function(seed, ranks):
    """Pairs, listed trials, enrollments of one sample and sets of one sample are the same question."""
    model, rng = drawn(seed, ranks)
    E, T = rng.normal(size=(3, D)), rng.normal(size=(2, D))
    same = rng.uniform(0, 1, 2) if len(ranks) > 1 else 0.5
    pairs = model.score_matrix(E, T, same)
    listed = model.score_trials(E, T, np.argwhere(np.ones((3, 2))), same).reshape(3, 2)
    assert_allclose(listed, pairs, rtol=1e-9, atol=1e-9)
    enrolled = model.score_enrollment(model.enroll(E, [0, 1, 2]), T, same_channel=same)
    assert_allclose(enrolled, pairs, rtol=1e-8, atol=1e-8)
    sets = model.score_sets([E[[i]] for i in range(3)], [T[[j]] for j in range(2)], same_channel=same)
    assert_allclose(sets, pairs, rtol=1e-8, atol=1e-8)


def test_a_channel_prior_of_certainty_is_a_known_channel():
    model, rng = drawn(0, (2, 2))
    E, T = rng.normal(size=(4, D)), rng.normal(size=(3, D))
    for same, (a, b) in ((1.0, ("x", "x")), (0.0, ("x", "y"))):
        known = model.score_matrix(E, T, enroll_channels=[a] * 4, test_channels=[b] * 3)
        assert known == pytest.approx(model.score_matrix(E, T, same), abs=1e-10)


def test_partitions_are_all_kept_while_they_are_few():
    """All 4,140 partitions of eight samples are; of nine, or of eight with two conditions, a beam of 200."""
    assert [bell(n) for n in range(9)] == [1, 1, 2, 5, 15, 52, 203, 877, 4140]
    assert [beam_for(n, 1, None) for n in (7, 8, 9)] == [877, 4140, 200]
    assert [beam_for(n, 2, None) for n in (5, 6)] == [52**2, 200]
    assert beam_for(8, 1, 17) == 17
