"""Clustering the vocabulary of a run's target, once, in a process of its own on the gpu queue."""

from __future__ import annotations

import json
from pathlib import Path

from celery import shared_task

from tasks import context
from tasks.gpu import host, labels
from tasks.gpu.clustering import load_clustering, run_clustering
from tasks.once import claim


@shared_task(name="gpu.cluster")
def cluster_task(run: str) -> str:
    """The content hash of the clustering, which is in the store afterwards.  Raises: ClusteringError."""
    store = context.store()
    settings = store.run(run)
    here = host.current()

    def progress(stage: str, done: int, total: int) -> None:
        store.put_fact(run, "progress", json.dumps({"stage": stage, "done": done, "total": total}))
        store.wake(run)

    with claim(store.redis, f"{run}:cluster"):
        folder = run_clustering(
            tokenizer=here.model_folder(settings.target),
            embedder=here.embedder(settings.clusters.embedder),
            clusters=settings.clusters,
            on_progress=progress,
        )
        clustering = load_clustering(Path(folder))
        packed = labels.pack(clustering.labels)
        descriptions = json.dumps(clustering.descriptions, ensure_ascii=False)
        store.put_clustering(run, clustering.hash, packed, descriptions)
        store.put_fact(run, "clustering", clustering.hash)
    store.wake(run)
    return clustering.hash
