"""Bad input: handled, or one clear error."""

import copy
import pickle
import re
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from jointplda import PLDA, DataWarning, InputError, JointPLDA, Statistics
from jointplda.model import plan
from jointplda.model.layout import lay_out
from worlds.designs import world


@pytest.fixture(scope="module")
def data():
    X, s, c, _ = world(np.random.default_rng(0), 6, (2, 2), 20, 5, 200)
    return X, s, c


def spoiled(X, value):
    X = X.copy()
    X[[3, 17], 2] = value
    return X


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_not_finite(data, value):
    X, s, c = data
    X = spoiled(X, value)
    with pytest.raises(ValueError, match=r"NaN|inf"):
        JointPLDA(speaker_rank=2, channel_rank=2).fit(X, s, channels=c)
    with pytest.raises(InputError, match=re.escape("row(s) [3, 17]")):
        Statistics.from_samples(X, s, c)


@pytest.mark.parametrize("bad", [np.zeros(5), np.zeros((2, 2, 2)), np.zeros((0, 3)), np.zeros((3, 0))])
def test_wrong_shapes(bad):
    with pytest.raises(InputError, match="X: expected"):
        Statistics.from_samples(bad, [0, 1, 2])
    with pytest.raises(ValueError, match=r"Expected 2D|dim 3|0 sample|minimum of 1|0 feature"):
        PLDA().fit(bad, [0] * len(bad))


@pytest.mark.parametrize("bad", [[["a", "b"]], np.zeros((3, 2), dtype=complex), csr_array((3, 2)), [[1], [1, 2]]])
def test_not_numbers(bad):
    with pytest.raises(InputError, match="X: expected"):
        Statistics.from_samples(bad, [0, 1, 2])


def test_label_lengths(data):
    X, s, c = data
    with pytest.raises(InputError, match=r"y: expected 200 labels, one per row of X, got 199"):
        JointPLDA(speaker_rank=2, channel_rank=2).fit(X, s[:-1], channels=c)
    with pytest.raises(InputError, match=r"channels: expected 200 labels.*got 5"):
        JointPLDA(speaker_rank=2, channel_rank=2).fit(X, s, channels=c[:5])
    with pytest.raises(InputError, match="expected 200 labels"):
        JointPLDA(speaker_rank=2, channel_rank=2).fit(X, s, channels=np.zeros((5, 2)))


def test_missing_speakers(data):
    X, s, c = data
    labels = [None if i in (4, 9) else v for i, v in enumerate(s)]
    with pytest.raises(InputError, match=re.escape("row(s) [4, 9] have none")):
        JointPLDA(speaker_rank=2, channel_rank=2).fit(X, labels, channels=c)
    with pytest.raises(InputError, match="requires y to be passed"):
        JointPLDA(speaker_rank=2, channel_rank=2).fit(X, None, channels=c)


@pytest.mark.parametrize("rank", [0, -1, 7, 2.5, True, "2"])
def test_ranks_out_of_range(data, rank):
    X, s, c = data
    with pytest.raises(InputError, match=r"speaker_rank: expected a whole number from 1 to 6 \(the dimension"):
        JointPLDA(speaker_rank=rank, channel_rank=2).fit(X, s, channels=c)
    if rank != 0:
        for fit in (
            lambda: JointPLDA(speaker_rank=2, channel_rank=rank).fit(X, s, channels=c),
            lambda: PLDA(speaker_rank=2, channel_rank=rank).fit(X, s),
        ):
            with pytest.raises(InputError, match="channel_rank: expected a whole number from 0 to 6"):
                fit()


def test_ranks_per_condition(data):
    X, s, c = data
    with pytest.raises(InputError, match="expected one rank or 1, one per condition"):
        JointPLDA(speaker_rank=2, channel_rank=[1, 2]).fit(X, s, channels=c)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"max_iter": 0}, "max_iter: expected a whole number at least 1"),
        ({"tol": -1.0}, "tol: expected a number at least 0"),
        ({"tol": np.nan}, "tol: expected a number at least 0"),
        ({"noise_prior": -0.1}, "noise_prior: expected a number from 0 to 1e"),
        ({"speaker_prior": "much"}, "speaker_prior: expected a number"),
        ({"noise": "round"}, 'noise: expected "full" or "diagonal"'),
        ({"speaker_prior": 1.0}, r"speaker_rank: a speaker prior .*full rank \(6\), got 2"),
    ],
)
def test_settings(data, settings, message):
    X, s, c = data
    with pytest.raises(InputError, match=message):
        JointPLDA(speaker_rank=2, channel_rank=2, **settings).fit(X, s, channels=c)


