"""Workers accept every message that the orchestrator sends, and refuse messages that it never sends."""

from __future__ import annotations

import base64
import importlib
import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from celery import Celery

from orchestrator.dispatch.evaluator import send_chord
from orchestrator.dispatch.scheduler import send_job
from orchestrator.farm.producer import make_sender
from tasks.job import JobSpec
from tasks.message import MessageRefused
from tasks.plan import Candidate, Merge, Plan
from tasks.queues import QUEUES, TASKS
from tasks.store.address import queues_url
from tasks.store.store import Store
from workers.celery_ext.broker import envelope_error
from workers.celery_ext.consumer import check_message

MERGED = Candidate(0, (0.0, 1.0), merge=Merge("a", 0.1, "b", 0.2), target=1, parents=(0, 1))
PLAN = Plan("g3_child", 3, (MERGED, Candidate(1, (0.5, 0.5), "kept")))
HASH = "0" * 64
JOBS = [name for name, entry in TASKS.items() if entry.arguments == TASKS["gpu.cluster"].arguments]
KEY = "file:" + "0" * 64


@pytest.fixture
def sender(store: Store, valkey_url: str) -> Iterator[Celery]:
    with make_sender(valkey_url) as app:
        yield app


def tasks() -> dict[str, Any]:
    from celery import current_app

    for entry in TASKS.values():
        importlib.import_module(entry.module)
    return dict(current_app.tasks)


def waiting(valkey_url: str) -> list[dict[str, Any]]:
    """Every message in the queues, as stored."""
    broker = redis.Redis.from_url(queues_url(valkey_url))
    return [json.loads(line) for queue in QUEUES for line in broker.lrange(queue, 0, -1)]


def read(raw: dict[str, Any]) -> Any:
    body = json.loads(base64.b64decode(raw["body"]))
    return SimpleNamespace(headers=raw["headers"], content_type=raw["content-type"], payload=body)


def test_chains_of_a_plan_and_jobs_are_accepted(sender: Celery, store: Store, valkey_url: str) -> None:
    send_chord(sender, store, "run-1", PLAN.name, PLAN.candidates, (), 7)
    for task in JOBS:
        send_job(sender, store, "run-1", KEY, JobSpec(task, "a label", {}, 60.0), 7)

    messages = waiting(valkey_url)
    assert len(messages) == len(PLAN.candidates) + len(JOBS)
    for raw in messages:
        assert envelope_error(raw) is None
        check_message(read(raw), tasks())
        _, _, embedded = read(raw).payload
        for link in embedded["chain"] or ():
            message = SimpleNamespace(headers=raw["headers"] | {"task": link["task"]}, content_type="application/json")
            message.payload = [link["args"], link["kwargs"], {}]
            check_message(message, tasks())


def test_a_retried_task_is_accepted(sender: Celery, valkey_url: str) -> None:
    message = sender.signature("cpu.gather", ("run-1", "final", 1)).apply_async(countdown=1, retries=2, expires=60)

    [raw] = waiting(valkey_url)
    assert raw["headers"]["id"] == message.id and raw["headers"]["eta"]
    check_message(read(raw), tasks())


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"id": "../../x"}, "its id: '../../x'"),
        ({"retries": 10**9}, "its retries: "),
        ({"timelimit": [None, 1e9]}, "its timelimit"),
        ({"eta": "tomorrow"}, "no time"),
        ({"eta": "2999-01-01T00:00:00+00:00"}, "too far away"),
        ({"expires": 5}, "its expires: 5 is not text"),
        ({"task": "celery.chord_unlock"}, "no task 'celery.chord_unlock'"),
        ({"task": "os.system"}, "no task 'os.system'"),
        ({"task": ["cpu.gather"]}, "no task a list of 1"),
    ],
)
def test_headers_that_celery_never_writes_are_refused(
    sender: Celery, valkey_url: str, changed: dict[str, Any], reason: str
) -> None:
    sender.send_task("cpu.gather", ["run-1", "final", 1])
    [raw] = waiting(valkey_url)

    with pytest.raises(MessageRefused) as refused:
        check_message(read(raw | {"headers": raw["headers"] | changed}), tasks())
    assert reason in str(refused.value)
