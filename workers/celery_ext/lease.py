"""The lease on messages: a task runs once, however long it takes, and returns soon when its worker dies.

On Redis a message that a worker has taken is kept in a hash, and its tag in a sorted set with the time at which it was
taken.  Whatever is older than the visibility timeout returns to its queue, though its task may still be running: kombu
never refreshes the time.  `Lease` does, every quarter of the timeout.  A timeout may then be a few seconds, and the
tasks of a killed worker return that soon, however long a task takes.  ZADD with XX only touches tags that still exist,
so a tag that was acknowledged meanwhile never returns.

**A lost connection.** kombu then tries to return every message, running or not, through a channel that has no address
any more, and the worker ends with an error (kombu 5.7).  So a lost channel returns nothing: messages whose task still
runs move to the new channel, which keeps their lease and acknowledges them; the others return when the timeout is
over.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import Any

from celery.utils.log import get_logger
from celery.worker import state
from redis import RedisError

from tasks.store.client import redis_url_of
from tasks.store.store import Store
from workers.celery_ext.heartbeat import PeriodicStep, store_client
from workers.celery_ext.unacked import unacknowledged

logger = get_logger(__name__)

BEATS_PER_TIMEOUT = 4


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
        self.repeat(consumer, self.channel.visibility_timeout / BEATS_PER_TIMEOUT, self.beat)

    def beat(self) -> None:
        refresh_lease(self.channel)
        self.channel.qos.deliver_held()

    def shutdown(self, consumer: Any) -> None:
        """The worker ends: its channel is closed right after this, and then returns what is not acknowledged."""
        super().shutdown(consumer)
        if self.channel is not None and not self.channel.closed:
            uncount_deliveries(unacknowledged(self.channel).values())
            self.channel.qos.return_held()
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


def move_messages(lost: Any, channel: Any) -> None:
    """Make `channel` responsible for the messages of a `lost` one.

    All can then be acknowledged.  Only those whose task runs keep their lease, because the others will not run here.
    """
    channel.qos.held.extend(lost.qos.held)
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
