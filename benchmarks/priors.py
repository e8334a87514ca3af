"""Forms of priors, and further factors, compared on embeddings with two labels: how the form in use was chosen.

python -m benchmarks.priors FOLDER

Every form is fitted at four strengths, relative to the data as in ``JointPLDA``; the table has pooled EER in % on test
speakers, the mean over splits, at the best strength of each form. These are sets to develop on: the strength itself is
chosen on training speakers only (``JointPLDACV``).
"""

import argparse
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from benchmarks.accuracy import load, on_one_thread, sets_in
from benchmarks.pages import Told
from examples.splits import split_by_speaker

from jointplda import JointPLDA, Statistics
from jointplda.evaluation.protocol import trials_of
from jointplda.metrics import eer
from jointplda.model.channel_shrinkage import with_channel_priors
from jointplda.model.em import run_em
from jointplda.model.layout import lay_out
from jointplda.model.moment_covariances import moment_covariances
from jointplda.model.mstep import NoiseModel, Prior
from jointplda.model.parameters import Parameters
from jointplda.model.settings import ModelSettings
from jointplda.model.start import make_prior, start_from_moments
from jointplda.preprocessing.front_ends import applied, front_ends_of

STRENGTHS = (0.3, 1.0, 3.0, 10.0)
CELL_STRENGTHS = (1.0, 3.0)  # these fits take long
FORMS = {
    "scaled identity": lambda within, between, total: (np.eye(len(total)), np.eye(len(total))),
    "diagonal": lambda within, between, total: (np.diag(np.diag(within)), np.diag(np.maximum(np.diag(between), 0))),
    "total covariance": lambda within, between, total: (total, total),
    "total covariance for V only": lambda within, between, total: (np.eye(len(total)), total),
    "root of the total covariance for V only": lambda within, between, total: (np.eye(len(total)), root(total)),
}
MORE = (
    "posterior mean instead of mode",
    "and a prior for U as strong as that for V",
    "and a prior of strength 1 for U",
    "and a factor of speaker by channel, rank 5",
)


def root(matrix):
    """The symmetric square root."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T


def positive(matrix, share=0.05):
    """Raise small eigenvalues to a share of the mean one, and scale to a mean of 1."""
    values, vectors = np.linalg.eigh(matrix)
    values = np.maximum(values, share * max(values.mean(), 1e-12))
    return (vectors * (values / values.mean())) @ vectors.T


def fitted(X, speakers, channels, form, strength):
    """Mean, V V', U and D^-1 with targets of a form, each of the same trace as the scaled identities in use."""
    statistics = Statistics.from_samples(X, speakers, channels)
    found = moment_covariances(statistics)
    usual = make_prior(statistics, found, ModelSettings(noise_prior=strength, speaker_prior=strength))
    noise_target, speaker_target = FORMS[form](found.within, found.between[0], statistics.covariance)
    prior = Prior(
        usual.noise_strength,
        usual.noise_scale * positive(noise_target),
        usual.speaker_strength,
        usual.speaker_scale * positive(speaker_target),
    )
    ranks = (X.shape[1], statistics.n_channels[0] - 1)
    noise = NoiseModel(False, 1e-6 * statistics.scales)
    start = start_from_moments(statistics, found, ranks, noise, prior)
    result = run_em(lay_out(statistics, ranks), start, prior=prior, noise=noise, max_iter=25, tol=1e-3)
    V, U = result.parameters.loadings
    return statistics, result.parameters.mean, V @ V.T, U, result.parameters.noise


def changed(more, statistics, strength, B, U, C):
    """The parameters after one of the further changes."""
    d, S, N = len(B), statistics.n_speakers, statistics.n_samples
    if more == MORE[0]:
        for count, name in ((S, "B"), (N, "C")):
            freedom = (1 + strength) * count - d - 1
            factor = ((1 + strength) * count + d + 1) / freedom if freedom > 0 else np.nan
            B, C = (B * factor, C) if name == "B" else (B, C * factor)
    elif more in MORE[1:3]:
        plain = Parameters.of(np.zeros(d), (np.zeros((d, 1)), U), C)
        _, U = with_channel_priors(plain, [strength if more == MORE[1] else 1.0]).loadings
    return B, U, C


def one_split(path, channels, seed):
    """Pooled EER of every form and strength on one split."""
    warnings.simplefilter("ignore")
    train, test = split_by_speaker(load(path), seed, channels_per_speaker=channels)
    steps, X = front_ends_of("auto")[0].fitted(train.X, train.speakers)
    Z = applied(steps, test.X)
    data = trials_of(train, test)
    where = train.channels.values[0]
    found = {}

    def score(model, **settings):
        return 100 * eer(model.score_trials(Z, Z, data.pairs, **settings), data.target)

    for strength in STRENGTHS:
        for form in FORMS:
            statistics, mean, B, U, C = fitted(X, train.speakers, where, form, strength)
            for more in (None, *MORE[:3]) if form == "scaled identity" else (None,):
                B1, U1, C1 = changed(more, statistics, strength, B, U, C)
                name = form if more is None else f"{form}, {more}"
                if np.isfinite(B1).all() and np.isfinite(C1).all():
                    model = JointPLDA.from_parameters(mean, np.linalg.cholesky(B1), U1, np.linalg.inv(C1))
                    found[name, strength] = score(model)
        if channels is not None and channels > 1 and strength in CELL_STRENGTHS:
            cells = np.char.add(np.char.add(train.speakers, " "), where)
            ranks = [len(np.unique(where)) - 1, 5]
            model = JointPLDA(
                channel_rank=ranks, noise_prior=strength, speaker_prior=strength, max_iter=25, tol=1e-3
            ).fit(X, train.speakers, channels=np.column_stack([where, cells]))
            found[f"scaled identity, {MORE[3]}", strength] = score(model, same_channel=[[0.5, 0.5], [0.5, 0.0]])
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=2, help="splits at once")
    parser.add_argument("--page", type=Path, help="put the table into this page, between its marks")
    arguments = parser.parse_args()
    columns = [(path, channels) for path in sets_in(arguments.folder) for channels in (1, 2, None)]
    with ProcessPoolExecutor(arguments.jobs, initializer=on_one_thread) as pool:
        jobs = {
            (column, seed): pool.submit(one_split, *column, seed)
            for column in columns
            for seed in range(arguments.splits)
        }
        results = {key: job.result() for key, job in jobs.items()}
    told = Told()
    head = " | ".join(f"{path.stem}, {channels or 'all'}" for path, channels in columns)
    told.say("priors", f"{arguments.splits} splits; pooled EER in % (strength at which it is lowest).\n")
    told.say("priors", f"| form | {head} |\n" + "|---" * (1 + len(columns)) + "|")
    forms = dict.fromkeys(form for found in results.values() for form, _ in found)
    for form in forms:
        cells = []
        for column in columns:
            rows = [results[column, seed] for seed in range(arguments.splits)]
            means = {s: np.mean([row[form, s] for row in rows]) for s in STRENGTHS if all((form, s) in r for r in rows)}
            best = min(means, key=means.get, default=None)
            cells.append("-" if best is None else f"{means[best]:.2f} ({best:g})")
        told.say("priors", f"| {form} | " + " | ".join(cells) + " |")
    if arguments.page is not None:
        told.write(arguments.page)


if __name__ == "__main__":
    main()
