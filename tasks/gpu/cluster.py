"""Cluster the vocabulary of a run's target, once, and carry its labels to the store and to the server's folder.

A process of its own does the work, so that the worker has its memory back: `python -m tasks.gpu.cluster`, with its task
as JSON on stdin.
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
import sys
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from celery import Task, shared_task

from tasks.common.child import ChildFailed, ComputeChild, SendReport, run_child, work_as_child
from tasks.common.files import write_atomic
from tasks.gpu.clustering.artifacts import ClusteringError, Progress, cannot_load, load_clustering
from tasks.gpu.clustering.vocabulary import sentence_ends
from tasks.gpu.host import TargetHost, host_of
from tasks.gpu.prompt import load_early, load_tokenizer
from tasks.records import Clusters, Sides
from tasks.store.keys import PROGRESS
from tasks.task import Job, JobTask, raise_if_cancelled, run_job

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def pack_labels(labels: NDArray[np.integer]) -> bytes:
    import numpy as np

    out = io.BytesIO()
    np.save(out, labels, allow_pickle=False)
    return zlib.compress(out.getvalue(), 9)


def unpack_labels(packed: bytes) -> NDArray[np.integer]:
    """[V] uint8 or uint16."""
    import numpy as np

    labels: NDArray[np.integer] = np.load(io.BytesIO(zlib.decompress(packed)), allow_pickle=False)
    return labels


def write_labels(packed: bytes, name: str, folder: Path) -> Path:
    """Write `<name>.npy` into the server's folder; of one that exists, record the use."""
    path = folder / f"{name}.npy"
    try:
        os.utime(path)  # `orchestrator farm gc` removes those that nothing has used for long
    except FileNotFoundError:
        write_atomic(path, zlib.decompress(packed))  # several tasks of one worker may do so at the same time
    return path


def run_clustering(
    tokenizer: str | Path,
    clusters: Clusters,
    embedder: str | Path,
    on_progress: Progress = lambda *_: None,
    environment: Mapping[str, str] | None = None,
    sides: Sides | None = None,
) -> Path:
    """The folder of the clustering of a tokenizer's vocabulary; clusters by waste need `sides` and no embedder ("")."""
    given = {
        "tokenizer": str(tokenizer),
        "embedder": str(embedder),
        "clusters": dataclasses.asdict(clusters),
        "sides": sides and dataclasses.asdict(sides),
    }
    stdin = json.dumps(given).encode()
    child = ComputeChild("clustering", "tasks.gpu.cluster", stdin=stdin, environment=environment or {})
    try:
        found = run_child(child, lambda report: on_progress(report["stage"], report["done"], report["total"]))
    except ChildFailed as error:
        raise ClusteringError(str(error)) from None
    return Path(found["folder"])


def cluster_in_child(given: Mapping[str, Any], report: SendReport) -> dict[str, Any]:
    def progress(stage: str, done: int, total: int) -> None:
        report(stage=stage, done=done, total=total)

    clusters, sides = Clusters(**given["clusters"]), given["sides"]
    try:
        tokenizer = load_tokenizer(given["tokenizer"])
    except (OSError, ValueError) as error:
        raise cannot_load("tokenizer", given["tokenizer"], error) from error
    # Imported here: clusters by waste need neither scikit-learn nor sentence-transformers.
    if clusters.by == "waste":
        from tasks.gpu.clustering.waste import cluster_answers

        clustering = cluster_answers(tokenizer, clusters, Sides(**sides), progress)
    else:
        from tasks.gpu.clustering.meaning import cluster_vocabulary

        clustering = cluster_vocabulary(tokenizer, clusters, given["embedder"], progress)
    return {"folder": str(clustering.folder)}


def cluster(job: Job, host: TargetHost) -> dict[str, Any]:
    """Put the clustering into the store under its content hash; the driver says whether it is the run's.

    The argument `sides` is the content key of the answers from which clusters by waste are made.
    """
    store, run = job.store, job.run
    settings = store.run(run)

    def progress(stage: str, done: int, total: int) -> None:
        raise_if_cancelled(store, run)
        step = {"stage": stage, "done": done, "total": total, "job": job.key}
        store.put_metadata(run, PROGRESS, json.dumps(step))
        store.notify(run)

    sides, embedder, device = None, "", "cpu"
    if settings.clusters.by == "waste":
        [answers] = job.results([job.arguments["sides"]])
        sides = Sides(tuple(answers["verbose"]), tuple(answers["short"]))
    else:
        embedder, device = host.embedder(settings.clusters.embedder), settings.clusters.device
    model = host.model_folder(settings.target)
    clusters = dataclasses.replace(settings.clusters, folder=host.clusters_folder(settings.clusters.folder))
    load_early(model)  # the answers need both next
    host.start_early(settings.target)

    def make() -> Path:
        return run_clustering(model, clusters, embedder, progress, host.environment(device), sides)

    try:
        folder = make()
    except ClusteringError:
        if not device.startswith("cuda"):
            raise
        host.stop()  # the GPU may be too small for the server and the embedder at once
        folder = make()
    made = load_clustering(folder)
    descriptions = json.dumps(made.descriptions, ensure_ascii=False)
    labels, ends = pack_labels(made.labels), pack_labels(sentence_ends(model))
    store.clusterings.put(run, made.hash, labels, descriptions, made.figures, ends)
    return {"clustering": made.hash}


@shared_task(name="gpu.cluster", base=JobTask, bind=True)
def cluster_task(task: Task[Any, Any], run: str, key: str, attempt: int) -> None:
    run_job((run, key, attempt), lambda job: cluster(job, host_of(task)))


if __name__ == "__main__":
    task = json.load(sys.stdin)
    raise SystemExit(work_as_child(lambda report: cluster_in_child(task, report), ClusteringError))
