"""The embedded farm as data: its settings, its files, and its state as far as the files and processes show it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict, cast

import psutil

from workers.processes import PidRecord, PidRecords, read_own_file

FARM_VARIABLE = "WHETSTONE_FARM"


@dataclass(frozen=True)
class FarmSpec:
    """The settings of an embedded farm. `folder` holds its data and logs and is kept when the farm stops.

    With `embedded_endpoint` the farm has an endpoint that answers by rules; otherwise OPENAI_API_KEY and
    OPENAI_BASE_URL of the environment are used.  `visibility_timeout`, in seconds, is how soon a killed worker's
    tasks return to their queue.
    """

    folder: str
    gpu_slots: int = 1
    openai_workers: int = 1
    openai_threads: int = 8
    cpu_workers: int = 2
    log_level: str = "INFO"
    embedded_endpoint: bool = True
    visibility_timeout: float = 10.0
    offline: bool = True  # Hugging Face's libraries do not use the network
    ready_timeout_s: float = 120.0

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=1, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> FarmSpec:
        return cls(**json.loads(text))


class FarmFiles:
    """The paths of a farm's files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spec = folder / "spec.json"
        self.state = folder / "farm.json"  # the addresses of a farm that is up, written when all of it is ready
        self.owner = folder / "owner.json"  # its process; absent for a farm that stays up until `down`
        self.supervisor = folder / "supervisor.json"
        self.pids = folder / "pids.json"  # the supervisor's child processes
        self.target_pids = folder / "target-gpu.json"  # the gpu worker's target server
        self.error = folder / "error.txt"  # why the farm stopped by itself
        self.lock = folder / "lock"
        self.logs = folder / "logs"


@dataclass(frozen=True)
class Addresses:
    """Addresses of a farm; `endpoint_url` names a Unix socket, and is None when the farm has no endpoint of its own."""

    redis_url: str
    endpoint_url: str | None


@dataclass(frozen=True)
class ProcessStatus:
    """One process of the farm, with its children; `rss` is their resident memory together, in bytes."""

    name: str
    pid: int
    alive: bool
    rss: int


@dataclass(frozen=True)
class FarmStatus:
    """Whether the farm is up, its owner (None: it stays up until `down`), its addresses and its processes."""

    up: bool
    owner_pid: int | None
    redis_url: str | None
    endpoint_url: str | None
    started: str | None
    processes: tuple[ProcessStatus, ...]


def status(folder: Path) -> FarmStatus:
    """The state of the farm in `folder`; changes nothing."""
    files = FarmFiles(folder)
    records = [r for path in (files.supervisor, files.pids, files.target_pids) for r in PidRecords(path).read()]
    state = read_farm_state(files) if living_supervisor(files) else None
    owner = living_owner(files)
    return FarmStatus(
        up=state is not None,
        owner_pid=owner.pid if owner else None,
        redis_url=state["redis_url"] if state else None,
        endpoint_url=state["endpoint_url"] if state else None,
        started=state["started"] if state else None,
        processes=tuple(_process_status(record) for record in records),
    )


def living_supervisor(files: FarmFiles) -> PidRecord | None:
    """The supervisor's process, if it runs."""
    return next((record for record in PidRecords(files.supervisor).read() if record.is_alive()), None)


def living_owner(files: FarmFiles) -> PidRecord | None:
    """The process that the farm belongs to, if there is one and it runs."""
    found = read_own_file(files.owner)
    owner = PidRecord(**found) if found else None
    return owner if owner and owner.is_alive() else None


class FarmState(TypedDict):
    """farm.json: what is read of it."""

    redis_url: str
    endpoint_url: str | None
    started: str


def read_farm_state(files: FarmFiles) -> FarmState | None:
    """The farm's addresses and start time, as its supervisor wrote them when all was ready."""
    return cast("FarmState | None", read_own_file(files.state))


def error_text(files: FarmFiles) -> str | None:
    """Why the farm stopped by itself, with the last lines of the log; None when it did not."""
    try:
        return files.error.read_text(errors="replace")
    except FileNotFoundError:
        return None


def _process_status(record: PidRecord) -> ProcessStatus:
    members = record.members()
    rss = 0
    for process in members:
        with contextlib.suppress(psutil.NoSuchProcess):
            rss += psutil.Process(process.pid).memory_info().rss
    return ProcessStatus(record.name, record.pid, record.is_alive(), rss)
