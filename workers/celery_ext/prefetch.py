"""How many messages a gpu worker takes: as many as fill its server.

When most answers of an individual have arrived, few of its requests are in flight.  So the worker takes the next
message as soon as no request waits for its turn (`tasks/gpu/target.py`), and the last answers of one individual
run beside the first of the next.  The number of slots is only the most that it takes.  What it does not take is left
to other workers.
"""

from __future__ import annotations

from typing import Any

from celery import bootsteps

from tasks.gpu.target import REQUESTS, RequestQueue
from workers.celery_ext.unacked import unacknowledged

PREPARING = 8  # tasks without requests at once: those that have just begun, and those that send none


def has_room(held: int, requests: RequestQueue) -> bool:
    """Whether a worker that holds so many messages should take another one."""
    return requests.waiting == 0 and held - requests.batches < PREPARING


class FillServer(bootsteps.StartStopStep):
    """Applies `has_room` to the channel of every broker connection."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def start(self, consumer: Any) -> None:
        channel, hub = consumer.task_consumer.channel, consumer.hub
        channel.qos.has_room = lambda: has_room(len(unacknowledged(channel)), REQUESTS)
        REQUESTS.on_room = lambda: hub.call_soon(lambda: None)  # wakes the loop that consumes messages

    def stop(self, consumer: Any) -> None:
        REQUESTS.on_room = lambda: None
