"""One target server as a process: its command, its module path, its key, its start and its report about itself."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shlex
import shutil
import signal
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.files import write_atomic
from tasks.gpu.connections import SERVER_STATS
from tasks.gpu.host import TargetUnavailable
from tasks.gpu.processor import PROCESSOR_FILE
from tasks.models import Target
from workers import steering
from workers.processes.pid_records import PidRecords
from workers.processes.process import ChildProcess, Command, ProcessFailed, free_port, is_healthy
from workers.sglang.identity import local_weights, read_identity

log = logging.getLogger(__name__)

STOP_GRACE_S = {"embedded": 2.0, "sglang": 10.0}  # SGLang finishes its requests first, without a limit of its own
# A server that does not answer for so long counts as hung.  SGLang's /health generates a token, among many others.
HEALTH_S = {"embedded": 10.0, "sglang": 30.0}
RECENT_S = 5.0  # an answer in the last so many seconds replaces a health check
EMBEDDED_KEY_VARIABLE = "WHETSTONE_TARGET_KEY"


@dataclass(frozen=True)
class ServerSpec:
    """What a server is started with, except for its port. A server with an equal spec need not be started again.

    `model` is the target's name for the model, `folder` where it is loaded from.  `extra` are the arguments of the
    target's settings, which follow `argv`.  `processor` is a file that the server loads.
    """

    argv: tuple[str, ...]
    engine: str
    model: str
    folder: str
    extra: tuple[str, ...] = ()
    processor: Path | None = None

    def command(self) -> tuple[str, ...]:
        """The command line without port and key."""
        if self.processor is None:
            return (*self.argv, *self.extra)
        if self.engine == "embedded":
            return (*self.argv, *self.extra, "--processor", str(self.processor))
        return (*self.argv, *self.extra, "--enable-custom-logit-processor")


@dataclass(frozen=True)
class ServerPaths:
    """The server's log, and the records of its pid; `key_file` exists only while it starts."""

    log: Path
    records: PidRecords
    key_file: Path


def make_spec(target: Target, model: str, labels: Path, dtype: str, requests_log: Path) -> ServerSpec:
    """The spec for the server of `target`; `model` is a folder or a Hugging Face id."""
    if target.engine == "embedded":
        options = ["--model", model, "--labels", str(labels), "--dtype", dtype, "--requests-log", str(requests_log)]
        start = [sys.executable, "-m", "workers.embedded.target", *options]
    else:
        start = [*shlex.split(target.command), "--model-path", model]
    return ServerSpec(tuple(start), target.engine, target.model, model, tuple(shlex.split(target.args)))


def make_steering_path(folder: Path) -> Path:
    """Prepare `folder` for PYTHONPATH and return it: it holds the steering package and no other package of the project.

    The server sees it as an installed distribution with its entry point, so SGLang loads the plugin.  The project's
    other packages are left out: the server may run another Python, and its own packages must not be hidden.
    Raises: OSError.
    """
    metadata = folder / f"{steering.NAME}-{steering.VERSION}.dist-info"
    metadata.mkdir(parents=True, exist_ok=True)
    write_atomic(metadata / "METADATA", f"Metadata-Version: 2.1\nName: {steering.NAME}\nVersion: {steering.VERSION}\n")
    write_atomic(metadata / "entry_points.txt", f"[sglang.srt.plugins]\nwhetstone = {steering.PLUGIN}\n")
    link, package = folder / steering.NAME, Path(steering.__file__).parent
    if not link.exists() or link.resolve() != package.resolve():
        temporary = folder / f".{steering.NAME}.{os.getpid()}"
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(package, target_is_directory=True)
        temporary.replace(link)
    return folder


def write_processor(folder: Path, text: str) -> Path:
    """The processor file in a folder named by its content, because Python caches compiled code by a file's path.

    Files of earlier servers in `folder` are removed.
    """
    path = folder / hashlib.sha256(text.encode()).hexdigest()[:16] / PROCESSOR_FILE
    if not path.exists():
        shutil.rmtree(folder, ignore_errors=True)
        write_atomic(path, text)
    return path


