"""The picture in the README: what PLDA and Joint PLDA take for the speaker, in two dimensions.

    python examples/picture.py docs/images/what-it-does.svg

Drawn from a known model with one speaker direction and one language direction; every training speaker is heard
in one language. Needs matplotlib.
"""

import sys

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from jointplda import PLDA, JointPLDA
from jointplda._typing import Array

LANGUAGES = ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377"]


def ellipse(axes: Axes, covariance: Array, color: str, label: str, style: str = "-") -> None:
    """Two standard deviations of a covariance, around the middle."""
    values, vectors = np.linalg.eigh(covariance)
    angle = np.linspace(0.0, 2.0 * np.pi, 200)
    line = 2.0 * (vectors * np.sqrt(np.maximum(values, 2e-3))) @ np.stack([np.cos(angle), np.sin(angle)])
    axes.plot(*line, color=color, linestyle=style, linewidth=2.2, label=label)


def main(path: str) -> None:
    """Draw the world, fit both models, and write the picture."""
    V, U = np.array([[0.9], [0.35]]), np.array([[-0.35], [1.9]])
    truth = JointPLDA.from_parameters(np.zeros(2), V, U, np.eye(2) / 0.06)
    rng = np.random.default_rng(4)
    home = np.tile(np.arange(len(LANGUAGES)), 20)
    speakers = np.repeat(np.arange(len(home)), 6)
    languages = home[speakers]
    X = truth.sample(speakers, channels=languages, random_state=rng)
    X -= X.mean(axis=0)
    plain = PLDA(speaker_rank=2).fit(X, speakers)
    joint = JointPLDA(speaker_rank=1, channel_rank=1).fit(X, speakers, channels=languages)
    mpl.rcParams.update({"svg.fonttype": "none", "font.family": "sans-serif", "svg.hashsalt": "jointplda"})
    figure = Figure(figsize=(8.2, 4.6), layout="constrained")
    titles = ["PLDA: the language counts as identity", "Joint PLDA: the speaker alone"]
    for axes, title, model in zip(figure.subplots(1, 2, sharey=True), titles, [plain, joint], strict=True):
        for language, color in enumerate(LANGUAGES):
            rows = languages == language
            axes.scatter(*X[rows][::2].T, s=10, color=color, alpha=0.6, linewidths=0)
        ellipse(axes, model.V_ @ model.V_.T, "black", "what it takes for the speaker, V V'")
        ellipse(axes, V @ V.T, "#cc3311", "the true speaker direction", "--")
        axes.set_title(title, fontsize=12)
        axes.set_aspect("equal")
        axes.set_ylim(X[:, 1].min() - 1.6, X[:, 1].max() + 0.4)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.legend(loc="lower left", fontsize=8, frameon=False)
        for side in axes.spines.values():
            side.set_color("#bbbbbb")
    figure.supxlabel("a dot is a sample, a colour a language; every speaker is heard in one language", fontsize=9)
    figure.savefig(path, metadata={"Date": None, "Creator": None}, facecolor="white")


if __name__ == "__main__":
    main(sys.argv[1])
