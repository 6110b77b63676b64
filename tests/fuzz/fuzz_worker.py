"""A real worker of the cpu queue with its own Valkey, and raw access to the list of its messages."""

from __future__ import annotations

import base64
import json
import os
import re
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import redis

from orchestrator.settings import load_settings, make_run
from tasks.plan import Candidate, Plan
from tasks.store.address import ENVIRONMENT_VARIABLE, store_url
from tasks.store.client import connect
from tasks.store.store import Store
from workers.embedded import valkey
from workers.health import worker_answers
from workers.processes.process import ChildProcess, Command
from workers.queues import worker_command

ROOT = Path(__file__).parents[2]
QUESTIONS = ROOT / "configs" / "data" / "sample.jsonl"
QUEUE = "cpu"
RUN, LAST = "a-run", "another-run"  # LAST is the run of the message that ends a batch
PLAN = Plan("g0_pop", 0, (Candidate(0, (0.0,)), Candidate(1, (0.5,))))


def until(condition: Callable[[], object], what: str, limit_s: float = 30.0) -> None:
    """Wait for an event. Raises: AssertionError when it has not come in time."""
    pause, deadline = threading.Event(), time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {limit_s:g} s: {what}"
        pause.wait(0.01)


class Worker:
    """The worker, its Valkey, and a run in the store."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder, folder / "worker.log"
        self.socket = valkey.socket_path(folder)
        self.url = valkey.redis_url(self.socket)
        self.valkey = valkey.valkey_process(folder, self.socket, None)
        argv = tuple(worker_command(QUEUE, QUEUE, 1))
        self.process = ChildProcess(Command(QUEUE, argv, self.log, {**os.environ, ENVIRONMENT_VARIABLE: self.url}))
        self.broker = redis.Redis(unix_socket_path=str(self.socket))
        self.store = Store(connect(store_url(self.url)))

    def start(self) -> None:
        self.valkey.start()
        self.valkey.wait_ready(lambda: valkey.is_answering(self.socket), 20)
        settings = load_settings(ROOT / "configs" / "embedded.config", [f"DATA_PATH={QUESTIONS}"])
        for run in (RUN, LAST):
            self.store.put_run(make_run(settings, run))
        self.store.put_plan(RUN, PLAN)
        self.store.next_attempt(RUN, PLAN.name)
        self.process.start()
        self.process.wait_ready(lambda: worker_answers(self.url, QUEUE), 60)

    def close(self) -> None:
        self.process.stop(0)
        self.valkey.stop(2)
        valkey.remove_socket(self.folder)

    def put(self, *lines: bytes) -> None:
        """Put raw messages on the queue; the first is read first."""
        self.broker.lpush(QUEUE, *lines)

    def wait_idle(self) -> None:
        """Wait until the worker has read the whole queue, has run what it accepted, and holds no message."""
        self.put(line(envelope("cpu.gather", [LAST, PLAN.name, 1])))
        until(lambda: self.store.redis.exists(f"whetstone:run:{LAST}:notifications"), "a valid message is run")
        self.store.redis.delete(f"whetstone:run:{LAST}:notifications")
        until(lambda: not self.broker.llen(QUEUE) and not self.broker.zcard("unacked_index"), "nothing is held")

    def log_text(self) -> str:
        return self.log.read_text(errors="replace")

    def state(self) -> dict[bytes, bytes]:
        """Everything in the store but the calls to look at it, and what workers say of themselves."""
        passing = re.compile(rb".*:notifications|whetstone:worker:.*")
        keys = [key for key in self.store.redis.keys("*") if not passing.fullmatch(key)]
        return {key: self.store.redis.dump(key) for key in keys}


def envelope(task: Any, args: Any, kwargs: Any = None, embedded: Any = None) -> dict[str, Any]:
    """A message as Celery and kombu write it."""
    tag, callbacks = uuid.uuid4().hex, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}
    body = [args, {} if kwargs is None else kwargs, callbacks if embedded is None else embedded]
    return {
        "body": in_base64(json.dumps(body)),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {"lang": "py", "task": task, "id": tag, "retries": 0, "timelimit": [None, None], "root_id": tag},
        "properties": {
            "correlation_id": tag,
            "reply_to": tag,
            "delivery_mode": 2,
            "delivery_info": {"exchange": QUEUE, "routing_key": QUEUE},
            "priority": 0,
            "body_encoding": "base64",
            "delivery_tag": tag,
        },
    }


def line(message: Any) -> bytes:
    return json.dumps(message).encode("utf-8", "surrogatepass")


def in_base64(text: str) -> str:
    return base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()
