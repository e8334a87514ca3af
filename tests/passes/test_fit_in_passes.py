"""Fits to samples that are read in passes: they are those of the samples in memory."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.preprocessing import StandardScaler

from jointplda import PLDA, InputError, JointPLDA, JointPLDACV, make_pipeline
from jointplda._disk_rows import DiskRows
from jointplda.labels import ConditionColumns
from jointplda.metrics import cllr, min_cllr
from jointplda.model.setting_checks import checked_settings
from jointplda.model.statistics import Statistics, encode_all
from jointplda.passes import training
from jointplda.passes.census import Census
from jointplda.passes.fresh_speakers import FreshTrials, SecondLook, fresh_speakers
from jointplda.passes.learned_steps import learned_front_end, summed
from jointplda.passes.readers import Room, SourceReader
from jointplda.passes.sources import ArraySource, LabelledChunk
from jointplda.passes.speaker_sample import drawn_speakers, gathered
from jointplda.passes.training import fit_in_passes
from jointplda.preprocessing import LDA, PCA, Center, LengthNorm, Reduce, Scale, Whiten
from jointplda.preprocessing.front_ends import FrontEnd
from jointplda.selection.candidates import LADDER, CandidateResult
from jointplda.selection.design import Design
from jointplda.selection.fold_trials import type_weights
from jointplda.selection.search import Selection

D = 8


def samples(speakers=120, each=6, channels=4, missing=0.0, nested=False, seed=0):
    rng = np.random.default_rng(seed)
    truth = JointPLDA.from_parameters(
        np.full(D, 2.0), rng.normal(size=(D, 4)), rng.normal(size=(D, 2)), np.eye(D), interaction=0.5
    )
    s = rng.permutation(np.repeat(np.arange(speakers), each))
    c = s % channels if nested else rng.integers(0, channels, len(s))
    X = truth.sample(s, channels=c, random_state=seed)
    names = np.array([f"speaker {i:03d}" for i in range(speakers)])[s]
    labels = np.array(["en", "fr", "de", "es"])[c].astype(object)
    labels[rng.random(len(s)) < missing] = None
    return X, names, labels


def pairs(model, X):
    return model.score_matrix(X[:40], X[40:90], dtype=np.float64)


@pytest.mark.parametrize(
    "world, front_end", [({}, "auto"), ({"missing": 0.3}, [LDA(5), LengthNorm()]), ({"nested": True}, "none")]
)
def test_a_search_of_all_samples_is_that_of_fit(world, front_end):
    X, s, c = samples(**world)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        expected = JointPLDACV(front_end=front_end).fit(X, s, channels=c)
        before = {str(one.message) for one in said}
        del said[:]
        found = fit_in_passes(JointPLDACV(front_end=front_end), ArraySource(X, s, c, rows=100))
        assert {str(one.message) for one in said} == before
    assert found.best_params_ == expected.best_params_
    assert found.held_out_cllr_ == expected.held_out_cllr_
    assert found.calibration_ == expected.calibration_
    assert_allclose(pairs(found, X), pairs(expected, X), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    "model",
    [
        PLDA(max_iter=10),
        JointPLDA(max_iter=10),
        JointPLDA(max_iter=10, interaction="full"),
        JointPLDA(max_iter=10, interaction="proportional", noise_prior=0.3),
        make_pipeline(Center(), LengthNorm(), PCA(5), JointPLDA(max_iter=10, interaction=0.2)),
        make_pipeline(Whiten(), LengthNorm(), LDA(6, shrinkage=0.1), PLDA(max_iter=10)),
    ],
)
@pytest.mark.parametrize("room", [None, 2e3])
def test_a_plain_fit_is_that_of_fit(model, room, monkeypatch):
    """Also where the sums go to files."""
    X, s, c = samples()
    labels = c if hasattr(getattr(model, "steps", [(0, model)])[-1][1], "interaction") else None
    if room:
        monkeypatch.setattr(training, "SUMS_SHARE", room / 2e9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arguments = {} if labels is None else {"channels": labels}
        expected = pairs(model.fit(X, s, **arguments), X)
        found = fit_in_passes(model, ArraySource(X, s, labels, rows=77))
    assert found is model
    assert_allclose(pairs(found, X), expected, rtol=1e-8, atol=1e-8)


def test_the_size_of_chunks_changes_nothing():
    X, s, c = samples()
    model = make_pipeline(Scale(), LengthNorm(), Reduce(5, least_speakers=3), JointPLDA(max_iter=10, interaction=0.2))
    scores = []
    for rows in (1, 50, 10_000):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scores.append(pairs(fit_in_passes(model, ArraySource(X, s, c, rows=rows)), X))
    for other in scores[1:]:
        assert_allclose(other, scores[0], rtol=1e-10, atol=1e-10)


def test_a_search_on_a_part_of_the_speakers(monkeypatch):
    """Settings come from a sample of speakers, their strength from a few others, the model from all but these."""
    X, s, c = samples(speakers=1500, each=4)
    monkeypatch.setattr(training, "sample_rows", lambda *given: 400)
    said = []
    found = fit_in_passes(JointPLDACV(), ArraySource(X, s, c, rows=500), callback=said.append)
    apart = found.held_out_cllr_.speakers
    assert 60 <= apart <= 75  # a twentieth of all
    assert found.best_estimator_[-1].training_["speakers"] == 1500 - apart
    assert found.best_estimator_[-1].training_["samples"] == len(X) - 4 * apart
    chosen = [result for result in found.candidates_ if result.chosen]
    assert [result.candidate.searched for result in chosen] == [found.best_params_]
    assert chosen[0].candidate.noise_prior < 0.3  # the sample has a hundred speakers, and wants more
    new, who, _ = samples(speakers=60, each=4, seed=9)
    assert abs(auc(found, new, who) - auc(JointPLDACV().fit(X, s, channels=c), new, who)) < 0.01
    stages = list(dict.fromkeys(one.stage for one in said))
    assert stages[:2] == ["census", "sample"]
    assert stages[-1] == "statistics"
    census = [one for one in said if one.stage == "census"]
    assert [(one.done, one.total) for one in census][-1] == (len(X), len(X))
    assert isinstance(census[-1].detail, Census)


@pytest.mark.parametrize("world", [{"nested": True}, {"speakers": 150}])
def test_nobody_is_left_out_where_that_would_not_help(world, monkeypatch):
    """Channels that are confounded with speakers, or too few speakers."""
    X, s, c = samples(**{"speakers": 700, "each": 4, **world})
    monkeypatch.setattr(training, "sample_rows", lambda *given: 300)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = fit_in_passes(JointPLDACV(), ArraySource(X, s, c))
    assert found.best_estimator_[-1].training_["samples"] == len(X)


def test_fresh_speakers_teach_nothing():
    """A second look is that of models and trials made by hand, and the census and the passes lack these speakers."""
    X, s, c = samples(speakers=900, each=4)
    source = ArraySource(X, s, c, rows=500)
    reader, rng = SourceReader(source), np.random.default_rng(0)
    census = Census.of(reader)
    sampled = drawn_speakers(census, 200, rng)
    fresh = fresh_speakers(census, sampled, rng)
    assert not (sampled & fresh).any()
    names = frozenset(np.array(census.labels[0], dtype=object)[fresh])
    others, fewer = reader.without(names), census.without(fresh)
    out = np.isin(s, list(names))
    statistics = summed(others, fewer, (), cells=True)
    expected = Statistics.from_samples(X[~out], s[~out], c[~out], cells=True)
    assert statistics.labels == expected.labels
    assert_allclose(statistics.covariance, expected.covariance, rtol=1e-10)
    apart = LabelledChunk(X[out], np.unique(s[out], return_inverse=True)[1], ConditionColumns(("channel",), (c[out],)))
    trials = FreshTrials.of(apart, (), 4, rng)
    settings = checked_settings({"noise_prior": 0.3, "speaker_prior": 1.0, "max_iter": 500, "tol": 1e-10})
    design = Design((900,), (None,))
    before = Selection((CandidateResult(settings, (0.1,) * 4, (0.2,) * 4, 1.0, True, "none"),), design, None)
    found, calibration, selection = SecondLook(statistics, trials, "none").chosen(settings, before)
    at = LADDER.index(found.noise_prior)
    assert found.speaker_prior == LADDER[at + 1]  # both move together
    assert [result.chosen for result in selection.candidates].count(True) == 1
    model = JointPLDA(**found.searched, max_iter=500, tol=1e-10).fit_statistics(expected)
    chosen = next(result for result in selection.candidates if result.chosen)
    scores = []
    for i, split in enumerate(trials.splits):
        own, pairs = apart.X[split.held_out], split.pairs
        scores.append(model.score_matrix(own, own, dtype=np.float64)[tuple(pairs.rows.T)])
        found = min_cllr(scores[-1], pairs.target, type_weights(pairs.target, pairs.same_channel))
        assert found == pytest.approx(chosen.min_cllrs[i], abs=1e-4)
    target, same = (
        np.concatenate([getattr(split.pairs, name) for split in trials.splits]) for name in ("target", "same_channel")
    )
    values, weights = np.concatenate(scores), type_weights(target, same)
    assert selection.held_out.raw_cllr == pytest.approx(cllr(values, target, weights), rel=1e-5)
    after = cllr(calibration.apply(values), target, weights)
    assert selection.held_out.calibrated_cllr == pytest.approx(after, rel=1e-5)


@pytest.mark.parametrize("attempts", [0, 1])
def test_an_interrupted_second_look_keeps_what_is_known(attempts, monkeypatch):
    X, s, c = samples(speakers=1500, each=4)
    monkeypatch.setattr(training, "sample_rows", lambda *given: 400)
    attempt, done = SecondLook._attempt, []

    def interrupted(self, settings, step):
        if len(done) == attempts:
            raise KeyboardInterrupt
        done.append(step)
        attempt(self, settings, step)

    monkeypatch.setattr(SecondLook, "_attempt", interrupted)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = fit_in_passes(JointPLDACV(), ArraySource(X, s, c))
    assert any("Interrupted: the strength" in str(one.message) for one in said) == (not attempts)
    assert found.best_params_ == next(one for one in found.candidates_ if one.chosen).candidate.searched
    assert (found.held_out_cllr_.speakers < 80) == bool(attempts)
    assert pairs(found, X).shape == (40, 50)


def test_channels_that_only_fresh_speakers_had_are_gone():
    X, s, c = samples()
    c[s == s[0]] = "somewhere"
    statistics = Statistics.from_samples(X[s != s[0]], s[s != s[0]], c[s != s[0]], cells=True)
    labels = (statistics.labels[0], (*statistics.labels[1], "somewhere"))
    fewer = replace(statistics, labels=labels).with_used_levels()
    assert fewer.labels == statistics.labels
    assert np.array_equal(fewer.parts[True,].cells.codes, statistics.parts[True,].cells.codes)
    gap = ("a", *statistics.labels[1])
    moved = {
        pattern: part.relabelled(lambda k: np.arange(len(statistics.labels[k])) + (k == 1))
        for pattern, part in statistics.parts.items()
    }
    again = replace(statistics, labels=(statistics.labels[0], gap), parts=moved).with_used_levels()
    assert again.labels == statistics.labels
    assert np.array_equal(again.level_sums(1), statistics.level_sums(1))


def auc(model, X, who):
    scores, same = model.score_matrix(X, X), who[:, None] == who
    rows = np.triu_indices(len(X), 1)
    order = np.argsort(np.argsort(scores[rows]))
    target = same[rows]
    return (order[target].mean() - (target.sum() - 1) / 2) / np.count_nonzero(~target)


def test_what_does_not_fit_goes_to_files(monkeypatch, tmp_path):
    X, s, c = samples()
    reader = SourceReader(ArraySource(X, s, c), Room(1e3, tmp_path))
    statistics = summed(reader, Census.of(reader), (), cells=True)
    assert isinstance(statistics.parts[True,].cells.sums, DiskRows)
    assert list(tmp_path.iterdir())
    del statistics
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "step",
    [Center(), LengthNorm(), PCA(3), PCA(), Reduce(5), Scale(), Whiten(), Whiten(0.5), LDA(), LDA(4, shrinkage=0.2)],
)
def test_steps_learn_from_moments_what_they_learn_from_samples(step):
    X, s, _ = samples()
    reader = SourceReader(ArraySource(X, s, rows=50))
    expected = Scale().fit(X)
    expected = (expected, step.fit(expected.transform(X), s))
    found = learned_front_end(FrontEnd("given", (Scale(), step)), reader, Census.of(reader), ())
    assert found[1].n_features_in_ == D
    images = [steps[1].transform(steps[0].transform(X)) for steps in (found, expected)]
    signs = np.sign(np.sum(images[0] * images[1], axis=0))
    assert_allclose(images[0], images[1] * signs, rtol=1e-8, atol=1e-8)


def test_foreign_steps_of_a_search_learn_from_the_sample():
    X, s, c = samples()
    front_end = [StandardScaler(), LengthNorm()]
    expected = JointPLDACV(front_end=front_end).fit(X, s, channels=c)
    found = fit_in_passes(JointPLDACV(front_end=front_end), ArraySource(X, s, c))
    assert_allclose(pairs(found, X), pairs(expected, X), rtol=1e-8, atol=1e-8)
    with pytest.raises(InputError, match=r"steps of jointplda.preprocessing.*got StandardScaler, PLDA"):
        fit_in_passes(make_pipeline(StandardScaler(), PLDA()), ArraySource(X, s))


def test_a_census_counts():
    X, s, c = samples(missing=0.2)
    c = np.stack([c, np.roll(c, 3)], axis=1)
    source = ArraySource(X, s, c, rows=13)
    census = Census.of(SourceReader(source))
    codes, labels, names = encode_all(s, c, len(X))
    assert (census.labels, census.conditions, census.n_samples) == (labels, names, len(X))
    assert np.array_equal(np.concatenate([census.codes(chunk) for chunk in source.chunks()]), codes)
    assert np.array_equal(census.counts, np.bincount(codes[:, 0]))
    for speaker, crossed in enumerate(census.crossed):
        own = codes[codes[:, 0] == speaker, 1:]
        assert crossed == any(len(set(column[column >= 0].tolist())) > 1 for column in own.T)
    assert_allclose(census.mean, X.mean(axis=0), rtol=1e-12)
    assert np.array_equal(census.low, X.min(axis=0))
    assert np.array_equal(census.high, X.max(axis=0))


def test_speakers_heard_in_several_channels_come_first():
    X, s, c = samples(speakers=400, nested=True)
    c[s == s[0]] = ["en", "fr", "de", "es", "en", "fr"]
    census = Census.of(SourceReader(ArraySource(X, s, c)))
    assert census.crossed.sum() == 1
    for seed in range(5):
        rng = np.random.default_rng(seed)
        chosen = drawn_speakers(census, 300, rng)
        assert chosen[census.crossed].all()
        assert 250 < census.counts[chosen].sum() <= 300
    every = drawn_speakers(census, len(X), np.random.default_rng(0))
    assert every.all()


def test_one_speaker_does_not_fill_the_sample():
    X, s, c = samples(speakers=200)
    s[:600] = "somebody"
    reader = SourceReader(ArraySource(X, s, c, rows=100))
    census, rng = Census.of(reader), np.random.default_rng(0)
    chosen = drawn_speakers(census, 500, rng)
    sample = gathered(reader, census, chosen, 500, rng)
    assert np.bincount(sample.speakers).max() < 30
    assert len(np.unique(sample.speakers)) > 50


@pytest.mark.parametrize("bad, message", [(np.nan, "finite"), (1e200, "too large")])
def test_bad_numbers_are_refused(bad, message):
    X, s, c = samples()
    X[500, 3] = bad
    with pytest.raises(InputError, match=message):
        fit_in_passes(JointPLDA(), ArraySource(X, s, c, rows=100))


def test_bad_sources_are_refused():
    X, s, c = samples()
    with pytest.raises(InputError, match="expected 720 labels"):
        ArraySource(X, s[:-1], c)
    with pytest.raises(InputError, match="memory: expected a number at least 1e"):
        fit_in_passes(JointPLDA(), ArraySource(X, s, c), memory=1e3)
    with pytest.raises(InputError, match="every sample needs a speaker"):
        fit_in_passes(JointPLDA(), ArraySource(X, [None, *s[1:].tolist()], c))


@pytest.mark.parametrize("world", ["constant", "twice", "of the speaker"])
def test_lda_without_variance_within_speakers_in_some_direction(world):
    X, s, _ = samples()
    X[:, 0] = {"constant": 3.3, "twice": X[:, 1], "of the speaker": np.unique(s, return_inverse=True)[1]}[world]
    reader = SourceReader(ArraySource(X, s, rows=50))
    census, images = Census.of(reader), []
    for learn in (
        lambda: LDA().fit(X, s),
        lambda: learned_front_end(FrontEnd("given", (LDA(),)), reader, census, ())[0],
    ):
        with pytest.warns(UserWarning, match="LDA found only 7 directions"):
            images.append(learn().transform(X))
    signs = np.sign(np.sum(images[0] * images[1], axis=0))
    assert_allclose(images[0] * signs, images[1], rtol=1e-7, atol=1e-7)


def test_labels_that_change_between_passes_are_said():
    X, s, c = samples()
    census = Census.of(SourceReader(ArraySource(X, s, c, rows=100)))
    chunk = next(ArraySource(X, np.char.add("new ", s), c).chunks())
    with pytest.raises(InputError, match=r"changed between two passes: .* 'new speaker"):
        census.codes(chunk)


@pytest.mark.parametrize("label", [lambda i: ("a", i), lambda i: i if i % 2 else f"x{i}"])
def test_a_tuple_of_labels_keeps_their_types(label):
    X, s, _ = samples()
    y = tuple(map(label, np.unique(s, return_inverse=True)[1].tolist()))
    assert set(Census.of(SourceReader(ArraySource(X, y, rows=50))).labels[0]) == set(y)


def test_masked_speakers_are_missing():
    X, s, _ = samples()
    with pytest.raises(InputError, match="every sample needs a speaker"):
        Census.of(SourceReader(ArraySource(X, np.ma.array(s, mask=np.arange(len(s)) == 3))))
