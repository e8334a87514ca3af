"""The front end of automatic settings: which steps there are, what they are fitted on, and what is stored."""

from typing import ClassVar

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.pipeline import FeatureUnion
from sklearn.pipeline import Pipeline as SklearnPipeline
from sklearn.preprocessing import StandardScaler

from jointplda import PLDA, FileError, InputError, JointPLDA, JointPLDACV, Pipeline, make_pipeline
from jointplda.preprocessing import LDA, PCA, Center, LengthNorm, Reduce, Whiten
from jointplda.preprocessing.front_ends import AUTO, front_ends_of
from worlds.automatic import FIXED, RECORDS, named_world, quietly, training_and_new_speakers
from worlds.designs import relative

FEW = {"max_iter": 3, "cv": 3}


class Watched(TransformerMixin, BaseEstimator):
    """Remembers the samples and speakers that every copy of it was fitted on; changes nothing."""

    fits: ClassVar[list] = []

    def fit(self, X, y=None):
        type(self).fits.append(({row.tobytes() for row in X}, len(set(y))))
        return self

    def transform(self, X):
        return X


def test_no_fold_fits_its_front_end_to_a_speaker_held_out():
    X, s, c = named_world()
    Watched.fits.clear()
    quietly(JointPLDACV(front_end=[Watched()], **FEW), X, s, c)
    speakers = {row.tobytes(): one for row, one in zip(X, s)}
    seen = [({speakers[row] for row in rows}, number) for rows, number in Watched.fits]
    held_out = [set(s) - own for own, _ in seen]
    assert sorted(map(len, held_out)) == [0, 8, 8, 8]  # all samples once, and each of three folds once
    assert sorted(name for own in held_out for name in own) == sorted(set(s))
    assert all(len(own) == number for own, number in seen)
    for (rows, _), out in zip(Watched.fits, held_out):
        assert len(rows) == np.isin(s, sorted(out), invert=True).sum()


def test_the_folds_score_with_their_own_front_end():
    """The criterion of a candidate with LDA, from LDA and JointPLDA fitted by hand to the other folds."""
    X, s, c = named_world()
    rows = [np.flatnonzero(np.isin(s, sorted(set(s))[i::3])) for i in range(3)]
    splits = [(np.setdiff1d(np.arange(len(s)), held), held) for held in rows]
    model = quietly(JointPLDACV(front_end=[LDA(3)], cv=splits), X, s, c)
    first = model.candidates_[0]
    for i, (train, test) in enumerate(splits):
        lda = LDA(3).fit(X[train], s[train])
        plain = quietly(JointPLDA(**FIXED, **first.candidate.searched), lda.transform(X[train]), s[train], c[train])
        Z = lda.transform(X[test])
        found = plain.score_matrix(Z, Z)[np.triu_indices(len(Z), 1)]
        same, shared = (np.equal.outer(of, of)[np.triu_indices(len(Z), 1)] for of in (s[test], c[test]))
        cost = 0.0
        for kind, sign in ((same, -1), (~same, 1)):
            parts = [np.logaddexp(0, sign * found[kind & here]).mean() for here in (shared, ~shared)]
            cost += np.mean(parts) / 2 / np.log(2)
        assert first.cllrs[i] == pytest.approx(cost, rel=1e-8)


@pytest.mark.parametrize("step", [LDA(2), Whiten()])
def test_a_supervised_step_before_the_search_is_refused(step):
    X, s, c = named_world()
    with pytest.raises(InputError, match=rf"{type(step).__name__}\) learns from the speakers.*front_end=\["):
        make_pipeline(Center(), step, JointPLDACV(**FEW)).fit(X, s, channels=c)
    quietly(make_pipeline(Center(), step, JointPLDA(max_iter=2)), X, s, c)
    pipe = quietly(make_pipeline(Center(), JointPLDACV(front_end=[step], **FEW)), X, s, c)
    assert_array_equal(pipe.score_matrix(X, X), pipe[-1].score_matrix(pipe[0].transform(X), pipe[0].transform(X)))


@pytest.mark.parametrize(
    ("front_end", "kinds"),
    [
        ("none", []),
        ("auto", [Center]),  # drawn from the model, whose samples are better off without length norm
        ([Whiten(), LengthNorm(), PCA(3)], [Whiten, LengthNorm, PCA]),
        (LDA(2), [LDA]),
        (make_pipeline(Center(), PCA(2)), [Center, PCA]),
        ([("a", Center()), ("b", PCA(2))], [Center, PCA]),
        ([Reduce(3)], [PCA]),
    ],
)
def test_the_best_estimator_is_front_end_and_model_and_is_stored(front_end, kinds, tmp_path):
    (X, s, c), (new, *_) = training_and_new_speakers(2, 1.0, True, n_speakers=24)
    model = quietly(JointPLDACV(front_end=front_end, **FEW), X, s, c)
    assert [type(step) for _, step in model.best_estimator_.steps] == [*kinds, JointPLDA]
    Z = new
    for _, step in model.best_estimator_.steps[:-1]:
        Z = step.transform(Z)
    raw = model.best_estimator_[-1].with_calibration(None).score_matrix(Z, Z)
    assert_allclose(model.score_matrix(new, new, calibrated=False), raw, rtol=1e-12, atol=1e-12)
    calibration = model.calibration_
    assert_allclose(model.score_matrix(new, new), calibration.scale * raw + calibration.offset, rtol=1e-12, atol=1e-12)
    side = model.prepare(new)
    assert_array_equal(model.score_matrix(side, side), model.score_matrix(new, new))
    assert model.n_features_in_ == 8
    model.save(tmp_path / "model")
    for loaded in (JointPLDACV.load(tmp_path / "model"), Pipeline.load(tmp_path / "model")):
        assert_array_equal(loaded.score_matrix(new, new), model.score_matrix(new, new))
        assert loaded.n_features_in_ == 8
    loaded = JointPLDACV.load(tmp_path / "model")
    for name in RECORDS:
        assert getattr(loaded, name) == getattr(model, name)
    assert_array_equal(loaded.predict_proba(X[:5]), model.predict_proba(X[:5]))
    again = quietly(clone(loaded), X, s, c)
    assert_allclose(again.score_matrix(new, new), model.score_matrix(new, new), rtol=1e-9, atol=1e-9)


