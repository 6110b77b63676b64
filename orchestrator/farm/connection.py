"""Connections to a farm at a Redis address: of a run, which waits for it, and of a command, which looks at it."""

from __future__ import annotations

import os
import re
import socket
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import redis
from celery import Celery
from kombu.exceptions import OperationalError

from orchestrator.farm import FarmLost, FarmUnavailable, StoreLost
from orchestrator.farm.producer import make_sender
from tasks.common.files import LONGEST_SOCKET_PATH, OTHERS, is_own_folder
from tasks.common.logs import redacted
from tasks.common.text import escape_control
from tasks.openai.endpoint import DEFAULT_BASE_URL, join_providers
from tasks.queues import QUEUES
from tasks.store.address import (
    DEFAULT,
    ENVIRONMENT_VARIABLE,
    PASSWORD_VARIABLE,
    AddressError,
    queues_url,
    redis_url_of,
    store_url,
)
from tasks.store.client import NO_WAITING, StoreUnusable, Waiting, connect, refusal_of, wait_limit_of
from tasks.store.store import Store, open_store
from tasks.store.workers import WorkerRegistry

PING_S = 5.0
START_WAIT_S = 15.0  # for a server that loads its data
COMMAND_WAIT_S = 15.0  # of a command that looks at a farm or changes something there


@dataclass(frozen=True)
class FarmConnection:
    """A farm that runs: how to send to it, its store, and whether rules answer in place of a language model."""

    app: Celery
    broker: redis.Redis
    store: Store
    rules: bool
    check: Callable[[], None]  # raises FarmLost when the farm has ended

    def queues(self) -> Mapping[str, int]:
        """Messages that wait, by queue; those being worked on are not among them."""
        return {name: int(self.broker.llen(name)) for name in QUEUES}


@contextmanager
def external_farm(redis_url: str, line: Callable[[str], None]) -> Iterator[FarmConnection]:
    """The farm whose workers are at this address or, when it is empty, where `external_address` finds one."""
    redis_url = external_address(redis_url)
    line(f"using the farm at {redacted(redis_url)}")
    with connected(redis_url, rules=False, waiting=run_waiting(line)) as external:
        if called := endpoints_of(external):
            line(f"its openai workers call {join_providers(called)}, unless the settings name another address")
        yield external


def endpoints_of(farm: FarmConnection) -> set[str]:
    """The addresses that the openai workers of a farm call where a run names none."""
    found = [report.get("endpoint") for report in WorkerRegistry(farm.store.redis).workers()]
    return {escape_control(one.get("base_url") or DEFAULT_BASE_URL) for one in found if one}


def run_waiting(line: Callable[[str], None], check: Callable[[], None] = lambda: None) -> Waiting:
    """How long the driver of a run waits for a store that refuses: as long as the environment says."""
    try:
        return Waiting(wait_limit_of(os.environ), line, check)
    except ValueError as error:
        raise FarmUnavailable(str(error)) from None


@contextmanager
def connected(
    redis_url: str, *, rules: bool, check: Callable[[], None] = lambda: None, waiting: Waiting | None = None
) -> Iterator[FarmConnection]:
    """The farm at this address, whose store and broker are waited for as `waiting` says; a command waits briefly."""
    waiting, where = waiting or Waiting(COMMAND_WAIT_S, check=check), redacted(redis_url)
    try:
        with connect(store_url(redis_url), Waiting(START_WAIT_S, waiting.report, check)) as client:
            client.ping()
        broker, store = connect(queues_url(redis_url), waiting), open_store(redis_url, waiting)
    except (ValueError, redis.RedisError) as error:
        raise _no_server(redis_url, error) from None
    try:
        with make_sender(redis_url) as app:
            yield FarmConnection(app, broker, store, rules, check)
    except (redis.RedisError, OperationalError) as error:
        raise _lost(error, where) or error from None


