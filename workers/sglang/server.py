"""The folder by which a server that we start finds the steering module, without anything being installed for it.

One target server as a process: what it is started with, how it is made ready, and how its key stays a secret.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shlex
import signal
import sys
import threading
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tasks.files import write_atomic
from tasks.gpu.connections import SERVER_STATS
from tasks.gpu.host import TargetUnavailable
from tasks.models import Target
from workers import steering
from workers.processes.local_http import free_port, is_healthy
from workers.processes.pid_records import PidRecords
from workers.processes.process import ChildProcess, Command, ProcessFailed


def make(folder: Path) -> Path:
    """Make `folder` ready for PYTHONPATH and return it: the steering module and nothing else of ours.

    To the server it looks like the installed distribution, entry point included, so SGLang loads the plugin by itself.
    Our other packages stay away: the server's Python may not be ours, and theirs must not be hidden by ours.
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


STOP_GRACE_S = {"embedded": 2.0, "sglang": 10.0}  # SGLang drains first, and would take for ever
# After so long without an answer a server counts as hung.  SGLang's /health generates a token, perhaps among many.
HEALTH_S = {"embedded": 10.0, "sglang": 30.0}
INFO_S = 5.0
TRUST_S = 5.0  # how long a sign of life speaks for a server
EMBEDDED_KEY_VARIABLE = "WHETSTONE_TARGET_KEY"


@dataclass(frozen=True)
class Launch:
    """What a server is started with, but for its port: an equal one need not be started again."""

    argv: tuple[str, ...]
    engine: str
    model: str


@dataclass(frozen=True)
class Place:
    """Where a server leaves its traces: its log, and the record of its pid; `key_file` is there while it starts."""

    log: Path
    records: PidRecords
    key_file: Path


class TargetServer:
    """A server of ours, from its start to its end.  `start` is called once, from a thread that outlives the server."""

    def __init__(self, launch: Launch, place: Place, api_key: str) -> None:
        self.launch = launch
        self.url = ""
        self.version = ""
        self._place = place
        self._api_key = api_key
        self._process: ChildProcess | None = None

    def start(self, environment: Mapping[str, str], pass_fds: tuple[int, ...]) -> None:
        """Start the process; it is not ready then.  Raises: OSError."""
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        SERVER_STATS.mark_unhealthy(self.url)  # another server may have been alive there
        key_options, key_environment = self._key()
        argv = (*self.launch.argv, *key_options, "--host", "127.0.0.1", "--port", str(port))
        # Without a worker nobody ends a server that drains without a limit; SGLang's own processes end with the first.
        death = signal.SIGKILL if self.launch.engine == "sglang" else signal.SIGTERM
        command = Command("target", argv, self._place.log, {**environment, **key_environment}, death, pass_fds)
        self._process = ChildProcess(command, self._place.records)
        self._process.start()

    def wait_ready(self, deadline_s: float, give_up: threading.Event) -> None:
        """Until it answers.  Raises: TargetUnavailable, with the last lines of its log; it is stopped then."""
        assert self._process is not None
        try:
            self._process.wait_ready(lambda: in_health(self.url, self.launch.engine), deadline_s, give_up)
            self.version = self._told_version()
        except ProcessFailed as error:
            self.stop()
            raise TargetUnavailable(f"the target server did not start: {error}".replace(self._api_key, "***")) from None
        except BaseException:
            self.stop()
            raise
        finally:
            self._place.key_file.unlink(missing_ok=True)
            blot_out(self._place.log, self._api_key)

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    @property
    def serves(self) -> bool:
        """Whether it lives and is in health: one may have lost the part of it that computes and still be there."""
        return self._process is not None and self._process.alive and in_health(self.url, self.launch.engine)

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop(STOP_GRACE_S[self.launch.engine])

    def _key(self) -> tuple[list[str], dict[str, str]]:
        """How the server is told its key: never on the command line, where every user of the machine reads it."""
        if self.launch.engine == "embedded":
            return [], {EMBEDDED_KEY_VARIABLE: self._api_key}
        self._place.key_file.unlink(missing_ok=True)
        os.close(os.open(self._place.key_file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        self._place.key_file.write_text(f"api-key: {self._api_key}\n")
        return ["--config", str(self._place.key_file)], {}

    def _told_version(self) -> str:
        """What the server says of its version; "" where it says nothing."""
        headers = {"Authorization": f"Bearer {self._api_key}"}
        request = urllib.request.Request(f"{self.url}/server_info", headers=headers)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=INFO_S) as reply:
                return str(json.load(reply).get("version", ""))
        except (OSError, ValueError, http.client.HTTPException):
            return ""


def in_health(url: str, engine: str) -> bool:
    """Whether a server is in health.  One that answered lately need not be asked: SGLang takes a second to say so."""
    if SERVER_STATS.was_alive(url, TRUST_S):
        return True
    healthy = is_healthy(url, HEALTH_S[engine])
    if healthy:
        SERVER_STATS.alive(url)
    return healthy


def launch_of(target: Target, model: str, labels: Path, dtype: str, requests_log: Path) -> Launch:
    """The command that starts the server of `target`; `model` is a folder or an id of Hugging Face."""
    if target.engine == "embedded":
        options = ["--model", model, "--labels", str(labels), "--dtype", dtype, "--requests-log", str(requests_log)]
        start = [sys.executable, "-m", "workers.embedded.target", *options]
    else:
        start = [*shlex.split(target.command), "--model-path", model]
    return Launch((*start, *shlex.split(target.args)), target.engine, target.model)


def blot_out(log: Path, secret: str) -> None:
    """Write over a secret in a log that a living server is still writing to: SGLang logs all that it was told."""
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