def test_a_step_that_cannot_be_stored_is_named(tmp_path):
    X, s, c = named_world()
    model = quietly(JointPLDACV(front_end=[StandardScaler()], **FEW), X, s, c)
    with pytest.raises(FileError, match=r"StandardScaler\) cannot be stored"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("front_end", "message"),
    [
        ("length", 'expected "auto", "none" or steps, got \'length\''),
        (3, "expected .* a pipeline or a list of steps, got int"),
        ([PCA], "expected transformers that are not fitted"),
        ([PCA(3), "pca"], "expected transformers"),
        ([PLDA()], "expected transformers"),
        ([LDA(19)], r"LDA: n_components: expected .* to 15, got 19. \(\d+ samples of 16 speakers"),
    ],
)
def test_front_ends_that_cannot_be(front_end, message):
    X, s, c = named_world()
    X = np.concatenate([X, X**2, X**3, np.cos(X), np.sin(X)], axis=1)
    with pytest.raises(InputError, match=f"front_end: {message}"):
        JointPLDACV(front_end=front_end, **FEW).fit(X, s, channels=c)


def test_folds_and_the_final_model_have_as_many_components():
    sized = front_ends_of("auto")[0].sized(1000, 256, 50, 750).steps
    assert (type(sized[-1]), sized[-1].n_components) == (PCA, 150)
    for size in ((299, 256, 50, 200), (1000, 256, 19, 700), (1000, 150, 50, 700)):
        assert type(AUTO[0].sized(*size).steps[-1]) is Center
        assert AUTO[0].dimension(*size[:3]) == size[1]
    assert type(AUTO[0].sized(1000, 256, 50, 150).steps[-1]) is Center  # the smallest fold cannot do
    rng = np.random.default_rng(0)
    s = np.repeat(np.arange(22), 4)  # folds train on 14 or 15 speakers, fewer than Reduce asks for
    X = rng.normal(size=(88, 6)) + rng.normal(size=(22, 6))[s]
    model = quietly(JointPLDACV(front_end=[Reduce(4)], max_iter=2, cv=3), X, s)
    assert relative(model.best_estimator_[0].matrix_, PCA(4).fit(X).matrix_) < 1e-12


def test_a_speaker_with_most_samples_leaves_small_folds():
    rng = np.random.default_rng(0)
    s = np.concatenate([np.zeros(200, dtype=int), np.repeat(np.arange(1, 26), 5)])
    X = rng.normal(size=(26, 160))[s] + rng.normal(size=(325, 160))
    model = quietly(JointPLDACV(max_iter=2), X, s, np.arange(325) % 3)
    assert len(model.best_estimator_[-1].mean_) == 160


def test_a_front_end_that_folds_cannot_fit_is_not_tried():
    X, s, c = named_world()
    once = np.concatenate([np.flatnonzero(s == one)[:1] for one in sorted(set(s))[:12]])
    rest = np.flatnonzero(np.isin(s, sorted(set(s))[12:]))
    both = np.concatenate([once, rest])
    X, s, c = X[both], s[both], c[both]
    splits = [(np.arange(12), np.arange(12, len(s))), (np.arange(12, len(s)), np.arange(12, len(s))[:0])]
    splits[1] = (np.flatnonzero(np.isin(s, sorted(set(s))[:18])), np.flatnonzero(np.isin(s, sorted(set(s))[18:])))
    model = quietly(JointPLDACV(max_iter=2, cv=splits, interaction=0), X, s, c)
    assert "whitening" not in {one.front_end for one in model.candidates_}


def test_supervised_steps_inside_other_steps_are_refused():
    X, s, c = named_world()
    inner = SklearnPipeline([("lda", LDA(2)), ("norm", LengthNorm())])
    for step in (inner, FeatureUnion([("lda", LDA(2))])):
        with pytest.raises(InputError, match="learns from the speakers"):
            make_pipeline(step, JointPLDACV(**FEW)).fit(X, s, channels=c)


def test_steps_that_return_data_frames():
    X, s, c = named_world()
    framed = quietly(JointPLDACV(front_end=[StandardScaler().set_output(transform="pandas"), Center()], **FEW), X, s, c)
    plain = quietly(JointPLDACV(front_end=[StandardScaler(), Center()], **FEW), X, s, c)
    assert_array_equal(framed.score_matrix(X, X), plain.score_matrix(X, X))
