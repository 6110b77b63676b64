"""The process that serves Flower: its options, our addresses before its own, start and end."""

from __future__ import annotations

import logging
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flower.app import Flower
from flower.options import options
from flower.urls import settings as flower_settings
from flower.views.tasks import TASK_COLUMNS
from tornado.ioloop import IOLoop, PeriodicCallback

from orchestrator.farm.producer import make_sender
from orchestrator.flower_ext.event_check import EventCheck
from orchestrator.flower_ext.guard import protect
from orchestrator.flower_ext.handlers import Pages, routes
from orchestrator.flower_ext.state import Monitor, RetryProcesses
from orchestrator.flower_ext.views import COLUMNS, SHOWN, add_run_fields
from tasks import logs
from tasks.private import check_own_file, private_folder
from tasks.store.address import store_url
from tasks.store.client import connect
from tasks.store.store import Store
from tasks.store.waiting import NO_WAITING

log = logging.getLogger(__name__)
SAVE_EVERY_MS = 5000  # what a kill may cost of the history
REFRESH_EVERY_MS = 2000
TASKS_KEPT = 20_000  # in memory and in the history: saving them takes well under a second
STORE_TIMEOUT_S = 5.0
HISTORY = "history"


@dataclass(frozen=True)
class ServerConfig:
    """The farm, the folder of all runs, the folder of Flower's history, the address to listen at, the passwords, and
    what to print in place of the address."""

    redis_url: str
    outputs: Path
    data: Path
    address: str
    port: int
    credentials: Sequence[str]
    note: str = ""


def serve(config: ServerConfig, environment: dict[str, str]) -> None:
    """Serve until SIGTERM or SIGINT.  Raises: OSError, ValueError for a bad address."""
    for history in private_folder(config.data).glob(f"{HISTORY}*"):
        check_own_file(history)  # Flower loads it as a pickle, which runs what its writer wants
    logs.set_up([logging.StreamHandler()], logging.INFO)
    logging.getLogger("tornado.access").setLevel(logging.WARNING)  # who was refused, and not every picture
    configure(config)
    farm = make_sender(config.redis_url)
    app = Flower(capp=farm, options=options, template_loader=Pages(), **flower_settings)
    store = Store(connect(store_url(config.redis_url), NO_WAITING, timeout_s=STORE_TIMEOUT_S))
    retries = RetryProcesses(config.data / "retries", environment)
    monitor = Monitor(farm, config.outputs, store, retries, app.executor, app.events.state.tasks.get)
    options.format_task = lambda task: add_run_fields(task, monitor)
    app.add_handlers(".*", routes(monitor))
    protect(app, config.credentials)
    app.events.on_event = EventCheck(app.events.on_event)
    port = app.start_http_server()
    fresh = PeriodicCallback(monitor.refresh_periodically, REFRESH_EVERY_MS)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: IOLoop.current().add_callback_from_signal(app.io_loop.stop))
    app.io_loop.add_callback(monitor.refresh_periodically)
    fresh.start()
    print(config.note or f"http://{config.address}:{port}", flush=True)
    try:
        app.start()
    finally:
        fresh.stop()
        retries.stop()
        app.stop()


def configure(config: ServerConfig) -> None:
    """Flower's options, which are global to a process.

    It is read-only but for Retry: pausing, growing and stopping are the commands of the farm, and a task that is
    revoked behind the back of its run would leave that run waiting.
    """
    TASK_COLUMNS.update(COLUMNS)
    values: dict[str, Any] = {
        "address": config.address,
        "port": config.port,
        "basic_auth": list(config.credentials),
        "read_only": True,
        "persistent": True,
        "db": str(config.data / HISTORY),
        "state_save_interval": SAVE_EVERY_MS,
        "max_tasks": TASKS_KEPT,
        "tasks_columns": SHOWN,
    }
    for name, value in values.items():
        setattr(options, name, value)
