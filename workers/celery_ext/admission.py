"""Admission control: which messages a worker accepts, which it returns to the queue, and when it consumes none.

A message is accepted when its run needs the code and the model that this worker has, and its card does not compute when
the task needs a server on it.  Otherwise it goes back to the end of its queue.  When the same one arrives again, the
worker stops consuming for a while, so that others can take it.  Messages of a cancelled run are discarded.

The store remembers that a queue or a worker is paused, so one that starts later does not consume either.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

import redis
from celery.utils.log import get_logger
from celery.worker.control import control_command

from tasks.store.keys import CANCELLED, CODE, MODEL
from tasks.store.store import Store
from tasks.store.workers import WorkerRegistry, code_version
from workers.celery_ext import report
from workers.queues import QUEUE_VARIABLE

MODEL_VARIABLE = "WHETSTONE_TARGET_MODEL"  # the only model that a gpu worker may serve; unset: the model of the run
CHECK_EVERY_S = 5.0  # for what is paused
CLOSED_S = 2.0  # without consuming, after a message that came back
REFUSAL_S = 30.0  # how long a refusal is part of the worker's report

logger = get_logger(__name__)

Metadata = Mapping[str, str | None]
Strategy = Callable[..., Any]  # Celery's name for the function that turns a message into a request for the pool


class AdmissionControl(report.PeriodicStep):
    """Wraps the strategies of the worker's consumer, and adds and removes its queue."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, consumer: Any, **options: Any) -> None:
        self.is_consuming = True
        self.paused = ""  # the queue's or the worker's name, where one of them is paused
        self.closed_until = 0.0
        self.refusals: dict[str, tuple[float, str]] = {}  # by run: when, and why
        self.requeued: set[str] = set()  # ids of messages that went back since the worker last paused consuming
        super().__init__(consumer, **options)

    def start(self, consumer: Any) -> None:
        self.consumer = consumer
        consumer.whetstone_admission = self
        self.queue = os.environ.get(QUEUE_VARIABLE, "")
        self.model = os.environ.get(MODEL_VARIABLE, "") if self.queue == "gpu" else ""
        self.redis = report.store_client()
        for name, strategy in list(consumer.strategies.items()):
            consumer.strategies[name] = self.wrap(strategy)
        report.FIELDS |= {
            "state": lambda: self.state()[0],
            "why": lambda: self.state()[1],
            "serves_only": lambda: self.model,
        }
        self.repeat(consumer, CHECK_EVERY_S, self.check_paused)

    def wrap(self, strategy: Strategy) -> Strategy:
        """The strategy for accepted messages only."""

        def handle(message: Any, body: Any, ack: Any, reject: Any, callbacks: Any, **more: Any) -> Any:
            try:
                run = str(message.payload[0][0])
            except (LookupError, TypeError):  # a task of no run
                return strategy(message, body, ack, reject, callbacks, **more)
            metadata = self.metadata_of(run)
            if metadata.get(CANCELLED):
                logger.info("discarded %s: run %s was cancelled", message.headers.get("id"), run)
                message.ack_log_error(logger, self.consumer.connection_errors)
            elif reason := self.why_not(run, metadata, message):
                if self.refusals.get(run, (0.0, ""))[1] != reason:
                    logger.warning("requeued for other workers: %s", reason)
                self.refusals[run] = (time.monotonic(), reason)
                message.requeue()
                self.note_requeued(str(message.headers.get("id")))
            else:
                return strategy(message, body, ack, reject, callbacks, **more)
            return None

        return handle

    def why_not(self, run: str, metadata: Metadata, message: Any) -> str:
        """Why this worker does not take a message of the run; "" where it does."""
        code, model, app = metadata.get(CODE), metadata.get(MODEL), self.consumer.app
        if code and code != code_version():
            return (
                f"run {run} was started with code {code} and this worker has {code_version()}: "
                "install the same Whetstone on both, and restart the older one"
            )
        if model and self.model and model != self.model:
            return (
                f"run {run} needs the model {model} and this worker serves only {self.model} ({MODEL_VARIABLE}): "
                "start one for that model, or unset the variable"
            )
        host, task = getattr(app, "target_host", None), app.tasks.get(message.headers.get("task"))
        if host is not None and host.card_use() == "computes" and getattr(task, "card", "") == "serves":
            return f"run {run} needs a server, and the card of this worker computes"
        return ""

    def metadata_of(self, run: str) -> Metadata:
        """Empty when the store does not answer, as the task itself gives a better error."""
        try:
            return Store(self.redis).metadata_values(run, (CANCELLED, CODE, MODEL))
        except (redis.RedisError, OSError):
            return {}

    def note_requeued(self, message_id: str) -> None:
        if message_id not in self.requeued:
            self.requeued.add(message_id)
            return
        self.requeued.clear()
        self.closed_until = time.monotonic() + CLOSED_S
        self.consumer.timer.call_after(CLOSED_S, self.update_consuming)
        self.update_consuming()

    def check_paused(self) -> None:
        """Read from the store what is paused, and start or stop consuming."""
        node = self.consumer.hostname
        try:
            paused = WorkerRegistry(self.redis).paused()
        except (redis.RedisError, OSError) as error:
            logger.warning("cannot read whether this worker is paused: %s", error)
            return
        self.paused = next((name for name in (self.queue, node, node.partition("@")[0]) if name in paused), "")
        self.update_consuming()

    def update_consuming(self) -> None:
        consume = not self.paused and time.monotonic() >= self.closed_until
        if consume == self.is_consuming or self.consumer.task_consumer is None:
            return
        self.is_consuming = consume
        (self.consumer.add_task_queue if consume else self.consumer.cancel_task_queue)(self.queue)

    def state(self) -> tuple[str, str]:
        """The state ("ready", "paused" or "refusing"), and the reason."""
        if self.paused:
            return "paused", f"{self.paused} is paused"
        recent = [reason for at, reason in self.refusals.values() if time.monotonic() - at < REFUSAL_S]
        return ("refusing", "; ".join(recent)) if recent else ("ready", "")


@control_command()
def whetstone_check_paused(state: Any) -> dict[str, str]:
    """Read at once what is paused; replies with the worker's state."""
    admission: AdmissionControl = state.consumer.whetstone_admission
    admission.check_paused()
    word, reason = admission.state()
    return {"state": word, "why": reason}
