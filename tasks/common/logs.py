"""Log lines with fields (run, generation, child, stage, task and worker), and the secrets that no line shows.

    with logs.fields(run="demo-1a2b", generation=2):
        log.info("sent")          # ... sent  run=demo-1a2b generation=2

A secret of the environment is a variable, or the file that the variable with _FILE behind its name names.  The file is
read each time, so a key can be changed under a running worker, and child processes do not inherit it.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType

from tasks.common.files import FileTooLarge, read_limited

FIELDS = ("run", "generation", "child", "stage", "task", "worker")  # in this order

_fields: ContextVar[Mapping[str, str]] = ContextVar("fields", default=MappingProxyType({}))  # it is frozen
_process_fields: dict[str, str] = {}


@contextmanager
def fields(**values: object) -> Iterator[None]:
    """Lines that are logged in the block have these `FIELDS`, and those of the blocks around it."""
    token = _fields.set({**_fields.get(), **_as_text(values)})
    try:
        yield
    finally:
        _fields.reset(token)


def set_fields(fields: Mapping[str, object]) -> None:
    """From here on lines of this thread have these fields and no others."""
    _fields.set(_as_text(fields))


def set_process_fields(**fields: object) -> None:
    _process_fields.update(_as_text(fields))


def set_up(handlers: Sequence[logging.Handler], level: str | int) -> None:
    """Send all log lines of this process to `handlers`."""
    for handler in handlers:
        set_formatter(handler)
    logging.basicConfig(level=level, handlers=list(handlers), force=True)
    for chatty in ("httpx", "httpx2", "httpcore", "httpcore2", "urllib3"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


def set_formatter(handler: logging.Handler) -> None:
    """Give a handler the format of this project; from here on it shows no secret of the environment."""
    for name, value in os.environ.items():
        if (found := re.fullmatch(r"(\w*(?:_KEY|_PASSWORD|_TOKEN|_SECRET|_AUTH))(?:_FILE)?", name)) and value:
            with suppress(SecretError):
                secret(found[1])
        elif name.endswith(("_URL", "_URI", "_ENDPOINT")):
            for password in (_login_of(value)[2], *re.findall(r"[?&]password=([^&]*)", value)):
                register_secret(password)
    handler.setFormatter(Text())


class Text(logging.Formatter):
    """`TIME LEVEL logger message  run=... generation=... child=... stage=... task=... worker=...`"""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's name
        fields = " ".join(f"{name}={value}" for name, value in _fields_of(record).items())
        return super().formatMessage(record) + (f"  {fields}" if fields else "")

    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record))


def _fields_of(record: logging.LogRecord) -> dict[str, str]:
    """The fields of a line, in the order of `FIELDS`; a record's attribute `log_fields` adds to them."""
    found = {**_process_fields, **_fields.get(), **getattr(record, "log_fields", {})}
    return {name: found[name] for name in FIELDS if name in found}


def _as_text(fields: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in fields.items() if value not in (None, "")}


SECRET_BYTES = 65_536  # of a file with a key or a password
SHORTEST = 9  # characters; a shorter text may be an ordinary word of a message
_registered: set[str] = set()


class SecretError(ValueError):
    """The file of a secret cannot be read."""


def secret(name: str, environment: Mapping[str, str] | None = None) -> str:
    """The secret called `name`, without the space around it; "" where there is none.  `redact` knows it from now on."""
    environment = os.environ if environment is None else environment
    if environment.get(name):
        return register_secret(environment[name].strip())
    if not (path := environment.get(f"{name}_FILE")):
        return ""
    try:
        return register_secret(read_limited(Path(path), SECRET_BYTES, pipes=True).decode().strip())
    except UnicodeDecodeError:
        problem = "is not UTF-8 text"
    except FileTooLarge as error:
        problem = f"holds no secret: {error}"
    except OSError as error:
        problem = f"cannot be read: {error.strerror or error}"
    raise SecretError(f"{name}_FILE: {path} {problem}")


def register_secret(text: str) -> str:
    """Have `redact` remove `text` from now on; returns `text`."""
    if len(text) >= SHORTEST:
        _registered.add(text)
    return text


def redact(text: str) -> str:
    """`text` without the secrets that this process has read."""
    for one in sorted(_registered, key=len, reverse=True):  # a copy: threads may add, and one may hold another
        text = text.replace(one, "[secret]")
    return text


def redacted(url: str) -> str:
    """`url` with stars for its password: the only form that may be shown or logged, also of what is no URL."""
    before, user, password, host = _login_of(url)
    shown = f"{before}{user}:***@{host}" if password else url
    # What follows in a query may be the rest of a password, unless it is an option of an address.
    return re.sub(r"([?&]password=).*?(?=&(?:db|username|ssl_\w+)=|$)", r"\1***", shown, flags=re.DOTALL)


def _login_of(url: str) -> tuple[str, str, str, str]:
    """What precedes the login of an address, user, password ("" for none), and what follows it.

    Of an address that cannot be parsed too: all up to the last "@" may be a password with characters of its own.
    """
    login, _, host = url.rpartition("@")
    scheme, slashes, name = login.partition("://")
    user, _, password = (name if slashes else login).partition(":")
    return f"{scheme}{slashes}" if slashes else "", user, password, host
