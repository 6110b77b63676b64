"""The orchestrator's Celery application: it sends, and reads results by their ids.

Celery's results otherwise listen for their tasks on a connection of their own, kept until the process ends, long
after the farm: the driver watches the store instead (see `evaluator`).
"""

from __future__ import annotations

import os
from typing import Any

from celery import Celery
from celery.backends.redis import RedisBackend

from tasks.redis_url import ENVIRONMENT_VARIABLE, PASSWORD_VARIABLE
from workers.app import create_app


class SilentBackend(RedisBackend):
    """Celery's results on Redis, without listening for them."""

    def on_task_call(self, producer: Any, task_id: str) -> None:
        return

    def add_pending_result(self, result: Any, weak: bool = False, start_drainer: bool = True) -> Any:
        return result

    def remove_pending_result(self, result: Any) -> Any:
        return result


def make_sender(redis_url: str) -> Celery:
    """An application that sends to the farm at this address, whatever the environment says of another one."""
    here = {ENVIRONMENT_VARIABLE: redis_url, PASSWORD_VARIABLE: "", f"{PASSWORD_VARIABLE}_FILE": ""}
    app = create_app({**os.environ, **here})
    name = f"{SilentBackend.__module__}:{SilentBackend.__qualname__}"
    address = str(app.conf.result_backend).removeprefix("redis+")
    app.conf.update(result_backend=f"{name}+{address}")
    return app
