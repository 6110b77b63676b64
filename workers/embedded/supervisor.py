"""The one process that the embedded farm hangs on: `python -m workers.embedded.supervisor --spec FILE`.

It starts Valkey, the endpoint and the workers, says in farm.json when all are ready, restarts whatever dies, and takes
everything down in order on SIGTERM, on SIGINT, or when its owner's end of a pipe is closed, as the kernel does for an
owner that was killed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import logging
import os
import signal
import sys
import threading
import time
from collections import deque
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from tasks import logs
from tasks.files import write_atomic
from workers.embedded import valkey
from workers.embedded.farm import Addresses, FarmFiles, FarmSpec, endpoint_command, worker_commands
from workers.health import worker_answers
from workers.processes.local_http import free_port, is_healthy
from workers.processes.pid_records import PidRecords
from workers.processes.process import ChildProcess, ProcessFailed, describe_exit

logger = logging.getLogger("whetstone.farm")

WATCH_PERIOD_S = 0.1
DEATHS_ALLOWED, DEATHS_WINDOW_S = 5, 60.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0
WORKERS_GRACE_S, ENDPOINT_GRACE_S, VALKEY_GRACE_S = 6.0, 1.0, 3.0


class RestartPolicy:
    """One child, restarted when it dies, sooner after the first death than after the fourth."""

    def __init__(self, child: ChildProcess) -> None:
        self.child = child
        self._deaths: deque[float] = deque(maxlen=DEATHS_ALLOWED)
        self._restart_at: float | None = None

    def look(self, now: float) -> None:
        """Notice a death, restart when it is time. Raises: ProcessFailed when it keeps dying."""
        if self._restart_at is None and not self.child.alive:
            self._note_death(now)
        if self._restart_at is not None and now >= self._restart_at:
            self._restart_at = None
            self.child.start()

    def _note_death(self, now: float) -> None:
        name, how = self.child.command.name, describe_exit(self.child.returncode)
        self.child.stop(0)  # whatever of its group is left
        self._deaths.append(now)
        recent = sum(now - death < DEATHS_WINDOW_S for death in self._deaths)
        if recent >= DEATHS_ALLOWED:
            window = f"{recent} times in {DEATHS_WINDOW_S:g} s"
            raise ProcessFailed(f"{name} died {window}, at last with {how}{self.child.log_tail()}")
        pause = min(FIRST_PAUSE_S * 2 ** (recent - 1), LONGEST_PAUSE_S)
        logger.warning("%s died with %s; restarting it in %.1f s", name, how, pause)
        self._restart_at = now + pause


class Supervisor:
    """The farm's processes, from the first to be started to the last to be stopped."""

    def __init__(self, spec: FarmSpec, stopping: threading.Event) -> None:
        self.spec = spec
        self.files = FarmFiles(Path(spec.folder))
        self.stopping = stopping
        self.records = PidRecords(self.files.pids)
        self.valkey: ChildProcess | None = None
        self.endpoint: ChildProcess | None = None
        self.workers: list[ChildProcess] = []

    def run(self) -> None:
        """Until it is told to stop. Raises: ProcessFailed when a child does not start or keeps dying; OSError."""
        try:
            addresses = self.start()
            self.announce(addresses)
            watched = [RestartPolicy(child) for child in self.children()]
            while not self.stopping.wait(WATCH_PERIOD_S):
                for one in watched:
                    one.look(time.monotonic())
        finally:
            self.take_down()

    def children(self) -> list[ChildProcess]:
        return [child for child in (self.valkey, self.endpoint, *self.workers) if child is not None]

    def start(self) -> Addresses:
        """Start everything and wait until it answers."""
        limit = self.spec.ready_timeout_s
        path = valkey.socket_path(self.files.folder)
        self.valkey = valkey.valkey_process(self.files.folder, path, self.records)
        self.valkey.start()
        self.valkey.wait_ready(lambda: valkey.answers(path), limit, self.stopping)
        addresses = Addresses(valkey.redis_url(path), None)
        port = free_port()
        if self.spec.embedded_endpoint:
            addresses = dataclasses.replace(addresses, endpoint_url=f"http://127.0.0.1:{port}/v1")
            self.endpoint = ChildProcess(endpoint_command(self.spec, port, dict(os.environ)), self.records)
            self.endpoint.start()
        for command in worker_commands(self.spec, addresses, dict(os.environ)):
            worker = ChildProcess(command, self.records)
            self.workers.append(worker)
            worker.start()
        if self.endpoint is not None:
            self.endpoint.wait_ready(partial(is_healthy, f"http://127.0.0.1:{port}"), limit, self.stopping)
        for worker in self.workers:
            worker.wait_ready(partial(worker_answers, addresses.redis_url, worker.command.name), limit, self.stopping)
        return addresses

    def announce(self, addresses: Addresses) -> None:
        """Say that all is ready: farm.json appears whole or not at all."""
        state = {"supervisor": os.getpid(), "started": datetime.now(UTC).isoformat(timespec="seconds")}
        write_atomic(self.files.state, json.dumps({**state, **dataclasses.asdict(addresses)}, indent=1))
        logger.info("the farm is up: %s", ", ".join(child.command.name for child in self.children()))

    def take_down(self) -> None:
        """Workers first, while there is a broker to give unfinished tasks back to; Valkey last."""
        self.files.state.unlink(missing_ok=True)
        for worker in self.workers:
            worker.ask_to_stop()
        deadline = time.monotonic() + WORKERS_GRACE_S
        for worker in self.workers:
            worker.wait_end(deadline - time.monotonic())
            worker.stop(0)
        PidRecords(self.files.target_pids).clear(grace_s=ENDPOINT_GRACE_S)
        if self.endpoint is not None:
            self.endpoint.stop(ENDPOINT_GRACE_S)
        if self.valkey is not None:
            self.valkey.stop(VALKEY_GRACE_S)
            valkey.remove_socket(self.files.folder)
        self.files.pids.unlink(missing_ok=True)
        logger.info("the farm is down")


def stop_when_closed(descriptor: int, stopping: threading.Event) -> None:
    """Set `stopping` when nobody holds the writing end of the pipe any more."""

    def wait_for_end() -> None:
        while os.read(descriptor, 1):
            pass
        stopping.set()

    threading.Thread(target=wait_for_end, name="owner", daemon=True).start()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m workers.embedded.supervisor")
    parser.add_argument("--spec", type=Path, required=True, help="a FarmSpec as JSON")
    parser.add_argument("--owner-pipe", type=int, help="a descriptor; the farm goes down when its other end is closed")
    arguments = parser.parse_args()
    logs.set_up([logging.StreamHandler()], logging.INFO)
    spec = FarmSpec.from_json(arguments.spec.read_text())
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: stopping.set())
    if arguments.owner_pipe is not None:
        stop_when_closed(arguments.owner_pipe, stopping)
    try:
        Supervisor(spec, stopping).run()
    except (ProcessFailed, OSError) as error:
        if stopping.is_set():
            return
        logger.error("%s", error)
        write_atomic(FarmFiles(Path(spec.folder)).error, str(error))
        sys.exit(1)


if __name__ == "__main__":
    main()
