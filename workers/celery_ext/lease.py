"""The lease on messages: a task runs once, however long it takes, and returns soon when its worker dies.

On Redis a message that was taken is kept in the hash `unacked`, and its tag in the sorted set `unacked_index` with the
time.  Whatever is older than the visibility timeout returns to its queue, though its task may still run: kombu never
refreshes the time.  `Lease` does, every quarter of the timeout, which may then be a few seconds.

When a connection is lost, kombu tries to return every message through a channel that has no address any more, and the
worker ends with an error (kombu 5.7).  So a lost channel returns nothing: messages whose task still runs move to the
new channel, and the others return when the timeout is over.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from celery.utils.log import get_logger
from celery.worker import request, state
from celery.worker.state import task_ready
from redis import RedisError

from tasks.task import is_store_error
from workers.celery_ext.report import PeriodicStep

logger = get_logger(__name__)

BEATS_PER_TIMEOUT = 4


class Lease(PeriodicStep):
    """Refreshes the time of every message that this worker holds; started again with every broker connection."""

    requires = ("celery.worker.consumer.tasks:Tasks",)
    channel: Any = None

    def start(self, consumer: Any) -> None:
        lost, self.channel = self.channel, consumer.task_consumer.channel
        self.channel.qos.restore_at_shutdown = False
        if lost is not None:
            move_messages(lost, self.channel)
        self.repeat(consumer, self.channel.visibility_timeout / BEATS_PER_TIMEOUT, self.beat)

    def beat(self) -> None:
        refresh_lease(self.channel)

    def shutdown(self, consumer: Any) -> None:
        """The worker ends: its channel is closed after this, and then returns what is not acknowledged."""
        super().shutdown(consumer)
        if self.channel is not None and not self.channel.closed:
            self.channel.qos.restore_at_shutdown = True


def unacknowledged(channel: Any) -> dict[str, Any]:
    """The messages that the channel has delivered and that are not acknowledged yet, by their tags."""
    qos = channel.qos
    # kombu has no public name for either.
    return {tag: message for tag, message in list(qos._delivered.items()) if tag not in qos._dirty}


def refresh_lease(channel: Any) -> None:
    """Set the time of every held message to now.  A broker that is away is handled by the worker's event loop."""
    if not (tags := unacknowledged(channel)):
        return
    try:
        with channel.conn_or_acquire() as connection:
            # With XX a tag that was acknowledged meanwhile never returns.
            connection.zadd(channel.unacked_index_key, dict.fromkeys(tags, time.time()), xx=True)
    except (RedisError, OSError) as error:
        logger.warning("the lease of %d tasks was not refreshed: %s", len(tags), error)


def move_messages(lost: Any, channel: Any) -> None:
    """Have `channel` acknowledge the messages of a `lost` one, and keep the lease of those whose task runs."""
    running = {request.message.delivery_tag for request in tuple(state.active_requests)}
    for tag, message in unacknowledged(lost).items():
        message.channel = channel
        if tag in running:
            channel.qos._delivered[tag] = message


class SettledRequest(request.Request):
    """Celery's request, which gives its message back when its end cannot be recorded, in place of keeping it."""

    message: Any
    acknowledged: bool

    def on_failure(self, exc_info: Any, send_failed_event: bool = True, return_ok: bool = False) -> None:
        if is_store_error(exc_info.exception):  # the store failed, not the task: it is not recorded as failed
            self._give_back(exc_info.exception)
        else:
            self._settle(super().on_failure, exc_info, send_failed_event, return_ok)

    def on_timeout(self, soft: bool, timeout: float) -> None:
        self._settle(super().on_timeout, soft, timeout)

    def _settle(self, record: Callable[..., object], *args: Any) -> None:
        try:
            record(*args)
        except Exception as error:  # whatever it is, nobody but the worker's log would have it
            self._give_back(error)

    def _give_back(self, error: BaseException) -> None:
        is_known = is_store_error(error)
        logger.warning(
            "the end of task %s was not recorded, and it is given back: %r", self.id, error, exc_info=not is_known
        )
        task_ready(self)
        if not self.acknowledged:
            self.message.channel.qos.end_lease(self.message.delivery_tag)
            self.acknowledged = True
