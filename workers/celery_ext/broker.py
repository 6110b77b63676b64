"""Celery's messages on Redis: readable arguments, messages that cannot be read, lost channels, and the lease.

**Readable.** Celery writes a representation of the arguments into each message, for monitors.  `ReadableMessages`
writes the run, the generation and the child there (`tasks.labels`).

**Unreadable.** kombu assumes that every line in a queue was written by kombu; any other line ends the worker that reads
it.  `Channel` and `Transport` refuse such a line with one log entry.  Reading has removed it from the queue.

**The lease.** On Redis a message that a worker has taken is kept in a hash, and its tag in a sorted set with the time
at which it was taken.  Whatever is older than the visibility timeout returns to its queue, though its task may still
be running: kombu never refreshes the time.  `Lease` does, every quarter of the timeout.  A timeout may then be a few
seconds, and the tasks of a killed worker return that soon, however long a task takes.  ZADD with XX only touches tags
that still exist, so a tag that was acknowledged meanwhile never returns.

**A lost connection.** kombu then tries to return every message, running or not, through a channel that has no address
any more, and the worker ends with an error (kombu 5.7).  So a lost channel returns nothing: messages whose task still
runs move to the new channel, which keeps their lease and acknowledges them; the others return when the timeout is
over.
"""

from __future__ import annotations

import base64
import binascii
import os
import time
from collections.abc import Callable, Iterable
from queue import Empty
from typing import Any

import kombu.transport
from celery.app.amqp import AMQP
from celery.utils.log import get_logger
from celery.worker import state
from kombu.transport import redis
from redis import RedisError
from redis.exceptions import ConnectionError

from tasks.escape import quote
from tasks.labels import LABEL, format_label
from tasks.store.address import redis_url_of
from tasks.store.store import Store
from workers.celery_ext.heartbeat import PeriodicStep, store_client

logger = get_logger(__name__)

BEATS_PER_TIMEOUT = 4
CHECK_EVERY_S = 5


class ReadableMessages(AMQP):
    """Celery's messages, each with the line of `tasks.labels` in place of its arguments' representation.

    Celery writes that representation wherever a message is made, and drops a given one when a task is tried again.  So
    this is the place that covers all senders.
    """

    def as_task_v2(
        self, task_id: str, name: str, args: Any = None, kwargs: Any = None, *rest: Any, **options: Any
    ) -> Any:
        label = (options.get("headers") or {}).get(LABEL, "")
        options["argsrepr"] = format_label(name, args or (), label)
        options["kwargsrepr"] = f"{len(kwargs)} more" if kwargs else ""
        return super().as_task_v2(task_id, name, args, kwargs, *rest, **options)


class QoS(redis.QoS):
    """kombu's limit on the messages that a worker holds, and a condition of the worker's own.

    Where a BRPOP is under way the condition comes too late: Redis may have taken a message from the queue for it.
    """

    channel: Any  # a Channel
    has_room: Callable[[], bool] = staticmethod(lambda: True)

    def can_consume(self) -> bool:
        return bool(super().can_consume()) and (bool(self.channel._in_poll) or self.has_room())


class Channel(redis.Channel):
    """kombu's channel, except for lines that cannot be read, and for messages on a channel that was closed."""

    QoS = QoS
    connection: Any  # a Transport
    connection_errors: tuple[type[Exception], ...]

    def _brpop_read(self, **options: Any) -> Any:
        delivered = self.connection.delivered
        try:
            return super()._brpop_read(**options)  # type: ignore[misc]  # the stubs do not know it
        except Exception as error:
            was_read = self.connection.delivered > delivered  # then the error is the receiver's
            if was_read or isinstance(error, (*self.connection_errors, Empty)):
                raise
            logger.error("refused a message: it is not JSON as Celery writes it: %s", quote(str(error)))
            return True

    def basic_publish(self, *args: Any, **options: Any) -> Any:
        # When the broker dies while a queue is declared, kombu connects again for the queue, and then publishes on the
        # old channel.  The error must be one after which a sender tries again.
        if self.connection is None:
            raise ConnectionError("the channel was closed")
        return super().basic_publish(*args, **options)


class Transport(redis.Transport):
    """kombu's Redis transport, which delivers only well-formed messages."""

    Channel = Channel
    delivered = 0
    checked = 0.0  # when the connections that wait for events were last checked
    client: Any  # a Connection
    cycle: Any  # a MultiChannelPoller

    def drain_events(self, connection: Any, timeout: float | None = None) -> None:
        """Also checks the connections that wait for events; kombu checks them only in the event loop of a worker."""
        now = time.monotonic()
        if now - self.checked >= self.client.transport_options.get("health_check_interval", CHECK_EVERY_S):
            self.checked = now
            self.cycle.maybe_check_subclient_health()
        super().drain_events(connection, timeout)

    def _deliver(self, message: Any, queue: str | None) -> None:
        self.delivered += 1
        if reason := envelope_error(message):
            logger.error("refused a message on the queue %s: %s", queue, reason)
        else:
            super()._deliver(message, queue)


