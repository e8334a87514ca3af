"""The sampled solver against one dense Gaussian over all samples and latents, and fits by it against exact ones."""

from dataclasses import replace

import numpy as np
import pytest

from jointplda import JointPLDA, TooLargeError
from jointplda.model.coupled import krylov, sampled, spectrum
from jointplda.model.coupled.sampled import SampledSolver
from jointplda.model.em import run_em, standard_error
from jointplda.model.estep import solve, summed_moments
from jointplda.model.layout import lay_out
from jointplda.model.mstep import NoiseModel, Prior
from oracles.dense import DenseModel
from worlds.designs import DESIGNS, draw, draw_parameters, relative, start_at_random, statistics_of, world

CASES = [
    (name, order)
    for name, (_, _, _, levels, missing) in DESIGNS.items()
    for order in (range(len(levels)) if len(levels) > 1 and missing < 1.0 else ())
]


def complete(layout):
    """The layout with probes whose outer products add up to the identity, so that nothing is left to chance."""
    n = layout.solver.probes.shape[1]
    directions = np.linalg.qr(np.random.default_rng(5).normal(size=(n, n)))[0]
    return replace(layout, solver=replace(layout.solver, probes=np.sqrt(n) * directions))


@pytest.mark.parametrize("name, order", CASES)
@pytest.mark.parametrize("leading", ["all eigenvectors", "a few"])
def test_likelihood_and_moments_with_a_complete_set_of_probes(name, order, leading, monkeypatch):
    monkeypatch.setattr(sampled, "DRAW_TOLERANCE", 1e-13)
    if leading == "a few":
        monkeypatch.setattr(spectrum, "FEW_LEVELS", 2)
        monkeypatch.setattr(spectrum, "LEADING", 2)
    X, columns, parameters = draw(name, seed=1)
    statistics = statistics_of(X, columns)
    layout = complete(lay_out(statistics, parameters.ranks, order, solver="sampled"))
    assert isinstance(layout.solver, SampledSolver)
    solution = solve(layout, parameters)
    moments = summed_moments(layout, parameters, solution)
    dense = DenseModel(parameters.mean, parameters.loadings, parameters.noise, columns)
    R, T = dense.moments(X)
    T -= np.outer(R[:, -1], statistics.shift)
    assert solution.log_likelihood == pytest.approx(dense.log_likelihood(X), rel=1e-9)
    assert relative(moments.R, R) < 1e-8
    assert relative(moments.T, T) < 1e-8
    z, covariance = dense.posterior(X)
    for k, level in enumerate(moments.levels):
        second = sum(np.outer(z[span], z[span]) + covariance[span, span] for span in dense.spans[k])
        assert relative(level.second, second) < 1e-8


@pytest.mark.parametrize("name, order", CASES)
def test_means_and_covariances_asked_for(name, order):
    X, columns, parameters = draw(name, seed=2)
    statistics = statistics_of(X, columns)
    layout = lay_out(statistics, parameters.ranks, order, solver="sampled")
    solution = solve(layout, parameters)
    dense = DenseModel(parameters.mean, parameters.loadings, parameters.noise, columns)
    z, covariance = dense.posterior(X)
    levels, rows = [], []
    for i, k in enumerate(layout.links.factors):
        for b, label in enumerate(statistics.labels[k]):
            row = dense.spans[k][dense.names[k].index(("shared", label))]
            assert solution.coupled.means[i][b] == pytest.approx(z[row], rel=1e-8, abs=1e-10)
            levels.append((k, b))
            rows.append(np.arange(len(z))[row])
    every = np.concatenate(rows)
    assert relative(solution.coupled.joint_covariance(), covariance[np.ix_(every, every)]) < 1e-8
    left, right = np.concatenate(rows[::-2]), np.concatenate(rows[:2])
    found = solution.coupled.covariance(levels[::-2], levels[:2])
    assert np.abs(found - covariance[np.ix_(left, right)]).max() < 1e-8


FITS = {
    "crossed": dict(channels=6),
    "two channels": dict(channels=12, each=2),
    "one channel": dict(channels=12, each=1),
    "uneven counts": dict(channels=12, each=3, uneven=True),
    "missing labels": dict(channels=8, each=3, missing=0.2),
    "two conditions": dict(channels=8, each=3, second=5),
}


