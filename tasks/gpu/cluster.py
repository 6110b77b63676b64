"""Cluster the vocabulary of a run's target, once, and carry its labels to the store and to the server's folder."""

from __future__ import annotations

import dataclasses
import io
import json
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from celery import shared_task

from tasks import context
from tasks.files import write_atomic
from tasks.gpu import host
from tasks.gpu.clustering.process import run_clustering
from tasks.gpu.prompt import load_early
from tasks.message import Hash, RunId
from tasks.store.lock import hold_lock
from tasks.task import go_on
from tasks.validation import check_value

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def pack_labels(labels: NDArray[np.integer]) -> bytes:
    """Labels as compressed bytes: about 30 kB for 50,000 tokens."""
    import numpy as np

    out = io.BytesIO()
    np.save(out, labels, allow_pickle=False)
    return zlib.compress(out.getvalue(), 9)


def unpack_labels(packed: bytes) -> NDArray[np.integer]:
    """The inverse of `pack_labels`.  Raises: ValueError or zlib.error for anything else."""
    import numpy as np

    labels: NDArray[np.integer] = np.load(io.BytesIO(zlib.decompress(packed)), allow_pickle=False)
    return labels


def write_labels(packed: bytes, clustering: str, folder: Path) -> Path:
    """Write `<clustering>.npy` into the server's folder, unless it exists.  Raises: InvalidData."""
    check_value(Hash, clustering, "the clustering")  # it becomes a file name
    path = folder / f"{clustering}.npy"
    if not path.exists():
        write_atomic(path, zlib.decompress(packed))  # several tasks of one worker may do so at the same time
    return path


@shared_task(name="gpu.cluster")
def cluster_task(run: RunId) -> str:
    """Cluster the vocabulary, in a process of its own, and put the result into the store; its content hash.

    Raises: ClusteringError.
    """
    # Imported here: joblib and numpy are for a worker that clusters.
    from tasks.gpu.clustering.artifacts import load_clustering

    store = context.store_of(run)
    settings = store.run(run)
    worker = host.current()

    def progress(stage: str, done: int, total: int) -> None:
        go_on(store, run)
        store.put_metadata(run, "progress", json.dumps({"stage": stage, "done": done, "total": total}))
        store.notify(run)

    load_early(worker.model_folder(settings.target))  # the answers need it next
    clusters = dataclasses.replace(settings.clusters, folder=worker.clusters_folder(settings.clusters.folder))
    with hold_lock(store.redis, f"{run}:cluster"):
        folder = run_clustering(
            worker.model_folder(settings.target),
            clusters,
            worker.embedder(settings.clusters.embedder),
            progress,
            worker.environment(settings.clusters.device),
        )
        clustering = load_clustering(folder)
        packed = pack_labels(clustering.labels)
        descriptions = json.dumps(clustering.descriptions, ensure_ascii=False)
        store.put_clustering(run, clustering.hash, packed, descriptions)
        store.put_metadata(run, "clustering", clustering.hash)
    store.notify(run)
    return clustering.hash
