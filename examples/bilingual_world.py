"""A bilingual world: does a model find who speaks, or which language is spoken?

Speakers and languages are drawn from a known model. Most training speakers are heard in one language, a few in
two. PLDA is told who speaks; Joint PLDA is also told the language. Since the truth is known, what each of them
took for the speaker can be compared with it.

    python examples/bilingual_world.py [--speakers 400] [--languages 12] [--bilingual 0.1] [--seed 0]
"""

import argparse
import sys

import numpy as np
from scipy.linalg import subspace_angles

from jointplda import PLDA, Iteration, JointPLDA
from jointplda._typing import Array

DIMENSION, SPEAKER_RANK, CHANNEL_RANK, SAMPLES = 30, 6, 3, 10
BARS = "▁▂▃▄▅▆▇█"


def make_world(
    rng: np.random.Generator, n_speakers: int, n_languages: int, bilingual: float
) -> tuple[JointPLDA, Array, Array, Array]:
    """The true model, and the samples, speakers and languages to train on."""
    V = rng.normal(size=(DIMENSION, SPEAKER_RANK))
    U = 1.5 * rng.normal(size=(DIMENSION, CHANNEL_RANK))
    A = rng.normal(size=(DIMENSION, DIMENSION)) / np.sqrt(DIMENSION)
    truth = JointPLDA.from_parameters(np.zeros(DIMENSION), V, U, np.linalg.inv(2.0 * A @ A.T + 2.0 * np.eye(DIMENSION)))
    speakers = np.repeat(np.arange(n_speakers), SAMPLES)
    first, second = rng.integers(0, n_languages, n_speakers), rng.integers(0, n_languages, n_speakers)
    speaks_two = rng.random(n_speakers) < bilingual
    use_second = speaks_two[speakers] & (rng.random(len(speakers)) < 0.5)
    languages = np.where(use_second, second[speakers], first[speakers])
    return truth, truth.sample(speakers, channels=languages, random_state=rng), speakers, languages


def show(iteration: Iteration) -> None:
    """One line of progress on stderr, where somebody is looking."""
    if not sys.stderr.isatty():
        return
    sys.stderr.write(f"\r  iteration {iteration.iteration}: {iteration.log_likelihood:.5f} nats per sample ")
    sys.stderr.flush()


def sparkline(values: Array, width: int = 40) -> str:
    """The trace as a row of bars, on a logarithmic scale of what is still missing at the end."""
    missing = np.log10(np.maximum(values[-1] - values, 1e-6))
    chosen = missing[np.unique(np.linspace(0, len(values) - 1, width).round().astype(int))]
    height = (chosen.max() - chosen) / max(np.ptp(chosen), 1e-12)
    return "".join(BARS[round(float(h) * (len(BARS) - 1))] for h in height)


def degrees(A: Array, B: Array) -> str:
    """Principal angles between two subspaces."""
    return " ".join(f"{angle:5.1f}" for angle in np.rad2deg(subspace_angles(A, B)))


def language_share(V: Array, U: Array) -> float:
    """Share of the speaker variance that lies in the language's subspace."""
    basis = np.linalg.qr(U)[0]
    return float(np.sum((basis.T @ V) ** 2) / np.sum(V**2))


def main() -> None:
    """Draw the world, fit both models, and say what they found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--speakers", type=int, default=400)
    parser.add_argument("--languages", type=int, default=12)
    parser.add_argument("--bilingual", type=float, default=0.1, help="share of speakers heard in two languages")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rng = np.random.default_rng(given.seed)
    truth, X, speakers, languages = make_world(rng, given.speakers, given.languages, given.bilingual)
    print(f"{len(X):,} samples of dimension {DIMENSION}: {given.speakers} speakers, {given.languages} languages,")
    print(f"{100 * given.bilingual:.0f} % of the speakers heard in two languages, the others in one.\n")

    settings = {"callback": show, "max_iter": 300}
    plain = PLDA(speaker_rank=SPEAKER_RANK + CHANNEL_RANK, **settings).fit(X, speakers)
    joint = JointPLDA(speaker_rank=SPEAKER_RANK, channel_rank=CHANNEL_RANK, **settings).fit(
        X, speakers, channels=languages
    )
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K")

    print("Log-likelihood of the training data, nats per sample (bars: logarithm of what is still to gain)")
    for name, model in [("PLDA", plain), ("Joint PLDA", joint)]:
        trace = model.log_likelihoods_
        print(f"  {name:<11}{trace[0]:9.4f} {sparkline(trace)} {trace[-1]:9.4f}  {model.n_iter_} iterations")
    true_share = language_share(truth.V_, truth.U_)
    print("\nWhat was taken for the speaker: share of V V' that lies in the space of the languages")
    print(f"  truth      {100 * true_share:5.1f} %    (two spaces drawn at random overlap by chance)")
    print(f"  PLDA       {100 * language_share(plain.V_, truth.U_):5.1f} %")
    print(f"  Joint PLDA {100 * language_share(joint.V_, truth.U_):5.1f} %")
    print("\nAngles between the recovered and the true subspaces, degrees (0: the same)")
    print(f"  speaker: PLDA       {degrees(plain.V_[:, :SPEAKER_RANK], truth.V_)}")
    print(f"  speaker: Joint PLDA {degrees(joint.V_, truth.V_)}")
    print(f"  channel: Joint PLDA {degrees(joint.U_, truth.U_)}")
    error = np.linalg.norm(plain.V_ @ plain.V_.T - truth.V_ @ truth.V_.T) / np.linalg.norm(truth.V_ @ truth.V_.T)
    joint_error = np.linalg.norm(joint.V_ @ joint.V_.T - truth.V_ @ truth.V_.T) / np.linalg.norm(truth.V_ @ truth.V_.T)
    print("\nRelative error of the speaker covariance V V'")
    print(f"  PLDA {error:.2f}    Joint PLDA {joint_error:.2f}")


if __name__ == "__main__":
    main()
