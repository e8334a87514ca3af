"""Training in passes over samples that are not in memory: what is in each chunk, and what is learned from all."""

from jointplda.passes.sources import ArraySource, LabelledChunk, SampleSource
from jointplda.passes.training import fit_in_passes, statistics_in_passes

__all__ = ["ArraySource", "LabelledChunk", "SampleSource", "fit_in_passes", "statistics_in_passes"]
