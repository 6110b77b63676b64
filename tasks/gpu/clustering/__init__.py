"""The vocabulary of a tokenizer in clusters: 0 ends a turn, 1 is numbers, the rest k-means over embeddings.

Light to import: `run_clustering` does it in a process of its own, `load_clustering` reads what that wrote.  In this
process, and with all that it imports, `pipeline.cluster_vocabulary` does it.
"""

from tasks.gpu.clustering.artifacts import Clustering, load_clustering
from tasks.gpu.clustering.errors import ClusteringError
from tasks.gpu.clustering.process import run_clustering

__all__ = ["Clustering", "ClusteringError", "load_clustering", "run_clustering"]
