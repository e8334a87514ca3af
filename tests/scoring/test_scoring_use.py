"""Scoring as it is used: sides, files, threads, types, and bad input."""

import numpy as np
import pytest

from jointplda import JointPLDA, _parallel
from worlds.trials import make, sides


def test_sides_files_blocks_and_threads(tmp_path, monkeypatch):

    model, _ = make((3, 2))
    E, T = sides(n=37, m=23)
    expected = model.score_matrix(E, T)
    monkeypatch.setattr(_parallel, "ROWS", 4)
    monkeypatch.setattr(_parallel, "COLUMNS", 5)
    for threads in (1, 3):
        assert model.score_matrix(E, T, threads=threads) == pytest.approx(expected, abs=1e-12)
    side = model.prepare(E)
    assert model.score_matrix(side, T) == pytest.approx(expected, abs=1e-12)
    assert model.score_matrix(T, side) == pytest.approx(expected.T, abs=1e-12)
    assert model.score_trials(side, side, [[0, 1], [5, 5]]) == pytest.approx(
        model.score_matrix(E, E)[[0, 5], [1, 5]], abs=1e-12
    )
    stored = model.score_matrix(E, T, out=tmp_path / "scores.npy", dtype=np.float32)
    assert isinstance(stored, np.memmap)
    assert stored.dtype == np.float32
    assert np.load(tmp_path / "scores.npy") == pytest.approx(expected, abs=1e-4)
    assert [path.name for path in tmp_path.iterdir()] == ["scores.npy"]


def test_progress_and_interrupts(monkeypatch):

    model, _ = make((3, 2))
    E, T = sides(n=40, m=3)
    monkeypatch.setattr(_parallel, "ROWS", 4)
    seen = []
    model.score_matrix(E, T, callback=lambda p: seen.append((p.stage, p.done, p.total)), threads=2)
    assert seen[-1] == ("scores", 40, 40)
    assert sorted(done for _, done, _ in seen) == list(range(4, 41, 4))
    begun = []

    def stop(progress):
        begun.append(progress.done)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.score_matrix(E, T, callback=stop, threads=2)
    assert len(begun) < 10


def test_an_interrupted_file_is_not_left(tmp_path, monkeypatch):
    from jointplda.scoring.pairs import PairScorer

    model, _ = make((3, 2))
    E, T = sides()

    def stop(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(PairScorer, "fill", stop)
    with pytest.raises(KeyboardInterrupt):
        model.score_matrix(E, T, out=tmp_path / "scores.npy")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda m, E, T: m.score_matrix(E[:, :4], T), "enroll: expected samples of dimension 5, got 4"),
        (lambda m, E, T: m.score_matrix(E, T[0]), r"test: expected shape \(samples, dimensions\)"),
        (lambda m, E, T: m.score_matrix(E, T[:0]), "test: expected at least one sample"),
        (lambda m, E, T: m.score_matrix(E * np.nan, T), "NaN or infinity in row"),
        (lambda m, E, T: m.score_matrix(E, T, 1.5), "same_channel: expected probabilities from 0 to 1"),
        (lambda m, E, T: m.score_matrix(E, T, -0.1), "same_channel: expected probabilities"),
        (lambda m, E, T: m.score_matrix(E, T, np.nan), "same_channel: expected probabilities"),
        (lambda m, E, T: m.score_matrix(E, T, "half"), "same_channel: expected a number"),
        (lambda m, E, T: m.score_matrix(E, T, [(0.5, 0.5)] * 3), r"1 pairs, one per condition, got shape \(3, 2\)"),
        (lambda m, E, T: m.score_matrix(E, T, (0.1, 0.2, 0.3)), "same_channel: expected a number, a pair"),
        (lambda m, E, T: m.score_matrix(E, T, dtype=int), "dtype: expected float32 or float64"),
        (lambda m, E, T: m.score_matrix(E, T, enroll_channels=["a"]), "enroll_channels: expected 5 labels"),
        (lambda m, E, T: m.score_matrix(E, T, enroll_channels=np.zeros((5, 2))), r"expected 1 nuisance condition"),
        (lambda m, E, T: m.score_matrix(E, T, channel_weights="estimated"), "does not know its training channels"),
        (lambda m, E, T: m.score_matrix(E, T, out="/nowhere/s.npy"), "does not exist; create it first"),
        (lambda m, E, T: m.score_trials(E, T, [[0, 4]]), r"row 0 is \[0, 4\], out of range for 5 enrollment and 4"),
        (lambda m, E, T: m.score_trials(E, T, [[0, -1]]), "out of range"),
        (lambda m, E, T: m.score_trials(E, T, [[0.5, 1]]), "pairs: expected integers"),
        (lambda m, E, T: m.score_trials(E, T, [0, 1]), r"shape \(trials, 2\)"),
        (lambda m, E, T: m.enroll(E, ["a"]), "models: expected 5 labels"),
        (lambda m, E, T: m.enroll(E, ["a", None, "b", "b", "b"]), r"row\(s\) \[1\] have none"),
        (lambda m, E, T: m.score_enrollment(E, T), "expected an Enrollment"),
        (
            lambda m, E, T: m.score_enrollment(m.enroll(E, list("aabbc")), T, models=["a", "q"]),
            r"1 of the models were not enrolled, such as \['q'\]",
        ),
        (
            lambda m, E, T: m.score_enrollment(m.enroll(E, list("aabbc")), T, test_channels=["x"] * 4),
            "the models were enrolled without channels",
        ),
        (lambda m, E, T: m.score_enrollment(m.enroll(E, list("aabbc")), T, beam=0), "beam: expected a whole number"),
        (lambda m, E, T: m.score_sets(E, [T]), "sets_a: expected a list"),
        (lambda m, E, T: m.score_sets([], [T]), "sets_a: expected at least one set"),
        (lambda m, E, T: m.score_sets([E], [T], channels_a=[["x"] * 5]), "for every set on both sides, or for none"),
        (lambda m, E, T: m.predict(E), "does not know its training"),
        (lambda m, E, T: m.channel_posterior(E), "does not know its training"),
        (lambda m, E, T: make((3, 2))[0].score_matrix(make((2, 2, 1))[0].prepare(E), T), "prepared by another model"),
    ],
)
def test_bad_input(call, message):
    model, _ = make((3, 2))
    E, T = sides()
    with pytest.raises(ValueError, match=message):
        call(model, E, T)


