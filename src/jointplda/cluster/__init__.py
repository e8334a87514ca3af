"""Work on the workers of a Dask cluster: samples are read where the workers are, and what they found is merged."""

from jointplda.cluster.cluster_fits import fit_on_cluster, statistics_on_cluster
from jointplda.cluster.cluster_scores import score_on_cluster
from jointplda.cluster.file_shards import FileShard, file_shards

__all__ = ["FileShard", "file_shards", "fit_on_cluster", "score_on_cluster", "statistics_on_cluster"]
