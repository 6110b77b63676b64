"""One run that faults happen to: its processes, its endpoint behind a proxy, its output on a small disk."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from chaos_clock import Clock
from chaos_network import Proxy
from run_folder import ROOT, RunFolder, environment, process_of

from tasks.http.bounded import HttpFailed, ReplyLimits, fetch
from tasks.limits import REPLY_BYTES
from workers.embedded.endpoint import ENDPOINT_CONTROL_VARIABLE, ENDPOINT_KEY_VARIABLE
from workers.embedded.valkey import socket_path
from workers.processes.process import free_port, is_healthy

LOGS = ("target_requests.jsonl", "endpoint_calls.jsonl")
TIMEOUTS = {
    "WHETSTONE_TARGET_TIMEOUT_S": "30",
    "WHETSTONE_OPENAI_TIMEOUT_S": "20",
    "WHETSTONE_STAGE_TIMEOUT_S": "300",
}
SECOND_OWNER_S = 90.0
DISK_KB, FARM_DISK_KB = 4096, 65536
KEY = "the-key-of-the-endpoint"
ENDPOINT = {ENDPOINT_KEY_VARIABLE: KEY, ENDPOINT_CONTROL_VARIABLE: "1"}  # in the environment of the endpoint
PAUSE_S = 0.05


def until(condition: Callable[[], object], limit_s: float) -> bool:
    """Wait for an event; returns whether it came in time."""
    pause, deadline = threading.Event(), time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        pause.wait(PAUSE_S)
    return True


@dataclass
class Endpoint:
    """An endpoint outside the farm, behind a proxy; `restart_if_dead` starts it again."""

    calls: Path
    port: int = field(default_factory=free_port)

    def __post_init__(self) -> None:
        self.calls.parent.mkdir(parents=True, exist_ok=True)
        self.start()
        self.proxy = Proxy(0, self.port)

    def start(self) -> None:
        options = ["--port", str(self.port), "--calls-log", str(self.calls)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "workers.embedded.endpoint", *options],
            cwd=ROOT, env=environment() | ENDPOINT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        if not until(lambda: is_healthy(f"http://127.0.0.1:{self.port}"), 30):
            raise RuntimeError("the endpoint did not start")

    def restart_if_dead(self) -> None:
        if self.process.poll() is not None:
            self.start()

    def close(self) -> None:
        self.proxy.close()
        self.process.kill()
        self.process.wait()


class Subject:
    """A run whose orchestrator is started, observed and started again, with what the faults need."""

    def __init__(
        self,
        folder: Path,
        options: Mapping[str, str],
        *,
        outside_endpoint: bool = False,
        small_disk: bool = False,
        small_farm_disk: bool = False,
        own_clock: bool = False,
    ) -> None:
        folder.mkdir(parents=True)
        self.folder = RunFolder(folder, options)
        self.process: subprocess.Popen[str] | None = None
        self.session_logs: list[str] = []
        self.small_disk = small_disk and mount(self.folder.output, DISK_KB)
        self.small_farm_disk = small_farm_disk and mount(self.folder.farm, FARM_DISK_KB)
        self.clock = Clock(folder / "clock") if own_clock else None
        self.silent: list[Proxy] = []  # proxies with silent connections
        self.endpoint = Endpoint(self.folder.farm / "logs" / LOGS[1]) if outside_endpoint else None
        if self.endpoint is not None:
            self.folder.options["OPENAI_BASE_URL"] = f"http://127.0.0.1:{self.endpoint.proxy.port}/v1"

    # -- the orchestrator --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """`evolve`, as a user would start it again."""
        self._start(self.folder.command("--plain"))

    def retry(self) -> None:
        self._start([sys.executable, "-m", "orchestrator", "retry", str(self.folder.output), "--plain"])

    def _start(self, command: list[str]) -> None:
        log = self.folder.folder / f"session{len(self.session_logs)}.log"
        with log.open("w") as out:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=self._environment(), stdout=out, stderr=subprocess.STDOUT, text=True
            )
        self.session_logs.append(str(log))

    def _environment(self) -> dict[str, str]:
        key = {"OPENAI_API_KEY": KEY} if self.endpoint else ENDPOINT
        return {**environment(), **TIMEOUTS, **key, **(self.clock.environment() if self.clock else {})}

    def second_owner(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        """Start another command beside the run, and wait for its end.  Raises: TimeoutExpired."""
        return subprocess.run(
            command, cwd=ROOT, env=self._environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=SECOND_OWNER_S, check=False,
        )  # fmt: skip

    @property
    def ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def output_of_session(self) -> str:
        return Path(self.session_logs[-1]).read_text()

    def close(self) -> None:
        """End all processes and remove the disk and the socket."""
        if self.endpoint is not None:
            self.endpoint.close()
        for process in self.folder.processes():
            ignore_ended(process.kill)
        if self.process is not None:
            self.process.wait(30)
        until(lambda: not self.folder.processes(), 20)
        for proxy in self.silent:
            proxy.close()
        for is_small, folder in ((self.small_disk, self.folder.output), (self.small_farm_disk, self.folder.farm)):
            if is_small:
                unmount(folder)
        socket_path(self.folder.farm).unlink(missing_ok=True)

    # -- its state ----------------------------------------------------------------------------------------------------

    def calls(self, log: str) -> list[dict[str, object]]:
        """Each call that a server has answered; a line that a kill cut short is left out."""
        path = self.folder.farm / "logs" / log
        found = []
        for line in path.read_text().splitlines() if path.exists() else []:
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
        return found

    def answered(self, log: str) -> list[str]:
        """The ids of the calls with a correct answer."""
        good = [c for c in self.calls(log) if c.get("status", 200) == 200 and c.get("fault", "") in ("", "hang")]
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
        if kind == "endpoint" and self.endpoint is not None:
            return psutil.Process(self.endpoint.process.pid)
        return process_of(self.folder, kind)

    def remaining(self) -> list[str]:
        """The processes of this run without the endpoint outside the farm."""
        ours = self.endpoint.process.pid if self.endpoint else None
        return [str(process) for process in self.folder.processes() if process.pid != ours]

    def socket(self) -> Path:
        return socket_path(self.folder.farm)

    def endpoint_url(self) -> str | None:
        if self.endpoint is not None:
            return f"http://127.0.0.1:{self.endpoint.port}"
        try:
            url = json.loads((self.folder.farm / "farm.json").read_text())["endpoint_url"]
        except (OSError, ValueError, KeyError):
            return None
        return str(url)

    def set_faults(self, spec: str) -> bool:
        """Set the faults of the endpoint; returns whether it accepted them."""
        url = self.endpoint_url()
        if url is None:
            return False
        body = json.dumps({"faults": spec}).encode()
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}
        try:
            limits = ReplyLimits(5.0, REPLY_BYTES)
            return fetch("POST", url, limits, path="/_faults", headers=headers, content=body).status == 200
        except HttpFailed:
            return False


def ignore_ended(work: Callable[[], object]) -> None:
    try:
        work()
    except psutil.Error:
        return


def mount(folder: Path, size_kb: int) -> bool:
    """Mount a small disk as this folder; returns whether that was permitted."""
    folder.mkdir(parents=True)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size_kb}k", "tmpfs", str(folder)], capture_output=True, check=False
    )
    return done.returncode == 0


def unmount(folder: Path) -> None:
    subprocess.run(["umount", "--lazy", str(folder)], capture_output=True, check=False)


def send(process: psutil.Process, number: signal.Signals) -> bool:
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return False
    return True
