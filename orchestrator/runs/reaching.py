"""Reaching a farm that is up, to look at it or to tell it something: nothing is ever started."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

from orchestrator.output import OutputFolder, run_id_of
from orchestrator.runs.farm import FarmUnavailable, OpenFarm, connected
from orchestrator.settings import Settings, load_settings
from tasks.redis_url import ENVIRONMENT_VARIABLE, redacted, redis_url_of, store_url
from workers.embedded import control

KNOCK_S = 5.0
DEFAULT_CONFIG = Path("configs/embedded.config")


def settings_of(folder: Path) -> Settings:
    """What the run in an output folder was started with.  Raises: OutputError, SettingsError."""
    run_id_of(folder)
    return load_settings(OutputFolder(folder).config, [f"OUTPUT_DIR={folder}"])


def address_of(settings: Settings) -> str:
    """Where the farm of these settings answers.

    Raises: FarmUnavailable when its embedded farm is not up; SecretError.
    """
    if settings.farm == "external":
        return redis_url_of(os.environ, settings.redis_url)
    found = control.status(settings.farm_dir.resolve()).redis_url
    if found is None:
        raise FarmUnavailable(f"no farm is up in {settings.farm_dir}")
    return found


def named_address(config: Path | None) -> str:
    """The farm of a .config; without one that of WHETSTONE_REDIS_URL, or else the embedded one of this folder.

    Raises: FarmUnavailable, SettingsError, SecretError.
    """
    if config is None and os.environ.get(ENVIRONMENT_VARIABLE):
        return redis_url_of(os.environ)
    return address_of(load_settings(config or DEFAULT_CONFIG))


@contextmanager
def reach(address: str) -> Iterator[OpenFarm]:
    """The farm at this address.  Raises: FarmUnavailable."""
    knock(address)
    with connected(address, rules=False, check=lambda: None) as farm:
        yield farm


@contextmanager
def reach_farm_of(folder: Path) -> Iterator[OpenFarm]:
    """The farm of the run in an output folder; `check` tells when an embedded one has gone down.

    Raises: FarmUnavailable, OutputError, SettingsError.
    """
    settings = settings_of(folder)

    def check() -> None:
        address_of(settings)

    knock(address_of(settings))
    with connected(address_of(settings), rules=False, check=check) as farm:
        yield farm


def knock(address: str) -> None:
    """Whoever only looks does not wait for a broker that may come back.  Raises: FarmUnavailable."""
    try:
        with redis.Redis.from_url(
            store_url(address), socket_timeout=KNOCK_S, socket_connect_timeout=KNOCK_S, retry=None
        ) as client:
            client.ping()
    except (ValueError, redis.RedisError) as error:
        raise FarmUnavailable(f"no Redis or Valkey at {redacted(address)}: {error}") from None
