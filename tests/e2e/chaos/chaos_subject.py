"""One run that faults happen to: its processes, and in every other run an endpoint of its own behind a proxy."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

import psutil
from chaos_network import Proxy
from rules_server import RulesServer, rules_server
from run_folder import LOGS, ROOT, RunFolder, environment, process_of

from workers.embedded.valkey import socket_path

TIMEOUTS = {
    "WHETSTONE_TARGET_TIMEOUT_S": "30",
    "WHETSTONE_OPENAI_TIMEOUT_S": "20",
    "WHETSTONE_STAGE_TIMEOUT_S": "300",
}
PAUSE_S = 0.05


def until(condition: Callable[[], object], limit_s: float) -> bool:
    """Wait for an event; returns whether it came in time."""
    pause, deadline = threading.Event(), time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        pause.wait(PAUSE_S)
    return True


class Subject:
    """A run whose orchestrator is started, observed and started again, with what the faults need."""

    def __init__(self, folder: Path, options: Mapping[str, str], *, own_endpoint: bool = False) -> None:
        folder.mkdir(parents=True)
        self.folder = RunFolder(folder, dict(options))  # each run has an address of its own
        self.process: subprocess.Popen[str] | None = None
        self.session_logs: list[str] = []
        self.copier: subprocess.Popen[bytes] | None = None  # writes the log of the session
        self.silent: list[Proxy] = []  # proxies with silent connections
        self.rules: RulesServer | None = None
        self.proxy: Proxy | None = None
        self._stack = ExitStack()
        if own_endpoint:
            self.rules = self._stack.enter_context(rules_server(folder / LOGS[1]))
            self.proxy = Proxy(0, int(self.rules.url.split(":")[2].partition("/")[0]))
            self._stack.callback(self.proxy.close)
            address = {"OPENAI_BASE_URL": f"http://127.0.0.1:{self.proxy.port}/v1"}
            self.folder.options |= self.rules.options | address

    # -- the orchestrator --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """`evolve`, as a user would start it again."""
        self._start(self.folder.command("--plain"))

    def retry(self) -> None:
        self._start([sys.executable, "-m", "orchestrator", "retry", str(self.folder.output), "--plain"])

    def _start(self, command: list[str]) -> None:
        log = self.folder.folder / f"session{len(self.session_logs)}.log"
        # Through a pipe: a session whose files cannot grow can still say why it stops.
        with log.open("w") as out:
            self.copier = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=out)
        assert self.copier.stdin is not None
        with self.copier.stdin as pipe:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env={**environment(), **TIMEOUTS}, stdout=pipe, stderr=subprocess.STDOUT
            )
        self.session_logs.append(str(log))

    @property
    def ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def output_of_session(self) -> str:
        if self.copier is not None:
            self.copier.wait(30)
        return Path(self.session_logs[-1]).read_text()

    def close(self) -> None:
        """End all processes and remove the socket."""
        self._stack.close()
        self.folder.clear()
        if self.process is not None:
            self.process.wait(30)
        until(lambda: not self.folder.processes(), 20)
        for proxy in self.silent:
            proxy.close()
        socket_path(self.folder.farm).unlink(missing_ok=True)

    # -- its state ----------------------------------------------------------------------------------------------------

    def calls(self, log: str) -> list[dict[str, object]]:
        """Each call that a server has answered; a line that a kill cut short is left out."""
        found = []
        for path in (self.folder.farm / "logs" / log, self.folder.folder / log):
            for line in path.read_text().splitlines() if path.exists() else []:
                try:
                    found.append(json.loads(line))
                except ValueError:
                    continue
        return found

    def answered(self, log: str) -> list[str]:
        """The ids of the calls with a correct answer."""
        good = [c for c in self.calls(log) if c.get("status", 200) == 200 and not c.get("fault")]
        return [str(c.get("call_id") or c["sha256"]) for c in good]

    def progress(self) -> int:
        return sum(len(self.answered(log)) for log in LOGS)

    def faulty_reply_count(self) -> int:
        return sum(1 for call in self.calls(LOGS[1]) if call.get("fault"))

    def repeats(self, log: str) -> Counter[str]:
        """How often each call was answered beyond the first time."""
        return Counter({name: times - 1 for name, times in Counter(self.answered(log)).items() if times > 1})

    def process_of(self, kind: str) -> psutil.Process | None:
        """The process of this kind, if there is one."""
        if kind == "orchestrator":
            return None if self.ended or self.process is None else psutil.Process(self.process.pid)
        return process_of(self.folder, kind)

    def remaining(self) -> list[str]:
        """The processes of this run."""
        return [str(process) for process in self.folder.processes()]

    def socket(self) -> Path:
        return socket_path(self.folder.farm)


def send(process: psutil.Process, number: signal.Signals) -> bool:
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return False
    return True
