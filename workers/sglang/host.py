"""The life cycle of a gpu worker's target server: started on first use, restarted when it dies, stopped at the end.

The kernel's parent-death signal comes when the THREAD that started a process ends, and tasks run in threads of a pool.
So the host has a thread of its own, which lives as long as the worker and starts all servers.
"""

from __future__ import annotations

import dataclasses
import fcntl
import logging
import os
import shlex
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import IO, Any

from tasks.common.files import private_folder
from tasks.common.logs import secret
from tasks.gpu.host import CardUse, TargetUnavailable, differences
from tasks.gpu.target import REQUESTS, SERVER_STATS
from tasks.records import PROCESSOR_FILE, Target
from tasks.task import GiveBack
from workers import steering
from workers.embedded import models
from workers.processes import PidRecords, clear_temporary
from workers.sglang import gpus
from workers.sglang.engines import ENGINES
from workers.sglang.identity import read_identity
from workers.sglang.server import (
    ServerKilled,
    ServerSpec,
    TargetServer,
    is_server_healthy,
    make_steering_path,
    temporary_environment,
    write_processor,
)

logger = logging.getLogger(__name__)

EMBEDDED = "embedded"
LABELS_VARIABLE = "WHETSTONE_LABELS"
CLUSTERS_VARIABLE = "WHETSTONE_CLUSTERS"
KEY_NAME = "SGLANG_API_KEY"  # the key of a running server at an address of the settings
KILLED_TRIES = 3  # of a server that is killed while it starts
EXTERNAL_SERVER_S = 10.0  # how long a server that this worker did not start may be away
PAUSE_S, FRESH_S = 0.2, 5.0
FAILURE_S = 10.0  # a failed start is reported to the other tasks that wait for it, so that they do not repeat it


