"""Reaching a farm that is up, to look at it or to tell it something: nothing is ever started."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.output import OutputFolder, run_id_of
from orchestrator.runs.farm import FarmUnavailable, OpenFarm, connected
from orchestrator.settings import Settings, load_settings
from tasks.redis_url import ENVIRONMENT_VARIABLE
from workers.embedded import control

DEFAULT_CONFIG = Path("configs/embedded.config")


def settings_of(folder: Path) -> Settings:
    """What the run in an output folder was started with.  Raises: OutputError, SettingsError."""
    run_id_of(folder)
    return load_settings(OutputFolder(folder).config, [f"OUTPUT_DIR={folder}"])


def address_of(settings: Settings) -> str:
    """Where the farm of these settings answers.  Raises: FarmUnavailable when its embedded farm is not up."""
    if settings.farm == "external":
        return settings.redis_url
    found = control.status(settings.farm_dir.resolve()).redis_url
    if found is None:
        raise FarmUnavailable(f"no farm is up in {settings.farm_dir}")
    return found


def named_address(config: Path | None) -> str:
    """The farm of a .config; without one that of WHETSTONE_REDIS_URL, or else the embedded one of this folder.

    Raises: FarmUnavailable, SettingsError.
    """
    if config is None and (address := os.environ.get(ENVIRONMENT_VARIABLE)):
        return address
    return address_of(load_settings(config or DEFAULT_CONFIG))


@contextmanager
def reach(address: str) -> Iterator[OpenFarm]:
    """The farm at this address.  Raises: FarmUnavailable."""
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

    with connected(address_of(settings), rules=False, check=check) as farm:
        yield farm
