"""Models with an interaction of speaker and channel: what is drawn comes back, and every number is the dense one."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from jointplda import DataWarning, InputError, JointPLDA, Statistics
from jointplda.calibration import AffineCalibration
from oracles.dense import DenseModel

D = 3


def world(kappa, speakers=60, per_speaker=3, samples=2, d=D, channels=8, seed=0, full=False):
    """Samples of a model with an interaction, every speaker in a few channels; and the model."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(d, d))
    noise = A @ A.T / d + 0.5 * np.eye(d)
    G = np.sqrt(kappa) * np.linalg.cholesky(noise) if not full else rng.normal(size=(d, 1))
    truth = JointPLDA.from_parameters(
        rng.normal(size=d),
        rng.normal(size=(d, 2)),
        rng.normal(size=(d, 1)),
        np.linalg.inv(noise),
        interaction=G if full else kappa,
    )
    s = np.repeat(np.arange(speakers), per_speaker * samples)
    c = np.concatenate([np.repeat(rng.permutation(channels)[:per_speaker], samples) for _ in range(speakers)])
    return truth.sample(s, channels=c, random_state=seed), s, c, truth


@pytest.mark.parametrize("kappa", [0.5, 1.5])
def test_kappa_comes_back(kappa):
    X, s, c, _ = world(kappa, speakers=500, d=8, channels=20)
    model = JointPLDA(speaker_rank=2, channel_rank=1, interaction="proportional").fit(X, s, channels=c)
    assert model.interaction_ == pytest.approx(kappa, rel=0.1)
    assert model.G_.shape == (8, 8)
    assert_allclose(model.G_ @ model.G_.T, model.interaction_ * np.linalg.inv(model.D_), rtol=1e-8, atol=1e-10)


def test_no_interaction_is_found_where_there_is_none():
    X, s, c, _ = world(0.0, speakers=500, d=8, channels=20)
    model = JointPLDA(speaker_rank=2, channel_rank=1, interaction="proportional").fit(X, s, channels=c)
    assert model.interaction_ < 0.05


def test_a_loading_comes_back():
    X, s, c, truth = world(0.0, speakers=800, full=True)
    model = JointPLDA(
        speaker_rank=2, channel_rank=1, interaction="full", interaction_rank=1, tol=1e-8, max_iter=500
    ).fit(X, s, channels=c)
    expected = truth.G_ @ truth.G_.T
    assert_allclose(model.G_ @ model.G_.T, expected, atol=0.15 * np.abs(expected).max())
    assert model.interaction_ == pytest.approx(truth.interaction_, rel=0.2)


def test_each_form_reaches_at_least_the_likelihood_of_the_one_it_contains():
    X, s, c, _ = world(0.8)
    ends = [
        JointPLDA(
            speaker_rank=2, channel_rank=1, interaction=form, interaction_prior=(0.4, 0.0), tol=1e-9, max_iter=2000
        ).fit(X, s, channels=c)
        for form in (0.0, "proportional", "full")
    ]
    trace = [model.log_likelihoods_[-1] for model in ends]
    assert trace[0] < trace[1] < trace[2]
    for model in ends:
        assert np.diff(model.log_likelihoods_).min() > -1e-9
        assert model.score(X, s, channels=c) == pytest.approx(model.log_likelihoods_[-1], rel=1e-10)


def test_zero_is_the_model_of_the_paper():
    X, s, c, _ = world(0.5)
    plain, zero = (
        JointPLDA(speaker_rank=2, channel_rank=1).fit(X, s, channels=c),
        JointPLDA(speaker_rank=2, channel_rank=1, interaction=0).fit(X, s, channels=c),
    )
    for name in ("mean_", "V_", "U_", "D_", "log_likelihoods_"):
        assert_array_equal(getattr(plain, name), getattr(zero, name))
    assert zero.interaction_ == 0.0
    assert zero.G_.shape == (D, 0)


