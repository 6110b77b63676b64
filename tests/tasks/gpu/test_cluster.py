"""The job that clusters a vocabulary: its result in the store, and its place beside a target server."""

from __future__ import annotations

import dataclasses
import io
import os
import zlib
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from answer_runs import embedded_target, installed_host, put_run

from tasks.gpu.cluster import cluster, pack_labels, retry_without_server, unpack_labels
from tasks.gpu.clustering import ClusteringError
from tasks.job import Job
from tasks.models import Clusters, Sides
from tasks.store.store import Store
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
    # When the job has run, on a machine without that embedder and without a GPU
    with closing(LocalTargetHost(tmp_path / "host", "gpu", os.environ)) as host, installed_host(host):
        result = cluster(Job(store, "run", "cluster:1", {"sides": "sides:1"}))
        with pytest.raises(LookupError, match="sides:2"):
            cluster(Job(store, "run", "cluster:2", {"sides": "sides:2"}))
    # Then the store has labels, descriptions and figures of 3 + 4 clusters
    assert store.metadata("run", "clustering") == result["clustering"]
    labels = unpack_labels(store.clusterings.labels(result["clustering"]))
    assert np.bincount(labels).tolist() == [d["count"] for d in store.clusterings.descriptions("run")]
    figures = store.clusterings.figures(result["clustering"])
    assert (figures.eos, figures.pinned, len(figures.log_odds)) == (0, 6, 7)
    assert figures.log_odds[3] > 0


def test_packed_labels_come_back_and_nothing_else_is_taken_for_labels() -> None:
    for kind in (np.uint8, np.uint16):
        labels = np.arange(200).astype(kind)
        assert unpack_labels(pack_labels(labels)).tolist() == labels.tolist()
    bomb = zlib.compress(bytes(2**30 // 8), 9)
    short, long, objects = io.BytesIO(), io.BytesIO(), np.array([{}], dtype=object)
    np.save(short, objects, allow_pickle=True)
    np.lib.format.write_array_header_1_0(long, {"descr": "|u1", "fortran_order": False, "shape": (10**12,)})
    for packed, reason in (
        (b"no zlib", "damaged"),
        (pack_labels(np.zeros(9, np.uint8))[:-3], "damaged"),
        (bomb, "hold more than 8,010,000 bytes"),
        (pack_labels(np.zeros(9, np.int64)), "but int64"),
        (zlib.compress(short.getvalue()), "Python objects"),
        (zlib.compress(long.getvalue()), r"should be \[1000000000000\], and are \[0\]"),
        (zlib.compress(b"PK"), "magic"),
    ):
        with pytest.raises(ValueError, match=reason):
            unpack_labels(packed)


class StopCounter:
    """A target host that counts how often its server is stopped."""

    stops = 0

    def stop(self) -> None:
        self.stops += 1


@pytest.mark.parametrize(("device", "stops"), [("cuda", 1), ("cpu", 0)])
def test_a_clustering_that_fails_on_a_gpu_is_tried_once_more_without_the_server(device: str, stops: int) -> None:
    host, tries = StopCounter(), []

    def fail() -> Path:
        tries.append(host.stops)
        raise ClusteringError("CUDA out of memory")

    with pytest.raises(ClusteringError):
        retry_without_server(fail, host, device)  # type: ignore[arg-type]
    assert tries == list(range(stops + 1))
