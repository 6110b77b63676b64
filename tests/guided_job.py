"""A job of a guided run, as a worker has it: its arguments and the run's context have been through the store."""

from __future__ import annotations

from typing import Any

from tasks.guide.jobs import GUIDE, GuideContext, KeyedJob
from tasks.records import Endpoint, JobSpec, Sampling, Target
from tasks.store.store import Store
from tasks.task import Job

RUN = "a-guided-run"
TARGET = Target(
    model="embedded", engine="embedded", device="cpu", ready_timeout_s=1, request_timeout_s=60, concurrency=8,
    sampling=Sampling(8, 0.0, 1.0, 5),
)  # fmt: skip
ENDPOINT = Endpoint("", "KEY_OF_THIS_TEST", 10, 2, 0, 0, 2.0, 1.0, 10.0, 0)


def guided(**changes: Any) -> GuideContext:
    values: dict[str, Any] = {"target": TARGET, "server": {"version": "1"}}
    return GuideContext(**values | changes)


def job_in(store: Store, context: GuideContext, keyed: KeyedJob) -> Job:
    key, spec = keyed
    store.put_metadata(RUN, GUIDE, context.to_json())
    return Job(store, RUN, key, JobSpec.from_json(spec.to_json()).arguments)
