"""The consumer of a worker: it accepts only messages with which one of its tasks can run.

Any other message is refused with one line in the log, acknowledged and set aside (`tasks/store/set_aside.py`): it is
not run, leaves no result, and does not return.  The driver of its run finds it there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from celery.utils.log import get_logger
from celery.worker.consumer import Consumer as CeleryConsumer
from pydantic import Field, StringConstraints, TypeAdapter

from tasks.escape import quote
from tasks.message import MESSAGE, MessageRefused, check_arguments, check_part
from tasks.tracing import HEADER, HEADER_PATTERN

logger = get_logger(__name__)

MAX_DELAY_S = 3600.0  # of a task by its message
MAX_TIME_LIMIT_S = 7 * 24 * 3600.0  # that a message may set
Seconds = Annotated[float, Field(ge=0, le=MAX_TIME_LIMIT_S)] | None
Id = Annotated[str, StringConstraints(pattern="^[A-Za-z0-9_.:-]{1,200}$")]

HEADERS: Mapping[str, Any] = {
    "id": Id,
    "retries": Annotated[int, Field(ge=0, le=1000)],
    "timelimit": Annotated[list[Seconds], Field(min_length=2, max_length=2)] | None,
    "root_id": Id | None,
    "parent_id": Id | None,
    "group": Id | None,
    "group_index": int | None,
    "lang": str | None,
    "origin": str | None,
    "shadow": str | None,
    "argsrepr": str | None,
    "kwargsrepr": str | None,
    "expires": str | None,
    "ignore_result": bool | None,
    "replaced_task_nesting": int | None,
    "stamped_headers": list[str] | None,
    "stamps": dict[str, Any] | None,
    HEADER: Annotated[str, StringConstraints(pattern=HEADER_PATTERN)] | None,
}
CHECKS = {name: TypeAdapter(hint, config=MESSAGE) for name, hint in HEADERS.items()}
NEEDED = ("id",)
SIGNATURE = {"task": str, "args": list | tuple, "kwargs": dict, "options": dict}


class Consumer(CeleryConsumer):
    """Celery's consumer, with a check of each message."""

    def update_strategies(self) -> None:
        for task in self.app.tasks.values():
            task.Request = "workers.celery_ext.request:SettledRequest"
        super().update_strategies()

    def create_task_handler(self, *args: Any, **kwargs: Any) -> Any:
        take = super().create_task_handler(*args, **kwargs)

        def check_and_take(message: Any) -> None:
            try:
                check_message(message, self.app.tasks)
            except MessageRefused as reason:
                refuse_message(message, str(reason))
            else:
                take(message)

        return check_and_take

    def on_decode_error(self, message: Any, exc: Exception) -> None:
        refuse_message(message, f"it cannot be read: {quote(str(exc))}")


def refuse_message(message: Any, reason: str) -> None:
    """Log the reason, set the message aside, and acknowledge it."""
    queue = (message.delivery_info or {}).get("routing_key")
    message.channel.refuse(f"the queue {queue}", reason, json.dumps(message._raw, default=repr))
    message.ack_log_error(logger, message.channel.connection_errors)


def check_message(message: Any, tasks: Mapping[str, Any]) -> None:
    """Whether a worker with these tasks may take a message.  Raises: MessageRefused, with what is wrong in one line."""
    name = message.headers.get("task")
    if not isinstance(name, str) or name not in tasks or name.startswith("celery."):
        raise MessageRefused(f"this worker has no task {quote(name)}")
    try:
        check_headers(message.headers)
        args, kwargs, embedded = read_body(message)
        check_arguments(tasks[name].run, args, kwargs)
        for when, signatures in embedded.items():
            check_callbacks(when, signatures, tasks)
    except MessageRefused as reason:
        raise MessageRefused(f"{name}: {reason}") from None


def check_headers(headers: Mapping[str, Any]) -> None:
    """Raises: MessageRefused."""
    for name, kind in CHECKS.items():
        if name in headers or name in NEEDED:
            check_part(f"its {name}", kind, headers.get(name))
    if headers.get("eta") is not None and _time("eta", headers) > datetime.now(UTC) + timedelta(seconds=MAX_DELAY_S):
        raise MessageRefused(f"its eta is {quote(headers['eta'])}, which is too far away")
    if headers.get("expires") is not None:
        _time("expires", headers)


def read_body(message: Any) -> tuple[list[Any], dict[str, Any], dict[str, Any]]:
    """The arguments of a message, and what is to be sent after it.  Raises: MessageRefused."""
    if message.content_type != "application/json":
        raise MessageRefused(f"its content is {quote(message.content_type)}, not JSON")
    try:
        body = message.payload
    except Exception as error:  # whatever a codec or a decoder of kombu's raises
        raise MessageRefused(f"its body cannot be read: {quote(str(error))}") from None
    kinds = (list, dict, dict)
    if not isinstance(body, list) or len(body) != 3 or not all(map(isinstance, body, kinds)):
        raise MessageRefused("its body is not a list of arguments, keyword arguments and callbacks")
    return body[0], body[1], body[2]


def check_callbacks(when: str, value: Any, tasks: Mapping[str, Any]) -> None:
    """Check what is sent after a task: the rest of its chain, or the body of its chord.  Raises: MessageRefused."""
    if value is None:
        return
    for signature in value if isinstance(value, list) and when != "chord" else [value]:
        sound = isinstance(signature, dict) and all(isinstance(signature.get(k), kind) for k, kind in SIGNATURE.items())
        if not sound or (when != "chord" and signature.get("immutable") is not True):
            raise MessageRefused(f"its {quote(when)} is {quote(value)}, which is not a task with all of its arguments")
        if signature.get("immutable") is True and signature["task"] in tasks:
            check_arguments(tasks[signature["task"]].run, signature["args"], signature["kwargs"])


def _time(name: str, headers: Mapping[str, Any]) -> datetime:
    """Raises: MessageRefused."""
    try:
        at = datetime.fromisoformat(headers[name])
    except (TypeError, ValueError):
        raise MessageRefused(f"its {name} is {quote(headers[name])}, which is no time") from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)