def samples(rng, channels, each=None, uneven=False, missing=0.0, second=0):
    speakers, d = 60, 8
    counts = rng.integers(2, 20, speakers) if uneven else np.full(speakers, 6)
    s = np.repeat(np.arange(speakers), counts)
    heard = np.stack([rng.permutation(channels)[: each or channels] for _ in range(speakers)])
    labels = [heard[s, rng.integers(0, heard.shape[1], len(s))]]
    labels += [rng.integers(0, second, len(s))] if second else []
    X = rng.normal(size=(len(s), d)) + (rng.normal(size=(speakers, d)) @ rng.normal(size=(d, d)))[s]
    for column in labels:
        X += (rng.normal(size=(column.max() + 1, 2)) @ rng.normal(size=(2, d)))[column]
    columns = [[None if rng.random() < missing else v for v in column.tolist()] for column in labels]
    return X, s, np.array(columns, dtype=object).T


@pytest.mark.filterwarnings("ignore:EM did not converge")
@pytest.mark.parametrize("interaction", [0.0, "proportional", "full"])
@pytest.mark.parametrize("name", FITS)
def test_fits_agree_with_exact_ones(name, interaction):
    rng = np.random.default_rng([3, *name.encode()])
    X, s, c = samples(rng, **FITS[name])
    settings = dict(channel_rank=2, interaction=interaction, max_iter=40, tol=0.0)
    exact = JointPLDA(**settings, solver="exact").fit(X, s, channels=c)
    other = JointPLDA(**settings, solver="sampled").fit(X, s, channels=c)
    assert (exact.plan_.solver, other.plan_.solver) == ("exact", "sampled")
    assert abs(exact.score(X, s, channels=c) - other.score(X, s, channels=c)) < 5e-4
    difference = np.abs(exact.score_matrix(X[:50], X[50:90]) - other.score_matrix(X[:50], X[50:90]))
    assert np.median(difference) < 0.02
    again = JointPLDA(**settings, solver="sampled").fit(X, s, channels=c)
    for a, b in zip((other.V_, other.U_, other.D_), (again.V_, again.U_, again.D_)):
        assert a.tobytes() == b.tobytes()


def test_the_standard_error_is_that_of_the_log_likelihood():
    """Over many sets of probes, estimates scatter around the exact value as the standard error says."""
    X, columns, parameters = draw("two conditions", seed=4)
    statistics = statistics_of(X, columns)
    exact = solve(lay_out(statistics, parameters.ranks, 0), parameters).log_likelihood
    layout = lay_out(statistics, parameters.ranks, 0, solver="sampled")
    away = []
    for seed in range(200):
        signs = np.random.default_rng(seed).choice([-1.0, 1.0], layout.solver.probes.shape)
        found = solve(replace(layout, solver=replace(layout.solver, probes=signs)), parameters).log_likelihoods
        away.append((found.mean() - exact) / standard_error(found))
    assert abs(np.mean(away)) < 0.25
    assert 0.8 < np.std(away) < 1.3


def test_em_by_sampling_says_how_far_its_likelihood_may_be_off():
    rng = np.random.default_rng(6)
    X, s, c, _ = world(rng, 6, (3, 2), 80, 20, 500, 3)
    statistics = statistics_of(X, [s.tolist(), c.tolist()])
    noise = NoiseModel(False, 1e-6 * statistics.scales)
    start = start_at_random(statistics, (3, 2), noise, rng)
    layout = lay_out(statistics, (3, 2), 0, solver="sampled")
    found = run_em(layout, start, prior=Prior(), noise=noise, max_iter=300, tol=1e-5)
    exact = solve(lay_out(statistics, (3, 2), 0), found.parameters).log_likelihood / len(X)
    assert found.converged
    assert 0.0 < found.standard_error < 1e-3
    assert abs(found.log_likelihoods[-1] - exact) < 5.0 * found.standard_error
    unlimited = run_em(layout, found.parameters, prior=Prior(), noise=noise, max_iter=100, tol=0.0)
    assert unlimited.log_likelihoods[-1] - found.log_likelihoods[-1] < 1e-3


def operator(seed):
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.normal(size=(30, 30)))[0]
    values = rng.uniform(0.05, 4.0, 30)
    return lambda Y: Y @ (Q * values) @ Q.T, (Q * values) @ Q.T, (Q * values**-0.5) @ Q.T, (Q * np.log(values)) @ Q.T