def test_one_speaker(data):
    X, _, c = data
    with pytest.raises(InputError, match="at least two speakers"):
        JointPLDA(speaker_rank=2, channel_rank=2).fit(X, ["ann"] * len(X), channels=c)


def test_every_speaker_with_one_sample(data):
    X, _, c = data
    with pytest.raises(InputError, match="200 speakers with one sample each"):
        JointPLDA(speaker_rank=2, channel_rank=2).fit(X, np.arange(len(X)), channels=c)


def test_a_rank_that_channels_do_not_support_is_a_warning(data):
    X, s, c = data
    with pytest.warns(DataWarning, match=r"channel_rank: 5 is more than the channels of 'channel' support \(4\)"):
        JointPLDA(speaker_rank=2, channel_rank=5, tol=1e-3).fit(X, s, channels=c)
    few = s < 3
    with pytest.warns(DataWarning, match="speaker_rank: 4 is more than 3 speakers support"):
        PLDA(speaker_rank=4, tol=1e-2, max_iter=1000).fit(X[few], s[few])


def test_fewer_samples_than_dimensions():
    X, s, c, _ = world(np.random.default_rng(1), 40, (3, 2), 6, 3, 25)
    with pytest.warns(DataWarning, match=r"is at its floor .* in \d+ of 40 directions.*PCA.*noise prior"):
        model = JointPLDA(speaker_rank=2, channel_rank=1, tol=1e-2, max_iter=300).fit(X, s, channels=c)
    assert np.isfinite(model.D_).all()
    assert np.isfinite(model.log_likelihood(X, s, channels=c))
    shrunk = JointPLDA(speaker_rank=None, channel_rank=1, noise_prior=1.0, speaker_prior=1.0, tol=1e-3).fit(
        X, s, channels=c
    )
    assert np.isfinite(shrunk.log_likelihood(X, s, channels=c))
    assert np.linalg.cond(shrunk.D_) < 1e4


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e6])
def test_constant_and_duplicated_columns(data, scale):
    X, s, c = data
    X = scale * np.column_stack([X, np.full(len(X), 3.0), X[:, 0]])
    with pytest.warns(DataWarning, match=r"floor .* in 2 of 8 directions.*Column\(s\) \[6\] are constant"):
        model = JointPLDA(speaker_rank=2, channel_rank=2, tol=1e-4, max_iter=1000).fit(X, s, channels=c)
    assert np.isfinite(model.log_likelihood(X, s, channels=c))
    assert np.all(np.diff(model.log_likelihoods_) >= -1e-9 * np.abs(model.log_likelihoods_[1:]))


def test_identical_samples():
    with pytest.warns(DataWarning, match=r"floor .* in 3 of 3"):
        model = PLDA(speaker_rank=1).fit(np.ones((10, 3)), np.arange(10) % 2)
    assert np.isfinite(model.D_).all()


def test_columns_of_very_different_scale_have_the_same_fit(data):
    X, s, c = data
    scales = 10.0 ** np.array([6, 3, 0, -3, -6, -9])
    one = JointPLDA(speaker_rank=2, channel_rank=2).fit(X, s, channels=c)
    other = JointPLDA(speaker_rank=2, channel_rank=2).fit(X * scales, s, channels=c)
    assert other.log_likelihoods_ == pytest.approx(one.log_likelihoods_ - np.sum(np.log(scales)), rel=1e-6)
    assert other.V_ / scales[:, None] @ other.V_.T / scales == pytest.approx(one.V_ @ one.V_.T, abs=1e-4)


@pytest.mark.parametrize("dtype", [np.int64, np.int16, np.uint8, np.float32, np.float16, np.float64, bool])
def test_dtypes(data, dtype):
    X, s, _ = data
    X = np.clip(10 * X + 100, 0, 255).astype(dtype)
    if dtype is bool:
        X = X.copy()
        X[::2] = np.random.default_rng(0).random(X[::2].shape) > 0.5
    model = PLDA(speaker_rank=2, tol=1e-3).fit(X, s)
    same = PLDA(speaker_rank=2, tol=1e-3).fit(X.astype(np.float64), s)
    assert np.array_equal(model.V_, same.V_)
    assert model.V_.dtype == np.float64


