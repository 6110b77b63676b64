"""One target server as a process: its command, its module path, its key, its start and its report about itself."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import secrets
import shutil
import signal
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.common.files import private_folder, runtime_folder, runtime_socket, unix_url, write_atomic
from tasks.gpu.host import TargetUnavailable
from tasks.gpu.target import SERVER_STATS
from tasks.records import PROCESSOR_FILE
from workers import processes, steering
from workers.processes import ChildProcess, Command, PidRecords, ProcessFailed
from workers.sglang.engines import ENGINES
from workers.sglang.identity import local_weights, read_identity

log = logging.getLogger(__name__)

COMPILED_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
RECENT_S = 5.0  # an answer in the last so many seconds replaces a health check


@dataclass(frozen=True)
class ServerSpec:
    """What a server is started with, except for its address and key: an equal one need not be started again."""

    argv: tuple[str, ...]
    engine: str
    model: str  # the target's name for it
    folder: str  # where it is loaded from
    extra: tuple[str, ...] = ()  # arguments of the settings
    processor: Path | None = None


class ServerKilled(TargetUnavailable):
    """The server was killed while it started: by a person, or because the machine has too little memory."""


class TargetServer:
    """A server that this worker starts and stops.  Call `start` once, from a thread that outlives the server.

    It listens on a Unix socket of this user, and has a key of its own; `key_file` exists only while it starts.
    """

    def __init__(self, spec: ServerSpec, log: Path, records: PidRecords, key_file: Path) -> None:
        self.spec, self._engine = spec, ENGINES[spec.engine]
        name = processes.temporary_folder(records.path).stem
        for old in runtime_folder().glob(f"{name}-*.sock"):  # of killed servers
            old.unlink(missing_ok=True)
        self._socket = runtime_socket(f"{name}-{secrets.token_hex(4)}")
        self.url = unix_url(self._socket)
        # The prefix keeps YAML from reading a number, and the server's option parser from reading an option.
        self.api_key = f"key-{secrets.token_hex(24)}"
        self.identity: dict[str, Any] = {}  # what the ready server reports; empty where it reports nothing
        self._log, self._records, self._key_file = log, records, key_file
        self._process: ChildProcess | None = None

    def start(self, environment: Mapping[str, str], pass_fds: tuple[int, ...]) -> None:
        spec, engine = self.spec, self._engine
        processor = engine.processor_arguments(spec.processor) if spec.processor else []
        key_options, key_environment = engine.pass_key(self.api_key, self._key_file)
        with engine.listen(self._socket) as (listen, listen_environment, descriptors):
            argv = (*spec.argv, *spec.extra, *processor, *key_options, *listen)
            environment = {**environment, **key_environment, **listen_environment}
            command = Command("target", argv, self._log, environment, engine.death_signal, (*pass_fds, *descriptors))
            self._process = ChildProcess(command, self._records)
            self._process.start()

    def wait_ready(self, timeout_s: float, cancelled: threading.Event) -> None:
        assert self._process is not None
        try:
            self._process.wait_ready(lambda: is_server_healthy(self.url, self.spec.engine), timeout_s, cancelled)
            self.identity = self._read_identity()
        except ProcessFailed as error:
            kind = ServerKilled if self._process.returncode == -signal.SIGKILL else TargetUnavailable
            self.stop()
            raise kind(f"the target server did not start: {error}".replace(self.api_key, "***")) from None
        except BaseException:
            self.stop()
            raise
        finally:
            self._key_file.unlink(missing_ok=True)
            redact_file(self._log, self.api_key)

    @property
    def is_serving(self) -> bool:
        """Whether its process runs and it is healthy: the part that computes may have died alone."""
        return self._process is not None and self._process.alive and is_server_healthy(self.url, self.spec.engine)

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop(self._engine.stop_grace_s)
        self._socket.unlink(missing_ok=True)

    def _read_identity(self) -> dict[str, Any]:
        """The server's report, with its weights and arguments, and the model's name in place of its folder."""
        try:
            report = read_identity(self.url, self.api_key)
        except (OSError, ValueError) as error:
            log.warning("the target server reports nothing about itself: %s", error)
            return {}
        renamed = {name: self.spec.model if value == self.spec.folder else value for name, value in report.items()}
        weights = renamed.get("weights") or local_weights(self.spec.folder)
        return {**renamed, "weights": weights, "arguments": list(self.spec.extra)}


def is_server_healthy(url: str, engine: str) -> bool:
    """Whether a server is healthy.  One that answered recently is not checked: SGLang's check takes a second."""
    if not SERVER_STATS.was_alive(url, RECENT_S):
        if not processes.is_healthy(url, ENGINES[engine].health_s):
            return False
        SERVER_STATS.alive(url)
    return True


def make_steering_path(folder: Path) -> Path:
    """Prepare `folder` for PYTHONPATH and return it: it holds the steering package as a distribution, and no other."""
    for name, text in steering.distribution_metadata().items():
        write_atomic(folder / name, text)
    link, package = folder / steering.NAME, Path(steering.__file__).parent
    if not link.exists() or link.resolve() != package.resolve():
        temporary = folder / f".{steering.NAME}.{os.getpid()}"
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(package, target_is_directory=True)
        temporary.replace(link)
    return folder


def write_processor(folder: Path, text: str) -> Path:
    """The processor file in a folder named by its content, because Python caches compiled code by a file's path."""
    path = folder / hashlib.sha256(text.encode()).hexdigest()[:16] / PROCESSOR_FILE
    if not path.exists():
        shutil.rmtree(folder, ignore_errors=True)
        write_atomic(path, text)
    return path


def temporary_environment(records: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Variables that keep a server's temporary files from names under /tmp that other users could take.

    SGLang leaves sockets behind, so its folder is emptied.  The code that torch has compiled is shared by all servers.
    """
    processes.clear_temporary(records)
    compiled = environment.get(COMPILED_VARIABLE) or str(private_folder(runtime_folder() / "torchinductor"))
    return {"TMPDIR": str(private_folder(processes.temporary_folder(records))), COMPILED_VARIABLE: compiled}


def redact_file(log: Path, secret: str) -> None:
    """Overwrite a secret in a log to which a running server still writes: SGLang logs all its arguments."""
    raw = secret.encode()
    with contextlib.suppress(FileNotFoundError), log.open("r+b") as file:
        text = file.read()
        file.seek(0)
        file.write(text.replace(raw, b"*" * len(raw)))
