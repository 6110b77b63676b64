"""The job that clusters a vocabulary: its result in the store, and its place beside a target server."""

from __future__ import annotations

import dataclasses
import os
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from answer_runs import embedded_target, put_run

from tasks.gpu.cluster import cluster, unpack_labels
from tasks.records import Clusters, Sides
from tasks.store.store import Store
from tasks.task import Job
from workers.embedded.models import embedded_model
from workers.sglang.host import LocalTargetHost

SIDES = Sides(
    ("Based on the provided context, the answer is 7.\n\nSo it is 7.", "The answer to the question is 9."), ("7", "9.")
)


def test_the_clusters_of_the_embedded_model_s_answers(store: Store, tmp_path: Path) -> None:
    # Given a run with clusters by waste, and answers in the store under their content key
    put_run(store, "run", embedded_target(embedded_model()), np.zeros(1), [])
    clusters = Clusters(str(tmp_path / "clusters"), "no-such-embedder", 0, 0, 0, 0, "cuda", by="waste", buckets=3)
    store.put_run(dataclasses.replace(store.run("run"), clusters=clusters))
    store.put_shared("run", "sides:1", dataclasses.asdict(SIDES))
    before = store.metadata("run", "clustering")
    # When the job has run, on a machine without that embedder and without a GPU
    with closing(LocalTargetHost(tmp_path / "host", "gpu", os.environ)) as host:
        result = cluster(Job(store, "run", "cluster:1", {"sides": "sides:1"}), host)
        with pytest.raises(LookupError, match="sides:2"):
            cluster(Job(store, "run", "cluster:2", {"sides": "sides:2"}), host)
    # Then the store has labels, descriptions and figures of 3 + 4 clusters
    assert store.metadata("run", "clustering") == before, "which one the run uses is for its driver to say"
    labels = unpack_labels(store.clusterings.labels(result["clustering"]))
    assert np.bincount(labels).tolist() == [
        d["count"] for d in store.clusterings.descriptions("run", result["clustering"])
    ]
    figures = store.clusterings.figures(result["clustering"])
    assert (figures.eos, figures.pinned, len(figures.log_odds)) == (0, 6, 7)
    assert figures.log_odds[3] > 0