def test_models_can_be_chosen():
    model, _ = make((3, 2))
    E, T = sides()
    enrollment = model.enroll(E, list("aabbc"))
    everything = model.score_enrollment(enrollment, T)
    for models, rows in ((["c", "a"], [2, 0]), (["b", "c", "b"], [1, 2, 1])):
        assert model.score_enrollment(enrollment, T, models=models) == pytest.approx(everything[rows], abs=1e-12)
    assert len(enrollment) == 3


def test_what_another_model_prepared_is_refused():
    model, p = make((3, 2))
    other, _ = make((3, 2), seed=7)
    E, T = sides()
    with pytest.raises(ValueError, match="prepared by another model, or by an earlier fit"):
        model.score_matrix(other.prepare(E), T)
    with pytest.raises(ValueError, match="enrolled by another model"):
        model.score_enrollment(other.enroll(E, list("aabbc")), T)
    same = JointPLDA.from_parameters(p.mean, *p.loadings, np.linalg.inv(p.noise))
    assert np.array_equal(model.score_matrix(same.prepare(E), T), model.score_matrix(E, T))


@pytest.mark.parametrize("changed", ["mean_", "V_", "U_", "D_"])
def test_one_parameter_that_differs_makes_another_model(changed):
    model, _ = make((3, 2))
    E, T = sides()
    parameters = {name: getattr(model, name) for name in ("mean_", "V_", "U_", "D_")}
    parameters[changed] = parameters[changed] * (1 + 1e-12)
    other = JointPLDA.from_parameters(*parameters.values())
    with pytest.raises(ValueError, match="enroll: the samples were prepared by another model"):
        model.score_matrix(other.prepare(E), T)
    with pytest.raises(ValueError, match="enrollment: the models were enrolled by another model"):
        model.score_enrollment(other.enroll(E, list("aabbc")), T)


def test_scores_follow_the_parameters():
    model, _ = make((3, 2))
    E, T = sides()
    before = model.score_matrix(E, T)
    with pytest.raises(AttributeError):
        model.V_ = 2.0 * model.V_
    with pytest.raises(ValueError, match="read-only"):
        model.V_[...] *= 2.0
    doubled = JointPLDA.from_parameters(model.mean_, 2.0 * model.V_, model.U_, model.D_)
    model.fitted_ = doubled.fitted_
    assert np.array_equal(model.score_matrix(E, T), doubled.score_matrix(E, T))
    assert np.abs(model.score_matrix(E, T) - before).max() > 0.1


def test_types_of_sides_and_scores():
    model, _ = make((3, 2))
    E, T = sides()
    side = model.prepare(E, dtype=np.float32)
    assert side.table.dtype == np.float32
    assert model.score_matrix(side, T).dtype == np.float32
    assert model.score_matrix(T, side).dtype == np.float32
    assert model.score_matrix(model.prepare(E), T, dtype="f4").dtype == np.float32
    assert model.score_matrix(model.prepare(E), side).dtype == np.float64
    assert model.score_trials(E, T, []).shape == (0,)


@pytest.mark.parametrize("noise", [1.0, 1e-2, 1e-4, 1e-6])
def test_what_float32_loses_is_foreseen(noise):
    """The estimate is an upper bound, and no more than a few hundred times too high."""
    rng = np.random.default_rng(5)
    model = JointPLDA.from_parameters(np.zeros(6), rng.normal(size=(6, 4)), rng.normal(size=(6, 2)), np.eye(6) / noise)
    X = model.sample(np.arange(200) % 20, channels=np.arange(200) % 5, random_state=0)
    side = model.prepare(X, dtype=np.float32)
    error = np.abs(model.score_matrix(side, side) - model.score_matrix(X, X)).max()
    assert error < side.rounding < 500 * error


