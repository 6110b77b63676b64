"""Celery's messages on Redis: readable arguments, a broker that refuses, and connections that stop answering.

What happens to messages between their delivery and their acknowledgement is in `workers/celery_ext/lease.py`.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import kombu.transport
from celery.app.amqp import AMQP
from celery.utils.log import get_logger
from kombu.transport import redis
from redis import ResponseError
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError, TimeoutError
from redis.retry import Retry

from tasks.queues import LABEL, QUEUES, format_label
from tasks.store.client import Waiting, refusal_of, wait_limit_of
from workers.celery_ext.lease import NotRecorded, QoS

logger = get_logger(__name__)

CHECK_EVERY_S = 5
# Nothing is sent again: kombu connects anew.  With 0 tries redis-py fails with an AttributeError on a Unix socket.
ONE_TRY = Retry(NoBackoff(), sys.maxsize, supported_errors=())


class ReadableMessages(AMQP):
    """Celery's messages, each with the line of `format_label` in place of its arguments' representation, for monitors.

    Celery writes that representation wherever a message is made, and drops a given one when a task is tried again.
    """

    def as_task_v2(
        self, task_id: str, name: str, args: Any = None, kwargs: Any = None, *rest: Any, **options: Any
    ) -> Any:
        label = (options.get("headers") or {}).get(LABEL, "")
        options["argsrepr"] = format_label(name, args or (), label)
        options["kwargsrepr"] = f"{len(kwargs)} more" if kwargs else ""
        return super().as_task_v2(task_id, name, args, kwargs, *rest, **options)


class Channel(redis.Channel):
    """kombu's channel, for a broker that refuses, a reply that does not come, and a channel that was closed."""

    QoS = QoS
    connection: Any  # a Transport
    qos: Any
    pool: Any

    def _brpop_read(self, **options: Any) -> Any:
        try:
            return super()._brpop_read(**options)  # type: ignore[misc]  # the stubs do not know it
        except ResponseError as error:
            if (reason := refusal_of(error)) is None:
                raise
            self.qos.pause(reason)
            return True

    def _connparams(self, *args: Any, **options: Any) -> dict[str, Any]:
        return {**super()._connparams(*args, **options), "retry": ONE_TRY}  # type: ignore[misc]

    @contextmanager
    def conn_or_acquire(self, client: Any = None) -> Iterator[Any]:
        """After a reply that did not come, the idle connections are closed: each would take as long to be noticed."""
        try:
            with super().conn_or_acquire(client) as connection:
                yield connection
        except TimeoutError:
            self.pool.disconnect(inuse_connections=False)
            raise

    def _queue_bind(self, exchange: str, *binding: Any) -> None:
        # At the start of a worker: while the broker refuses it, the worker waits, as it does for the store.
        bind = functools.partial(super()._queue_bind, exchange, *binding)  # type: ignore[misc]  # not in the stubs
        if exchange in QUEUES:
            Waiting(wait_limit_of()).call_with_retry(bind, lambda error: None)
        else:
            bind()

    def basic_publish(self, *args: Any, **options: Any) -> Any:
        # When the broker dies while a queue is declared, kombu connects again for the queue, and then publishes on the
        # old channel.  The error must be one after which a sender tries again.
        if self.connection is None:
            raise ConnectionError("the channel was closed")
        return super().basic_publish(*args, **options)


class Transport(redis.Transport):
    """kombu's Redis transport, which checks idle connections and holds messages that cannot be recorded."""

    Channel = Channel
    checked = 0.0  # when the connections that wait for events were last checked
    client: Any  # a Connection
    cycle: Any  # a MultiChannelPoller

    def drain_events(self, connection: Any, timeout: float | None = None) -> None:  # type: ignore[override]
        """Also checks the connections that wait for events; kombu checks them only in the event loop of a worker."""
        now = time.monotonic()
        if now - self.checked >= self.client.transport_options.get("health_check_interval", CHECK_EVERY_S):
            self.checked = now
            self.cycle.maybe_check_subclient_health()
        super().drain_events(connection, timeout)

    def _deliver(self, message: Any, queue: str | None) -> None:
        try:
            super()._deliver(message, queue)
        except NotRecorded as refusal:
            refusal.qos.hold(message, str(queue), refusal.reason)


def register_transport() -> None:
    """Use this transport for all Redis addresses of this process."""
    name = f"{__name__}:Transport"
    kombu.transport.TRANSPORT_ALIASES.update(redis=name, rediss=name)
