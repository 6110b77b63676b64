"""The embedded farm: started and taken down with a run; and which farm settings mean, embedded or at an address."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator import console
from orchestrator.farm import FarmLost, FarmUnavailable
from orchestrator.farm.connection import (
    FarmConnection,
    connected,
    external_address,
    external_farm,
    found_address,
    run_waiting,
    with_reason,
)
from orchestrator.settings import SettingsError
from orchestrator.settings.kconfig import load_settings
from orchestrator.settings.options import Settings
from orchestrator.settings.run import needs_endpoint
from tasks.common.logs import secret
from workers.embedded import farm as control
from workers.embedded.farm import FarmSpec, FarmStatus
from workers.embedded.models import FOLDER, cache_folder
from workers.processes import is_healthy

__all__ = ["FarmSpec", "FarmStatus", "control", "is_healthy"]  # beside what is here, to other modules

GPU_SLOTS = 64  # a worker takes no more individuals than keep its server busy
DEFAULT_CONFIG = Path("configs/embedded.config")


def embedded_model() -> Path:
    """The folder of the model that ships with the embedded farm, where it has been unpacked."""
    return cache_folder() / FOLDER


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


def address_of(settings: Settings) -> str:
    """Where the farm of these settings answers."""
    return embedded_address(settings.farm_dir) if settings.is_embedded else external_address(settings.redis_url)


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
        raise error if config else with_reason(str(error)) from None