@pytest.mark.parametrize("form", [0.7, "proportional", "full"])
def test_likelihood_and_posterior_are_the_dense_ones(form):
    X, s, c, _ = world(0.5, speakers=12, channels=4)
    model = JointPLDA(speaker_rank=2, channel_rank=1, interaction=form, max_iter=5, tol=0.0).fit(X, s, channels=c)
    if form == 0.7:
        assert model.interaction_ == 0.7
    rng = np.random.default_rng(1)
    Y, who = 2.0 * rng.normal(size=(14, D)), rng.integers(0, 4, 14)
    where = [None if rng.random() < 0.3 else int(v) for v in rng.integers(0, 3, 14)]
    cells = [None if channel is None else (speaker, channel) for speaker, channel in zip(who, where)]
    noise = np.linalg.inv(model.D_)
    dense = DenseModel(model.mean_, [model.V_, model.U_, model.G_], noise, [list(who), where, cells])
    channels = np.array(where, dtype=object)
    assert model.log_likelihood(Y, who, channels) == pytest.approx(dense.log_likelihood(Y), rel=1e-9)
    posterior = model.posterior(Y, who, channels)
    assert posterior.log_likelihood == pytest.approx(dense.log_likelihood(Y), rel=1e-9)
    z, covariance = dense.posterior(Y)
    for latents, k in ((posterior.speakers, 0), (posterior.channels[0], 1)):
        for i in range(len(Y)):
            rows = dense._rows(k, i)
            level = latents.index[i]
            assert_allclose(latents.means[level], z[rows], rtol=1e-8, atol=1e-9)
            assert_allclose(latents.covariances[level], covariance[np.ix_(rows, rows)], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("form", ["proportional", "full"])
def test_training_channels_are_ratios_of_joint_likelihoods(form):
    """With training channels, a score is the ratio of the joint densities of all training data and the trial."""
    X, s, c, _ = world(0.5, speakers=8, channels=3, seed=2)
    model = JointPLDA(speaker_rank=2, channel_rank=1, interaction=form, max_iter=5, tol=0.0).fit(X, s, channels=c)
    rng = np.random.default_rng(3)
    E, T = rng.normal(size=(2, D)), rng.normal(size=(2, D))
    ce, ct = [0, 1], [0, 2]
    scores = model.score_matrix(E, T, enroll_channels=ce, test_channels=ct)
    noise = np.linalg.inv(model.D_)

    def joint(i, j, same):
        samples = np.concatenate([X, E[[i]], T[[j]]])
        who = [*s.tolist(), "a", "a" if same else "b"]
        where = [*c.tolist(), ce[i], ct[j]]
        columns = [who, where, list(zip(who, where))]
        return DenseModel(model.mean_, [model.V_, model.U_, model.G_], noise, columns).log_likelihood(samples)

    for i in range(2):
        for j in range(2):
            assert scores[i, j] == pytest.approx(joint(i, j, True) - joint(i, j, False), rel=1e-8, abs=1e-9)


@pytest.mark.parametrize("channels", [["new", "new"], [0, 2]])
@pytest.mark.parametrize("form", ["proportional", "full"])
def test_prediction_is_the_ratio_of_joint_likelihoods_of_all_samples(form, channels, tmp_path):
    """Also for speakers who were heard in the channel of the sample, and share a cell with it."""
    X, s, c, _ = world(0.5, speakers=8, channels=4, seed=2)
    model = JointPLDA(speaker_rank=2, channel_rank=1, interaction=form, max_iter=5, tol=0.0).fit(X, s, channels=c)
    heard = [np.sum(np.unique(s[c == channel]).size) for channel in (0, 2)]
    assert 0 < min(heard) <= max(heard) < 8
    T = model.mean_ + np.random.default_rng(3).normal(size=(2, D))
    expected = []
    for t, channel in zip(T, channels, strict=True):
        values = []
        for speaker in range(8):
            who, where = [*s.tolist(), speaker], [*c.tolist(), channel]
            columns = [who, where, list(zip(who, where))]
            dense = DenseModel(model.mean_, [model.V_, model.U_, model.G_], np.linalg.inv(model.D_), columns)
            values.append(dense.log_likelihood(np.concatenate([X, t[None]])))
        weights = np.exp(np.array(values) - max(values))
        expected.append(weights / weights.sum())
    assert_allclose(model.predict_proba(T, channels=channels), expected, rtol=1e-8)
    model.save(tmp_path / "m")
    assert_array_equal(JointPLDA.load(tmp_path / "m").predict_proba(T, channels), model.predict_proba(T, channels))


def test_stored_copied_and_fitted_from_statistics(tmp_path):
    X, s, c, _ = world(0.5)
    for form in ("proportional", "full", 0.3):
        model = JointPLDA(speaker_rank=2, channel_rank=1, interaction=form, cell_share=0.5, max_iter=10).fit(
            X, s, channels=c
        )
        statistics = Statistics.from_samples(X, s, c, cells=True)
        again = JointPLDA(speaker_rank=2, channel_rank=1, interaction=form, cell_share=0.5, max_iter=10).fit_statistics(
            statistics
        )
        assert_allclose(again.score_matrix(X[:5], X[:5]), model.score_matrix(X[:5], X[:5]), rtol=1e-8, atol=1e-8)
        model.save(tmp_path / "model")
        loaded = JointPLDA.load(tmp_path / "model")
        assert loaded.get_params() == model.get_params()
        assert loaded.fitted_.settings.cell_share == 0.5
        known = {"enroll_channels": c[:5], "test_channels": c[:5]}
        assert_array_equal(loaded.score_matrix(X[:5], X[:5], **known), model.score_matrix(X[:5], X[:5], **known))
        calibrated = model.with_calibration(AffineCalibration(0.5, 1.0))
        assert_allclose(calibrated.score_matrix(X[:5], X[:5]), 0.5 * model.score_matrix(X[:5], X[:5]) + 1.0)
        whole = calibrated.score_matrix(model.prepare(X[:5]), X[:5], calibrated=False)
        assert_array_equal(whole, model.score_matrix(X[:5], X[:5]))
    with pytest.raises(InputError, match="hold no sums of cells"):
        JointPLDA(speaker_rank=2, channel_rank=1, interaction="full").fit_statistics(Statistics.from_samples(X, s, c))


@pytest.mark.parametrize("form", ["proportional", "full"])
def test_a_warm_start_goes_on(form):
    X, s, c, _ = world(0.5)
    settings = {"interaction": form, "tol": 0.0, "channel_prior": 0.5, "channel_share": 0.8}
    whole = JointPLDA(speaker_rank=2, channel_rank=1, max_iter=8, **settings).fit(X, s, channels=c)
    model = (
        JointPLDA(speaker_rank=2, channel_rank=1, max_iter=4, warm_start=True, **settings)
        .fit(X, s, channels=c)
        .fit(X, s, channels=c)
    )
    assert_allclose(model.log_likelihoods_, whole.log_likelihoods_[4:], rtol=1e-9)
    other = model.set_params(interaction=0.0).fit(X, s, channels=c)
    assert other.interaction_ == 0.0


def test_with_a_noise_prior_every_cell_counts_alike_and_kappa_is_held():
    """The end of EM is flat in the objective of the maths page, which the dense oracle computes of cell means."""
    n, samples = 60, 3
    X, s, c, _ = world(0.7, speakers=20, samples=samples)
    noise_prior, speaker_prior, weight = 0.8, 0.5, 4.0
    model = JointPLDA(
        speaker_rank=None, channel_rank=1, interaction="proportional", interaction_prior=(0.3, weight),
        noise_prior=noise_prior, speaker_prior=speaker_prior, max_iter=20000, tol=1e-15,
    ).fit(X, s, channels=c)  # fmt: skip
    means = X.reshape(n, samples, D).mean(axis=1)
    scatter = (X - means.repeat(samples, axis=0)).T @ (X - means.repeat(samples, axis=0))
    speaker, channel = s[::samples], c[::samples]
    dummies = np.column_stack([speaker[:, None] == np.unique(s), channel[:, None] == np.unique(c)]).astype(float)
    residual = means - dummies @ np.linalg.lstsq(dummies, means, rcond=None)[0]
    left, inside = n - np.linalg.matrix_rank(dummies), n * (samples - 1)
    moment = np.sum(residual**2) / left / (np.trace(scatter) / inside) - 1 / samples
    freedom = left * inside / (left + inside)
    kappa = (freedom * moment + weight * 0.3) / (freedom + weight)
    assert model.interaction_ == pytest.approx(kappa, rel=1e-8)
    a = samples / (1 + kappa * samples)
    believed = weight / (freedom + weight)
    share = believed + (1 - believed) * left / n * a * (1 - 1 / samples) / (samples - 1)
    effective = n + share * inside
    pooled = (scatter + residual.T @ residual / (kappa + 1 / samples)) / (left + inside)
    psi = np.trace(pooled) / D
    B = model.V_ @ model.V_.T

    def objective(C):
        value = DenseModel(
            model.mean_, [model.V_, model.U_], C * (kappa + 1 / samples), [speaker.tolist(), channel.tolist()]
        ).log_likelihood(means)
        value -= 0.5 * share * (inside * np.log(np.linalg.det(C)) + np.trace(np.linalg.inv(C) @ scatter))
        return value - 0.5 * noise_prior * effective * (np.log(np.linalg.det(C)) + psi * np.trace(np.linalg.inv(C)))

    C = np.linalg.inv(model.D_)
    for i in range(D):
        for j in range(i + 1):
            step = np.zeros((D, D))
            step[i, j] = step[j, i] = 1e-4 * np.sqrt(C[i, i] * C[j, j])
            slope = objective(C + step) - objective(C - step)
            curvature = objective(C) - 0.5 * (objective(C + step) + objective(C - step))
            assert curvature > 0
            assert abs(slope) < 0.05 * np.sqrt(curvature)  # the maximum is within a small part of a deviation
    assert B.shape == (D, D)


def test_with_a_noise_prior_the_noise_has_the_shape_of_all_that_differs_between_channels():
    """C is proportional to C + G G' of the truth, where those have different shapes, in many samples."""
    rng = np.random.default_rng(8)
    G = np.diag([2.0, 0.5, 0.2, 0.1])
    truth = JointPLDA.from_parameters(
        np.zeros(4), 2 * rng.normal(size=(4, 4)), rng.normal(size=(4, 1)), np.eye(4), interaction=G
    )
    total = np.diag(np.eye(4) + G @ G.T)
    for cells in (2, 4):
        s = np.repeat(np.arange(3000), cells * 10)
        c = np.concatenate([rng.permutation(8)[:cells].repeat(10) for _ in range(3000)])
        X = truth.sample(s, channels=c, random_state=cells)
        model = JointPLDA(
            speaker_rank=None, channel_rank=1, interaction="proportional", noise_prior=1e-6, tol=1e-5
        ).fit(X, s, channels=c)
        found = np.diag(np.linalg.inv(model.D_))
        assert_allclose(found / found.sum(), total / total.sum(), atol=0.02)


def test_a_warm_start_of_another_form_or_rank_starts_afresh():
    X, s, c, _ = world(0.6)
    settings = {"speaker_rank": 2, "channel_rank": 1, "tol": 1e-9, "max_iter": 300}
    cold = JointPLDA(interaction="split", **settings).fit(X, s, channels=c)
    warm = JointPLDA(interaction="proportional", warm_start=True, **settings).fit(X, s, channels=c)
    warm.set_params(interaction="split").fit(X, s, channels=c)
    assert_allclose(warm.D_, cold.D_, rtol=1e-3)
    assert_allclose(warm.G_ @ warm.G_.T, cold.G_ @ cold.G_.T, rtol=1e-2, atol=1e-3)
    narrow = JointPLDA(interaction="full", interaction_rank=1, warm_start=True, **settings).fit(X, s, channels=c)
    assert narrow.set_params(interaction_rank=3).fit(X, s, channels=c).G_.shape == (D, 3)


def test_without_channels_there_is_no_interaction():
    """A cell would be a speaker."""
    X, s, c, _ = world(0.5)
    model = JointPLDA(speaker_rank=2, interaction="proportional", tol=1e-4).fit(X, s)
    assert model.interaction_ == 0.0
    left_out = JointPLDA(speaker_rank=2, channel_rank=1, interaction="proportional", channel_share=0.0, tol=1e-4).fit(
        X, s, channels=c
    )
    assert left_out.interaction_ == 0.0
    with pytest.raises(InputError, match="without channels"):
        JointPLDA.from_parameters(np.zeros(3), np.eye(3), None, np.eye(3), interaction=0.5)


def test_a_belief_in_no_interaction_leaves_a_little_to_start_from():
    X, s, c, _ = world(0.5, speakers=40, per_speaker=1, samples=4)
    model = JointPLDA(speaker_rank=2, channel_rank=1, interaction="full", interaction_prior=(0.0, 5.0), tol=1e-3).fit(
        X, s, channels=c
    )
    assert np.isfinite(model.G_).all()
    assert model.interaction_ > 0.0


def test_shares_of_variance_are_traces():
    _, _, _, truth = world(0.6)
    shares = truth.fitted_.variance_shares
    C = np.linalg.inv(truth.D_)
    traces = [np.sum(truth.V_**2), np.sum(truth.U_**2), 0.6 * np.trace(C), np.trace(C)]
    assert list(shares) == ["speaker", "condition 1", "interaction", "noise"]
    assert_allclose(list(shares.values()), np.array(traces) / np.sum(traces), rtol=1e-12)


def test_parameters_of_an_interaction_are_read_only():
    X, s, c, _ = world(0.5)
    for form in ("proportional", "full"):
        model = JointPLDA(speaker_rank=2, channel_rank=1, interaction=form, tol=1e-2).fit(X, s, channels=c)
        with pytest.raises(ValueError, match="read-only"):
            model.G_[0, 0] = 1.0


def test_kappa_that_maximum_likelihood_loses_is_warned_of():
    """With few speakers for the dimension, V takes the interaction."""
    X, s, c, _ = world(0.8, speakers=60, per_speaker=2, samples=4, d=150, channels=8)
    with pytest.warns(DataWarning, match="where the moments of the data say"):
        model = JointPLDA(interaction="proportional", interaction_prior=(0.4, 0.0), tol=1e-3).fit(X, s, channels=c)
    assert model.interaction_ < 0.2


@pytest.mark.parametrize("form", ["proportional", "full", "split"])
def test_a_belief_is_warned_of(form, recwarn):
    X, s, c, _ = world(0.5, speakers=40, per_speaker=1, samples=4)
    with pytest.warns(DataWarning, match="kappa comes mostly from its prior"):
        JointPLDA(speaker_rank=2, channel_rank=1, interaction=form, tol=1e-3).fit(X, s, channels=c)
    X, s, c, _ = world(0.5, speakers=40)
    recwarn.clear()
    JointPLDA(speaker_rank=2, channel_rank=1, interaction=form, tol=1e-3).fit(X, s, channels=c)
    assert not [one for one in recwarn if "from its prior" in str(one.message)]


def test_a_belief_decides_where_every_speaker_is_in_one_channel():
    """Nothing in such data tells the interaction from the speaker."""
    X, s, c, _ = world(0.5, speakers=200, per_speaker=1, samples=4)
    for belief in (0.2, 0.9):
        model = JointPLDA(
            speaker_rank=None,
            channel_rank=1,
            interaction="proportional",
            interaction_prior=(belief, 400.0),
            speaker_prior=0.01,
        )
        assert model.fit(X, s, channels=c).interaction_ == pytest.approx(belief, rel=0.15)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"interaction": -1.0}, "interaction: expected a number from 0"),
        ({"interaction": "some"}, 'interaction: expected "proportional", "full" or "split"'),
        ({"interaction": "full", "interaction_rank": 9}, "interaction_rank: expected a whole number from 1 to 3"),
        ({"interaction": "full", "interaction_prior": 0.4}, "interaction_prior: expected a pair"),
        ({"interaction": "proportional", "interaction_prior": (-1, 2)}, "interaction_prior: expected a number"),
        ({"interaction": 0.5, "cell_share": 2.0}, "cell_share: expected a number from 0 to 1"),
    ],
)
def test_bad_settings(settings, message):
    X, s, c, _ = world(0.5, speakers=10)
    with pytest.raises(InputError, match=message):
        JointPLDA(speaker_rank=2, channel_rank=1, **settings).fit(X, s, channels=c)
    with pytest.raises(InputError, match="interaction: expected kappa, or G of shape"):
        JointPLDA.from_parameters(np.zeros(3), np.eye(3), None, np.eye(3), interaction=np.eye(4))
