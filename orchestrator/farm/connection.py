"""The farm of a run or of a command: the embedded one of a folder, or the one at a Redis address."""

from __future__ import annotations

import dataclasses
import os
import re
import socket
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis
from celery import Celery
from celery.backends.redis import RedisBackend
from kombu.exceptions import OperationalError

from orchestrator import console
from orchestrator.farm import FarmLost, FarmUnavailable, StoreLost
from orchestrator.settings import SettingsError
from orchestrator.settings.kconfig import load_settings
from orchestrator.settings.options import Settings
from orchestrator.settings.run import needs_endpoint
from tasks.common.files import LONGEST_SOCKET_PATH, OTHERS, is_own_folder
from tasks.common.logs import redacted, secret
from tasks.common.text import escape_control
from tasks.openai.endpoint import DEFAULT_BASE_URL, join_providers
from tasks.queues import QUEUES
from tasks.store.address import (
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
from workers.app import create_app
from workers.embedded import farm as control
from workers.embedded.farm import FarmSpec, FarmStatus
from workers.embedded.models import FOLDER, cache_folder

__all__ = ["FarmSpec", "FarmStatus", "control"]  # beside what is here, to other modules

Line = Callable[[str], None]

PING_S = 5.0
START_WAIT_S = 15.0  # for a server that loads its data
COMMAND_WAIT_S = 15.0  # of a command that looks at a farm or changes something there
GPU_SLOTS = 64  # a worker takes no more individuals than keep its server busy
DEFAULT_CONFIG = Path("configs/embedded.config")


@dataclass(frozen=True)
class FarmConnection:
    """A farm that runs: how to send to it, its store, and whether rules answer in place of a language model."""

    app: Celery
    broker: redis.Redis
    store: Store
    rules: bool
    check: Callable[[], object]  # raises FarmLost when the farm has ended

    def queues(self) -> Mapping[str, int]:
        """Messages that wait, by queue; those being worked on are not among them."""
        return {name: int(self.broker.llen(name)) for name in QUEUES}


class NoListenBackend(RedisBackend):
    """Celery's results on Redis, without a connection that listens for them until the process ends.

    The driver of a run reads the store instead, and tasks leave no results.
    """

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
    name = f"{NoListenBackend.__module__}:{NoListenBackend.__qualname__}"
    address = str(app.conf.result_backend).removeprefix("redis+")
    # Whoever sends tries again, and looks meanwhile at whether the farm still runs.
    app.conf.update(
        result_backend=f"{name}+{address}",
        result_backend_transport_options={"retry_policy": {"max_retries": 0}},
        broker_transport_options={**app.conf.broker_transport_options, "max_retries": 0},
        task_publish_retry=False,
    )
    return app


@contextmanager
def connected(redis_url: str, waiting: Waiting, rules: bool = False) -> Iterator[FarmConnection]:
    """The farm at this address, whose store and broker are waited for as `waiting` says."""
    try:
        with connect(store_url(redis_url), Waiting(START_WAIT_S, waiting.report, waiting.check)) as client:
            client.ping()
        broker, store = connect(queues_url(redis_url), waiting), open_store(redis_url, waiting)
    except (ValueError, redis.RedisError) as error:
        raise _no_server(redis_url, error) from None
    try:
        with make_sender(redis_url) as app:
            yield FarmConnection(app, broker, store, rules, waiting.check)
    except (redis.RedisError, OperationalError) as error:
        raise _lost(error, f"the Redis or Valkey at {redacted(redis_url)}") or error from None


@contextmanager
def reach(address: str, check: Callable[[], object] = lambda: None) -> Iterator[FarmConnection]:
    """The farm at this address, for a command, which waits briefly; not at all for a server that is not there."""
    try:
        with connect(store_url(address), NO_WAITING, PING_S) as client:
            client.ping()
    except (ValueError, redis.RedisError) as error:
        raise _no_server(address, error) from None
    with connected(address, Waiting(COMMAND_WAIT_S, check=check)) as farm:
        yield farm


def _no_server(redis_url: str, error: Exception) -> FarmUnavailable:
    return FarmUnavailable(f"no Redis or Valkey at {redacted(redis_url)}: {error}")


def _lost(error: Exception, server: str) -> FarmLost | None:
    """What an error of its Redis or Valkey means for a farm; None for an error in our use of it."""
    if isinstance(error, StoreUnusable):
        return StoreLost(f"{server} {error.reason}, for {error.waited_s:.0f} s")
    if reason := refusal_of(error):
        return StoreLost(f"{server} {reason}")
    if isinstance(error, redis.AuthenticationError):
        return FarmLost(f"{server} no longer accepts its password: {error}")
    return None


def run_waiting(line: Line, check: Callable[[], None] = lambda: None) -> Waiting:
    """How long the driver of a run waits for a store that refuses: as long as the environment says."""
    try:
        return Waiting(wait_limit_of(os.environ), line, check)
    except ValueError as error:
        raise FarmUnavailable(str(error)) from None


@contextmanager
def open_farm(settings: Settings, line: Line) -> Iterator[FarmConnection]:
    """The farm that the settings name."""
    if settings.is_embedded:
        spec = farm_spec(settings)
        spec = spec if needs_endpoint(settings) else dataclasses.replace(spec, embedded_endpoint=None)
        opened = embedded_farm(spec, line)
    else:
        opened = external_farm(settings.redis_url, line)
    with opened as farm:
        yield farm


@contextmanager
def external_farm(redis_url: str, line: Line) -> Iterator[FarmConnection]:
    """The farm whose workers are at this address or, when it is empty, where `external_address` finds one."""
    redis_url = external_address(redis_url)
    line(f"using the farm at {redacted(redis_url)}")
    with connected(redis_url, run_waiting(line)) as external:
        endpoints = [report.get("endpoint") for report in WorkerRegistry(external.store.redis).workers()]
        if called := {escape_control(one.get("base_url") or DEFAULT_BASE_URL) for one in endpoints if one}:
            line(f"its openai workers call {join_providers(called)}, unless the settings name another address")
        yield external


@contextmanager
def embedded_farm(spec: FarmSpec, line: Line) -> Iterator[FarmConnection]:
    """The embedded farm of a folder, taken down at the end unless it was up before."""
    line(f"starting the embedded farm in {spec.folder}")
    try:
        with console.ticking(line, lambda: "waiting for the embedded farm"):
            farm = control.attach_or_start(spec)
    except control.FarmError as error:
        raise FarmUnavailable(str(error)) from None

    def check() -> None:
        if not farm.alive:
            raise FarmLost(farm.failure() or f"the embedded farm in {spec.folder} has ended")

    rules = farm.endpoint_url is not None
    with farm:
        if spec.embedded_endpoint not in (rules, None):
            answers = "answer by rules" if rules else "call a real endpoint"
            raise FarmUnavailable(
                f"the workers of the farm that is up in {spec.folder} {answers}, and these settings name the other; "
                "stop it with `orchestrator farm down`, or change CONFIG_OPENAI_BASE_URL"
            )
        try:
            with connected(farm.redis_url, run_waiting(line, check), rules) as embedded:
                yield embedded
        finally:
            if farm.owned:
                line("taking the embedded farm down")
                console.ignore_signals()


def farm_spec(settings: Settings) -> FarmSpec:
    """The embedded farm of the settings."""
    name = settings.openai_api_key_env
    if settings.openai_base_url and needs_endpoint(settings) and not secret(name):
        reason = f"needs a key, and neither {name} nor the file named by {name}_FILE has one"
        raise SettingsError([f"CONFIG_OPENAI_BASE_URL: {reason}"])
    return FarmSpec(
        folder=str(settings.farm_dir.resolve()),
        gpu_slots=GPU_SLOTS,
        cpu_workers=1,
        embedded_endpoint=not settings.openai_base_url,
        offline=settings.target_model == "embedded",
    )


def embedded_model() -> Path:
    """The folder of the model that ships with the embedded farm, where it has been unpacked."""
    return cache_folder() / FOLDER


# Addresses.


def address_of(settings: Settings) -> str:
    """Where the farm of these settings answers."""
    return embedded_address(settings.farm_dir) if settings.is_embedded else external_address(settings.redis_url)


def embedded_address(folder: Path) -> str:
    """Where the embedded farm of a folder answers."""
    address = control.status(folder.resolve()).redis_url
    if address is None:
        raise FarmUnavailable(f"no farm is up in {folder}")
    return address


def external_address(redis_url: str) -> str:
    """The address that is configured, or else the environment's, that of this folder's compose farm, the usual one."""
    return (not redis_url and found_address()) or redis_url_of(os.environ, redis_url)


def found_address() -> str | None:
    """The address that the environment names, or else that of a compose farm that is up in this folder."""
    return redis_url_of(os.environ) if os.environ.get(ENVIRONMENT_VARIABLE) else compose_address(Path.cwd())


def named_address(config: Path | None) -> str:
    """The farm of a .config; without one that of WHETSTONE_REDIS_URL, or else the one that is up in this folder: of
    containers, of the .config here, or the embedded one.
    """
    if config is None and (address := found_address()):
        return address
    return address_of(load_settings(config or usual_config()))


def usual_config() -> Path:
    return own if (own := Path(".config")).exists() else DEFAULT_CONFIG


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


def _is_private(folder: Path) -> bool:
    """Whether no other user can have put anything into the folder."""
    return is_own_folder(folder) and not stat.S_IMODE(folder.stat().st_mode) & OTHERS
