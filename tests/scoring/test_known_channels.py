"""What training has seen: ratios of joint likelihoods of all training data and the trial (1e-6 or better)."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from jointplda import PLDA, InputError, JointPLDA, Pipeline, make_pipeline
from jointplda.model import channel_covariance, training_posterior
from jointplda.preprocessing import Center
from worlds.designs import world

TOLERANCE = 1e-8


class World:
    """A fitted model, and the dense-free joint likelihood of its training data with more samples."""

    def __init__(self, conditions):
        rng = np.random.default_rng(0)
        self.X, self.s, c, _ = world(rng, 4, (2, 2), 6, 3, 40)
        labels = np.array(["en", "fr", "de"], dtype=object)[c]
        labels[::7] = None
        rooms = np.where(np.arange(40) % 5 == 0, None, (np.arange(40) % 3).astype(object))
        self.channels = np.column_stack([labels, rooms])[:, :conditions]
        self.K = conditions
        self.model = JointPLDA(speaker_rank=2, channel_rank=[2, 1][:conditions], max_iter=30, tol=1e-3).fit(
            self.X, self.s, self.channels
        )
        self.E, self.T = 2 * rng.normal(size=(7, 4)), 2 * rng.normal(size=(6, 4))
        first = ["en", "fr", "en", "n1", None, "de", "n2"], [0, 1, 7, 2, None, 2, 2]
        second = ["en", "de", "n1", None, "n2", "fr"], [0, 7, None, 1, 2, 8]
        self.ce = np.array(first, dtype=object).T[:, :conditions]
        self.ct = np.array(second, dtype=object).T[:, :conditions]

    def joint(self, X, speakers, channels):
        table = np.concatenate([self.channels, np.array(channels, dtype=object).reshape(len(X), self.K)])
        return self.model.log_likelihood(np.vstack([self.X, X]), [*self.s, *speakers], table)

    def ratio(self, A, B, a, b):
        X, channels = np.vstack([A, B]), np.concatenate([a, b])
        same = self.joint(X, ["new"] * len(X), channels)
        return same - self.joint(X, ["new"] * len(A) + ["other"] * len(B), channels)


@pytest.fixture(scope="module", params=["1 whole", "2 whole", "1 solved", "2 solved"])
def trained(request):
    """Worlds whose covariance of training channels is kept, or solved for as it is asked for."""
    conditions, how = request.param.split()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training_posterior, "CHANNEL_UNKNOWNS", 3000 if how == "whole" else 0)
        patch.setattr(channel_covariance, "DENSE_UNKNOWNS", 0)
        world = World(int(conditions))
        assert world.model.fitted_.training.is_whole == (how == "whole")
        yield world


def test_pairs_with_known_channels(trained):
    w = trained
    known = [i for i in range(7) if None not in w.ce[i]], [j for j in range(6) if None not in w.ct[j]]
    given = {"enroll_channels": w.ce, "test_channels": w.ct}
    found = w.model.score_matrix(w.E, w.T, **given)
    for i in known[0]:
        for j in known[1]:
            expected = w.ratio(w.E[[i]], w.T[[j]], w.ce[[i]], w.ct[[j]])
            assert found[i, j] == pytest.approx(expected, abs=TOLERANCE)
    rows = np.array([[0, 0], [6, 5], [3, 2], [3, 2]])
    assert w.model.score_trials(w.E, w.T, rows, **given) == pytest.approx(found[rows[:, 0], rows[:, 1]], abs=1e-9)
    plain = w.model.score_matrix(w.E, w.T, **given, use_training=False)
    assert np.abs(plain - found).max() > 1e-3


def test_enrollments_and_sets_with_known_channels(trained):
    w = trained
    models = list("aaabbcc")
    enrollment = w.model.enroll(w.E, models, channels=w.ce)
    found = w.model.score_enrollment(enrollment, w.T, test_channels=w.ct)
    unseen = w.model.score_enrollment(enrollment, w.T)
    for i, name in enumerate("abc"):
        rows = [k for k in range(7) if models[k] == name]
        for j in range(6):
            expected = w.ratio(w.E[rows], w.T[[j]], w.ce[rows], w.ct[[j]])
            assert found[i, j] == pytest.approx(expected, abs=TOLERANCE)
            alone = w.ratio(w.E[rows], w.T[[j]], w.ce[rows], np.full((1, w.K), None))
            assert unseen[i, j] == pytest.approx(alone, abs=TOLERANCE)
    sets = w.model.score_sets([w.E[:2]], [w.T[:3]], channels_a=[w.ce[:2]], channels_b=[w.ct[:3]])
    assert sets[0, 0] == pytest.approx(w.ratio(w.E[:2], w.T[:3], w.ce[:2], w.ct[:3]), abs=TOLERANCE)


def test_missing_labels_with_the_prior():
    w = World(1)
    ends = ["en", None, "n"]
    found = w.model.score_matrix(w.E[:3], w.T[:3], (0.7, 0.2), enroll_channels=ends, test_channels=ends)
    for i, a in enumerate(ends):
        for j, b in enumerate(ends):
            if a and b:
                options = [(a, b, 1.0, 1.0)]
            else:
                other = a or b or "q"
                options = [(other, other, 0.7, 0.2), (a or "q1", b or "q2", 0.3, 0.8)]
            assert found[i, j] == pytest.approx(mixture(w, i, j, options), abs=TOLERANCE)


def test_missing_labels_with_weights():
    w = World(1)
    weights = {"en": 0.2, "fr": 0.3, "de": 0.1, None: 0.4}
    ends = ["en", None, "n"]
    found = w.model.score_matrix(
        w.E[:3], w.T[:3], (0.7, 0.2), enroll_channels=ends, test_channels=ends, channel_weights=weights
    )
    for i, a in enumerate(ends):
        for j, b in enumerate(ends):
            options = []
            for x, u in [(a, 1.0)] if a else weights.items():
                for y, v in [(b, 1.0)] if b else weights.items():
                    if x in (None, "n") and y in (None, "n") and not (a and b):
                        options += [("q", "q", u * v * 0.7, u * v * 0.2), ("q1", "q2", u * v * 0.3, u * v * 0.8)]
                    else:
                        options.append((x or "q1", y or "q2", u * v, u * v))
            assert found[i, j] == pytest.approx(mixture(w, i, j, options), abs=TOLERANCE)


def mixture(w, i, j, options):
    X, top, bottom = np.stack([w.E[i], w.T[j]]), [], []
    for a, b, p, q in options:
        top.append(np.log(p) + w.joint(X, ["new", "new"], [a, b]))
        bottom.append(np.log(q) + w.joint(X, ["new", "other"], [a, b]))
    return np.logaddexp.reduce(top) - np.logaddexp.reduce(bottom)


@pytest.mark.parametrize("labelled", [False, True])
def test_predict(trained, labelled):
    w = trained
    found = w.model.predict_proba(w.T, channels=w.ct if labelled else None)
    channels = w.ct if labelled else np.full((6, w.K), None)
    values = np.array([[w.joint(w.T[[j]], [k], channels[[j]]) for k in w.model.classes_] for j in range(6)])
    values -= np.logaddexp.reduce(values, axis=1, keepdims=True)
    assert found == pytest.approx(np.exp(values), abs=1e-9)
    assert np.array_equal(w.model.classes_, np.unique(w.s))
    guesses = w.model.predict(w.T, channels=w.ct if labelled else None)
    assert np.array_equal(guesses, w.model.classes_[values.argmax(axis=1)])


def test_channel_posterior(trained):
    w = trained
    weights = {"en": 1.0, "fr": 2.0, None: 0.5}
    labels, found = w.model.channel_posterior(w.T, weights)
    assert labels == ("de", "en", "fr", None)
    values = np.array(
        [[w.joint(w.T[[j]], ["zz"], [[c, *[None] * (w.K - 1)]]) for c in ("en", "fr", None)] for j in range(6)]
    )
    values += np.log([1.0 / 3.5, 2.0 / 3.5, 0.5 / 3.5])
    values -= np.logaddexp.reduce(values, axis=1, keepdims=True)
    assert found[:, 1:] == pytest.approx(np.exp(values), abs=1e-9)
    assert not found[:, 0].any()
    _, estimated = w.model.channel_posterior(w.X)
    assert estimated.sum(axis=1) == pytest.approx(np.ones(len(w.X)))
    known = np.array([c is not None for c in w.channels[:, 0]])
    best = np.array(labels, dtype=object)[estimated.argmax(axis=1)]
    assert np.mean(best[known] == w.channels[known, 0]) > 0.5


def test_what_was_seen_is_kept_in_files(trained, tmp_path):
    w = trained
    w.model.save(tmp_path / "m.safetensors")
    loaded = JointPLDA.load(tmp_path / "m.safetensors")
    assert np.array_equal(loaded.predict_proba(w.T, w.ct), w.model.predict_proba(w.T, w.ct))
    given = {"enroll_channels": w.ce, "test_channels": w.ct}
    assert np.array_equal(loaded.score_matrix(w.E, w.T, **given), w.model.score_matrix(w.E, w.T, **given))


def test_too_much_to_keep(trained, monkeypatch):
    w = trained
    monkeypatch.setattr(training_posterior, "MEAN_NUMBERS", 1)
    model = clone(w.model).fit(w.X, w.s, w.channels)
    assert model.fitted_.training is None
    assert not hasattr(model, "classes_")
    with pytest.raises(ValueError, match="too many of them to keep"):
        model.predict(w.T)
    assert model.score_matrix(w.E, w.T, enroll_channels=w.ce, test_channels=w.ct).shape == (7, 6)


@pytest.mark.parametrize(
    "weights, message",
    [
        ({"xx": 1.0}, r"\['xx'\] are not channels of training"),
        ({}, "not all 0"),
        ({"en": -1.0, None: 2.0}, "at least 0"),
        ("guess", 'expected "estimated" or a mapping'),
        ({"en": "x"}, "expected numbers"),
        (["estimated"] * 3, 'expected "estimated" or a mapping'),
    ],
)
def test_bad_weights(trained, weights, message):
    with pytest.raises(ValueError, match=message):
        trained.model.channel_posterior(trained.T, weights)


def test_plda_predicts_too():
    X, s, _, _ = world(np.random.default_rng(3), 5, (3, 1), 10, 4, 200)
    labels = [f"speaker{v}" for v in s]
    for model in (
        PLDA(speaker_rank=3, tol=1e-3).fit(X, labels),
        PLDA(speaker_rank=3, channel_rank=1, tol=1e-3).fit(X, labels),
    ):
        assert np.mean(model.predict(X) == np.array(labels)) > 0.5
        with pytest.raises(ValueError, match="samples share no channels"):
            model.predict(X, channels=labels)


def test_pipelines_score_raw_samples(trained, tmp_path):
    w = trained
    pipe = make_pipeline(Center(), JointPLDA(speaker_rank=2, channel_rank=[2, 1][: w.K], tol=1e-3)).fit(
        w.X, w.s, w.channels
    )
    pipe.save(tmp_path / "p.safetensors")
    centre = pipe[0].offset_
    E, T, model = w.E - centre, w.T - centre, pipe[-1]
    for one in (pipe, Pipeline.load(tmp_path / "p.safetensors")):
        assert np.array_equal(one.score_matrix(w.E, w.T), model.score_matrix(E, T))
        assert np.array_equal(one.score_matrix(one.prepare(w.E), w.T), model.score_matrix(E, T))
        assert np.array_equal(one.score_trials(w.E, w.T, [[0, 1]]), model.score_trials(E, T, [[0, 1]]))
        enrollment = one.enroll(w.E, list("aaabbcc"), w.ce)
        expected = model.score_enrollment(model.enroll(E, list("aaabbcc"), w.ce), T)
        assert np.array_equal(one.score_enrollment(enrollment, w.T), expected)
        assert np.array_equal(one.score_sets([w.E[:2]], [w.T[:1]]), model.score_sets([E[:2]], [T[:1]]))
        assert np.array_equal(one.predict(w.T), model.predict(T))
        assert np.array_equal(one.predict_proba(w.T, w.ct), model.predict_proba(T, w.ct))
        assert np.array_equal(one.channel_posterior(w.T)[1], model.channel_posterior(T)[1])


def test_weights_per_condition():
    w = World(2)
    with pytest.raises(ValueError, match="expected 2, one per condition, got 3"):
        w.model.score_matrix(w.E, w.T, channel_weights=["estimated"] * 3)
    counts = [
        dict(zip(labels, n))
        for labels, n in zip(w.model.fitted_.training.channels, w.model.fitted_.training.channel_counts)
    ]
    explicit = [{**one, None: np.mean(list(one.values()))} for one in counts]
    estimated = w.model.score_matrix(w.E, w.T, channel_weights="estimated")
    assert w.model.score_matrix(w.E, w.T, channel_weights=explicit) == pytest.approx(estimated, abs=1e-9)


def test_the_second_condition_has_its_own_channels():
    w = World(2)
    labels, found = w.model.channel_posterior(w.T, {0: 1.0, 2: 3.0}, condition=1)
    assert labels == (0, 1, 2, None)
    values = np.array([[w.joint(w.T[[j]], ["zz"], [[None, c]]) for c in (0, 2)] for j in range(6)])
    values += np.log([0.25, 0.75])
    values -= np.logaddexp.reduce(values, axis=1, keepdims=True)
    assert found[:, [0, 2]] == pytest.approx(np.exp(values), abs=1e-9)
    for bad in (2, -1, "room", 0.5):
        with pytest.raises(ValueError, match="condition: expected a whole number from 0 to 1"):
            w.model.channel_posterior(w.T, condition=bad)


def test_what_training_saw_can_be_left_out(trained):
    w = trained
    m = w.model
    bare = JointPLDA.from_parameters(m.mean_, m.V_, m.U_, m.D_, channel_ranks=m.channel_ranks_)
    models = list("aaabbcc")
    found, expected = (
        one.score_enrollment(one.enroll(w.E, models, w.ce, use_training=False), w.T, test_channels=w.ct)
        for one in (m, bare)
    )
    assert found == pytest.approx(expected, abs=1e-9)
    given = {"channels_a": [w.ce[:2]], "channels_b": [w.ct[:3]], "use_training": False}
    assert m.score_sets([w.E[:2]], [w.T[:3]], **given) == pytest.approx(
        bare.score_sets([w.E[:2]], [w.T[:3]], **given), abs=1e-9
    )
    assert np.abs(m.score_sets([w.E[:2]], [w.T[:3]], **{**given, "use_training": True}) - found[0, 0]).max() > 1e-3


def test_a_condition_of_rank_zero_changes_nothing():
    w = World(1)
    frame = np.column_stack([np.full(40, "same", dtype=object), w.channels[:, 0]])
    with pytest.warns(Warning, match="left out"):
        two = JointPLDA(speaker_rank=2, max_iter=30, tol=1e-3).fit(w.X, w.s, frame)
    one = JointPLDA(speaker_rank=2, max_iter=30, tol=1e-3).fit(w.X, w.s, w.channels)
    assert two.channel_ranks_[0] == 0
    ce, ct = (np.column_stack([np.full(len(c), "same", dtype=object), c]) for c in (w.ce, w.ct))
    pairs = [
        m.score_matrix(w.E, w.T, p, enroll_channels=a, test_channels=b)
        for m, a, b, p in ((one, w.ce, w.ct, (0.7, 0.2)), (two, ce, ct, [(0.1, 0.9), (0.7, 0.2)]))
    ]
    assert pairs[0] == pytest.approx(pairs[1], abs=1e-9)
    assert two.channel_posterior(w.T, condition=1)[1] == pytest.approx(one.channel_posterior(w.T)[1], abs=1e-9)
    with pytest.raises(ValueError, match="condition: 0 has rank 0"):
        two.channel_posterior(w.T)


def test_labels_of_another_type_are_a_warning():
    X, s, c, _ = world(np.random.default_rng(5), 4, (2, 1), 10, 3, 100)
    model = JointPLDA(speaker_rank=2, channel_rank=1, tol=1e-2).fit(X, s, c)
    with pytest.warns(Warning, match="Are they of another type"):
        model.score_matrix(X[:2], X[2:4], enroll_channels=["0", "1"], test_channels=["0", "2"])


@pytest.mark.parametrize("interaction", [0.0, 0.7, "proportional", "full"])
def test_too_many_speakers_to_keep(interaction, monkeypatch):
    """The channels are kept all the same, but for an interaction of any shape."""
    w = World(1)
    model = clone(w.model).set_params(interaction=interaction)
    monkeypatch.setattr(training_posterior, "CHANNEL_UNKNOWNS", 3000)
    whole = clone(model).fit(w.X, w.s, w.channels)
    monkeypatch.setattr(training_posterior, "SPEAKER_NUMBERS", 5)
    model.fit(w.X, w.s, w.channels)
    if interaction == "full":
        assert model.fitted_.training is None
        return
    found, expected = model.fitted_.training, whole.fitted_.training
    assert_allclose(found.channel_means, expected.channel_means, rtol=1e-8, atol=1e-10)
    assert_allclose(found.channel_covariance, expected.channel_covariance, rtol=1e-8, atol=1e-10)
    for counts, of_samples in zip(found.channel_counts, expected.channel_counts, strict=True):
        assert_allclose(counts, of_samples)
    with pytest.raises(InputError, match="too many of them to keep"):
        model.predict(w.X)
    with pytest.raises(AttributeError, match="training speakers"):
        model.classes_  # noqa: B018
    whole.fitted_ = replace(whole.fitted_, training=replace(expected, cells=None))
    known = {"enroll_channels": w.channels[:5], "test_channels": w.channels[5:9]}
    scores = [one.score_matrix(w.X[:5], w.X[5:9], **known) for one in (model, whole)]
    assert_allclose(scores[0], scores[1], rtol=1e-8, atol=1e-8)


def test_a_pipeline_passes_labels_to_predict(trained):
    w = trained
    pipe = make_pipeline(Center(), JointPLDA(speaker_rank=2, channel_rank=[2, 1][: w.K], tol=1e-3)).fit(
        w.X, w.s, w.channels
    )
    model, T = pipe[-1], w.X - pipe[0].offset_
    with_labels, without = model.predict(T, w.channels), model.predict(T)
    assert (with_labels != without).any()
    assert np.array_equal(pipe.predict(w.X, w.channels), with_labels)


@pytest.mark.parametrize("use_training", [True, False])
def test_two_named_sides_are_matched_by_name_where_training_had_no_names(use_training):
    rng = np.random.default_rng(3)
    s, lang, mic = np.repeat(np.arange(20), 6), rng.integers(0, 3, 120), rng.integers(0, 3, 120)
    X = rng.normal(size=(20, 4))[s] + rng.normal(size=(3, 4))[lang] + rng.normal(size=(3, 4))[mic]
    X += rng.normal(size=X.shape)
    model = JointPLDA(speaker_rank=2, channel_rank=[1, 1], tol=1e-2).fit(X, s, channels=np.column_stack([lang, mic]))
    frame = pd.DataFrame({"lang": lang, "mic": mic})
    turned, E, T = frame[["mic", "lang"]], X[:4], X[50:53]
    known = {"use_training": use_training}
    first = model.score_matrix(E, T, enroll_channels=frame[:4], test_channels=frame[50:53], **known)
    second = model.score_matrix(E, T, enroll_channels=frame[:4], test_channels=turned[50:53], **known)
    assert np.array_equal(first, second)
    enrollment = model.enroll(E, list("aabb"), channels=frame[:4], **known)
    scores = [model.score_enrollment(enrollment, T, test_channels=c[50:53]) for c in (frame, turned)]
    assert np.array_equal(*scores)
    sets = [model.score_sets([E], [T], channels_a=[frame[:4]], channels_b=[c[50:53]], **known) for c in (frame, turned)]
    assert np.array_equal(*sets)


@pytest.mark.filterwarnings("ignore:interaction", "ignore:EM did not converge")
@pytest.mark.parametrize("interaction", [0.0, 0.7, "full"])
@pytest.mark.parametrize("kept", ["all", "all columns", "few columns"])
def test_a_covariance_that_is_solved_for_is_that_which_is_kept(interaction, kept, monkeypatch, tmp_path):
    """Scores, predictions and channel posteriors, with missing labels, two conditions and an interaction."""
    w = World(2)
    settings = dict(speaker_rank=2, channel_rank=[2, 1], interaction=interaction, max_iter=5, tol=0.0)
    whole = JointPLDA(**settings).fit(w.X, w.s, w.channels)
    monkeypatch.setattr(training_posterior, "CHANNEL_UNKNOWNS", 0)
    if kept != "all":
        monkeypatch.setattr(channel_covariance, "DENSE_UNKNOWNS", 0)
    if kept == "few columns":
        monkeypatch.setattr(channel_covariance, "KEPT_NUMBERS", 20)
    JointPLDA(**settings).fit(w.X, w.s, w.channels).save(tmp_path / "m")
    solved = JointPLDA.load(tmp_path / "m")
    assert not solved.fitted_.training.is_whole
    given = {"enroll_channels": w.ce, "test_channels": w.ct}
    np.testing.assert_allclose(solved.score_matrix(w.E, w.T, **given), whole.score_matrix(w.E, w.T, **given), atol=1e-9)
    np.testing.assert_allclose(solved.predict_proba(w.T, w.ct), whole.predict_proba(w.T, w.ct), atol=1e-9)
    np.testing.assert_allclose(solved.predict_proba(w.T), whole.predict_proba(w.T), atol=1e-9)
    for k in (0, 1):
        (labels, found), (same, expected) = (one.channel_posterior(w.T, condition=k) for one in (solved, whole))
        assert labels == same
        np.testing.assert_allclose(found, expected, atol=1e-9)
    models, other = (one.enroll(w.E, [0, 0, 1, 1, 1, 2, 2], channels=w.ce) for one in (solved, whole))
    np.testing.assert_allclose(
        solved.score_enrollment(models, w.T, test_channels=w.ct),
        whole.score_enrollment(other, w.T, test_channels=w.ct),
        atol=1e-9,
    )
