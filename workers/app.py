"""The Celery application of workers (`python -m workers`) and of processes that send tasks to them.

Its settings keep tasks through the death of a pool process, of a worker or of the broker.  On Redis a message that was
taken and not acknowledged for `visibility_timeout` seconds returns to its queue.  The timeout is short, so that a dead
worker's tasks return soon; the lease (`celery_ext/lease.py`) keeps those of a living worker.
"""

from __future__ import annotations

import os
from typing import Any

import kombu
from celery import Celery

from tasks.queues import QUEUES, modules_of
from tasks.store.address import backend_url, broker_url, redis_url_of
from tasks.task import FarmTask
from workers.celery_ext import broker
from workers.celery_ext.admission import AdmissionControl
from workers.celery_ext.lease import Lease
from workers.celery_ext.report import Heartbeat
from workers.queues import MODULES_VARIABLE, QUEUE_VARIABLE

VISIBILITY_VARIABLE = "WHETSTONE_VISIBILITY_TIMEOUT"  # seconds
DEFAULT_VISIBILITY_S = 10.0
SOFT_SHUTDOWN_S = 2.0
THREE_DAYS_S = 3 * 24 * 3600
# A task that hangs keeps its lease, so it needs a limit.  Stages have shorter limits, which their messages carry; this
# one is for long tasks, such as the clustering of a large vocabulary.
HARD_TIME_LIMIT_S = 6 * 3600
# A connection can stop answering without being closed (a failover, a firewall).  A reply that takes longer is taken for
# lost, and a connection that waits for messages is checked so often: together about 20 s until a worker has a new one.
BROKER_REPLY_S = 3.0
BROKER_CONNECT_S = 5.0
BROKER_CHECK_S = 5
RESULT_REPLY_S = 15.0


def create_app(environment: dict[str, str]) -> Celery[Any]:
    broker.register_transport()
    FarmTask.Request = "workers.celery_ext.lease:SettledRequest"  # Celery imports it in a worker
    url = redis_url_of(environment)
    visibility_s = float(environment.get(VISIBILITY_VARIABLE) or DEFAULT_VISIBILITY_S)
    app = Celery(
        "whetstone", broker=broker_url(url), backend=backend_url(url), task_cls=FarmTask, amqp=broker.ReadableMessages
    )
    app.conf.update(MESSAGES | recovery(visibility_s) | results(url))
    queue, modules = environment.get(QUEUE_VARIABLE), environment.get(MODULES_VARIABLE)
    # None in a process that only sends by name.
    app.conf.include = tuple(modules.split(",")) if modules else modules_of(queue) if queue else ()
    app.steps["consumer"].update((Lease, AdmissionControl, Heartbeat))
    if queue == "gpu":
        from workers.sglang.step import FillServer, TargetHostStep

        app.steps["worker"].add(TargetHostStep)
        app.steps["consumer"].add(FillServer)
    return app


MESSAGES: dict[str, Any] = {
    "accept_content": ["json"],
    "task_serializer": "json",
    "result_serializer": "json",
    "task_queues": [kombu.Queue(name, kombu.Exchange(name), name) for name in QUEUES],
    "task_default_queue": "cpu",
    "task_routes": {f"{name}.*": {"queue": name} for name in QUEUES},
    "worker_redirect_stdouts_level": "INFO",
    # The events that Flower and the live view read.
    "task_track_started": True,
    "task_send_sent_event": True,
    "worker_send_task_events": True,
}


def recovery(visibility_s: float) -> dict[str, Any]:
    """What happens to a task when its pool process, its worker or the broker dies."""
    return {
        "task_acks_late": True,
        "task_reject_on_worker_lost": True,
        "task_retry_on_worker_lost": True,  # with max_retries: a task that always kills its process must end
        "task_time_limit": HARD_TIME_LIMIT_S,
        "worker_prefetch_multiplier": 1,
        "worker_deduplicate_successful_tasks": True,
        "worker_cancel_long_running_tasks_on_connection_loss": False,  # the lease holds them
        "worker_soft_shutdown_timeout": SOFT_SHUTDOWN_S,
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "broker_channel_error_retry": True,  # a broker that refuses a command is tried again, like a lost one
        "broker_transport_options": {
            "visibility_timeout": visibility_s,
            "unacked_restore_interval": 1,  # seconds between checks for messages past the visibility timeout
            "unacked_restore_throttle": 1,  # at most one check a second on each worker
            "unacked_mutex_expire": 5,  # so that a worker which dies during the check does not block the others
            "queue_order_strategy": "priority",
            "socket_timeout": BROKER_REPLY_S,
            "socket_connect_timeout": BROKER_CONNECT_S,
            "socket_keepalive": True,
            "health_check_interval": BROKER_CHECK_S,
        },
        # More than a minute of attempts, so that no message is lost while a broker restarts.
        "task_publish_retry": True,
        "task_publish_retry_policy": dict(max_retries=60, interval_start=0.1, interval_step=0.2, interval_max=2.0),
    }


def results(url: str) -> dict[str, Any]:
    """How results are kept: longer than any run, and through a restart of the backend."""
    return {
        "result_backend_always_retry": True,
        "result_extended": True,  # the arguments are stored with the result, for a retry
        "result_expires": THREE_DAYS_S,
        "result_chord_expires": THREE_DAYS_S,  # a chord whose counter has expired never runs its body
        "redis_socket_keepalive": not url.startswith("unix:"),  # redis-py refuses it for a Unix socket
        "redis_socket_timeout": RESULT_REPLY_S,
        "redis_socket_connect_timeout": BROKER_CONNECT_S,
        "redis_retry_on_timeout": True,
        "redis_backend_health_check_interval": 10,
    }


app = create_app(dict(os.environ))
