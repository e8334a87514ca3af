"""Transformers for embeddings before a model; a ``jointplda.Pipeline`` stores them in the file of the model."""

from jointplda.preprocessing.center import Center
from jointplda.preprocessing.lda import LDA
from jointplda.preprocessing.length_norm import LengthNorm
from jointplda.preprocessing.pca import PCA, Reduce

__all__ = ["LDA", "PCA", "Center", "LengthNorm", "Reduce"]