def register_transport() -> None:
    """Use this transport for all Redis addresses of this process."""
    name = f"{Transport.__module__}:{Transport.__qualname__}"
    kombu.transport.TRANSPORT_ALIASES.update(redis=name, rediss=name)


def envelope_error(message: Any) -> str | None:
    """Why kombu could not deliver, acknowledge or return this message; None when it could."""
    if not isinstance(message, dict):
        return f"it is {quote(message)}, not an object"
    properties, headers = message.get("properties"), message.get("headers")
    if not isinstance(properties, dict) or not isinstance(headers, dict | None):
        return "it has no properties, or headers that are no object"
    if headers and headers.get("compression"):
        return "it is compressed, which no sender of Whetstone does"
    info, tag = properties.get("delivery_info"), properties.get("delivery_tag")
    if not isinstance(tag, str) or not tag:
        return f"its delivery tag is {quote(tag)}"
    if not isinstance(info, dict) or not all(isinstance(info.get(key), str) for key in ("exchange", "routing_key")):
        return "it has no exchange or no routing key"
    return _body_error(message.get("body"), properties.get("body_encoding"))


def _body_error(body: Any, encoding: Any) -> str | None:
    if not isinstance(body, str) or encoding not in ("base64", None):
        return f"its body is {quote(body)} in the encoding {quote(encoding)}"
    try:
        base64.b64decode(body if encoding else "")
    except (binascii.Error, ValueError) as error:
        return f"its body is not base64: {error}"
    return None


class Lease(PeriodicStep):
    """Refreshes the time of every message that this worker holds; started again with every broker connection."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, consumer: Any, **options: Any) -> None:
        self.channel: Any = None
        super().__init__(consumer, **options)

    def start(self, consumer: Any) -> None:
        lost, self.channel = self.channel, consumer.task_consumer.channel
        self.channel.qos.restore_at_shutdown = False
        if lost is not None:
            move_messages(lost, self.channel)
        self.repeat(consumer, self.channel.visibility_timeout / BEATS_PER_TIMEOUT, refresh_lease, self.channel)

    def shutdown(self, consumer: Any) -> None:
        """The worker ends: its channel is closed right after this, and then returns what is not acknowledged."""
        super().shutdown(consumer)
        if self.channel is not None and not self.channel.closed:
            uncount_deliveries(unacknowledged(self.channel).values())
            self.channel.qos.restore_at_shutdown = True


def uncount_deliveries(messages: Iterable[Any]) -> None:
    """Subtract each message from the count of lost workers (`tasks/task.py`): it returns, but no worker was lost."""
    try:
        store = Store(store_client(redis_url_of(os.environ)))
        for message in messages:
            if arguments := message.payload[0]:
                store.count_failure(str(arguments[0]), message.headers["id"], -1)
    except (RedisError, OSError, LookupError, TypeError) as error:
        logger.warning("tasks that are returned will count as tried: %r", error)


def unacknowledged(channel: Any) -> dict[str, Any]:
    """The messages that the channel has delivered and that are not acknowledged yet, by their tags."""
    qos = channel.qos
    # kombu has no public name for either; a test checks that they still exist.
    return {tag: message for tag, message in list(qos._delivered.items()) if tag not in qos._dirty}


def move_messages(lost: Any, channel: Any) -> None:
    """Make `channel` responsible for the messages of a `lost` one.

    All can then be acknowledged.  Only those whose task runs keep their lease, because the others will not run here.
    """
    running = {request.message.delivery_tag for request in tuple(state.active_requests)}
    for tag, message in unacknowledged(lost).items():
        message.channel = channel
        if tag in running:
            channel.qos._delivered[tag] = message


def refresh_lease(channel: Any) -> None:
    """Set the time of every held message to now. A broker that is away is handled by the worker's event loop."""
    tags = unacknowledged(channel)
    if not tags:
        return
    try:
        with channel.conn_or_acquire() as connection:
            connection.zadd(channel.unacked_index_key, dict.fromkeys(tags, time.time()), xx=True)
    except (RedisError, OSError) as error:
        logger.warning("the lease of %d tasks was not refreshed: %s", len(tags), error)
