"""The lease: as long as a worker lives, nobody else is given the tasks that it holds.

On Redis a message that was taken lies in a hash, and its tag in a sorted set with the time at which it was taken.
Whatever is older than the visibility timeout is put back into its queue, though its task may still be running: nothing
refreshes the time.  This consumer step does, every quarter of the timeout.  A timeout may then be a few seconds, and
a killed worker's tasks are back that soon, however long a task takes.  ZADD with XX touches only tags that are still
there, so a tag acknowledged meanwhile never comes back.

A lost connection is the other half.  kombu then tries to give every message back, running or not, through a channel
that has no address any more, and the worker dies of it (kombu 5.7).  So a lost channel gives nothing back: messages
whose task still runs are moved to the new channel, which holds their lease and takes their acknowledgement, and the
others come back by themselves when the timeout is over.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import Any

from celery.utils.log import get_logger
from celery.worker import state
from redis import RedisError

from tasks.store.address import redis_url_of
from tasks.store.store import Store
from workers.celery_ext.heartbeat import PeriodicStep, client

logger = get_logger(__name__)

BEATS_PER_TIMEOUT = 4


class Lease(PeriodicStep):
    """Refreshes the time of every message that this worker holds; started anew with every broker connection."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, consumer: Any, **options: Any) -> None:
        self.channel: Any = None
        super().__init__(consumer, **options)

    def start(self, consumer: Any) -> None:
        lost, self.channel = self.channel, consumer.task_consumer.channel
        self.channel.qos.restore_at_shutdown = False
        if lost is not None:
            move_messages(lost, self.channel)
        self.repeat(consumer, self.channel.visibility_timeout / BEATS_PER_TIMEOUT, refresh, self.channel)

    def shutdown(self, consumer: Any) -> None:
        """The worker ends: what it has not acknowledged goes back at once when its channel is closed, right after."""
        super().shutdown(consumer)
        if self.channel is not None and not self.channel.closed:
            take_off(held_messages(self.channel).values())
            self.channel.qos.restore_at_shutdown = True


def take_off(messages: Iterable[Any]) -> None:
    """These come back although nobody died: one death less for each (see `tasks/task.py`)."""
    try:
        store = Store(client(redis_url_of(os.environ)))
        for message in messages:
            if arguments := message.payload[0]:
                store.count_failure(str(arguments[0]), message.headers["id"], -1)
    except (RedisError, OSError, LookupError, TypeError) as error:
        logger.warning("tasks that are given back count as tried: %r", error)


def held_messages(channel: Any) -> dict[str, Any]:
    """The messages that the channel has delivered and nobody has acknowledged yet, by their tags."""
    qos = channel.qos
    # kombu has no public name for either; a test watches over both.
    return {tag: message for tag, message in list(qos._delivered.items()) if tag not in qos._dirty}


def move_messages(lost: Any, channel: Any) -> None:
    """Make `channel` the one that answers for the messages of a `lost` one.

    All can then be acknowledged; only those whose task runs are held, for the others will never be run here.
    """
    running = {request.message.delivery_tag for request in tuple(state.active_requests)}
    for tag, message in held_messages(lost).items():
        message.channel = channel
        if tag in running:
            channel.qos._delivered[tag] = message


def refresh(channel: Any) -> None:
    """Set the time of every held message to now. A broker that is away is the event loop's concern, not ours."""
    tags = held_messages(channel)
    if not tags:
        return
    try:
        with channel.conn_or_acquire() as client:
            client.zadd(channel.unacked_index_key, dict.fromkeys(tags, time.time()), xx=True)
    except (RedisError, OSError) as error:
        logger.warning("the lease of %d tasks was not refreshed: %s", len(tags), error)
