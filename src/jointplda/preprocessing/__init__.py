"""Transformers for embeddings before a model; a ``jointplda.Pipeline`` stores them in the file of the model."""

from jointplda.preprocessing.steps import LDA, PCA, Center, LengthNorm, Reduce, Scale, Step, Whiten

__all__ = ["LDA", "PCA", "STEPS", "Center", "LengthNorm", "Reduce", "Scale", "Whiten"]

# Every step that a model file can hold, by the name of its class.
STEPS: dict[str, type[Step]] = {cls.__name__: cls for cls in (Center, LengthNorm, PCA, Reduce, Scale, Whiten, LDA)}
