"""Connections to a farm: the embedded one, started and taken down with a run, or the one at a Redis address.

`open_farm` may start a farm; `reach` connects to a farm that is up, and starts nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import redis
from celery import Celery
from kombu.exceptions import OperationalError

from orchestrator import console
from orchestrator.farm import FarmLost, FarmUnavailable, StoreLost
from orchestrator.farm.compose import compose_address, unused_reason
from orchestrator.farm.embedded import FarmSpec, control
from orchestrator.farm.producer import make_sender
from orchestrator.settings import Settings, SettingsError, load_settings
from orchestrator.settings.run import needs_endpoint
from tasks.common.logs import secret
from tasks.common.text import escape_control
from tasks.openai.endpoint import DEFAULT_BASE_URL, listed
from tasks.queues import QUEUES
from tasks.store.client import (
    DEFAULT,
    ENVIRONMENT_VARIABLE,
    NO_WAITING,
    StoreUnusable,
    Waiting,
    connect,
    queues_url,
    redacted,
    redis_url_of,
    refusal_of,
    store_url,
    wait_limit_of,
)
from tasks.store.store import Store, open_store
from tasks.store.workers import WorkerRegistry


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
def open_farm(settings: Settings, line: Callable[[str], None]) -> Iterator[FarmConnection]:
    """The farm that the settings name; an embedded one is taken down at the end, unless it was up before."""
    if not settings.is_embedded:
        with external_farm(settings.redis_url, line) as external:
            yield external
        return
    with embedded_farm(farm_spec(settings), line) as embedded:
        yield embedded


@contextmanager
def external_farm(redis_url: str, line: Callable[[str], None]) -> Iterator[FarmConnection]:
    """The farm whose workers are at this address or, when it is empty, where `external_address` finds one."""
    redis_url = external_address(redis_url)
    line(f"using the farm at {redacted(redis_url)}")
    with connected(redis_url, rules=False, waiting=run_waiting(line)) as external:
        if called := endpoints_of(external):
            line(f"its openai workers call {listed(called)}, unless the settings name another address")
        yield external


def endpoints_of(farm: FarmConnection) -> set[str]:
    """The addresses that the openai workers of a farm call where a run names none."""
    found = [report.get("endpoint") for report in WorkerRegistry(farm.store.redis).workers()]
    return {escape_control(one.get("base_url") or DEFAULT_BASE_URL) for one in found if one}


@contextmanager
def embedded_farm(spec: FarmSpec, line: Callable[[str], None]) -> Iterator[FarmConnection]:
    """The embedded farm of a folder, taken down at the end unless it was up before."""
    line(f"starting the embedded farm in {spec.folder}")
    try:
        farm = control.attach_or_start(spec)
    except control.FarmError as error:
        raise FarmUnavailable(str(error)) from None

    def check() -> None:
        if not farm.alive:
            raise FarmLost(farm.failure() or f"the embedded farm in {spec.folder} has ended")

    with farm:
        if (farm.endpoint_url is not None) != spec.embedded_endpoint:
            answers = "answer by rules" if farm.endpoint_url else "call a real endpoint"
            raise FarmUnavailable(
                f"the workers of the farm that is up in {spec.folder} {answers}, and these settings name the other; "
                "stop it with `orchestrator farm down`, or change CONFIG_OPENAI_BASE_URL"
            )
        try:
            rules, waiting = farm.endpoint_url is not None, run_waiting(line, check)
            with connected(farm.redis_url, rules=rules, check=check, waiting=waiting) as embedded:
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
    return _with_reason(said) if redis_url == DEFAULT else FarmUnavailable(said)


def _with_reason(said: str) -> FarmUnavailable:
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


GPU_SLOTS = 64  # a worker takes no more individuals than keep its server busy
PING_S = 5.0
START_WAIT_S = 15.0  # for a server that loads its data
COMMAND_WAIT_S = 15.0  # of a command that looks at a farm or changes something there
DEFAULT_CONFIG = Path("configs/embedded.config")


def address_of(settings: Settings) -> str:
    """Where the farm of these settings answers."""
    return embedded_address(settings.farm_dir) if settings.is_embedded else external_address(settings.redis_url)


def external_address(redis_url: str) -> str:
    """The address that is configured, or else the environment's, that of this folder's compose farm, the usual one."""
    return (not redis_url and found_address()) or redis_url_of(os.environ, redis_url)


def found_address() -> str | None:
    """The address that the environment names, or else that of a compose farm that is up in this folder."""
    if os.environ.get(ENVIRONMENT_VARIABLE):
        return redis_url_of(os.environ)
    return compose_address(Path.cwd())


def embedded_address(folder: Path) -> str:
    """Where the embedded farm of a folder answers."""
    address = control.status(folder.resolve()).redis_url
    if address is None:
        raise FarmUnavailable(f"no farm is up in {folder}")
    return address


def named_address(config: Path | None) -> str:
    """The farm of a .config; without one that of WHETSTONE_REDIS_URL, or else the one that is up in this folder: of
    containers, or the embedded one.
    """
    if config is None and (address := found_address()):
        return address
    try:
        return address_of(load_settings(config or DEFAULT_CONFIG))
    except FarmUnavailable as error:
        raise error if config else _with_reason(str(error)) from None


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