def test_memory_orders_and_read_only_memmaps(data, tmp_path):
    X, s, c = data
    expected = JointPLDA(speaker_rank=2, channel_rank=2, tol=1e-3).fit(X, s, channels=c)
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    frozen = X.copy()
    frozen.flags.writeable = False
    for other in (np.asfortranarray(X), mapped, frozen, X.tolist(), np.repeat(X, 2, axis=0)[::2], X[::-1][::-1]):
        model = JointPLDA(speaker_rank=2, channel_rank=2, tol=1e-3).fit(other, s, channels=c)
        assert pytest.approx(expected.V_, rel=1e-9) == model.V_
    assert np.array_equal(np.load(tmp_path / "x.npy"), X)


def test_other_dimension_after_fitting(data):
    X, s, c = data
    model = JointPLDA(speaker_rank=2, channel_rank=2, tol=1e-3).fit(X, s, channels=c)
    with pytest.raises(ValueError, match="X has 5 features, but JointPLDA is expecting 6"):
        model.score(X[:, :5], s, channels=c)
    with pytest.raises(InputError, match=r"1 nuisance condition\(s\) \(channel\), got 2"):
        model.score(X, s, channels=np.column_stack([c, c]))


@pytest.mark.parametrize(
    "mean, V, U, D, ranks, message",
    [
        (np.zeros(3), np.ones((2, 1)), None, np.eye(3), None, "got shapes"),
        (np.zeros(3), np.ones((3, 1)), np.ones((3, 2)), np.eye(2), None, "got shapes"),
        (np.zeros(3), np.ones((3, 0)), None, np.eye(3), None, "at least one column"),
        (np.zeros(3), np.ones((3, 1)), None, -np.eye(3), None, "positive definite"),
        (np.zeros(3), np.ones((3, 1)), None, np.triu(np.ones((3, 3))) + 5 * np.eye(3), None, "symmetric"),
        (np.zeros(3), np.full((3, 1), np.nan), None, np.eye(3), None, "V: expected finite"),
        (np.zeros(3), np.ones((3, 1)), np.ones((3, 2)), np.eye(3), [1, 2], "add up to 2"),
        (np.zeros(3), "V", None, np.eye(3), None, "V: expected an array of numbers"),
    ],
)
def test_given_parameters(mean, V, U, D, ranks, message):
    with pytest.raises(InputError, match=message):
        JointPLDA.from_parameters(mean, V, U, D, channel_ranks=ranks)


def test_fit_statistics_wants_statistics(data):
    with pytest.raises(InputError, match=r"expected Statistics, got ndarray"):
        JointPLDA().fit_statistics(data[0])


def test_a_crossing_too_large_for_memory_is_said_before_it_is_tried(data, monkeypatch):
    X, s, c = data
    monkeypatch.setattr(plan, "MEMORY_SHARE", 1e-9)
    with pytest.raises(MemoryError, match=r"unknowns in one system.*Lower the ranks"):
        lay_out(Statistics.from_samples(X, s, c), (2, 2))