class TargetServer:
    """A server that this worker starts and stops.  Call `start` once, from a thread that outlives the server."""

    def __init__(self, spec: ServerSpec, paths: ServerPaths, api_key: str) -> None:
        self.spec = spec
        self.url = ""
        self.identity: dict[str, Any] = {}  # what the ready server reports; empty where it reports nothing
        self._paths = paths
        self._api_key = api_key
        self._process: ChildProcess | None = None

    def start(self, environment: Mapping[str, str], pass_fds: tuple[int, ...]) -> None:
        """Start the process; it is not ready then.  Raises: OSError."""
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        SERVER_STATS.mark_unhealthy(self.url)  # an earlier server may have used the same port
        key_options, key_environment = self._pass_key()
        argv = (*self.spec.command(), *key_options, "--host", "127.0.0.1", "--port", str(port))
        # SGLang finishes its requests without a limit, and its own processes end with the first; so it is killed.
        death_signal = signal.SIGKILL if self.spec.engine == "sglang" else signal.SIGTERM
        command = Command("target", argv, self._paths.log, {**environment, **key_environment}, death_signal, pass_fds)
        self._process = ChildProcess(command, self._paths.records)
        self._process.start()

    def wait_ready(self, timeout_s: float, cancelled: threading.Event) -> None:
        """Wait until it is healthy.  Raises: TargetUnavailable, with the last lines of its log; it is stopped then."""
        assert self._process is not None
        try:
            self._process.wait_ready(lambda: is_server_healthy(self.url, self.spec.engine), timeout_s, cancelled)
            self.identity = self._read_identity()
        except ProcessFailed as error:
            self.stop()
            raise TargetUnavailable(f"the target server did not start: {error}".replace(self._api_key, "***")) from None
        except BaseException:
            self.stop()
            raise
        finally:
            self._paths.key_file.unlink(missing_ok=True)
            redact_file(self._paths.log, self._api_key)

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    @property
    def is_serving(self) -> bool:
        """Whether its process runs and it is healthy: the part that computes may have died alone."""
        return self._process is not None and self._process.alive and is_server_healthy(self.url, self.spec.engine)

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop(STOP_GRACE_S[self.spec.engine])

    def _pass_key(self) -> tuple[list[str], dict[str, str]]:
        """Options and environment that give the server its key, without the key on the command line."""
        if self.spec.engine == "embedded":
            return [], {EMBEDDED_KEY_VARIABLE: self._api_key}
        self._paths.key_file.unlink(missing_ok=True)
        os.close(os.open(self._paths.key_file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        self._paths.key_file.write_text(f"api-key: {self._api_key}\n")
        return ["--config", str(self._paths.key_file)], {}

    def _read_identity(self) -> dict[str, Any]:
        """The server's report, with its weights and arguments as this worker knows them.

        Its model's folder differs from machine to machine, so the target's name of the model replaces it.
        """
        try:
            report = read_identity(self.url, self._api_key)
        except (OSError, ValueError) as error:
            log.warning("the target server reports nothing about itself: %s", error)
            return {}
        renamed = {name: self.spec.model if value == self.spec.folder else value for name, value in report.items()}
        weights = renamed.get("weights") or local_weights(self.spec.folder)
        return {**renamed, "weights": weights, "arguments": list(self.spec.extra)}


def is_server_healthy(url: str, engine: str) -> bool:
    """Whether a server is healthy.  One that answered recently is not checked: SGLang's check takes a second."""
    if SERVER_STATS.was_alive(url, RECENT_S):
        return True
    healthy = is_healthy(url, HEALTH_S[engine])
    if healthy:
        SERVER_STATS.alive(url)
    return healthy


def redact_file(log: Path, secret: str) -> None:
    """Overwrite a secret in a log to which a running server still writes: SGLang logs all its arguments."""
    if not secret:
        return
    raw = secret.encode()
    with contextlib.suppress(FileNotFoundError), log.open("r+b") as file:
        text = file.read()
        at = text.find(raw)
        while at >= 0:
            file.seek(at)
            file.write(b"*" * len(raw))
            at = text.find(raw, at + len(raw))
