"""The vocabulary of a tokenizer in clusters: 0 ends a turn, 1 is numbers, the rest k-means over embeddings.

Light to import: `run_clustering` works in a process of its own, `load_clustering` reads its result.
`pipeline.cluster_vocabulary` works in the calling process, with all its imports.
"""

from tasks.gpu.clustering.artifacts import Clustering, ClusteringError
from tasks.gpu.clustering.loading import load_clustering
from tasks.gpu.clustering.process import run_clustering

__all__ = ["Clustering", "ClusteringError", "load_clustering", "run_clustering"]
