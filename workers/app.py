"""The Celery application of workers (`python -m workers`) and of whoever sends to them.

The settings below are there so that a death loses nothing: of a pool child, of a worker, of the broker.  The broker
is a Redis, whose acknowledgements Celery emulates: a message taken and not acknowledged for `visibility_timeout`
seconds is given to somebody else.  The timeout is short, so that a dead worker's tasks are soon back, and the lease
(`workers/celery_ext/lease.py`) keeps the tasks of a living worker from being given away.
"""

from __future__ import annotations

import os
from typing import Any

import kombu
from celery import Celery

from tasks.queues import QUEUES
from tasks.store.address import backend_url, broker_url, redis_url_of
from tasks.task import FarmTask
from workers import queues
from workers.celery_ext import threads, transport
from workers.celery_ext.admission import AdmissionControl
from workers.celery_ext.heartbeat import ReportStep
from workers.celery_ext.lease import Lease
from workers.celery_ext.messages import ReadableMessages

VISIBILITY_VARIABLE = "WHETSTONE_VISIBILITY_TIMEOUT"  # seconds
DEFAULT_VISIBILITY_S = 10.0
SOFT_SHUTDOWN_S = 2.0
THREE_DAYS_S = 3 * 24 * 3600
# A hung task keeps its lease for ever, so it may not hang for ever.  Stages have a limit of their own, which their
# messages carry; this one is for what takes its time, such as a large vocabulary that is clustered.
HARD_TIME_LIMIT_S = 6 * 3600


def create_app(environment: dict[str, str]) -> Celery[Any]:
    """The application for one process; `environment` is normally `os.environ`. Raises: ValueError on a bad address."""
    transport.register()
    url = redis_url_of(environment)
    visibility_s = float(environment.get(VISIBILITY_VARIABLE) or DEFAULT_VISIBILITY_S)
    app = Celery(
        "whetstone", broker=broker_url(url), backend=backend_url(url), task_cls=FarmTask, amqp=ReadableMessages
    )
    app.conf.update(messages() | deaths(visibility_s) | results(url) | watching())
    app.conf.include = queues.modules_to_import(environment)
    threads.install()
    app.steps["consumer"].update((Lease, AdmissionControl, ReportStep))
    if environment.get(queues.QUEUE_VARIABLE) == "gpu":
        from workers.sglang.host import TargetHostStep

        app.steps["worker"].add(TargetHostStep)
    return app


def messages() -> dict[str, Any]:
    """What a message may be and where it goes."""
    return {
        "accept_content": ["json"],
        "worker_consumer": "workers.celery_ext.consumer:Consumer",
        "task_serializer": "json",
        "result_serializer": "json",
        "task_queues": [kombu.Queue(name, kombu.Exchange(name), name) for name in QUEUES],
        "task_default_queue": "cpu",
        "task_routes": queues.ROUTES,
        "enable_utc": True,
        "worker_hijack_root_logger": True,
        "worker_redirect_stdouts_level": "INFO",
    }


def deaths(visibility_s: float) -> dict[str, Any]:
    """What happens to a task when its child, its worker or the broker dies."""
    return {
        "task_acks_late": True,
        "task_reject_on_worker_lost": True,
        "task_retry_on_worker_lost": True,  # with max_retries: a task that always kills its child must end
        "task_time_limit": HARD_TIME_LIMIT_S,
        "worker_prefetch_multiplier": 1,
        "worker_deduplicate_successful_tasks": True,
        "worker_cancel_long_running_tasks_on_connection_loss": False,  # the lease holds on to them
        "worker_soft_shutdown_timeout": SOFT_SHUTDOWN_S,
        "broker_connection_retry": True,
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "broker_transport_options": {
            "visibility_timeout": visibility_s,
            "unacked_restore_interval": 1,  # look every second ...
            "unacked_restore_throttle": 1,  # ... each time, for what has been out of sight too long
            "unacked_mutex_expire": 5,  # a worker that dies while looking keeps the others from it no longer
            "queue_order_strategy": "priority",
            "socket_keepalive": True,
            "health_check_interval": 10,
        },
        # A minute and more of trying, so that a broker that restarts loses no message.
        "task_publish_retry": True,
        "task_publish_retry_policy": {
            "max_retries": 60,
            "interval_start": 0.1,
            "interval_step": 0.2,
            "interval_max": 2.0,
        },
    }


def results(url: str) -> dict[str, Any]:
    """How results are kept: longer than any run, and through a restart of the backend."""
    return {
        "result_backend_always_retry": True,
        "result_extended": True,  # arguments lie beside the result, for a retry
        "result_expires": THREE_DAYS_S,
        "result_chord_expires": THREE_DAYS_S,  # a chord that outlives it hangs without a word
        "redis_socket_keepalive": not url.startswith("unix:"),  # redis-py refuses it for a Unix socket
        "redis_retry_on_timeout": True,
        "redis_backend_health_check_interval": 10,
    }


def watching() -> dict[str, Any]:
    """What Flower and the live view need."""
    return {"task_track_started": True, "task_send_sent_event": True, "worker_send_task_events": True}


app = create_app(dict(os.environ))