def _no_server(redis_url: str, error: Exception) -> FarmUnavailable:
    said = f"no Redis or Valkey at {redacted(redis_url)}: {error}"
    return with_reason(said) if redis_url == DEFAULT else FarmUnavailable(said)


def with_reason(said: str) -> FarmUnavailable:
    """Nobody has named an address, so the farm of docker compose in this folder may be meant."""
    return FarmUnavailable("; ".join(filter(None, (said, unused_reason(Path.cwd())))))


def _lost(error: Exception, where: str) -> FarmLost | None:
    """What an error of the Redis or Valkey at `where` means for its farm; None for an error in our use of it."""
    name = f"the Redis or Valkey at {where}"
    if isinstance(error, StoreUnusable):
        return StoreLost(f"{name} {error.reason}, for {error.waited_s:.0f} s")
    if reason := refusal_of(error):
        return StoreLost(f"{name} {reason}")
    if isinstance(error, redis.AuthenticationError):
        return FarmLost(f"{name} no longer accepts its password: {error}")
    return None


@contextmanager
def reach(address: str) -> Iterator[FarmConnection]:
    """The farm at this address."""
    ping(address)
    with connected(address, rules=False) as farm:
        yield farm


def ping(address: str) -> None:
    """Check that Redis answers, without the long retries of a driver."""
    try:
        with connect(store_url(address), NO_WAITING, PING_S) as client:
            client.ping()
    except (ValueError, redis.RedisError) as error:
        raise _no_server(address, error) from None


def external_address(redis_url: str) -> str:
    """The address that is configured, or else the environment's, that of this folder's compose farm, the usual one."""
    return (not redis_url and found_address()) or redis_url_of(os.environ, redis_url)


def found_address() -> str | None:
    """The address that the environment names, or else that of a compose farm that is up in this folder."""
    if os.environ.get(ENVIRONMENT_VARIABLE):
        return redis_url_of(os.environ)
    return compose_address(Path.cwd())


SECRETS = Path("secrets")
SOCKET = SECRETS / "socket" / "valkey.sock"
PASSWORD = SECRETS / "broker" / "valkey_password"
COMPOSE_CONFIG = Path("ops/compose.config")
"""The settings of a run on the farm of `docker compose up`, where a user has none."""
COMPOSE_ANSWER_S = 2.0


def compose_address(folder: Path) -> str | None:
    """The address of the farm that `docker compose up` runs in a folder, with its password; None where none is up.

    Its Valkey listens on a Unix socket in secrets/, a folder that only the owner of the clone can enter.
    """
    path = folder.resolve() / SOCKET
    if not _is_private(folder / SECRETS) or not path.is_socket():
        return None
    if len(str(path).encode()) > LONGEST_SOCKET_PATH or re.search(r"[?#%]", str(path)):
        raise AddressError(
            f"{path}: an address cannot have this path (at most {LONGEST_SOCKET_PATH} bytes, without ? # %);"
            f" move the clone, or set {ENVIRONMENT_VARIABLE}"
        )
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(COMPOSE_ANSWER_S)
        try:
            client.connect(str(path))
        except OSError:  # a farm that was killed leaves its socket
            return None
    here = {ENVIRONMENT_VARIABLE: f"unix://{path}?db=0", f"{PASSWORD_VARIABLE}_FILE": str(folder / PASSWORD)}
    return redis_url_of(here)


def unused_reason(folder: Path) -> str:
    """Why `compose_address` finds no farm in a clone that was made ready for one; "" in any other folder."""
    if not (folder / COMPOSE_CONFIG).is_file() or not (folder / SECRETS).is_dir():
        return ""
    if not _is_private(folder / SECRETS):
        return f"{SECRETS}/ is not used: it must be yours, no link, and closed to others (chmod 700 {SECRETS})"
    return f"no farm of docker compose answers at {SOCKET}; `docker compose up --detach` starts it"


def _is_private(folder: Path) -> bool:
    """Whether no other user can have put anything into the folder."""
    return is_own_folder(folder) and not stat.S_IMODE(folder.stat().st_mode) & OTHERS
