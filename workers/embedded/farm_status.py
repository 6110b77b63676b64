"""What a farm's folder tells of it: whether it is up, whose it is, where it answers, and its processes."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path

import psutil

from workers.embedded.farm import FarmFiles
from workers.processes.pid_records import PidRecord, PidRecords


@dataclass(frozen=True)
class ProcessStatus:
    """One process of the farm, with what it started; `rss` is their resident memory together, in bytes."""

    name: str
    pid: int
    alive: bool
    rss: int


@dataclass(frozen=True)
class FarmStatus:
    """Whether the farm is up, whose it is (None: nobody's, it stays), where it answers, and its processes."""

    up: bool
    owner_pid: int | None
    redis_url: str | None
    endpoint_url: str | None
    started: str | None
    processes: tuple[ProcessStatus, ...]


def status(folder: Path) -> FarmStatus:
    """What is up in `folder`; changes nothing."""
    files = FarmFiles(folder)
    records = [
        *PidRecords(files.supervisor).read(),
        *PidRecords(files.pids).read(),
        *PidRecords(files.target_pids).read(),
    ]
    state = read_state(files) if living_supervisor(files) else None
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
    """The supervisor's process, if it is there."""
    return next((record for record in PidRecords(files.supervisor).read() if record.leader()), None)


def living_owner(files: FarmFiles) -> PidRecord | None:
    """The process that the farm belongs to, if there is one and it lives."""
    try:
        owner = PidRecord(**json.loads(files.owner.read_text()))
    except FileNotFoundError:
        return None
    return owner if owner.leader() else None


def read_state(files: FarmFiles) -> dict[str, str] | None:
    """Where the farm answers, as its supervisor wrote it when all was ready."""
    try:
        state: dict[str, str] = json.loads(files.state.read_text())
    except FileNotFoundError:
        return None
    return state


def error_text(files: FarmFiles) -> str | None:
    """Why the farm gave up by itself, with the log's last lines; None when it did not."""
    try:
        return files.error.read_text()
    except FileNotFoundError:
        return None


def _process_status(record: PidRecord) -> ProcessStatus:
    members = record.members()
    rss = 0
    for process in members:
        with contextlib.suppress(psutil.NoSuchProcess):
            rss += process.memory_info().rss
    return ProcessStatus(record.name, record.pid, record.leader() is not None, rss)