def test_float32_that_would_lose_too_much_is_not_used_unasked():
    rng = np.random.default_rng(11)
    model = JointPLDA.from_parameters(np.zeros(6), rng.normal(size=(6, 6)), rng.normal(size=(6, 1)), np.eye(6) * 1e7)
    X = model.sample([0, 0, 1, 1], channels=[0, 1, 0, 1], random_state=0)
    exact = model.score_matrix(X, X)
    assert model.score_matrix(X.astype(np.float32), X.astype(np.float32)).dtype == np.float64
    with pytest.warns(Warning, match="float32 scores may be off"):
        model.score_matrix(X, X, dtype=np.float32)
    assert np.isfinite(exact).all()


def test_sides_are_matched_by_name_without_training():
    import pandas as pd

    model, _ = make((2, 2, 1))
    E, T = sides()
    first = pd.DataFrame({"language": list("xxyyx"), "room": list("rsrsr")})
    second = pd.DataFrame({"language": list("xyxy"), "room": list("rrss")})
    found = model.score_matrix(E, T, enroll_channels=first, test_channels=second[["room", "language"]])
    assert found == pytest.approx(model.score_matrix(E, T, enroll_channels=first, test_channels=second))
    enrollment = model.enroll(E, list("aabbc"), channels=first)
    a, b = (model.score_enrollment(enrollment, T, test_channels=c) for c in (second, second[["room", "language"]]))
    assert np.array_equal(a, b)


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2"])
def test_bad_threads_destroy_nothing(threads, tmp_path):
    model, _ = make((3, 2))
    E, T = sides()
    model.score_matrix(E, T, out=tmp_path / "good.npy")
    before = (tmp_path / "good.npy").read_bytes()
    with pytest.raises(ValueError, match="threads: expected a whole number"):
        model.score_matrix(E, T, out=tmp_path / "good.npy", threads=threads)
    assert (tmp_path / "good.npy").read_bytes() == before
    (tmp_path / "plain").write_text("")
    assert (tmp_path / "good.npy").stat().st_mode == (tmp_path / "plain").stat().st_mode
    (tmp_path / "folder.npy").mkdir()
    with pytest.raises(ValueError, match="got a folder"):
        model.score_matrix(E, T, out=tmp_path / "folder.npy")
    with pytest.raises(ValueError, match=r"written as \.npy, \.h5, \.hdf5 or \.zarr"):
        model.score_matrix(E, T, out=tmp_path / "scores.txt")


def test_more_odd_arguments():
    model, _ = make((3, 2))
    E, T = sides()
    for call, message in [
        (lambda: model.score_sets((x for x in ()), [T]), "at least one set"),
        (lambda: model.score_sets(3, [T]), "got int"),
        (lambda: model.score_enrollment(model.enroll(E, list("aabbc")), T, models=1), "expected a list of labels"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
    from sklearn.exceptions import NotFittedError

    for name in ("score_matrix", "score_sets"):
        with pytest.raises(NotFittedError):
            getattr(JointPLDA(), name)(E, T)
    generated = model.score_sets((one for one in (E[:2], E[2:])), [T])
    assert generated.shape == (2, 1)


def test_many_pieces(monkeypatch):
    from jointplda.scoring import enrollment_scores, pairs, scorer

    model, _ = make((2, 2), d=3)
    E, T = sides(n=12, m=7, d=3)
    rows = np.array([(i, j) for i in range(12) for j in range(7)])
    labels = list("xyzxyzxyzxyz")

    def everything():
        return [
            model.score_trials(E, T, rows),
            model.score_matrix(E, T),
            model.score_enrollment(model.enroll(E, np.arange(12), channels=labels), T, test_channels=list("xyzxyzq")),
            model.score_enrollment(model.enroll(E, np.arange(12) // 3), T),
        ]

    expected = everything()
    monkeypatch.setattr(scorer, "TRIALS", 5)
    monkeypatch.setattr(pairs, "PIECE", 5)
    monkeypatch.setattr(enrollment_scores, "ROWS", 2)
    monkeypatch.setattr(enrollment_scores, "NUMBERS", 1)
    for a, b in zip(everything(), expected):
        assert a == pytest.approx(b, abs=1e-10)


def test_models_of_very_different_sizes():
    model, _ = make((3, 2))
    rng = np.random.default_rng(12)
    X = rng.normal(size=(1200, 5))
    models = np.where(np.arange(1200) < 700, "large", [f"m{i}" for i in range(1200)])
    enrollment = model.enroll(X, models, channels=rng.integers(0, 3, 1200))
    assert len(enrollment) == 501
    assert len(enrollment.groups) == 2
    found = model.score_enrollment(enrollment, X[:2])
    alone = model.score_enrollment(model.enroll(X[900:901], ["m900"], channels=["c"]), X[:2])
    assert found[enrollment.models.index("m900")] == pytest.approx(alone[0], abs=1e-9)
