"""Synthetic voices in eight languages and eight transmissions; ``voices.md`` beside this file describes them."""

from dataclasses import dataclass, fields
from importlib.resources import files
from typing import Self

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Voices:
    """Embeddings of voices, and the labels of each sample.

    Attributes
    ----------
    X : (n, 256) float32
        Speaker embeddings: non-negative, of unit length.
    ids : (n,) str
        The id of each sample.
    voice : (n,) str
        The voice that speaks, which is the speaker label.
    language : (n,) str
        Two-letter code of the language spoken.
    transmission : (n,) str
        The transmission that the sound went through: clean, telephone, gsm, codec2, opus, mp3, room or noise.
    split : (n,) str
        "train" or "test". No voice is in both.
    """

    X: NDArray[np.float32]
    ids: NDArray[np.str_]
    voice: NDArray[np.str_]
    language: NDArray[np.str_]
    transmission: NDArray[np.str_]
    split: NDArray[np.str_]

    def __len__(self) -> int:
        return len(self.X)

    def __repr__(self) -> str:
        return f"<Voices: {len(self)} samples of {len(np.unique(self.voice))} voices>"

    def train(self) -> Self:
        """The training samples: every voice in one or two transmissions."""
        return self.where(self.split == "train")

    def test(self) -> Self:
        """The test samples: other voices, each in all transmissions."""
        return self.where(self.split == "test")

    def where(self, rows: NDArray[np.bool_]) -> Self:
        """The samples that a mask of shape (n,) marks."""
        return type(self)(*(getattr(self, field.name)[rows] for field in fields(self)))


def load_voices() -> Voices:
    """Load the bundled embeddings of synthetic voices.

    Each training voice is heard in one transmission, or in two; each test voice in all eight. PLDA trained on these
    voices takes part of the transmission for the voice. Joint PLDA is given the transmissions as channels, and does
    not.

    Returns
    -------
    Voices
        All samples, the training samples first.

    Examples
    --------
    >>> from jointplda.datasets import load_voices
    >>> voices = load_voices()
    >>> train, test = voices.train(), voices.test()
    >>> train, test
    (<Voices: 1356 samples of 113 voices>, <Voices: 1440 samples of 45 voices>)
    >>> train.X.shape, train.X.dtype
    ((1356, 256), dtype('float32'))
    """
    source = files("jointplda.datasets") / "voices.npz"
    with source.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
        X = stored["embeddings"].astype(np.float32)
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        return Voices(X, *(stored[name] for name in ("ids", "voice", "language", "transmission", "split")))
