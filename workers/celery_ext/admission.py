"""Whether a worker may do a run's work: what the run wants against what the worker is.  Pure.

The gate: what a worker takes from its queue, what it leaves for others, and when it takes nothing at all.

A queue or a worker can be paused; that is remembered in the store, so a worker that starts later keeps to it.  Work
that the worker cannot do goes back to the end of its queue, behind what it can do.  When the same message comes round
again the gate stays closed for a while: others have the time to take it, and it does not go round and round.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import redis
from celery.utils.log import get_logger
from celery.worker.control import control_command

from tasks.code_version import code_version
from tasks.store.address import redis_url_of
from tasks.store.keys import CANCELLED, CODE, MODEL
from tasks.store.registry import WorkerRegistry
from tasks.store.store import Store
from workers.celery_ext import heartbeat
from workers.celery_ext.heartbeat import PeriodicStep
from workers.queues import QUEUE_VARIABLE

MODEL_VARIABLE = "WHETSTONE_TARGET_MODEL"  # the one model that a gpu worker may serve; unset: whatever a run wants

Facts = Mapping[str, str | None]


@dataclass(frozen=True)
class Capabilities:
    """What a worker is: its code, and the model that it is pinned to, or ""."""

    code: str
    model: str


@dataclass(frozen=True)
class Verdict:
    """`take` does the work, `leave` gives it back for other workers, `drop` throws it away; and why."""

    action: Literal["take", "leave", "drop"]
    reason: str = ""


TAKE = Verdict("take")


def judge(run: str, facts: Facts, ability: Capabilities) -> Verdict:
    """What to do with a message of a run of which these facts are known; nothing known is nothing wanted."""
    if facts.get(CANCELLED):
        return Verdict("drop", f"run {run} was cancelled")
    code, model = facts.get(CODE), facts.get(MODEL)
    if code and code != ability.code:
        return Verdict(
            "leave",
            f"run {run} was started with code {code} and this worker has {ability.code}: "
            "install the same Whetstone on both, and restart the older one",
        )
    if model and ability.model and model != ability.model:
        return Verdict(
            "leave",
            f"run {run} wants the model {model} and this worker serves only {ability.model} ({MODEL_VARIABLE}): "
            "start one for that model, or unset the variable",
        )
    return TAKE


logger = get_logger(__name__)

LOOK_EVERY_S = 5.0
CLOSED_S = 2.0  # after work that it could not do
FACTS_S = 1.0  # how long what is known of a run is believed
REMEMBERED_S = 30.0  # a refusal, in the worker's report

Strategy = Callable[..., Any]


class AdmissionControl(PeriodicStep):
    """Stands between the worker's queue and its tasks."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, consumer: Any, **options: Any) -> None:
        self.is_open = True
        self.paused = ""
        self.closed_until = 0.0
        self.refusals: dict[str, tuple[float, str]] = {}  # by run: when, and why
        self.seen: set[str] = set()  # messages that went back since the gate was opened
        self.facts: dict[str, tuple[float, Facts]] = {}
        super().__init__(consumer, **options)

    def start(self, consumer: Any) -> None:
        self.consumer = consumer
        consumer.whetstone_gate = self
        self.queue = os.environ.get(QUEUE_VARIABLE, "")
        self.ability = Capabilities(code_version(), os.environ.get(MODEL_VARIABLE, "") if self.queue == "gpu" else "")
        self.redis = heartbeat.client(redis_url_of(os.environ))
        for name, strategy in list(consumer.strategies.items()):
            consumer.strategies[name] = self.guarding(strategy)
        heartbeat.contribute("state", lambda: self.state()[0])
        heartbeat.contribute("why", lambda: self.state()[1])
        heartbeat.contribute("serves_only", lambda: self.ability.model)
        self.repeat(consumer, LOOK_EVERY_S, self.look)

    def guarding(self, strategy: Strategy) -> Strategy:
        """The strategy for messages that may be taken; the others never reach it."""

        def handle(message: Any, body: Any, ack: Any, reject: Any, callbacks: Any, **more: Any) -> Any:
            verdict = self.verdict(message)
            if verdict.action == "take":
                return strategy(message, body, ack, reject, callbacks, **more)
            if verdict.action == "leave":
                message.requeue()
                self.left(str(message.headers.get("id")))
            else:
                logger.info("dropped %s: %s", message.headers.get("id"), verdict.reason)
                message.ack_log_error(logger, self.consumer.connection_errors)
            return None

        return handle

    def verdict(self, message: Any) -> Verdict:
        try:
            run = message.payload[0][0]
        except (LookupError, TypeError):
            return Verdict("take")  # whatever it is, it is not for us to say
        if not isinstance(run, str):
            return Verdict("take")
        verdict = judge(run, self.known(run), self.ability)
        if verdict.action == "leave":
            self.note(run, verdict.reason)
        return verdict

    def known(self, run: str) -> Facts:
        """What the store knows of a run; nothing when it does not answer, for the task will say so better."""
        at, facts = self.facts.get(run, (0.0, {}))
        # A run that was cancelled may go on at any moment, and what is dropped does not come back.
        if time.monotonic() - at < FACTS_S and not facts.get(CANCELLED):
            return facts
        try:
            facts = Store(self.redis).metadata_values(run, (CANCELLED, CODE, MODEL))
        except (redis.RedisError, OSError):
            return {}
        self.facts = {run: (time.monotonic(), facts)} if len(self.facts) > 100 else self.facts
        self.facts[run] = (time.monotonic(), facts)
        return facts

    def note(self, run: str, reason: str) -> None:
        """Remember a refusal, and tell the log when it is news."""
        if self.refusals.get(run, (0.0, ""))[1] != reason:
            logger.warning("left for others: %s", reason)
        self.refusals[run] = (time.monotonic(), reason)

    def left(self, message_id: str) -> None:
        """A message went back; one that has come round closes the gate."""
        if message_id not in self.seen:
            self.seen.add(message_id)
            return
        self.seen.clear()
        self.closed_until = time.monotonic() + CLOSED_S
        self.consumer.timer.call_after(CLOSED_S, self.settle)
        self.settle()

    def look(self) -> None:
        """See what is paused, and open or close accordingly."""
        node = self.consumer.hostname
        try:
            paused = WorkerRegistry(self.redis).paused()
        except (redis.RedisError, OSError) as error:
            logger.warning("whether this worker is paused could not be seen: %s", error)
            return
        self.paused = next((name for name in (self.queue, node, node.partition("@")[0]) if name in paused), "")
        self.settle()

    def settle(self) -> None:
        wanted = not self.paused and time.monotonic() >= self.closed_until
        if wanted == self.is_open or self.consumer.task_consumer is None:
            return
        self.is_open = wanted
        if wanted:
            self.consumer.add_task_queue(self.queue)
        else:
            self.consumer.cancel_task_queue(self.queue)

    def state(self) -> tuple[str, str]:
        """In a word, and why."""
        if self.paused:
            return "paused", f"{self.paused} is paused"
        recent = [why for at, why in self.refusals.values() if time.monotonic() - at < REMEMBERED_S]
        return ("refusing", "; ".join(recent)) if recent else ("ready", "")


@control_command()
def whetstone_look(state: Any) -> dict[str, str]:
    """Look at once at what is paused; replies with the worker's state."""
    gate: AdmissionControl = state.consumer.whetstone_gate
    gate.look()
    word, why = gate.state()
    return {"state": word, "why": why}
