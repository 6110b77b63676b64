"""What a line of a log says beside its message: the run, generation, child, stage and task it is about, and the worker.

    with logs.about(run="demo-1a2b", generation=2):
        log.info("sent")          # ... sent  run=demo-1a2b generation=2

WHETSTONE_LOG_FORMAT=json writes a JSON object a line; without it a line is text that a person reads.  Secrets of the
environment are blotted out of both, wherever they come from.
"""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

from tasks.secret import SecretError, redact, register_secret, secret

FORMAT_VARIABLE = "WHETSTONE_LOG_FORMAT"
FIELDS = ("run", "generation", "child", "stage", "task", "worker")  # in this order
_SECRET_NAME = re.compile(r"(\w*(?:_KEY|_PASSWORD|_TOKEN|_SECRET|_AUTH))(?:_FILE)?")

_about: ContextVar[Mapping[str, str]] = ContextVar("about", default=MappingProxyType({}))  # it is frozen
_everywhere: dict[str, str] = {}


@contextmanager
def about(**fields: object) -> Iterator[None]:
    """Lines logged within are about these `FIELDS`, and about those around."""
    token = _about.set({**_about.get(), **_told(fields)})
    try:
        yield
    finally:
        _about.reset(token)


def now_about(fields: Mapping[str, object]) -> None:
    """From here on lines of this thread are about these fields and no others."""
    _about.set(_told(fields))


def always(**fields: object) -> None:
    """All lines of this process have these fields."""
    _everywhere.update(_told(fields))


def set_up(handlers: Sequence[logging.Handler], level: str | int) -> None:
    """Have all that is logged in this process go to `handlers`.  Raises: ValueError for an unknown format or level."""
    for handler in handlers:
        dress(handler)
    logging.basicConfig(level=level, handlers=list(handlers), force=True)
    for chatty in ("httpx", "httpx2", "httpcore", "httpcore2", "urllib3"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


def dress(handler: logging.Handler) -> None:
    """Have a handler write its lines as the environment says.  Raises: ValueError for an unknown format."""
    for name, value in os.environ.items():
        if (found := _SECRET_NAME.fullmatch(name)) and value:
            register_secret(_secret(found[1]))
        elif name.endswith("_URL"):
            register_secret(_password(value))
    handler.setFormatter(JsonLines() if are_json() else Text())


def are_json() -> bool:
    """Whether logs are JSON lines.  Raises: ValueError for a format that we do not know."""
    chosen = os.environ.get(FORMAT_VARIABLE) or "text"
    if chosen not in ("text", "json"):
        raise ValueError(f"{FORMAT_VARIABLE} is {chosen!r}, and can be text or json")
    return chosen == "json"


def fields_of(record: logging.LogRecord) -> dict[str, str]:
    """What a line is about, in the order of `FIELDS`; whoever logs may say more in the record's own `about`."""
    found = {**_everywhere, **_about.get(), **getattr(record, "about", {})}
    return {name: found[name] for name in FIELDS if name in found}


class Text(logging.Formatter):
    """`TIME LEVEL logger message  run=... generation=... child=... stage=... task=... worker=...`"""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's name
        told = " ".join(f"{name}={value}" for name, value in fields_of(record).items())
        return super().formatMessage(record) + (f"  {told}" if told else "")

    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record))


class JsonLines(logging.Formatter):
    """One object a line: time (UTC), level, logger, message, what it is about, and the exception where there is one."""

    converter = staticmethod(time.gmtime)

    def format(self, record: logging.LogRecord) -> str:
        moment = self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}Z"
        told = {"time": moment, "level": record.levelname, "logger": record.name}
        told |= {"message": redact(record.getMessage()), **fields_of(record)}
        if record.exc_info:
            told["exception"] = redact(self.formatException(record.exc_info))
        return json.dumps(told)


def _told(fields: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in fields.items() if value not in (None, "")}


def _secret(name: str) -> str:
    try:
        return secret(name)
    except SecretError:
        return ""


def _password(url: str) -> str:
    """The password in an address, as it is written there; "" where there is none."""
    found = re.search(r"://[^:/?#@]*:([^/?#@]*)@|[?&]password=([^&#]*)", url)
    return (found[1] or found[2] or "") if found else ""
