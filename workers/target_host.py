"""The target server's life in a gpu worker: started when first asked for, restarted when it dies, gone with the worker.

Tasks run in the threads of a pool, and the kernel's parent-death signal comes when the THREAD that started a process
ends.  So one thread of the host's own, which lives as long as the worker, starts all servers.
"""

from __future__ import annotations

import os
import shlex
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from celery import bootsteps

from tasks.gpu import host as installed
from tasks.gpu.host import TargetUnavailable
from tasks.run import Target
from workers import steering_path
from workers.embedded import models
from workers.embedded.farm import FARM_VARIABLE
from workers.loopback import free_port, is_healthy
from workers.pid_records import PidRecords
from workers.process import ChildProcess, Command, ProcessFailed

EMBEDDED = "embedded"
DTYPE_VARIABLE = "WHETSTONE_EMBEDDED_DTYPE"
LABELS_VARIABLE = "WHETSTONE_LABELS"
CLUSTERS_VARIABLE = "WHETSTONE_CLUSTERS"
STOP_GRACE_S = {"embedded": 2.0, "sglang": 10.0}  # SGLang drains first, and would take for ever
RUNNING_SERVER_S = 10.0  # how long a server that is not ours may be away
# After so long without an answer a server counts as hung.  SGLang's /health generates a token, perhaps among many.
HEALTH_S = {"embedded": 10.0, "sglang": 30.0}
PAUSE_S = 0.2


@dataclass(frozen=True)
class Launch:
    """What a server is started with, but for its port: an equal one need not be started again."""

    argv: tuple[str, ...]
    grace_s: float
    health_s: float


class LocalTargetHost:
    """A `tasks.gpu.host.TargetHost` that runs the server on this machine.

    `folder` takes its log, its labels and the record of its pid; `name` tells apart the workers that share a folder.
    """

    def __init__(self, folder: Path, name: str, environment: Mapping[str, str]) -> None:
        self._folder = folder.absolute()
        self._name = name
        self._environment = environment
        self._records = PidRecords(self._folder / f"target-{name}.json")
        self._starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="target-starter")
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._server: ChildProcess | None = None
        self._launch: Launch | None = None
        self._url = ""
        self._folder.mkdir(parents=True, exist_ok=True)

    def clear_leftovers(self) -> list[str]:
        """End a server that a killed worker of this name left behind. Returns the names of what was left."""
        return self._records.clear(STOP_GRACE_S["embedded"])

    def serve(self, target: Target) -> str:
        if target.url:
            return self._running_elsewhere(target)
        launch = self._launch_of(target)
        with self._lock:
            if self._closing.is_set():
                raise TargetUnavailable("the worker is shutting down")
            if launch != self._launch or not self._serves():
                self._stop_server()
                self._start_server(launch, target.ready_timeout_s)
            return self._url

    def labels_folder(self) -> Path:
        folder = self._folder / "labels"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def model_folder(self, target: Target) -> str:
        return str(models.embedded_model()) if target.model == EMBEDDED else target.model

    def embedder(self, name: str) -> str:
        return str(models.embedded_embedder()) if name == EMBEDDED else name

    def clusters_folder(self, folder: str) -> str:
        return self._environment.get(CLUSTERS_VARIABLE) or folder

    def stop(self) -> None:
        with self._lock:
            self._stop_server()

    def close(self) -> None:
        """Stop the server for good, also one that is just becoming ready."""
        self._closing.set()
        self.stop()
        self._starter.shutdown()

    def _running_elsewhere(self, target: Target) -> str:
        deadline = time.monotonic() + RUNNING_SERVER_S
        while not is_healthy(target.url, HEALTH_S[target.engine]):
            if time.monotonic() > deadline or self._closing.wait(PAUSE_S):
                raise TargetUnavailable(f"the target server at {target.url} does not answer /health")
        return target.url.rstrip("/")

    def _launch_of(self, target: Target) -> Launch:
        model = self.model_folder(target)
        if target.engine == "embedded":
            options = ["--model", model, "--labels", str(self.labels_folder())]
            options += ["--dtype", self._dtype(target)]
            options += ["--requests-log", str(self._folder / "logs" / "target_requests.jsonl")]
            start = [sys.executable, "-m", "workers.embedded.target", *options]
        else:
            start = [*shlex.split(target.command), "--model-path", model]
        return Launch((*start, *shlex.split(target.args)), STOP_GRACE_S[target.engine], HEALTH_S[target.engine])

    def _dtype(self, target: Target) -> str:
        # "auto" is left to the farm, and then to the server.
        return self._environment.get(DTYPE_VARIABLE) or "auto" if target.dtype == "auto" else target.dtype

    def _start_server(self, launch: Launch, ready_timeout_s: float) -> None:
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        log = self._folder / "logs" / ("target.log" if self._name == "gpu" else f"target-{self._name}.log")
        argv = (*launch.argv, "--host", "127.0.0.1", "--port", str(port))
        server = ChildProcess(Command("target", argv, log, self._server_environment()), self._records)
        try:
            self._starter.submit(server.start).result()
            server.wait_ready(lambda: is_healthy(url, launch.health_s), ready_timeout_s, self._closing)
        except (ProcessFailed, OSError) as error:
            server.stop(launch.grace_s)
            raise TargetUnavailable(f"the target server did not start: {error}") from error
        except BaseException:
            server.stop(launch.grace_s)
            raise
        self._server, self._launch, self._url = server, launch, url

    def _serves(self) -> bool:
        # A server may have lost the part of it that computes and still be there.
        if self._server is None or self._launch is None or not self._server.alive:
            return False
        return is_healthy(self._url, self._launch.health_s)

    def _stop_server(self) -> None:
        if self._server is not None and self._launch is not None:
            self._server.stop(self._launch.grace_s)
        self._server = self._launch = None

    def _server_environment(self) -> dict[str, str]:
        path = [str(steering_path.make(self._folder / "path")), self._environment.get("PYTHONPATH")]
        return {
            **self._environment,
            LABELS_VARIABLE: str(self.labels_folder()),
            "PYTHONPATH": os.pathsep.join(filter(None, path)),
        }


class TargetHostStep(bootsteps.StartStopStep):
    """Gives a worker of the gpu queue its target host, and takes the server down with the worker."""

    requires = ("celery.worker.components:Pool",)

    def __init__(self, worker: Any, **options: Any) -> None:
        self.host: LocalTargetHost | None = None
        super().__init__(worker, **options)

    def start(self, worker: Any) -> None:
        farm = os.environ.get(FARM_VARIABLE)
        folder = Path(farm) if farm else models.cache_folder() / "workers"
        name = worker.hostname if farm is None else worker.hostname.partition("@")[0]
        self.host = LocalTargetHost(folder, name, dict(os.environ))
        self.host.clear_leftovers()
        installed.install(self.host)

    def stop(self, worker: Any) -> None:
        installed.install(None)
        if self.host is not None:
            self.host.close()
            self.host = None

    def terminate(self, worker: Any) -> None:
        self.stop(worker)
