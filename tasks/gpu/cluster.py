"""Clustering the vocabulary of a run's target, once, in a process of its own on the gpu queue."""

from __future__ import annotations

import dataclasses
import json

from celery import shared_task

from tasks import context
from tasks.gpu import host, labels
from tasks.gpu.clustering.process import run_clustering
from tasks.gpu.prompt import load_early
from tasks.message import RunId
from tasks.store.lock import claim
from tasks.task import go_on


@shared_task(name="gpu.cluster")
def cluster_task(run: RunId) -> str:
    """The content hash of the clustering, which is in the store afterwards.  Raises: ClusteringError."""
    # Here: it needs joblib and numpy, and what never clusters need not load them.
    from tasks.gpu.clustering.artifacts import load_clustering

    store = context.store_of(run)
    settings = store.run(run)
    here = host.current()

    def progress(stage: str, done: int, total: int) -> None:
        go_on(store, run)
        store.put_metadata(run, "progress", json.dumps({"stage": stage, "done": done, "total": total}))
        store.notify(run)

    load_early(here.model_folder(settings.target))  # the questions come next
    clusters = dataclasses.replace(settings.clusters, folder=here.clusters_folder(settings.clusters.folder))
    with claim(store.redis, f"{run}:cluster"):
        folder = run_clustering(
            here.model_folder(settings.target),
            clusters,
            here.embedder(settings.clusters.embedder),
            progress,
            here.environment(settings.clusters.device),
        )
        clustering = load_clustering(folder)
        packed = labels.pack(clustering.labels)
        descriptions = json.dumps(clustering.descriptions, ensure_ascii=False)
        store.put_clustering(run, clustering.hash, packed, descriptions)
        store.put_metadata(run, "clustering", clustering.hash)
    store.notify(run)
    return clustering.hash
