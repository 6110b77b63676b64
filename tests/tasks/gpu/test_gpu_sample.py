"""A sample of a collection comes only from the server that its key names."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
from scripted_server import GOOD, server

from tasks import context
from tasks.collect.collection import Collection, SampleJob
from tasks.gpu import host
from tasks.gpu.host import TargetChanged
from tasks.gpu.identity import identify_server
from tasks.gpu.sample import draw_sample
from tasks.job import Job, JobSpec, run_job
from tasks.models import Endpoint, Example, Judge, Reflector, Sampling, Target
from tasks.store.store import Store
from workers.embedded.models import embedded_model

ENDPOINT = Endpoint("https://api.example.com/v1", "K", 1, 1, 0, 0, 0, 0, 0, 0)
COLLECTION = Collection(
    samples=1,
    target=Target("embedded", "embedded", "resident", "", "", "", "cpu", "auto", 1, 5, 1, "s", "{context}{query}",
                  Sampling(8, 0.0, 1.0, 5)),
    target_retries=0,
    reflector=Reflector("r", 0, 1, 16, 1),
    compress_template="{query}{prev_answer}",
    reflector_endpoint=ENDPOINT,
    judge=Judge("j", 0.01, True, 0, 1, 16, 1, 1),
    judge_endpoint=ENDPOINT,
)  # fmt: skip


class Host:
    """A target host whose server has this version; it refuses to serve for another one."""

    def __init__(self, url: str, version: str) -> None:
        self.url, self.version = url, version

    def identity(self, target: Target) -> Mapping[str, Any]:
        return {"version": self.version}

    def serving(self, target: Target) -> AbstractContextManager[None]:
        return nullcontext()

    def serve(self, target: Target, processor: str = "", identity: Mapping[str, Any] | None = None) -> str:
        if identity is not None and identity != self.identity(target):
            raise TargetChanged(f"version {self.version}")
        return self.url

    def model_folder(self, target: Target) -> str:
        return str(embedded_model())

    def api_key(self, target: Target) -> str | None:
        return None


@pytest.fixture
def server_url() -> Iterator[str]:
    with server(lambda *_: (200, GOOD)) as (url, _):
        yield url
    host.install(None)


def job_of(store: Store, collection: Collection) -> SampleJob:
    job = Job(store, "a-collection", "sample:" + "0" * 64, {})
    return SampleJob(job, collection, Example("q", "the pages", "why?", "so"), 0, ())


def test_the_server_that_was_identified_answers_and_another_one_does_not(store: Store, server_url: str) -> None:
    """Given a server that was updated after the collection had asked for its identity, no sample of it is kept."""
    host.install(Host(server_url, "1"))  # type: ignore[arg-type]
    found = identify_server(COLLECTION.target)
    assert found == {"server": {"version": "1"}}
    collection = dataclasses.replace(COLLECTION, server=found["server"])
    assert draw_sample(job_of(store, collection))["tokens"] == 1
    assert store.usage("a-collection") == {}  # counted with the result, and so once

    host.install(Host(server_url, "2"))  # type: ignore[arg-type]
    with pytest.raises(TargetChanged):
        draw_sample(job_of(store, collection))


def test_what_a_job_used_is_counted_once_when_its_result_is_sent_twice(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given a store that applies each change of the shared results twice: the first reply is lost
    monkeypatch.setattr(context, "store", lambda: store)
    put = store.put_shared

    def put_twice(*result: Any) -> None:
        put(*result)
        put(*result)

    monkeypatch.setattr(store, "put_shared", put_twice)
    store.put_job("a-run", "sample:1", JobSpec("gpu.sample", "q", {}).to_json())
    run_job(("a-run", "sample:1", 0), lambda job: {"tokens": 7}, lambda answer: {"target": answer["tokens"]})
    assert store.usage("a-run") == {"target": 7}
