"""Speed and memory of scoring, as ratios within one run over bare NumPy products, on two threads.

python -m benchmarks.score
python -m benchmarks.score --store  (a matrix of 30,000 x 30,000 on disk alone, which takes 11 GB there)
"""

import os
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from benchmarks.draw import draw_parameters
from benchmarks.score_store import large_matrices
from benchmarks.timing import report, seconds, summary
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from threadpoolctl import threadpool_limits

from jointplda import PLDA, JointPLDA
from jointplda.calibration import AffineCalibration
from jointplda.commands import app

D, RY, RX, THREADS = 256, 100, 20, 2


def resident():
    """Resident memory of this process in bytes, files it has mapped not counted."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return 1024.0 * float(fields["RssAnon"].split()[0])


def peak_of(call):
    """Peak resident memory during a call, over that before it."""
    before, peak, done = resident(), [0.0], threading.Event()

    def watch():
        while not done.is_set():
            peak[0] = max(peak[0], resident())
            time.sleep(0.005)

    watcher = threading.Thread(target=watch)
    watcher.start()
    call()
    done.set()
    watcher.join()
    return peak[0] - before


def matrices(model, plain, rng):
    E, T = (rng.normal(size=(n, D)).astype(np.float32) for n in (4_000, 10_000))
    prepared = model.prepare(E), model.prepare(T)
    bare, joint, ready, plda = seconds(
        lambda: E @ T.T,
        lambda: model.score_matrix(E, T, threads=THREADS),
        lambda: model.score_matrix(*prepared, threads=THREADS),
        lambda: plain.score_matrix(E, T, threads=THREADS),
        rounds=7,
    )
    print(f"\n4,000 x 10,000 in float32: bare product {1e3 * bare:.0f} ms, Joint PLDA {1e3 * joint:.0f} ms")
    report("Joint PLDA score matrix, channels averaged over, over a bare product", joint / bare, 4)
    report("the same with both sides prepared before", ready / bare, 4)
    report("PLDA score matrix over a bare product", plda / bare, 2)


def interactions(rng):
    """The score matrix of a model with an interaction over the same without one."""
    E, T = (rng.normal(size=(n, D)).astype(np.float32) for n in (4_000, 10_000))
    print()
    for name, rank, limit in (("as many columns as dimensions", D, 1.05), (f"{RY} columns", RY, 1.6)):
        p = draw_parameters(rng, D, rank, RX)
        models = [
            JointPLDA.from_parameters(p.mean, *p.loadings, np.linalg.inv(p.noise), interaction=kappa)
            for kappa in (0.0, 0.5)
        ]
        plain, interacting = seconds(
            *(lambda model=model: model.score_matrix(E, T, threads=THREADS) for model in models), rounds=9
        )
        report(f"score matrix with an interaction over one without, V of {name}", interacting / plain, limit)


def accuracy(model, rng):
    """What float32 loses on samples of the model itself."""
    speakers, channels = rng.integers(0, 50, 600), rng.integers(0, 6, 600)
    X = model.sample(speakers, channels=channels, random_state=rng)
    exact = model.score_matrix(X[:300], X[300:])
    close = model.score_matrix(X[:300].astype(np.float32), X[300:].astype(np.float32))
    error = np.abs(close - exact)[np.abs(exact) <= 100].max()
    report("largest float32 error where |LLR| <= 100, in thousandths of a nat", 1e3 * error, 1)


def trials(model, rng):
    E, T = (rng.normal(size=(n, D)).astype(np.float32) for n in (4_000, 10_000))
    pairs = np.column_stack([rng.integers(0, len(E), 1_000_000), rng.integers(0, len(T), 1_000_000)])
    i, j = pairs.T
    bare, ours = seconds(
        lambda: np.einsum("nd,nd->n", E[i], T[j]), lambda: model.score_trials(E, T, pairs, threads=THREADS), rounds=3
    )
    print(f"\n1,000,000 listed trials: einsum {bare:.2f} s, here {ours:.2f} s")
    report("listed trials over einsum of the same rows", ours / bare, 3)


def enrollments(model, rng):
    X, T = (rng.normal(size=(n, D)).astype(np.float32) for n in (50_000, 5_000))
    models = np.repeat(np.arange(10_000), 5)
    channels = np.concatenate([rng.permutation([0, 1, 2, *rng.integers(0, 3, 2)]) for _ in range(10_000)])
    first = X[:10_000]
    bare, ours = seconds(
        lambda: first @ T.T, lambda: model.score_enrollment(model.enroll(X, models, channels=channels), T), rounds=3
    )
    print(f"\n10,000 models of 5 samples in 3 channels, 5,000 tests: bare {bare:.2f} s, here {ours:.2f} s")
    report("enrolling and scoring over a bare product of that size", ours / bare, 10)


def partitions(model, rng):
    """What a beam loses, measured where the sum over partitions can still be had."""
    speakers, channels = np.repeat(np.arange(10), 8), rng.integers(0, 3, 80)
    X = model.sample(speakers, channels=channels, random_state=rng)
    T = model.sample(np.arange(20), channels=np.arange(20) % 4, random_state=rng)
    enrollment = model.enroll(X, speakers)
    exact = model.score_enrollment(enrollment, T)
    print("\n8 samples a model in unknown channels: 4,140 partitions; largest error of a beam, nats")
    for beam in (10, 100, 200, 1000):
        error = np.abs(model.score_enrollment(enrollment, T, beam=beam) - exact).max()
        print(f"     beam {beam:>5}: {error:.2g}")


def single_pairs(model, rng):
    """What a call costs beyond the arithmetic: one pair, against one row of a linear classifier."""
    wide = draw_parameters(rng, D, D, D)
    automatic = JointPLDA.from_parameters(wide.mean, *wide.loadings, np.linalg.inv(wide.noise))
    automatic = automatic.with_calibration(AffineCalibration(0.5, 0.1))
    X, y = rng.normal(size=(400, D)), np.repeat([0, 1], 200)
    classifier = LinearDiscriminantAnalysis().fit(X, y)
    enroll, test = X[:1], X[1:2]

    def many(call):
        return lambda: [call() for _ in range(200)]

    reference, plain, chosen = seconds(
        many(lambda: classifier.decision_function(test)),
        many(lambda: model.score_matrix(enroll, test)),
        many(lambda: automatic.score_matrix(enroll, test)),
        rounds=7,
    )
    print(f"\none pair, d {D}: LDA decision_function {5e3 * reference:.0f} us, score_matrix {5e3 * plain:.0f} us")
    report(
        "score_matrix of one pair over LinearDiscriminantAnalysis.decision_function of one row", plain / reference, 5
    )
    report(f"the same where V and U have {D} columns, as in an automatic model", chosen / reference, 5)


def memory(model, rng):
    X = rng.normal(size=(20_000, D)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        peak = peak_of(lambda: model.score_matrix(X, X, out=Path(folder) / "scores.npy", threads=THREADS))
    print("\n20,000 x 20,000 scores (1,600 MB) written to disk")
    report("peak extra memory, MB", peak / 1e6, 400)


def all_pairs(model, rng):
    """The command that writes all scores, over computing them in memory and writing the same bytes to disk."""
    X = rng.normal(size=(10_000, D)).astype(np.float32)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model.save(folder / "model")
        np.savez(folder / "X.npz", embeddings=X, ids=np.arange(len(X)).astype(str))
        files = [str(folder / "model"), "--enroll", str(folder / "X.npz"), "--out", str(folder / "scores.npy")]

        def plain():
            (folder / "plain").unlink(missing_ok=True)
            scores = model.score_matrix(X, X, threads=THREADS)
            with open(folder / "plain", "wb") as file:
                scores.tofile(file)
                os.fsync(file.fileno())

        def command():
            (folder / "scores.npy").unlink(missing_ok=True)
            app(args=["score", *files, "--all", "--force", "--quiet"], standalone_mode=False)

        bare, ours = seconds(plain, command, rounds=5)
    print(f"\n10,000 x 10,000 in float32: score_matrix and writing {bare:.2f} s, score --all {ours:.2f} s")
    report("score --all over score_matrix and writing the same bytes", ours / bare, 1.5)


def main():
    rng = np.random.default_rng(0)
    p = draw_parameters(rng, D, RY, RX)
    precision = np.linalg.inv(p.noise)
    model = JointPLDA.from_parameters(p.mean, *p.loadings, precision)
    plain = PLDA.from_parameters(p.mean, p.loadings[0], None, precision)
    print(f"Scoring: d {D}, Ry {RY}, Rx {RX}, {THREADS} threads")
    if "--store" in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            large_matrices(model, D, folder)
        return summary()
    with threadpool_limits(THREADS):
        matrices(model, plain, rng)
        interactions(rng)
        accuracy(model, rng)
        trials(model, rng)
        enrollments(model, rng)
        memory(model, rng)
        all_pairs(model, rng)
        single_pairs(model, rng)
        small = draw_parameters(rng, 40, 15, 5)
        partitions(JointPLDA.from_parameters(small.mean, *small.loadings, np.linalg.inv(small.noise)), rng)
    return summary()


if __name__ == "__main__":
    sys.exit(main())
