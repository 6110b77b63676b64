"""Cluster the vocabulary of a run's target, once, and carry its labels to the store and to the server's folder."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from celery import shared_task

from tasks.common.files import write_atomic
from tasks.common.validation import ContentKey, Count, RunId
from tasks.gpu import host
from tasks.gpu.clustering.artifacts import ClusteringError
from tasks.gpu.clustering.process import run_clustering
from tasks.gpu.prompt import load_early
from tasks.gpu.sentence_ends import sentence_ends
from tasks.job import Job, JobTask, run_job
from tasks.records import Sides
from tasks.store.keys import PROGRESS
from tasks.task import raise_if_cancelled

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
    """The inverse of `pack_labels`: [V] uint8 or uint16."""
    import numpy as np

    labels: NDArray[np.integer] = np.load(io.BytesIO(zlib.decompress(packed)), allow_pickle=False)
    return labels


def write_labels(packed: bytes, clustering: str, folder: Path) -> Path:
    """Write `<clustering>.npy` into the server's folder; of one that exists, record the use."""
    path = folder / f"{clustering}.npy"
    try:
        os.utime(path)  # `orchestrator gc` removes those that nothing has used for long
    except FileNotFoundError:
        write_atomic(path, zlib.decompress(packed))  # several tasks of one worker may do so at the same time
    return path


def cluster(job: Job) -> dict[str, Any]:
    """Cluster the vocabulary, in a process of its own, and put the result into the store under its content hash.

    The argument `sides` is the content key of the answers from which clusters by waste are made.  The run holds what
    this makes; whether it is the clustering of the run is for the driver to say.
    """
    # Imported here: numpy is for a worker that clusters.
    from tasks.gpu.clustering.loading import load_clustering

    store, run, worker = job.store, job.run, host.current()
    settings = store.run(run)

    def progress(stage: str, done: int, total: int) -> None:
        raise_if_cancelled(store, run)
        store.put_metadata(run, PROGRESS, json.dumps({"stage": stage, "done": done, "total": total}))
        store.notify(run)

    sides, embedder, device = None, "", "cpu"
    if settings.clusters.by == "waste":
        [answers] = job.results([job.arguments["sides"]])
        sides = Sides(tuple(answers["verbose"]), tuple(answers["short"]))
    else:
        embedder, device = worker.embedder(settings.clusters.embedder), settings.clusters.device
    model = worker.model_folder(settings.target)
    clusters = dataclasses.replace(settings.clusters, folder=worker.clusters_folder(settings.clusters.folder))
    load_early(model)  # the answers need both next
    worker.start_early(settings.target)
    folder = retry_without_server(
        lambda: run_clustering(model, clusters, embedder, progress, worker.environment(device), sides), worker, device
    )
    clustering = load_clustering(folder)
    descriptions = json.dumps(clustering.descriptions, ensure_ascii=False)
    labels, ends = pack_labels(clustering.labels), pack_labels(sentence_ends(model))
    store.clusterings.put(run, clustering.hash, labels, descriptions, clustering.figures, ends)
    return {"clustering": clustering.hash}


def retry_without_server(make: Callable[[], Path], worker: host.TargetHost, device: str) -> Path:
    """What `make` returns.  If it fails on a GPU, the target server is stopped first and it is tried once more.

    A GPU may be too small for the server and the embedder at once.
    """
    try:
        return make()
    except ClusteringError:
        if not device.startswith("cuda"):
            raise
        worker.stop()
        return make()


@shared_task(name="gpu.cluster", base=JobTask)
def cluster_task(run: RunId, key: ContentKey, attempt: Count) -> None:
    run_job((run, key, attempt), cluster)
