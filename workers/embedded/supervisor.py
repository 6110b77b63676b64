"""The supervisor of the embedded farm: `python -m workers.embedded.supervisor --spec FILE`.

It starts Valkey, the endpoint and the workers, writes farm.json when all are ready, and restarts those that die.  It
stops everything in order on SIGTERM, on SIGINT, or when its owner's end of a pipe is closed, which the kernel does when
the owner is killed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import secrets
import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import cast

import redis

from tasks.common import logs
from tasks.common.files import NO_ROOM, keep_private, unix_url, write_atomic
from tasks.openai.endpoint import EMBEDDED, NAME_VARIABLE
from tasks.queues import QueueName
from tasks.store.address import ENVIRONMENT_VARIABLE, PASSWORD_VARIABLE, queues_url
from tasks.store.client import NO_WAITING, connect
from workers import processes
from workers.embedded import valkey
from workers.embedded.endpoint import ENDPOINT_KEY_VARIABLE
from workers.embedded.farm import FARM_VARIABLE, READY_S, RULES, FarmFiles, FarmSpec, farm_socket
from workers.health import worker_answers
from workers.processes import ChildProcess, Command, PidRecords, ProcessFailed
from workers.queues import worker_command

logger = logging.getLogger("whetstone.farm")

CHECK_PERIOD_S, ROTATE_S = 0.1, 2.0
WORKERS_GRACE_S, ENDPOINT_GRACE_S, VALKEY_GRACE_S = 6.0, 1.0, 3.0
DEATHS_ALLOWED, DEATHS_WINDOW_S = 5, 60.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0


class RestartPolicy:
    """Restarts one child process when it dies, after a pause that doubles with each recent death.

    It gives up after `DEATHS_ALLOWED`, but not on a full disk, and not while it `is_at_work`: a task that a worker dies
    of fails after some deaths (`FarmTask` in tasks/task.py).
    """

    def __init__(self, child: ChildProcess, is_at_work: Callable[[], bool] = lambda: False) -> None:
        self.child, self._is_at_work = child, is_at_work
        self._deaths: deque[float] = deque(maxlen=DEATHS_ALLOWED)
        self._restart_at: float | None = None

    def check(self, now: float) -> None:
        if self._restart_at is None and not self.child.alive:
            self._note_death(now)
        if self._restart_at is not None and now >= self._restart_at:
            self._restart_at = now + LONGEST_PAUSE_S
            try:
                self.child.start()
            except OSError as error:
                if error.errno not in NO_ROOM:
                    raise
                logger.warning("%s cannot be started: %s", self.child.command.name, error)
            else:
                self._restart_at = None

    def _note_death(self, now: float) -> None:
        name, log = self.child.command.name, self.child.command.log
        self.child.stop(0)  # the rest of its group
        how = processes.describe_exit(self.child.returncode)
        self._deaths.append(now)
        recent = sum(now - death < DEATHS_WINDOW_S for death in self._deaths)
        if recent >= DEATHS_ALLOWED and processes.is_full(log.parent):
            logger.warning("%s died with %s, and its disk is full", name, how)
            self._deaths.clear()
        elif recent >= DEATHS_ALLOWED and self._is_at_work():
            logger.warning("%s died with %s, and has tasks in hand again and again", name, how)
        elif recent >= DEATHS_ALLOWED:
            window = f"{recent} times in {DEATHS_WINDOW_S:g} s"
            raise ProcessFailed(f"{name} died {window}, at last with {how}{processes.log_tail(log)}")
        pause = min(FIRST_PAUSE_S * 2 ** (recent - 1), LONGEST_PAUSE_S)
        logger.warning("%s died with %s; restarting it in %.1f s", name, how, pause)
        self._restart_at = now + pause


class Supervisor:
    def __init__(self, spec: FarmSpec, stopping: threading.Event) -> None:
        self.spec = spec
        self.files = FarmFiles(Path(spec.folder))
        self.stopping = stopping
        self.records = PidRecords(self.files.pids)
        self.valkey: ChildProcess | None = None
        self.endpoint: ChildProcess | None = None
        self.listener: socket.socket | None = None  # the endpoint's
        self.workers: list[ChildProcess] = []
        # The endpoint's key is a new one for each start, in no file; a test that sends requests itself gives its own.
        self.environment = {ENDPOINT_KEY_VARIABLE: secrets.token_hex(32), **os.environ}

    def run(self) -> None:
        try:
            addresses = self.start()
            state = {"supervisor": os.getpid(), "started": datetime.now(UTC).isoformat(timespec="seconds")}
            write_atomic(self.files.state, json.dumps(state | addresses, indent=1))
            logger.info("the farm is up: %s", ", ".join(child.command.name for child in self.children()))
            policies = [RestartPolicy(child, partial(self.is_at_work, child)) for child in self.children()]
            rotate_at = 0.0
            while not self.stopping.wait(CHECK_PERIOD_S):
                now = time.monotonic()
                for policy in policies:
                    policy.check(now)
                if now >= rotate_at:
                    rotate_at = now + ROTATE_S
                    # The gpu worker rotates those of its target server.
                    own = self.files.logs / "supervisor.log"
                    processes.rotate_logs([own, *(child.command.log for child in self.children())])
        finally:
            self.take_down()

    def children(self) -> list[ChildProcess]:
        return [child for child in (self.valkey, self.endpoint, *self.workers) if child is not None]

    def is_at_work(self, child: ChildProcess) -> bool:
        """Whether a worker, alive or dead, has messages that it has taken and not acknowledged."""
        queue = child.command.name.rstrip("0123456789")
        url = valkey.redis_url(valkey.socket_path(self.files.folder))
        with contextlib.suppress(redis.RedisError), connect(queues_url(url), NO_WAITING) as broker:
            taken = cast("list[bytes]", broker.hvals("unacked"))  # kombu's name: [message, exchange, routing key]
            return any(json.loads(text)[2] == queue for text in taken)
        return False

    def all_alive(self) -> bool:
        """True, or ProcessFailed with the log of a child that has ended."""
        for child in self.children():
            if not child.alive:
                child.wait_ready(lambda: False, 0)
        return True

    def start(self) -> dict[str, str | None]:
        """Start everything and wait until all of it is ready; returns the addresses."""
        limit, folder = READY_S, self.files.folder
        path = valkey.socket_path(folder)
        self.valkey = valkey.valkey_process(folder, path, self.records)
        self.valkey.start()
        self.valkey.wait_ready(lambda: valkey.is_answering(path), limit, self.stopping)
        redis_url, endpoint_url = valkey.redis_url(path), None
        if self.spec.embedded_endpoint:
            rules = farm_socket(RULES, folder)
            endpoint_url = unix_url(rules)
            rules.unlink(missing_ok=True)  # what a killed farm left
            # Kept while the farm is up: what connects while the endpoint starts again is answered then.
            self.listener = socket.socket(socket.AF_UNIX)
            self.listener.bind(str(rules))
            self.listener.listen(socket.SOMAXCONN)
            listener = self.listener.fileno()
            argv = (sys.executable, "-m", "workers.embedded.endpoint", "--fd", str(listener))
            log = self.files.logs / "endpoint.log"
            command = Command("endpoint", argv, log, self.environment, signal.SIGKILL, (listener,))
            self.endpoint = ChildProcess(command, self.records)
            self.endpoint.start()
        for command in worker_commands(self.spec, redis_url, endpoint_url, self.environment):
            worker = ChildProcess(command, self.records)
            self.workers.append(worker)
            worker.start()
        if self.endpoint is not None and endpoint_url is not None:
            self.endpoint.wait_ready(partial(processes.is_healthy, endpoint_url), limit, self.stopping)
        for worker in self.workers:
            answers = partial(worker_answers, redis_url, worker.command.name)
            worker.wait_ready(lambda: self.all_alive() and answers(), limit, self.stopping)  # noqa: B023
        return {"redis_url": redis_url, "endpoint_url": endpoint_url}

    def take_down(self) -> None:
        """Stop workers first, while the broker can still receive their unfinished tasks; Valkey last."""
        self.files.state.unlink(missing_ok=True)
        for worker in self.workers:
            worker.ask_to_stop()
        deadline = time.monotonic() + WORKERS_GRACE_S
        for worker in self.workers:
            worker.wait_end(deadline - time.monotonic())
            worker.stop(0)
        PidRecords(self.files.target_pids).clear(grace_s=ENDPOINT_GRACE_S)
        processes.clear_temporary(self.files.target_pids)
        if self.endpoint is not None:
            self.endpoint.stop(ENDPOINT_GRACE_S)
        if self.listener is not None:
            self.listener.close()
            farm_socket(RULES, self.files.folder).unlink(missing_ok=True)
        if self.valkey is not None:
            self.valkey.stop(VALKEY_GRACE_S)
            valkey.socket_path(self.files.folder).unlink(missing_ok=True)
        self.files.pids.unlink(missing_ok=True)
        logger.info("the farm is down")


def worker_commands(
    spec: FarmSpec, redis_url: str, endpoint_url: str | None, environment: Mapping[str, str]
) -> list[Command]:
    """The Celery workers: one on gpu, `openai_workers` on openai, one on cpu with a pool of `cpu_workers`."""
    numbers = range(1, spec.openai_workers + 1) if spec.openai_workers > 1 else [""]
    workers: list[tuple[QueueName, str, int]] = [
        ("gpu", "gpu", spec.gpu_slots),
        *(("openai", f"openai{number}", spec.openai_threads) for number in numbers),
        ("cpu", "cpu", spec.cpu_workers),
    ]
    own = {
        ENVIRONMENT_VARIABLE: redis_url,
        PASSWORD_VARIABLE: "",  # another farm's password may be set; this farm's private socket needs none
        f"{PASSWORD_VARIABLE}_FILE": "",
        FARM_VARIABLE: spec.folder,
        "WHETSTONE_VISIBILITY_TIMEOUT": str(spec.visibility_timeout),
    }
    if spec.offline:
        own["HF_HUB_OFFLINE"] = "1"
    if endpoint_url:
        key = environment[ENDPOINT_KEY_VARIABLE]
        own |= {"OPENAI_BASE_URL": endpoint_url, "OPENAI_API_KEY": key, NAME_VARIABLE: EMBEDDED}
    return [
        Command(
            name,
            tuple(worker_command(queue, name, concurrency, spec.log_level)),
            Path(spec.folder) / "logs" / f"{name}.log",
            # Only the gpu worker computes on all cores; more threads in the others would slow it down.
            {"OMP_NUM_THREADS": str(os.cpu_count() or 1) if queue == "gpu" else "1", **environment, **own},
            signal.SIGKILL,  # the broker of a killed supervisor dies too, so a worker could not return its tasks
        )
        for queue, name, concurrency in workers
    ]


def main() -> None:
    keep_private()
    parser = argparse.ArgumentParser(prog="python -m workers.embedded.supervisor")
    parser.add_argument("--spec", type=Path, required=True, help="a FarmSpec as JSON")
    parser.add_argument("--owner-pipe", type=int, help="a descriptor; the farm stops when its other end is closed")
    arguments = parser.parse_args()
    logs.set_up([logging.StreamHandler()], logging.INFO)
    spec = FarmSpec(**json.loads(arguments.spec.read_text()))
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: stopping.set())
    if arguments.owner_pipe is not None:

        def wait_for_owner() -> None:
            os.read(arguments.owner_pipe, 1)  # it ends when no process holds the writing end any more
            stopping.set()

        threading.Thread(target=wait_for_owner, name="owner", daemon=True).start()
    try:
        Supervisor(spec, stopping).run()
    except (ProcessFailed, OSError) as error:
        if stopping.is_set():
            return
        logger.error("%s", error)
        with contextlib.suppress(OSError):  # its disk is full; then the log's last lines say why, as far as they go
            write_atomic(FarmFiles(Path(spec.folder)).error, str(error))
        sys.exit(1)


if __name__ == "__main__":
    main()
