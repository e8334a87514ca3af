"""Trials, keys, labels and systems put together, against plain loops."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from jointplda import metrics
from jointplda.errors import DataWarning, InputError
from jointplda.evaluation import join
from jointplda.evaluation.evaluate import EvaluationSettings, TrialSides, evaluate
from jointplda.evaluation.protocol import LabelledSamples, all_pairs, held_out, trials_of
from jointplda.evaluation.systems import ComparedSettings, run_systems, without_channel_means
from jointplda.labels import ConditionColumns
from jointplda.progress import Progress
from jointplda.trial_list import ScoreTable, Trials
from worlds.files_on_disk import as_rows, scored_world

PRIORS = (0.05, 0.5, 0.8)


def trials_from(pairs, target=None):
    models, samples = (list(dict.fromkeys(side)) for side in zip(*pairs))
    enroll = np.array([models.index(a) for a, _ in pairs])
    test = np.array([samples.index(b) for _, b in pairs])
    truth = None if target is None else np.array(target, dtype=np.int8)
    return Trials(np.array(models), np.array(samples), enroll, test, truth)


@pytest.mark.parametrize("seed", range(20))
def test_with_key_by_brute_force(seed):
    rng = np.random.default_rng(seed)
    every = [(a, b) for a in "uvwxyz" for b in "uvwxyz"]
    scored, keyed = ([every[i] for i in rng.permutation(36)[: rng.integers(20, 36)]] for _ in range(2))
    values, truth = rng.normal(size=len(scored)), rng.integers(-1, 2, len(keyed))
    by_pair = dict(zip(scored, values))
    expected = [(p, t, by_pair[p]) for p, t in zip(keyed, truth) if t >= 0 and p in by_pair]
    table, key = ScoreTable(trials_from(scored), values), trials_from(keyed, truth)
    with pytest.warns(DataWarning):
        found = join.with_key(table, key, allow_missing=True)
    assert list(zip(as_rows(found.trials), found.trials.target, found.values)) == expected
    with pytest.raises(InputError, match=r"allow_missing=True leaves them out") as refused:
        join.with_key(table, key)
    assert refused.value.remedy.parameter == "allow_missing"
    order = rng.permutation(len(scored))
    again = join.with_key(table, trials_from([scored[i] for i in order], order % 2))
    assert_array_equal(again.values, values[order])


@pytest.mark.parametrize("seed", range(10))
def test_speakers_are_what_chains_of_targets_link(seed):
    rng = np.random.default_rng(seed)
    every = [(a, b) for a in "uvwxyz" for b in "uvwxyz"]
    pairs = [every[i] for i in rng.permutation(36)[:14]]
    truth = (rng.random(14) < 0.25).astype(int)
    linked = {name: {name} for name in "uvwxyz"}
    for (a, b), is_target in zip(pairs, truth):
        if is_target:
            union = linked[a] | linked[b]
            for name in union:
                linked[name] = union
    trials = trials_from(pairs, truth)
    of_models, of_samples = join.speakers_from_targets(trials)
    names, speakers = [*trials.models, *trials.samples], [*of_models, *of_samples]
    for a, s in zip(names, speakers):
        for b, t in zip(names, speakers):
            assert (s == t) == (b in linked[a])


def test_channels_of_models_and_of_tests():
    pairs = [(m, s) for m in ("both", "one", "none") for s in ("p", "q", "r")]
    trials = trials_from(pairs)
    enroll, test = [{"en", "fr"}, {"en"}, set()], np.array(["en", "de", ""])
    assert_array_equal(join.same_channel(enroll, test, trials), [1, 0, -1, 1, 0, -1, -1, -1, -1])
    found = join.pair_conditions(enroll, test, trials)
    names = [found.names[code] if code >= 0 else "" for code in found.codes]
    assert names == ["en / en+fr", "de / en+fr", "", "en", "de / en", "", "", "", ""]


def test_parts_and_intervals_are_those_of_their_trials():
    scores, target, a, b, same = scored_world()
    room = np.where(np.arange(400) % 3 == 0, "", np.where(np.arange(400) % 2, "hall", "cell"))
    settings = EvaluationSettings(draws=60, level=0.8, priors=(0.05,), seed=5)
    names = np.array([f"s{i}" for i in range(9)])
    result = evaluate(scores, target, TrialSides(names[a], names[b], same, {"room": room}), settings)
    members = {"pooled": np.ones(400, dtype=bool), "room = hall": room == "hall", "room = cell": room == "cell"}
    for name in metrics.TYPE_PAIRS:
        of_target, of_nontarget = (int(word == "same") for word in name.split(" / "))
        members[name] = np.where(target, same == of_target, same == of_nontarget)
    assert set(result.parts) == set(members)
    for name, chosen in members.items():
        part = result.parts[name]
        assert (part.targets, part.nontargets) == (target[chosen].sum(), (~target[chosen]).sum())
        assert part.measures.eer == metrics.eer(scores[chosen], target[chosen])
        own = metrics.bootstrap(scores[chosen], target[chosen], a[chosen], b[chosen], draws=60, level=0.8,
                                priors=(0.05,), seed=5)  # fmt: skip
        assert part.intervals == {str(measure): own.interval(measure) for measure in own.draws}
        assert {str(kind): each.value for kind, each in part.estimates.items()} == part.measures.named()
    assert (result.draws, result.level) == (60, 0.8)


def test_speakers_are_counted_over_all_trials():
    scores, target, a, b, _ = scored_world()
    rare = np.where((a < 3) & (b < 3), "few", "")
    result = evaluate(scores, target, TrialSides(a, b, None, {"room": rare}), EvaluationSettings(draws=5))
    assert list(result.parts) == ["pooled", "room = few"]
    assert result.speakers == 9


def test_targets_below_non_targets_are_warned_of():
    scores, target, *_ = scored_world()
    with pytest.warns(DataWarning, match="scores: the median score of targets is below"):
        evaluate(-scores, target)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluate(scores, target)


def test_the_most_frequent_conditions_are_kept(monkeypatch):
    from jointplda.evaluation import evaluate as module

    monkeypatch.setattr(module, "MOST_CONDITIONS", 2)
    scores, target, *_ = scored_world()
    room = np.repeat(["rare", "often", "most"], [50, 150, 200])
    result = evaluate(scores, target, TrialSides(conditions={"room": room}))
    assert list(result.parts) == ["pooled", "room = most", "room = often"]


def test_channel_means_by_hand():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(40, 3)) + 7, rng.normal(size=(6, 3))
    seen, new = rng.choice(["", "a", "b"], (40, 2)), rng.choice(["", "a", "b", "new"], (6, 2))
    expected, rest = Y - X.mean(axis=0), X - X.mean(axis=0)
    for k in range(2):
        means = {level: rest[seen[:, k] == level].mean(axis=0) for level in ("a", "b")}
        rest = rest - [means.get(level, np.zeros(3)) for level in seen[:, k]]
        expected = expected - [means.get(level, np.zeros(3)) for level in new[:, k]]
    known, other = (ConditionColumns(("room", "phone"), tuple(labels.T)) for labels in (seen, new))
    nobody = np.repeat("x", 40)
    train, test = without_channel_means(
        LabelledSamples(nobody, X, nobody, known), LabelledSamples(nobody[:6], Y, nobody[:6], other)
    )
    assert_allclose(test.X, expected, atol=1e-12)
    assert_allclose(train.X, rest, atol=1e-12)
    assert_allclose(train.X[seen[:, 1] == "a"].mean(axis=0), 0, atol=1e-12)


def small_samples(speakers, seed=0):
    rng = np.random.default_rng(seed)
    owner = np.repeat(speakers, 4)
    channels = ConditionColumns(("language",), (rng.choice(["en", "fr", ""], (len(owner), 1))[:, 0],))
    voices = {name: rng.normal(size=5) for name in speakers}
    X = np.array([voices[name] for name in owner]) + rng.normal(size=(len(owner), 5)) * 0.5
    return LabelledSamples(np.array([f"{s}-{i}" for i, s in enumerate(owner)]), X, owner, channels)


def test_trials_of_a_protocol(tmp_path):
    train, test = small_samples(["a", "b", "c"]), small_samples(["x", "y"], 1)
    data = trials_of(train, test)
    sides, target = data.sides, data.target
    assert (data.train, data.test) == (train, test)
    first, second = data.pairs.T
    assert len(target) == 28
    assert (first < second).all()
    assert_array_equal(target, test.speakers[first] == test.speakers[second])
    (language,) = test.channels.values
    known = (language[first] != "") & (language[second] != "")
    assert_array_equal(sides.same_channel, np.where(known, language[first] == language[second], -1))
    assert_array_equal(np.asarray(sides.enroll_speakers) == np.asarray(sides.test_speakers), target)

    rows = [(7, 0), (1, 2), (5, 6)]
    lines = [f"{test.ids[i]} {test.ids[j]} {('nontarget', 'target')[test.speakers[i] == test.speakers[j]]}\n"
             for i, j in rows]  # fmt: skip
    (tmp_path / "t").write_text("".join(lines))
    listed = trials_of(train, test, tmp_path / "t")
    assert_array_equal(listed.pairs, rows)
    assert_array_equal(listed.target, [False, True, True])
    for line in (0, 1):
        wrong = list(lines)
        wrong[line] = wrong[line].replace("nontarget", "?").replace("target", "nontarget").replace("?", "target")
        (tmp_path / "t").write_text("".join(wrong))
        with pytest.raises(InputError, match="1 trials say otherwise"):
            trials_of(train, test, tmp_path / "t")
    with pytest.raises(InputError, match="should differ"):
        trials_of(train, small_samples(["c", "x"]))


def test_held_out_speakers():
    speakers = np.repeat([f"s{i}" for i in range(20)], np.arange(1, 21))
    chosen = held_out(speakers, 0.35, 0)
    assert len(set(speakers[chosen])) == 7
    assert not set(speakers[chosen]) & set(speakers[~chosen])
    assert_array_equal(chosen, held_out(speakers, 0.35, 0))
    assert (chosen != held_out(speakers, 0.35, 1)).any()
    for share in (0.05, 0.95):
        with pytest.raises(InputError, match=r"test_share: .* need two speakers each"):
            held_out(speakers, share, 0)
    assert len(set(speakers[held_out(speakers, 0.1, 0)])) == 2


def run_quietly(*args, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {each.name: each for each in run_systems(*args, **settings)}


def test_progress_of_systems_and_of_the_bootstrap():
    train, test = small_samples([f"t{i}" for i in range(12)]), small_samples(["x", "y", "z"], 1)
    steps, recipe = [], ComparedSettings(pca=4, max_iter=3, tol=0.0)
    run_quietly(train, test, all_pairs(12), recipe, systems=["cosine", "PLDA", "Joint PLDA"], callback=steps.append)
    counted = [(step.stage, step.done, step.total) for step in steps]
    assert counted == [("cosine", 0, 3), *((name, k, 3) for name in ("PLDA", "Joint PLDA") for k in range(4))]
    assert [step.detail and step.detail.iteration for step in steps] == [None, None, 1, 2, 3, None, 1, 2, 3]

    scores, target, a, b, same = scored_world()
    steps = []
    evaluate(scores, target, TrialSides(a, b, same), EvaluationSettings(draws=130), steps.append)
    parts = ("pooled", *metrics.TYPE_PAIRS)
    assert steps == [Progress(f"bootstrap, {part}", done, 130) for part in parts for done in (128, 130)]


def test_descriptions_say_what_was_trained():
    train, test = small_samples([f"t{i}" for i in range(12)]), small_samples(["x", "y", "z"], 1)
    data = train, test, all_pairs(12)
    recipe = ComparedSettings(pca=4, lda=3, speaker_rank=2, channel_rank=1, max_iter=3)
    found = run_quietly(*data, recipe, systems=["LDA + PLDA", "PLDA", "Joint PLDA"])
    steps = {name: [type(step).__name__ for _, step in each.model.steps] for name, each in found.items()}
    assert steps == {
        "LDA + PLDA": ["Center", "PCA", "LDA", "LengthNorm", "PLDA"],
        "PLDA": ["Center", "LengthNorm", "PCA", "PLDA"],
        "Joint PLDA": ["Center", "LengthNorm", "PCA", "JointPLDA"],
    }
    assert found["LDA + PLDA"].description == (
        "Centred, PCA to 4 dimensions, LDA to 3, length-normalised; simplified PLDA with V of rank 3, full noise "
        "covariance, by maximum likelihood"
    )
    assert found["PLDA"].description == (
        "Centred, length-normalised, PCA to 4 dimensions; simplified PLDA with V of rank 2, full noise covariance, by "
        "maximum likelihood"
    )
    assert found["PLDA"].model[-1].V_.shape == (4, 2)
    assert found["PLDA"].model[-1].channel_rank == 0
    shrunk = run_quietly(*data, ComparedSettings(pca=4, noise_prior=2, speaker_prior=0.5), systems=["Joint PLDA"])[
        "Joint PLDA"
    ]
    assert shrunk.description == (
        "Centred, length-normalised, PCA to 4 dimensions; Joint PLDA with V of rank 4, U of rank 1 for language, "
        "noise_prior 2, speaker_prior 0.5"
    )
    assert (shrunk.model[-1].noise_prior, shrunk.model[-1].speaker_prior) == (2, 0.5)
    given = ComparedSettings(pca=4, interaction=0.7, channel_prior=0.5, noise_floor=0.01)
    both = run_quietly(*data, given, systems=["PLDA", "Joint PLDA"])
    assert (both["Joint PLDA"].model[-1].interaction_, both["Joint PLDA"].model[-1].channel_ranks_) == (0.7, (4,))
    assert {each.model[-1].noise_floor for each in both.values()} == {0.01}
    ranked = run_quietly(*data, ComparedSettings(pca=4, speaker_rank=2, speaker_prior=0.5), systems=["PLDA"])["PLDA"]
    assert "V of rank 4" in ranked.description


def test_systems_that_need_channels_of_the_test_samples():
    train, test = small_samples([f"t{i}" for i in range(12)]), small_samples(["x", "y", "z"], 1)
    bare = LabelledSamples(test.ids, test.X, test.speakers)
    assert trials_of(train, bare).sides.same_channel is None
    with pytest.raises(InputError, match="systems: 'cosine, channel means removed' needs the channels"):
        run_quietly(train, bare, all_pairs(12), systems=["cosine, channel means removed"])
    with pytest.raises(InputError, match=r"systems: expected 'cosine', .* got 'Cosine'"):
        run_quietly(train, bare, all_pairs(12), systems=["Cosine"])


def test_systems_score_what_they_say(monkeypatch):
    from jointplda.evaluation import systems

    monkeypatch.setattr(systems, "_AT_ONCE", 5)
    train, test = small_samples([f"t{i}" for i in range(12)]), small_samples(["x", "y", "z"], 1)
    pairs = np.random.default_rng(0).permutation(all_pairs(12))[:, ::-1]
    recipe = ComparedSettings(pca=4, speaker_rank=2, channel_rank=1, max_iter=10, same_channel=0.1)
    found = run_quietly(train, test, pairs, recipe)
    assert list(found) == list(systems.SYSTEMS)

    def cosine(X, mean):
        unit = (X - mean) / np.linalg.norm(X - mean, axis=1, keepdims=True)
        return (unit[pairs[:, 0]] * unit[pairs[:, 1]]).sum(axis=1)

    assert_allclose(found["cosine"].scores, cosine(test.X, train.X.mean(axis=0)), atol=1e-12)
    bare, tested = without_channel_means(train, test)
    expected = cosine(tested.X, bare.X.mean(axis=0))
    assert_allclose(found["cosine, channel means removed"].scores, expected, atol=1e-12)
    chosen = found["Joint PLDA, automatic"].model[-1]
    assert found["Joint PLDA, automatic"].description.startswith(
        f"Front end: length norm; Joint PLDA of {chosen.n_features_in_} dimensions, V of rank "
    )
    assert found["Joint PLDA, automatic"].description.endswith("chosen on training speakers; calibrated")
    joint = found["Joint PLDA"]
    assert_allclose(joint.scores, joint.model.score_trials(test.X, test.X, pairs, same_channel=0.1), atol=1e-9)
    assert [name for name, each in found.items() if not each.is_llr] == ["cosine", "cosine, channel means removed"]


def test_repeated_trials_count_once_in_the_order_of_the_key():
    pairs = [("c", "d"), ("a", "b"), ("c", "b"), ("c", "d")]
    table = ScoreTable(trials_from(pairs), np.array([2.0, 1.0, 3.0, 2.0]))
    listed = [("c", "b"), ("a", "b"), ("c", "d"), ("a", "b")]
    key = Trials(np.array(["a", "c"]), np.array(["b", "d"]), np.array([1, 0, 1, 0]), np.array([0, 0, 1, 0]),
                 np.array([0, 1, 0, 1], dtype=np.int8))  # fmt: skip
    assert as_rows(key) == listed
    with pytest.warns(DataWarning, match="1 repeated trials of the key count once"):
        joined = join.with_key(table, key)
    assert as_rows(joined.trials) == listed[:3]
    assert joined.values.tolist() == [3.0, 1.0, 2.0]
