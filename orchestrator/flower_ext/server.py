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
from tornado.ioloop import IOLoop

from orchestrator.farm.producer import make_sender
from orchestrator.flower_ext.pages import COLUMNS, SHOWN, Farm, Pages, add_run_fields, routes
from tasks.common import logs
from tasks.common.files import check_own_file, private_folder
from tasks.store.client import NO_WAITING, connect, store_url
from tasks.store.store import Store

SAVE_EVERY_MS = 5000  # what a kill may cost of the history
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


def serve(config: ServerConfig) -> None:
    """Serve until SIGTERM or SIGINT."""
    for history in private_folder(config.data).glob(f"{HISTORY}*"):
        check_own_file(history)  # Flower loads it as a pickle, which runs what its writer wants
    logs.set_up([logging.StreamHandler()], logging.INFO)
    logging.getLogger("tornado.access").setLevel(logging.WARNING)  # who was refused, and not every picture
    configure(config)
    store = Store(connect(store_url(config.redis_url), NO_WAITING, timeout_s=STORE_TIMEOUT_S))
    farm = Farm(make_sender(config.redis_url), config.outputs, store, config.data / "retries")
    options.format_task = lambda task: add_run_fields(task, farm)
    app = Flower(capp=farm.app, options=options, template_loader=Pages(), **flower_settings)
    app.add_handlers(".*", routes(farm))
    port = app.start_http_server()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: IOLoop.current().add_callback_from_signal(app.io_loop.stop))
    print(config.note or f"http://{config.address}:{port}", flush=True)
    try:
        app.start()
    finally:
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
