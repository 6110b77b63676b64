"""One run and all that can be done to it: its processes, its endpoint behind a line, its output on a small disk."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from chaos_network import Line
from workplace import ROOT, Workplace, environment, victim

from workers.embedded.valkey import socket_path
from workers.processes.process import free_port, is_healthy

LOGS = ("target_requests.jsonl", "endpoint_calls.jsonl")
PATIENCE = {"TARGET_TIMEOUT_S": "30", "OPENAI_TIMEOUT_S": "20", "STAGE_TIMEOUT_S": "300"}
DISK_KB = 4096
PAUSE_S = 0.05


def until(condition: Callable[[], object], limit_s: float) -> bool:
    """Wait for an event; whether it came in time."""
    pause, deadline = threading.Event(), time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        pause.wait(PAUSE_S)
    return True


@dataclass
class Endpoint:
    """An endpoint that is not the farm's, behind a line of ours; somebody starts it again when it dies."""

    calls: Path
    port: int = field(default_factory=free_port)

    def __post_init__(self) -> None:
        self.calls.parent.mkdir(parents=True, exist_ok=True)
        self.start()
        self.line = Line(0, self.port)

    def start(self) -> None:
        options = ["--port", str(self.port), "--calls-log", str(self.calls)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "workers.embedded.endpoint", *options],
            cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        if not until(lambda: is_healthy(f"http://127.0.0.1:{self.port}"), 30):
            raise RuntimeError("the endpoint did not start")

    def look(self) -> None:
        if self.process.poll() is not None:
            self.start()

    def close(self) -> None:
        self.line.close()
        self.process.kill()
        self.process.wait()


class Scene:
    """A workplace whose orchestrator is started, watched and started again, with all that the faults need."""

    def __init__(
        self, folder: Path, options: Mapping[str, str], *, outside_endpoint: bool = False, small_disk: bool = False
    ) -> None:
        folder.mkdir(parents=True)
        self.place = Workplace(folder, {**PATIENCE, **options})
        self.process: subprocess.Popen[str] | None = None
        self.said: list[str] = []
        self.small_disk = small_disk and mount(self.place.output)
        self.endpoint = Endpoint(self.place.farm / "logs" / LOGS[1]) if outside_endpoint else None
        if self.endpoint is not None:
            self.place.options["OPENAI_BASE_URL"] = f"http://127.0.0.1:{self.endpoint.line.port}/v1"

    # -- the orchestrator --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """`evolve`, as a user would type it again after whatever happened."""
        self._start(self.place.command("--plain"))

    def retry(self) -> None:
        self._start([sys.executable, "-m", "orchestrator", "retry", str(self.place.output), "--plain"])

    def _start(self, command: list[str]) -> None:
        key = {"OPENAI_API_KEY": "chaos"} if self.endpoint else {}
        said = self.place.folder / f"session{len(self.said)}.log"
        with said.open("w") as out:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env={**environment(), **key}, stdout=out, stderr=subprocess.STDOUT, text=True
            )
        self.said.append(str(said))

    @property
    def ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def output_of_session(self) -> str:
        return Path(self.said[-1]).read_text()

    def close(self) -> None:
        """Leave nothing behind, whatever happened."""
        if self.endpoint is not None:
            self.endpoint.close()
        for process in self.place.processes():
            with_suppress(process.kill)
        if self.process is not None:
            self.process.wait(30)
        until(lambda: not self.place.processes(), 20)
        if self.small_disk:
            unmount(self.place.output)
        socket_path(self.place.farm).unlink(missing_ok=True)

    # -- what is seen of it ------------------------------------------------------------------------------------------

    def calls(self, log: str) -> list[dict[str, object]]:
        """Each call that a server has answered; a line that a kill cut short is none."""
        path = self.place.farm / "logs" / log
        found = []
        for line in path.read_text().splitlines() if path.exists() else []:
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
        return found

    def answered(self, log: str) -> list[str]:
        """The names of the calls that got a good answer."""
        good = [c for c in self.calls(log) if c.get("status", 200) == 200 and c.get("fault", "") in ("", "hang")]
        return [str(c.get("call_id") or c["sha256"]) for c in good]

    def progress(self) -> int:
        return sum(len(self.answered(log)) for log in LOGS)

    def spoilt(self) -> int:
        return sum(1 for call in self.calls(LOGS[1]) if call.get("fault"))

    def repeats(self, log: str) -> Counter[str]:
        """How often each call was answered beyond the first time."""
        return Counter({name: times - 1 for name, times in Counter(self.answered(log)).items() if times > 1})

    def victim(self, kind: str) -> psutil.Process | None:
        """The process that plays this part now, if there is one."""
        if kind == "orchestrator":
            return None if self.ended or self.process is None else psutil.Process(self.process.pid)
        if kind == "endpoint" and self.endpoint is not None:
            return psutil.Process(self.endpoint.process.pid)
        return victim(self.place, kind)

    def left(self) -> list[str]:
        """What runs for this run, but for the endpoint that is ours."""
        ours = self.endpoint.process.pid if self.endpoint else None
        return [str(process) for process in self.place.processes() if process.pid != ours]

    def socket(self) -> Path:
        return socket_path(self.place.farm)

    def endpoint_url(self) -> str | None:
        if self.endpoint is not None:
            return f"http://127.0.0.1:{self.endpoint.port}"
        try:
            url = json.loads((self.place.farm / "farm.json").read_text())["endpoint_url"]
        except (OSError, ValueError, KeyError):
            return None
        return str(url).removesuffix("/v1")

    def set_faults(self, spec: str) -> bool:
        """Tell the endpoint what to do wrong; whether it was there to be told."""
        url = self.endpoint_url()
        if url is None:
            return False
        body = json.dumps({"faults": spec}).encode()
        request = urllib.request.Request(f"{url}/_faults", body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=5) as reply:
                return bool(reply.status == 200)
        except (urllib.error.URLError, OSError):
            return False


def with_suppress(work: Callable[[], object]) -> None:
    try:
        work()
    except psutil.Error:
        return


def mount(folder: Path) -> bool:
    """A disk of its own for the output folder, where we may mount one."""
    folder.mkdir(parents=True)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_KB}k", "tmpfs", str(folder)], capture_output=True, check=False
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
