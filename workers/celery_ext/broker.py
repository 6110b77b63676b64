"""Celery's messages on Redis: readable arguments, a broker that refuses, and connections that stop answering.

A broker refuses writes when its memory or disk is full, or when it is a replica.  For a message that cannot be recorded
the worker waits.  One that cannot be acknowledged returns to its queue when its lease ends.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import kombu.transport
from celery.app.amqp import AMQP
from celery.utils.log import get_logger
from celery.worker import state
from kombu.transport import redis, virtual
from redis import RedisError, ResponseError
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError, TimeoutError
from redis.retry import Retry

from tasks.queues import LABEL, QUEUES, format_label
from tasks.store.client import Waiting, refusal_of, wait_limit_of

logger = get_logger(__name__)

CHECK_EVERY_S = 5
PAUSE_S = 1.0  # after a refusal
RECORDING_S = 24 * 3600.0  # how long a message waits to be recorded; a worker that is stopped waits no longer
# Nothing is sent again: kombu connects anew.  With 0 tries redis-py fails with an AttributeError on a Unix socket.
ONE_TRY = Retry(NoBackoff(), sys.maxsize, supported_errors=())


class ReadableMessages(AMQP):
    """Celery's messages, each with the line of `format_label` in place of its arguments' representation."""

    def as_task_v2(
        self, task_id: str, name: str, args: Any = None, kwargs: Any = None, *rest: Any, **options: Any
    ) -> Any:
        label = (options.get("headers") or {}).get(LABEL, "")
        options["argsrepr"] = format_label(name, args or (), label)
        options["kwargsrepr"] = f"{len(kwargs)} more" if kwargs else ""
        return super().as_task_v2(task_id, name, args, kwargs, *rest, **options)


class QoS(redis.QoS):
    """kombu's record of what a channel has delivered, and a condition of the worker's own for taking more."""

    channel: Any  # a Channel
    has_room: Callable[[], bool] = staticmethod(lambda: True)  # comes too late where a BRPOP is under way
    _refusal = ""  # why the broker does not give or return messages now
    _paused_until = float("-inf")  # when it is asked for messages again

    def can_consume(self) -> bool:
        if time.monotonic() < self._paused_until or not super().can_consume():
            return False
        return bool(self.channel._in_poll) or self.has_room()

    def append(self, message: Any, delivery_tag: str) -> None:
        """Record a message.  It is in no queue any more, so this waits while the broker refuses or does not answer."""
        record = functools.partial(super().append, message, delivery_tag)
        waiting = Waiting(RECORDING_S, report=logger.warning, check=state.maybe_shutdown)
        waiting.call_with_retry(record, lambda error: None)

    def pause(self, reason: str) -> None:
        """Ask for no message for a moment: the broker has refused to give one."""
        self._paused_until = time.monotonic() + PAUSE_S
        self._note_refusal(reason)

    def ack(self, delivery_tag: str) -> None:
        self._settle(delivery_tag, lambda: super(QoS, self).ack(delivery_tag))

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        self._settle(delivery_tag, lambda: super(QoS, self).reject(delivery_tag, requeue))

    def _settle(self, tag: str, settle: Callable[[], None]) -> None:
        try:
            settle()
        except (RedisError, OSError) as error:
            if (reason := refusal_of(error)) is None:
                raise
            logger.warning("a message returns to its queue when its lease ends: the broker %s", reason)
            self.end_lease(tag)

    def end_lease(self, tag: str) -> None:
        """Hold a message no longer: it returns to its queue when the visibility timeout is over."""
        virtual.QoS.ack(self, tag)

    def restore_visible(self, *args: Any, **options: Any) -> None:
        try:
            super().restore_visible(*args, **options)
        except ResponseError as error:
            if (reason := refusal_of(error)) is None:
                raise
            self._note_refusal(reason)
        else:
            if time.monotonic() >= self._paused_until:
                self._refusal = ""

    def _note_refusal(self, reason: str) -> None:
        """Log it once while it lasts."""
        if reason != self._refusal:
            self._refusal = reason
            logger.warning("no messages now: the broker %s", reason)


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
    """kombu's Redis transport, which checks idle connections."""

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


def register_transport() -> None:
    """Use this transport for all Redis addresses of this process."""
    name = f"{__name__}:Transport"
    kombu.transport.TRANSPORT_ALIASES.update(redis=name, rediss=name)
