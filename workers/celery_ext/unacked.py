"""Messages that a worker has taken and not acknowledged, where the broker refuses writes or has malformed entries.

kombu keeps such a message in the hash `unacked`, and its tag in the sorted set `unacked_index` with the time at which
it was taken.  `QoS` is kombu's, with these differences:

**The broker refuses writes** (its memory or disk is full, it has become a replica).  A message that cannot be recorded
is held and delivered when it can; meanwhile the worker takes no other one.  A message that cannot be acknowledged or
returned is no longer held: its lease ends, and it returns to its queue when the visibility timeout is over.

**Malformed entries.** kombu's consumer fails at the first one, in each worker, without end.  Such an entry is set aside
(`tasks/store/set_aside.py`), as is a key that has another type than it must have.  An entry without a time, or with one
that is far from now, is given that of now.
"""

from __future__ import annotations

import base64
import binascii
import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from celery.utils.log import get_logger
from kombu.transport import redis, virtual
from redis import RedisError, ResponseError

from tasks.escape import quote
from tasks.queues import QUEUES
from tasks.store.set_aside import SetAside
from tasks.store.waiting import refusal_of

logger = get_logger(__name__)

TIMES_EVERY_S = 60.0
PAUSE_S = 1.0  # after a refusal
MOST_LEVELS = 50  # of nesting in a message without its body; those of Celery have five


class NotRecorded(Exception):
    """A message that was taken from its queue cannot be recorded now."""

    def __init__(self, qos: QoS, reason: str) -> None:
        super().__init__(reason)
        self.qos, self.reason = qos, reason


class QoS(redis.QoS):
    """kombu's record of what a channel has delivered, and a condition of the worker's own for taking more.

    Where a BRPOP is under way the condition comes too late: Redis may have taken a message from the queue for it.
    """

    channel: Any  # a workers.celery_ext.broker.Channel
    has_room: Callable[[], bool] = staticmethod(lambda: True)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.held: deque[tuple[Any, str]] = deque()  # messages that cannot be recorded, and their queues
        self._refusal = ""  # why the broker does not give or return messages now
        self._paused_until = float("-inf")  # when it is asked for messages again
        self._times_at = float("-inf")  # when entries without a usable time were last looked for

    def can_consume(self) -> bool:
        if self.held or time.monotonic() < self._paused_until or not super().can_consume():
            return False
        return bool(self.channel._in_poll) or self.has_room()

    def append(self, message: Any, delivery_tag: str) -> None:
        """Raises: NotRecorded."""
        try:
            super().append(message, delivery_tag)
        except ResponseError as error:
            if (reason := refusal_of(error)) is not None:
                raise NotRecorded(self, reason) from None
            set_wrong_types_aside(self.channel)
            super().append(message, delivery_tag)

    def pause(self, reason: str) -> None:
        """Ask for no message for a moment: the broker has refused to give one."""
        self._paused_until = time.monotonic() + PAUSE_S
        self._note_refusal(reason)

    def hold(self, message: Any, queue: str, reason: str) -> None:
        """Keep a message that cannot be recorded."""
        if not self.held:
            logger.warning("a message of the queue %s waits in this worker: the broker %s", queue, reason)
        self.held.append((message, queue))

    def deliver_held(self) -> None:
        """Deliver what is held, as far as it can be recorded now."""
        for _ in range(len(self.held)):
            self.channel.connection._deliver(*self.held.popleft())

    def return_held(self) -> None:
        """Put what is held back into its queue: the worker ends."""
        for message, queue in self.held:
            try:
                self.channel._put(queue, message)
            except (RedisError, OSError) as error:
                logger.error("a message of the queue %s is lost, and its run sends it again: %s", queue, error)
        self.held.clear()

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
            if time.monotonic() - self._times_at >= TIMES_EVERY_S:
                self._times_at = time.monotonic()
                self._correct_times()
            super().restore_visible(*args, **options)
        except ResponseError as error:
            if (reason := refusal_of(error)) is None:
                set_wrong_types_aside(self.channel)
            else:
                self._note_refusal(reason)
        else:
            if time.monotonic() >= self._paused_until:
                self._refusal = ""

    def restore_by_tag(self, tag: Any, client: Any = None, leftmost: bool = False) -> None:
        with self.channel.conn_or_acquire(client) as connection:
            entry = connection.hget(self.unacked_key, tag)
            if entry is None or (reason := entry_error(entry)) is None:
                super().restore_by_tag(tag, connection, leftmost)
                return
            logger.error("set aside a malformed entry of %s: %s", self.unacked_key, reason)
            pipe = connection.pipeline().zrem(self.unacked_index_key, tag).hdel(self.unacked_key, tag)
            SetAside(connection).add(self.unacked_key, reason, entry, pipe)
            pipe.execute()

    def _note_refusal(self, reason: str) -> None:
        """Log why the broker refuses, once while it lasts."""
        if reason != self._refusal:
            self._refusal = reason
            logger.warning("no messages now: the broker %s", reason)

    def _correct_times(self) -> None:
        """Give the time of now to each entry that has none, or one with which it would not return soon.

        After a step of the clock the messages of a dead worker have such a time; a living one refreshes its own.
        """
        now = time.time()
        with self.channel.conn_or_acquire() as connection:
            both = connection.pipeline().hkeys(self.unacked_key).zrange(self.unacked_index_key, 0, -1, withscores=True)
            entries, timed = both.execute()
            times = dict(timed)
            missing = [tag for tag in entries if tag not in times]
            wrong = [tag for tag, at in times.items() if not 0 <= at <= now + self.visibility_timeout]
            if not (missing or wrong):
                return
            logger.warning("%d entries of %s had no time or a wrong one", len(missing) + len(wrong), self.unacked_key)
            pipe = connection.pipeline()
            for tags, only in ((missing, {"nx": True}), (wrong, {"xx": True})):
                if tags:
                    pipe.zadd(self.unacked_index_key, dict.fromkeys(tags, now), **only)
            pipe.execute()