def test_systems_roots_and_logs_of_an_operator():
    A, full, root, log = operator(0)
    B = np.random.default_rng(1).normal(size=(4, 30))
    np.testing.assert_allclose(krylov.conjugate_gradients(A, B, 1e-13), np.linalg.solve(full, B.T).T, rtol=1e-9)
    found = krylov.inverse_roots(A, B, 1e-12)
    np.testing.assert_allclose(found.roots, B @ root, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(found.logs, np.sum((B @ log) * B, axis=1), rtol=1e-9)


def test_what_cannot_be_solved_is_refused(monkeypatch):
    B = np.ones((1, 3))
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        krylov.inverse_roots(lambda Y: Y * np.array([1.0, 2.0, -1.0]), B, 1e-10)
    monkeypatch.setattr(krylov, "MOST_STEPS", 2)
    with pytest.raises(np.linalg.LinAlgError, match="more than 2 steps"):
        krylov.conjugate_gradients(lambda Y: Y * np.array([1.0, 2.0, 3.0]), B, 1e-14)
    with pytest.raises(np.linalg.LinAlgError, match="more than 2 steps"):
        krylov.inverse_roots(lambda Y: Y * np.array([1.0, 2.0, 3.0]), B, 1e-14)


def fit(seed=0, **settings):
    rng = np.random.default_rng(seed)
    X, s, c = samples(rng, 12, each=3)
    return JointPLDA(channel_rank=2, solver="sampled", **settings).fit(X, s, channels=c)


def test_an_interrupt_inside_a_solve_keeps_the_last_iteration(monkeypatch):
    calls = []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == 4:  # the start, two iterations, and in the middle of the third
            raise KeyboardInterrupt
        return krylov.conjugate_gradients(*arguments)

    monkeypatch.setattr(sampled, "conjugate_gradients", interrupted)
    with pytest.warns(match="EM was interrupted after 2 iteration"):
        model = fit(max_iter=10)
    monkeypatch.undo()
    with pytest.warns(match="EM did not converge"):
        two = fit(max_iter=2)
    assert model.interrupted_
    assert model.V_.tobytes() == two.V_.tobytes()
    assert model.log_likelihoods_.tobytes() == two.log_likelihoods_.tobytes()


def test_a_gain_that_the_draws_leave_uncertain_is_no_convergence(monkeypatch):
    """With so large an error of every gain EM never says that it has converged, and the warning says why."""
    monkeypatch.setattr("jointplda.model.em.standard_error", lambda estimates: 1.0)
    with pytest.warns(match="the draws of the sampled solver leave that uncertain"):
        model = fit(max_iter=60, tol=1e-3)
    assert not model.converged_
    assert model.fitted_.trace.standard_error == pytest.approx(1.0 / 360)


def test_a_system_beyond_memory_is_refused_before_the_work(monkeypatch):
    monkeypatch.setattr("jointplda.model.plan.physical_memory", lambda: 1e4)
    with pytest.raises(TooLargeError, match=r"Lower the ranks, or merge rare channels"):
        fit()


def unequal(seed, frequent=6, rare=40, d=6, weights=None):
    """Channels of hundreds of samples beside channels of two, which vary little from one another."""
    rng = np.random.default_rng(seed)
    c = np.concatenate([rng.integers(0, frequent, 400 * frequent), frequent + np.repeat(np.arange(rare), 2)])
    s = rng.integers(0, 150, len(c))
    X = rng.normal(size=(150, d))[s] + 0.3 * (rng.normal(size=(frequent + rare, 3)) @ rng.normal(size=(3, d)))[c]
    return X + rng.normal(size=X.shape), s, c


def test_rare_channels_beside_frequent_ones_are_exact_with_a_complete_set_of_probes(monkeypatch):
    monkeypatch.setattr(sampled, "DRAW_TOLERANCE", 1e-13)
    X, s, c = unequal(0, frequent=3, rare=12, d=4)
    other = np.random.default_rng(1).integers(0, 4, len(s)).astype(object)
    other[::5] = None
    for columns, ranks in (([c], (3, 2)), ([c, other], (3, 2, 1))):
        parameters = draw_parameters(np.random.default_rng(2), 4, ranks)
        statistics = statistics_of(X, [s.tolist(), *(column.tolist() for column in columns)])
        layout = complete(lay_out(statistics, ranks, 0, solver="sampled"))
        assert len(layout.solver.spectra[1].rare) == 12
        exact = lay_out(statistics, ranks, 0, solver="exact")
        found, expected = solve(layout, parameters), solve(exact, parameters)
        assert found.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-11)
        moments, other_moments = (
            summed_moments(one, parameters, solution) for one, solution in ((layout, found), (exact, expected))
        )
        assert relative(moments.R, other_moments.R) < 1e-9
        for a, b in zip(moments.levels, other_moments.levels):
            assert relative(a.second, b.second) < 1e-9


