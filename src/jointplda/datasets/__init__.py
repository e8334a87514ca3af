"""Data that come with the package: embeddings with two labels and more, to try Joint PLDA on."""

from jointplda.datasets.voices import Voices, load_voices

__all__ = ["Voices", "load_voices"]