def test_a_fit_that_fails_leaves_the_model_as_it_was(data, tmp_path):
    X, s, c = data
    model = JointPLDA(speaker_rank=2, channel_rank=2, tol=1e-3).fit(X, s, channels=c)
    before = model.score(X, s, channels=c)
    for bad in ((X[:, :4], s[:-1]), (X[:, :4], ["one"] * len(X)), (spoiled(X[:, :4], np.nan), s)):
        with pytest.raises(InputError):
            model.fit(*bad, channels=c)
    with pytest.raises(InputError):
        model.fit_statistics(Statistics.from_samples(X[:, :3], np.arange(len(X)), c))
    assert model.score(X, s, channels=c) == before
    broken = np.full_like(model.V_, np.nan)
    model.fitted_ = replace(model.fitted_, factors=(replace(model.fitted_.factors[0], loading=broken),))
    with pytest.raises(ValueError, match="not all finite"):
        model.save(tmp_path / "m.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_conditions_are_matched_by_name(data):
    X, s, c = data
    frame = pd.DataFrame({"language": c, "room": (c + s) % 3})
    model = JointPLDA(speaker_rank=2, channel_rank=[2, 1], tol=1e-3).fit(X, s, channels=frame)
    assert model.score(X, s, channels=frame[["room", "language"]]) == pytest.approx(model.score(X, s, channels=frame))
    with pytest.raises(InputError, match=r"expected the condition\(s\) \(language, room\), got \(language, mic\)"):
        model.score(X, s, channels=frame.rename(columns={"room": "mic"}))
    one = Statistics.from_samples(X, s, frame)
    other = Statistics.from_samples(X, s, frame[["room", "language"]])
    both = one + other
    assert both.labels == one.labels
    for pattern, part in both.parts.items():
        for pair, links in part.links.items():
            assert np.array_equal(links.counts, 2 * one.parts[pattern].links[pair].counts)
    with pytest.raises(InputError, match=r"got \(mic\)"):
        Statistics.from_samples(X, s, frame["room"]) + Statistics.from_samples(X, s, frame["room"].rename("mic"))


def test_labels_that_always_go_together_are_a_warning(data):
    X, s, c = data
    with pytest.warns(DataWarning, match="'speaker' and 'channel' always go together"):
        JointPLDA(speaker_rank=2, channel_rank=2, tol=1e-3).fit(X, s, channels=[f"c{v}" for v in s])
    with pytest.warns(DataWarning, match="'channel0' and 'channel1' always go together"):
        JointPLDA(speaker_rank=2, channel_rank=2, tol=1e-3).fit(X, s, channels=np.column_stack([c, 10 * c]))
    with pytest.warns(DataWarning, match="it is left out"):
        assert JointPLDA(speaker_rank=2, tol=1e-3).fit(X, s, channels=[None] * len(X)).channel_ranks_ == (0,)
    with pytest.warns(DataWarning, match="are confounded"):
        PLDA(speaker_rank=2, channel_rank=2, noise="full", tol=1e-3).fit(X, s)


def test_nested_labels_are_no_warning(data):
    """Every speaker in one channel, several speakers in each: less can be learned, but something can."""
    X, s, _ = data
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        JointPLDA(speaker_rank=2, channel_rank=2, tol=1e-3).fit(X, s, channels=np.asarray(s) % 3)
        JointPLDA(speaker_rank=2, channel_rank=2, tol=1e-3).fit(
            X, s, channels=np.column_stack([np.asarray(s) % 6, np.asarray(s) % 3])
        )


def test_warnings_point_at_the_line_that_led_to_them(data):
    X, s, c = data
    with pytest.warns(DataWarning) as caught:
        JointPLDA(speaker_rank=2, channel_rank=5, tol=1e-3).fit(X, s, channels=c)
    assert caught[0].filename == __file__


def test_masked_numbers(data):
    X, s, c = data
    masked = np.ma.masked_greater(X, 3.0)
    with pytest.raises(InputError, match="masked"):
        JointPLDA(speaker_rank=2, channel_rank=2).fit(masked, s, channels=c)
    with pytest.raises(InputError, match="masked"):
        Statistics.from_samples(masked, s, c)


@pytest.mark.parametrize("scale", [1e300, 1e160])
def test_numbers_too_large_to_square(data, scale):
    X, s, c = data
    model = JointPLDA(speaker_rank=2, channel_rank=2, tol=1e-3).fit(X, s, channels=c)
    with pytest.raises(InputError, match=r"too large to square; scale"):
        model.fit(X * scale, s, channels=c)
    with pytest.raises(InputError, match="too large"):
        model.score(X * scale, s, channels=c)


@pytest.mark.parametrize("offset", [1e6, 1e8])
def test_a_large_offset_costs_little(data, offset):
    X, s, c = data
    near = JointPLDA(speaker_rank=2, channel_rank=2, tol=1e-4).fit(X, s, channels=c)
    far = JointPLDA(speaker_rank=2, channel_rank=2, tol=1e-4).fit(X + offset, s, channels=c)
    assert far.log_likelihoods_[-1] == pytest.approx(near.log_likelihoods_[-1], abs=1e-4)


@pytest.mark.parametrize("change", [{"noise": "diagonal"}, {"noise_floor": 0.3}, {}])
def test_going_on_with_other_settings_or_data_ends_where_a_fresh_fit_does(data, change):
    X, s, c = data
    X = X if change else X + 1e8
    fresh = JointPLDA(speaker_rank=2, channel_rank=2, max_iter=2000).set_params(**change)
    warm = (
        JointPLDA(speaker_rank=2, channel_rank=2, max_iter=2000, warm_start=True)
        .fit(data[0], s, channels=c)
        .set_params(**change)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        expected = fresh.fit(X, s, channels=c).log_likelihoods_[-1]
        assert warm.fit(X, s, channels=c).log_likelihoods_[-1] == pytest.approx(expected, abs=1e-2)
    assert warm.converged_


@pytest.mark.parametrize(
    "settings",
    [
        {"noise_prior": np.inf},
        {"speaker_prior": 1e308},
        {"noise_floor": np.inf},
        {"callback": "x"},
    ],
)
def test_absurd_settings(data, settings):
    X, s, c = data
    with pytest.raises(InputError, match=f"{next(iter(settings))}: expected"):
        JointPLDA(speaker_rank=None, channel_rank=2, **settings).fit(X, s, channels=c)


def test_ranks_as_arrays(data):
    X, s, c = data
    assert JointPLDA(speaker_rank=np.array(2), channel_rank=np.array(2), tol=1e-3).fit(
        X, s, channels=c
    ).channel_ranks_ == (2,)
    assert JointPLDA(speaker_rank=np.int64(2), channel_rank=np.array([2]), tol=1e-3).fit(
        X, s, channels=c
    ).channel_ranks_ == (2,)


def test_odd_arguments(data):
    X, s, c = data
    model = JointPLDA(speaker_rank=2, channel_rank=2, tol=1e-3).fit(X, s, channels=c)
    with pytest.raises(InputError, match="got ndarray"):
        model.sample(np.array(3))
    with pytest.raises(InputError, match="one number per sample"):
        model.score(X, s, channels=c, sample_weight=["a"] * len(X))
    for chunks in (X, [(X,)], [X]):
        with pytest.raises(InputError, match="Expected chunks"):
            Statistics.from_chunks(chunks)
    with pytest.raises(InputError, match=r"np.column_stack"):
        Statistics.from_samples(np.eye(2), ["a", "b"], [["x", "y"]])
    with pytest.raises(InputError, match="shift: expected finite"):
        Statistics.from_samples(X, s, shift=np.full(6, np.nan))


def test_columns_of_features_in_another_order_are_refused_by_every_score():
    rng = np.random.default_rng(0)
    s = np.repeat(np.arange(20), 5)
    frame = pd.DataFrame(rng.normal(size=(20, 4))[s] + rng.normal(size=(100, 4)), columns=list("pqrs"))
    model, turned = PLDA(speaker_rank=2, tol=1e-2).fit(frame, s), frame[list("srqp")]
    assert np.array_equal(model.score_matrix(frame, frame), model.score_matrix(frame.to_numpy(), frame.to_numpy()))
    for call in (
        lambda: model.score_matrix(turned, frame),
        lambda: model.score_trials(frame, turned, [[0, 1]]),
        lambda: model.prepare(turned),
        lambda: model.enroll(turned, s),
        lambda: model.score_enrollment(model.enroll(frame, s), turned),
        lambda: model.score_sets([frame[:2]], [turned[:2]]),
        lambda: model.predict(turned),
    ):
        with pytest.raises(InputError, match="same order"):
            call()


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_parameters_stay_read_only_in_copies(data, copied):
    X, s, c = data
    model = copied(JointPLDA(speaker_rank=2, channel_rank=2, tol=1e-2).fit(X, s, channels=c))
    fitted = model.fitted_
    arrays = [model.mean_, model.V_, model.U_, model.D_, model.log_likelihoods_, fitted.parameters.noise]
    for array in [*arrays, fitted.training.channel_means, fitted.training.speaker_means]:
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0.0
    taken = JointPLDA()
    taken.fitted_ = fitted
    assert np.array_equal(taken.score_matrix(X[:3], X[:3]), model.score_matrix(X[:3], X[:3]))