class LocalTargetHost:
    """A `tasks.gpu.host.TargetHost` that runs the server on this machine; `name` separates workers of one `folder`."""

    def __init__(self, folder: Path, name: str, environment: Mapping[str, str]) -> None:
        self._folder = private_folder(folder.absolute())
        self._name = name
        self._log = self._folder / "logs" / ("target.log" if name == "gpu" else f"target-{name}.log")
        self._requests_log = self._folder / "logs" / "target_requests.jsonl"  # what the embedded server has answered
        self.logs = (self._log, self._requests_log)
        self._environment = environment
        self._records = PidRecords(self._folder / f"target-{name}.json")
        self._starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="target-starter")
        self._lock = threading.Lock()  # of the server, also while it starts
        self._claim_lock = threading.Lock()
        self._closing = threading.Event()
        self._claim: gpus.Claim | None = None
        self._only: IO[str] | None = None
        self._card = gpus.Card()
        self._server: TargetServer | None = None
        self._starts = 0
        self._identities: dict[ServerSpec, Mapping[str, Any]] = {}  # of specs without a processor
        self._reports: dict[str, tuple[float, Mapping[str, Any]]] = {}  # by the URL of a server: when read, and what
        self._failure: tuple[ServerSpec, float, str] | None = None

    def clear_leftovers(self) -> None:
        """End a server that a killed worker of this name left running; of a name there is one worker."""
        only = (self._folder / f"target-{self._name}.lock").open("w")
        try:
            fcntl.flock(only, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            only.close()
            raise TargetUnavailable(f"another gpu worker of this host is called {self._name}: give --name") from None
        self._only = only
        self._records.clear(ENGINES["embedded"].stop_grace_s)
        clear_temporary(self._records.path)

    def serving(self, target: Target) -> AbstractContextManager[None]:
        return nullcontext() if target.url else self._card.serving()

    @contextmanager
    def computing(self, check: Callable[[], None], *, alone: bool = False) -> Iterator[None]:
        def check_open() -> None:
            self._check_open()
            check()

        with self._card.computing(check_open, alone=alone):
            self.stop()
            yield

    def card_use(self) -> CardUse:
        return self._card.use

    def serve(self, target: Target, processor: str = "", identity: Mapping[str, Any] | None = None) -> str:
        url = self._check_external(target) if target.url else self._serve_own(target, processor)
        if identity is not None and (now := self.identity(target)) != identity:
            changed = differences(identity, now)
            raise TargetUnavailable(f"the target server at {url} is another one than before: {changed}")
        return url

    def start_early(self, target: Target) -> None:
        if not target.url and self._server is None:
            threading.Thread(target=self._start_first, args=(target,), name="early-start", daemon=True).start()

    def identity(self, target: Target) -> Mapping[str, Any]:
        report = self._external_identity(target) if target.url else self._own_identity(target)
        if not report:
            where = target.url or target.model
            raise TargetUnavailable(f"the target server of {where} does not answer /server_info, which names its model")
        return {**report, "steering": "plugin" if target.lifecycle == "resident" else PROCESSOR_FILE}

    def api_key(self, target: Target) -> str | None:
        if target.url:
            return secret(KEY_NAME, self._environment) or None
        return self._server.api_key if self._server else None

    def environment(self, device: str) -> Mapping[str, str]:
        claim = self._own_gpu(device)
        return claim.gpu.environment() if claim else {}

    def labels_folder(self) -> Path:
        return make_folder(Path(self._environment.get(LABELS_VARIABLE) or self._folder / "labels").absolute())

    def bases_folder(self) -> Path:
        return make_folder(self._folder / "bases")

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
        """Stop the server for good, also one that is still starting, and release the GPU."""
        self._closing.set()
        self.stop()
        self._starter.shutdown()
        if self._only is not None or self._starts:
            clear_temporary(self._records.path)
        if self._claim is not None:
            self._claim.release()
        if self._only is not None:
            self._only.close()

    def describe(self) -> dict[str, Any]:
        """The target's part of the worker's report, without a request to the server; memory in bytes."""
        server, claim = self._server, self._claim
        report: dict[str, Any] = {
            "card": self.card_use(),
            "in_flight": REQUESTS.in_flight,
            "tokens_a_second": round(SERVER_STATS.tokens_a_second(), 1),
        }
        if server is not None:
            report |= {"engine": server.spec.engine, "version": server.identity.get("version", ""), "url": server.url}
            report |= {"model": server.spec.model, "starts": self._starts}
        if claim is not None:
            report["gpu"] = claim.gpu.describe()
        return report

    def _serve_own(self, target: Target, processor: str) -> str:
        spec = self._spec(target, processor)
        with self._card.serving(), self._lock:
            self._check_open()
            if self._server is None or self._server.spec != spec or not self._server.is_serving:
                self._stop_server()
                self._server = self._start_server(spec, target)
            return self._server.url

    def _check_open(self, wait_s: float = 0.0) -> None:
        if self._closing.wait(wait_s):
            raise GiveBack("the worker is shutting down")

    def _start_first(self, target: Target) -> None:
        """Start the server of `target` where none runs; a failure is logged and forgotten."""
        try:
            if self._server is None:
                self._serve_own(target, "")
        except Exception as error:  # the first task that needs the server reports it
            self._failure = None  # the reason may be memory that a process beside it needed
            logger.warning("the target server was not started early: %s", error)

    def _spec(self, target: Target, processor: str = "") -> ServerSpec:
        model = self.model_folder(target)
        argv = ENGINES[target.engine].command(target, model, self.labels_folder(), target.dtype, self._requests_log)
        file = write_processor(self._folder / f"processors-{self._name}", processor) if processor else None
        return ServerSpec(tuple(argv), target.engine, target.model, model, tuple(shlex.split(target.args)), file)

    def _own_identity(self, target: Target) -> Mapping[str, Any]:
        spec = self._spec(target)
        if spec not in self._identities:
            self._serve_own(target, "")
        return self._identities[spec]

    def _external_identity(self, target: Target) -> Mapping[str, Any]:
        """As reported `FRESH_S` seconds ago at most: another process may restart the server at any time."""
        url = self._check_external(target)
        at, report = self._reports.get(url, (float("-inf"), {}))
        if time.monotonic() - at > FRESH_S:
            try:
                report = read_identity(url, self.api_key(target))
            except (OSError, ValueError) as error:
                raise TargetUnavailable(f"the target server at {url} does not report its model: {error}") from error
            self._reports[url] = (time.monotonic(), report)
        return report

    def _check_external(self, target: Target) -> str:
        url, deadline = target.url.rstrip("/"), time.monotonic() + EXTERNAL_SERVER_S
        while not is_server_healthy(url, target.engine):
            if time.monotonic() > deadline:
                raise TargetUnavailable(f"the target server at {target.url} does not answer /health")
            self._check_open(PAUSE_S)
        return url

    def _start_server(self, spec: ServerSpec, target: Target) -> TargetServer:
        """A server that is ready; one that is killed while it starts is started again."""
        if self._failure is not None:
            failed, at, reason = self._failure
            if failed == spec and time.monotonic() - at < FAILURE_S:
                raise TargetUnavailable(reason)
        for number in range(1, KILLED_TRIES + 1):
            try:
                server = TargetServer(spec, self._log, self._records, self._folder / f"key-{self._name}.yaml")
                environment, locks = self._server_environment(target, spec.processor)
                self._starter.submit(server.start, environment, locks).result()
                server.wait_ready(target.ready_timeout_s, self._closing)
                break
            except (TargetUnavailable, OSError) as error:
                self._check_open()
                if isinstance(error, ServerKilled) and number < KILLED_TRIES:
                    continue
                self._failure = (spec, time.monotonic(), str(error))
                raise TargetUnavailable(str(error)) from error
        self._starts += 1
        self._identities[dataclasses.replace(spec, processor=None)] = server.identity
        return server

    def _stop_server(self) -> None:
        if self._server is not None:
            self._server.stop()
        self._server = None

    def _server_environment(self, target: Target, processor: Path | None) -> tuple[dict[str, str], tuple[int, ...]]:
        """The server's whole environment, and the lock of its GPU, which it holds as well."""
        claim = self._own_gpu(target.device)
        path = [str(processor.parent)] if processor else []
        path += [str(make_steering_path(self._folder / "path")), self._environment.get("PYTHONPATH") or ""]
        return {
            **self._environment,
            **(claim.gpu.environment() if claim else {}),
            **temporary_environment(self._records.path, self._environment),
            LABELS_VARIABLE: str(self.labels_folder()),
            steering.PREFIX_CACHE_VARIABLE: self._environment.get(steering.PREFIX_CACHE_VARIABLE) or "prompts",
            "PYTHONPATH": os.pathsep.join(filter(None, path)),
        }, (claim.lock.fileno(),) if claim else ()

    def _own_gpu(self, device: str) -> gpus.Claim | None:
        """This worker's GPU, claimed on first use; None for a CPU, and where GPUs are shared."""
        if not device.startswith("cuda") or self._environment.get(gpus.GPU_VARIABLE) == gpus.SHARED:
            return None
        with self._claim_lock:
            if self._claim is None:
                try:
                    self._claim = gpus.claim_own(self._environment, self._closing)
                except gpus.GpuUnavailable as error:
                    raise TargetUnavailable(f'CONFIG_DEVICE is "cuda": {error}') from error
            return self._claim


def make_folder(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