@pytest.mark.filterwarnings("ignore:EM did not converge")
@pytest.mark.parametrize("seed", range(3))
def test_fits_of_channels_of_unequal_size_agree_with_exact_ones(seed):
    X, s, c = unequal(seed)
    fits = [JointPLDA(channel_rank=4, max_iter=15, tol=0.0, solver=solver).fit(X, s, channels=c)
            for solver in ("exact", "sampled")]  # fmt: skip
    exact, other = (model.fitted_.trace.log_likelihoods[-1] for model in fits)
    assert len(fits[1].log_likelihoods_) == 15
    assert abs(fits[0].score(X, s, channels=c) - fits[1].score(X, s, channels=c)) < 5e-4
    assert abs(exact - other) < 6.0 * fits[1].fitted_.trace.standard_error
    assert relative(fits[1].U_ @ fits[1].U_.T, fits[0].U_ @ fits[0].U_.T) < 0.1


def test_draws_are_doubled_where_they_show_no_gain(monkeypatch):
    """From the optimum of exact EM, few draws lead away: EM takes more of them before it stops."""
    rng = np.random.default_rng(8)
    X, s, c = samples(rng, 30, each=2)
    statistics = statistics_of(X, [s.tolist(), c[:, 0].tolist()])
    noise = NoiseModel(False, 1e-6 * statistics.scales)
    exact = lay_out(statistics, (8, 8), 0, solver="exact")
    best = run_em(
        exact, start_at_random(statistics, (8, 8), noise, rng), prior=Prior(), noise=noise, max_iter=300, tol=1e-7
    )
    layout = lay_out(statistics, (8, 8), 0, solver="sampled")
    drawn = []
    roots = krylov.inverse_roots
    monkeypatch.setattr(sampled, "inverse_roots", lambda A, z, t: drawn.append(len(z)) or roots(A, z, t))
    found = run_em(layout, best.parameters, prior=Prior(), noise=noise, max_iter=60, tol=0.0)
    assert not found.converged
    assert set(drawn) >= {8, 16}
    first = layout.solver.probes
    assert np.array_equal(layout.solver.refined.probes[:8], first)
    assert replace(layout.solver, probes=np.ones((64, 3))).refined is None


def test_a_probe_that_is_done_early_waits_for_the_others():
    """An eigenvector spans its space after one step, and zeros of its remainder must not spread."""
    values = np.array([0.5, 2.0, 3.0, 7.0])
    B = np.array([[0.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]])
    found = krylov.inverse_roots(lambda Y: Y * values, B, 1e-14)
    np.testing.assert_allclose(found.roots, B * values**-0.5, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found.logs, B**2 @ np.log(values), rtol=1e-10)


def test_moments_of_too_few_draws_are_drawn_again(monkeypatch):
    """Where an M step fails on what was drawn, EM takes more draws, and at the end stops with the last iteration."""
    from jointplda.model import em

    failed = []

    def m_step(*arguments):
        failed.append(arguments)
        if len(failed) in (3, 4):
            raise np.linalg.LinAlgError("not positive definite")
        return original(*arguments)

    original = em.m_step
    monkeypatch.setattr(em, "m_step", m_step)
    with pytest.warns(match="EM did not converge"):
        model = fit(max_iter=6, tol=0.0)
    assert len(model.log_likelihoods_) == 4  # two of six iterations were spent on twice as many draws
    monkeypatch.setattr(em, "m_step", lambda *arguments: (_ for _ in ()).throw(np.linalg.LinAlgError("never")))
    with pytest.warns(match="lost likelihood to the draws of the sampled solver"):
        assert fit(max_iter=6).n_iter_ == 0


def test_an_interrupt_after_em_keeps_the_model(monkeypatch):
    """Only the posterior of the training channels, which comes after EM, is lost."""

    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("jointplda.estimators.base.training_posterior", interrupted)
    with pytest.warns(match="kept without the posterior of its training channels"):
        model = fit(max_iter=2, tol=1.0)
    assert model.n_iter_ == 1
    assert model.fitted_.training is None
    assert np.isfinite(model.score_matrix(np.ones((2, 8)), np.zeros((3, 8)))).all()
