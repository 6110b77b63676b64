"""The embedded farm as data: what is asked of it, where its files lie, and the processes it consists of."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tasks.openai.provider import EMBEDDED, NAME_VARIABLE
from tasks.queues import QueueName
from tasks.store.address import ENVIRONMENT_VARIABLE, PASSWORD_VARIABLE
from workers.processes.process import Command
from workers.queues import worker_command

FARM_VARIABLE = "WHETSTONE_FARM"
EMBEDDED_KEY = "embedded"  # the embedded endpoint wants no secret, the client wants some key


@dataclass(frozen=True)
class FarmSpec:
    """What the embedded farm is to be. `folder` holds its data and logs and outlives it.

    With `embedded_endpoint` the rules answer in place of OpenAI; otherwise OPENAI_API_KEY and OPENAI_BASE_URL of the
    environment hold.  `faults` is what the endpoint is told to do wrong ("" is nothing), `dtype` what the embedded
    target computes in when a run leaves it open, `visibility_timeout` in seconds: how soon a killed worker's tasks
    are back.
    """

    folder: str
    gpu_slots: int = 1
    openai_workers: int = 1
    openai_threads: int = 8
    cpu_workers: int = 2
    faults: str = ""
    dtype: str = "auto"
    log_level: str = "INFO"
    embedded_endpoint: bool = True
    visibility_timeout: float = 10.0
    offline: bool = True  # whether Hugging Face's libraries may look for anything outside
    ready_timeout_s: float = 120.0

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=1, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> FarmSpec:
        """Raises: ValueError or TypeError when the text is not what `to_json` writes."""
        return cls(**json.loads(text))


@dataclass(frozen=True)
class FarmFiles:
    """Where everything of a farm lies."""

    folder: Path

    @property
    def spec(self) -> Path:
        return self.folder / "spec.json"

    @property
    def state(self) -> Path:
        """What is up, written when all of it is ready."""
        return self.folder / "farm.json"

    @property
    def owner(self) -> Path:
        """The process that the farm belongs to; absent for a farm that stays."""
        return self.folder / "owner.json"

    @property
    def supervisor(self) -> Path:
        return self.folder / "supervisor.json"

    @property
    def pids(self) -> Path:
        """The supervisor's children."""
        return self.folder / "pids.json"

    @property
    def target_pids(self) -> Path:
        """The gpu worker's target server."""
        return self.folder / "target-gpu.json"

    @property
    def error(self) -> Path:
        """Why the farm gave up, in words."""
        return self.folder / "error.txt"

    @property
    def lock(self) -> Path:
        return self.folder / "lock"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def endpoint_calls(self) -> Path:
        """One line for every call that the embedded endpoint got."""
        return self.logs / "endpoint_calls.jsonl"


@dataclass(frozen=True)
class Addresses:
    """Where the farm answers; `endpoint_url` ends with /v1 and is None when the farm has no endpoint of its own."""

    redis_url: str
    endpoint_url: str | None


def endpoint_command(spec: FarmSpec, port: int, environment: Mapping[str, str]) -> Command:
    """The embedded OpenAI-compatible endpoint."""
    files = FarmFiles(Path(spec.folder))
    options = ["--host", "127.0.0.1", "--port", str(port), "--calls-log", str(files.endpoint_calls)]
    options += ["--faults", spec.faults] if spec.faults else []
    argv = (sys.executable, "-m", "workers.embedded.endpoint", *options)
    return Command("endpoint", argv, files.logs / "endpoint.log", environment, signal.SIGKILL)


def worker_commands(spec: FarmSpec, addresses: Addresses, environment: Mapping[str, str]) -> list[Command]:
    """The Celery workers: one on gpu, `openai_workers` on openai, one on cpu with a pool of `cpu_workers`."""
    several = spec.openai_workers > 1
    openai_names = [f"openai{number}" if several else "openai" for number in range(1, spec.openai_workers + 1)]
    return [
        _worker(spec, addresses, environment, "gpu", "gpu", spec.gpu_slots),
        *(_worker(spec, addresses, environment, "openai", name, spec.openai_threads) for name in openai_names),
        _worker(spec, addresses, environment, "cpu", "cpu", spec.cpu_workers),
    ]


def _worker(
    spec: FarmSpec,
    addresses: Addresses,
    environment: Mapping[str, str],
    queue: QueueName,
    name: str,
    concurrency: int,
) -> Command:
    log = FarmFiles(Path(spec.folder)).logs / f"{name}.log"
    argv = tuple(worker_command(queue, name, concurrency, spec.log_level))
    # Of a killed supervisor's broker nothing is left to give messages back to: no reason to die slowly.
    return Command(name, argv, log, _worker_environment(spec, addresses, environment, queue), signal.SIGKILL)


def _worker_environment(
    spec: FarmSpec, addresses: Addresses, environment: Mapping[str, str], queue: QueueName
) -> dict[str, str]:
    # Only the gpu worker computes with all cores; threads in the others would only be in its way.
    threads = str(os.cpu_count() or 1) if queue == "gpu" else "1"
    own = {
        ENVIRONMENT_VARIABLE: addresses.redis_url,
        PASSWORD_VARIABLE: "",  # of another farm, if any: this one is a private socket
        f"{PASSWORD_VARIABLE}_FILE": "",
        FARM_VARIABLE: spec.folder,
        "WHETSTONE_VISIBILITY_TIMEOUT": str(spec.visibility_timeout),
        "WHETSTONE_EMBEDDED_DTYPE": spec.dtype,
        "OMP_NUM_THREADS": environment.get("OMP_NUM_THREADS", threads),
        "TOKENIZERS_PARALLELISM": "false",
    }
    if spec.offline:
        own["HF_HUB_OFFLINE"] = "1"
    if addresses.endpoint_url:
        own |= {"OPENAI_BASE_URL": addresses.endpoint_url, "OPENAI_API_KEY": EMBEDDED_KEY, NAME_VARIABLE: EMBEDDED}
    return {**environment, **own}
