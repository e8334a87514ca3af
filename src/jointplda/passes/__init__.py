"""Training in passes over samples that are not in memory: what is in each chunk, and what is learned from all."""