def unacknowledged(channel: Any) -> dict[str, Any]:
    """The messages that the channel has delivered and that are not acknowledged yet, by their tags."""
    qos = channel.qos
    # kombu has no public name for either; a test checks that they still exist.
    return {tag: message for tag, message in list(qos._delivered.items()) if tag not in qos._dirty}


def set_wrong_types_aside(channel: Any) -> None:
    """Rename each key of kombu's that has another type than it must have, with a line in the log."""
    kinds = {channel.unacked_key: "hash", channel.unacked_index_key: "zset", channel.unacked_mutex_key: "string"}
    for queue in QUEUES:
        kinds |= {channel._q_for_pri(queue, step): "list" for step in channel.priority_steps}
        kinds[channel.keyprefix_queue % queue] = kinds[channel.keyprefix_binding_permanent % queue] = "set"
    try:
        with channel.conn_or_acquire() as connection:
            pipe = connection.pipeline(transaction=False)
            for key in kinds:
                pipe.type(key)
            for (key, kind), found in zip(kinds.items(), pipe.execute(), strict=True):
                if found.decode() not in (kind, "none"):
                    reason = f"the key {key} is a {found.decode()}, not a {kind}"
                    logger.error("set aside: %s", reason)
                    SetAside(connection).rename(key, reason)
    except ResponseError as error:
        logger.warning("the types of the broker's keys were not checked: %s", error)


def bindings(channel: Any, key: str, members: Iterable[bytes]) -> list[tuple[str, str, str]]:
    """The bindings of an exchange (routing key, pattern, queue), from the set at `key`; what is none is set aside."""
    table = []
    for member in members:
        try:
            routing_key, pattern, queue = member.decode().split(channel.sep)
        except ValueError:  # too few or too many, or no UTF-8
            pass
        else:
            table.append((routing_key, pattern, queue))
            continue
        logger.error("set aside a malformed binding of %s", key)
        with channel.conn_or_acquire() as connection:
            pipe = connection.pipeline().srem(key, member)
            SetAside(connection).add(key, "it is no binding of a queue", member, pipe)
            pipe.execute()
    return table


def entry_error(entry: bytes) -> str | None:
    """Why kombu could not return this entry of `unacked` to its queue; None when it could."""
    try:
        found = json.loads(entry)
    except (ValueError, RecursionError) as error:
        return f"it is not JSON: {error}"
    if not isinstance(found, list) or len(found) != 3:
        return "it is not a list of a message, an exchange and a routing key"
    message, exchange, routing_key = found
    if reason := envelope_error(message):
        return reason
    if not isinstance(message.get("headers"), dict):
        return "its headers are no object"
    # Celery leaves the exchange out; each queue has one of its own, of the same name.
    if routing_key not in QUEUES or exchange not in ("", routing_key):
        return f"it is for {quote(routing_key)} at {quote(exchange)}, which is no queue of a worker"
    return None


def envelope_error(message: Any) -> str | None:
    """Why kombu could not deliver, acknowledge or return this message; None when it could."""
    if not isinstance(message, dict):
        return f"it is {quote(message)}, not an object"
    if _is_deeper(message, MOST_LEVELS):
        return f"it is nested more than {MOST_LEVELS} levels deep"
    properties, headers = message.get("properties"), message.get("headers")
    if not isinstance(properties, dict) or not isinstance(headers, dict | None):
        return "it has no properties, or headers that are no object"
    if headers and headers.get("compression"):
        return "it is compressed, which no sender of Whetstone does"
    return _properties_error(properties) or _body_error(message.get("body"), properties.get("body_encoding"))


def _properties_error(properties: Mapping[str, Any]) -> str | None:
    info, tag = properties.get("delivery_info"), properties.get("delivery_tag")
    if not _is_ascii(tag) or not tag:
        return f"its delivery tag is {quote(tag)}"
    if not isinstance(info, dict) or not all(_is_ascii(info.get(key)) for key in ("exchange", "routing_key")):
        return "it has no exchange or no routing key"
    if not isinstance(properties.get("priority"), int | None):
        return f"its priority is {quote(properties['priority'])}"
    return None


def _is_ascii(value: Any) -> bool:
    return isinstance(value, str) and value.isascii()


def _is_deeper(value: Any, levels: int) -> bool:
    """Whether a value of JSON is nested more than so many levels deep."""
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(each, levels - 1) for each in inner)


def _body_error(body: Any, encoding: Any) -> str | None:
    if not isinstance(body, str) or encoding not in ("base64", None):
        return f"its body is {quote(body)} in the encoding {quote(encoding)}"
    try:
        base64.b64decode(body if encoding else "")
    except (binascii.Error, ValueError) as error:
        return f"its body is not base64: {error}"
    return None
