"""One run that faults happen to: its processes, and in every other run an endpoint of its own behind a proxy."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import psutil
from chaos_network import Proxy
from rules_server import RulesServer, rules_server
from run_folder import LOGS, ROOT, RunFolder, environment, process_of, until

from workers.embedded.valkey import socket_path

TIMEOUTS = {
    "WHETSTONE_TARGET_TIMEOUT_S": "30",
    "WHETSTONE_OPENAI_TIMEOUT_S": "20",
    "WHETSTONE_STAGE_TIMEOUT_S": "300",
}


class Subject:
    """A run whose orchestrator is started, observed and started again, with what the faults need."""

    def __init__(self, folder: Path, options: Mapping[str, str], *, own_endpoint: bool = False) -> None:
        folder.mkdir(parents=True)
        self.folder = RunFolder(folder, dict(options))  # each run has an address of its own
        self.process: subprocess.Popen[bytes] | None = None
        self.log = Path()  # of the session
        self.sessions = 0
        self.copier: subprocess.Popen[bytes] | None = None  # writes the log
        self.silent: list[Proxy] = []  # proxies with silent connections
        self.rules: RulesServer | None = None
        self.proxy: Proxy | None = None
        self._stack = ExitStack()
        if own_endpoint:
            self.rules = self._stack.enter_context(rules_server(folder / LOGS[1]))
            self.proxy = Proxy(0, int(self.rules.url.split(":")[2].partition("/")[0]))
            self._stack.callback(self.proxy.close)
            self.folder.options["OPENAI_BASE_URL"] = f"http://127.0.0.1:{self.proxy.port}/v1"

    def start(self, *, retry: bool = False) -> None:
        """The command, as a user would start it again, or `retry`."""
        again = [sys.executable, "-m", "orchestrator", "retry", str(self.folder.output), "--plain"]
        self.log = self.folder.folder / f"session{self.sessions}.log"
        self.sessions += 1
        # Through a pipe: a session whose files cannot grow can still say why it stops.
        with self.log.open("w") as out:
            self.copier = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=out)
        assert self.copier.stdin is not None
        with self.copier.stdin as pipe:
            self.process = subprocess.Popen(
                again if retry else self.folder.command("--plain"),
                cwd=ROOT,
                env={**environment(), **TIMEOUTS},
                stdout=pipe,
                stderr=subprocess.STDOUT,
            )

    @property
    def ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def output_of_session(self) -> str:
        if self.copier is not None:
            self.copier.wait(30)
        return self.log.read_text()

    def close(self) -> None:
        """End all processes and remove the socket."""
        self._stack.close()
        self.folder.clear()
        if self.process is not None:
            self.process.wait(30)
        until(lambda: not self.folder.processes(), 20)
        for proxy in self.silent:
            proxy.close()
        self.socket().unlink(missing_ok=True)

    def progress(self) -> int:
        return self.folder.answers()

    def process_of(self, kind: str) -> psutil.Process | None:
        """The process of this kind, if there is one."""
        if kind == "orchestrator":
            return None if self.ended or self.process is None else psutil.Process(self.process.pid)
        return process_of(self.folder, kind)

    def send(self, kind: str, number: signal.Signals) -> psutil.Process | None:
        """Send a signal to the process of this kind; returns it, if there is one."""
        if found := self.process_of(kind):
            found.send_signal(number)
        return found

    def socket(self) -> Path:
        return socket_path(self.folder.farm)
