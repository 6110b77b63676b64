"""Messages that a worker has taken and not acknowledged, while the broker refuses writes.

kombu keeps such a message in the hash `unacked`, and its tag in the sorted set `unacked_index` with the time at which
it was taken.  A broker refuses writes when its memory or disk is full, or when it has become a replica.  With `QoS` a
message that cannot be recorded is then held and delivered when it can; meanwhile the worker takes no other one.  A
message that cannot be acknowledged or returned is no longer held: its lease ends, and it returns to its queue when the
visibility timeout is over.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from celery.utils.log import get_logger
from kombu.transport import redis, virtual
from redis import RedisError, ResponseError

from tasks.store.client import refusal_of

logger = get_logger(__name__)

PAUSE_S = 1.0  # after a refusal


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

    def can_consume(self) -> bool:
        if self.held or time.monotonic() < self._paused_until or not super().can_consume():
            return False
        return bool(self.channel._in_poll) or self.has_room()

    def append(self, message: Any, delivery_tag: str) -> None:
        try:
            super().append(message, delivery_tag)
        except ResponseError as error:
            if (reason := refusal_of(error)) is None:
                raise
            raise NotRecorded(self, reason) from None

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
            super().restore_visible(*args, **options)
        except ResponseError as error:
            if (reason := refusal_of(error)) is None:
                raise
            self._note_refusal(reason)
        else:
            if time.monotonic() >= self._paused_until:
                self._refusal = ""

    def _note_refusal(self, reason: str) -> None:
        """Log why the broker refuses, once while it lasts."""
        if reason != self._refusal:
            self._refusal = reason
            logger.warning("no messages now: the broker %s", reason)


def unacknowledged(channel: Any) -> dict[str, Any]:
    """The messages that the channel has delivered and that are not acknowledged yet, by their tags."""
    qos = channel.qos
    # kombu has no public name for either; a test checks that they still exist.
    return {tag: message for tag, message in list(qos._delivered.items()) if tag not in qos._dirty}
