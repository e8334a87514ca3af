"""Data that come with the package: embeddings with labels of speakers and of conditions, to try Joint PLDA on."""

from jointplda.datasets.voices import Voices, load_voices

__all__ = ["Voices", "load_voices"]
